# What is installed. Component `ccld`: the service with manual pages, completion, config files and unit. Component `library`: libnccl.so.2
# in lib/ccld, a folder that no loader looks into by itself, so that it takes the place of the system's NCCL only where a job asks for it
# (nccl/cmake/package.cmake, as is component `nccl`: what programs are built against).
#
# Below the prefix, but for /usr, whose configuration is in /etc.
set(install_folder "${CMAKE_CURRENT_LIST_DIR}")

# ---- what scripts/release asks: name=value -----------------------------------------------------------------------------
get_property(package_version GLOBAL PROPERTY CCLD_PACKAGE_VERSION)
get_property(build_id GLOBAL PROPERTY CCLD_BUILD_ID)
get_property(library_facts GLOBAL PROPERTY CCLD_LIBRARY_FACTS)
file(WRITE "${CMAKE_BINARY_DIR}/release.facts" "release=${PROJECT_VERSION}\npackage_version=${package_version}\nbuild_id=${build_id}\n${library_facts}")

# ---- made by the program of its own options ----------------------------------------------------------------------------
set(pages "${CMAKE_BINARY_DIR}/pages")
add_custom_command(
  OUTPUT "${pages}/stamp"
  COMMAND "${CMAKE_COMMAND}" -E rm -rf "${pages}"
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${pages}/man"
  COMMAND ccld man --into "${pages}/man"
  COMMAND ccld completion bash > "${pages}/ccld.bash"
  COMMAND ccld completion zsh > "${pages}/_ccld"
  COMMAND sh -c "gzip -9n ${pages}/man/*.1"
  COMMAND "${CMAKE_COMMAND}" -E touch "${pages}/stamp"
  DEPENDS ccld VERBATIM
  COMMENT "Making manual pages and completion of ccld's options")
add_custom_target(ccld_pages ALL DEPENDS "${pages}/stamp")

# ---- the service -------------------------------------------------------------------------------------------------------
install(TARGETS ccld DESTINATION bin COMPONENT ccld)
install(DIRECTORY "${pages}/man/" DESTINATION share/man/man1 COMPONENT ccld)
install(FILES "${pages}/ccld.bash" DESTINATION share/bash-completion/completions RENAME ccld COMPONENT ccld)
install(FILES "${pages}/_ccld" DESTINATION share/zsh/vendor-completions COMPONENT ccld)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION share/doc/ccld RENAME copyright COMPONENT ccld)
install(CODE "set(install_folder \"${install_folder}\")" COMPONENT ccld)
install(CODE [[
  set(PREFIX "${CMAKE_INSTALL_PREFIX}")
  set(ETC "${PREFIX}/etc")
  if(PREFIX STREQUAL "/usr")
    set(ETC /etc)
  endif()
  set(unit "${PREFIX}/lib/systemd/system/ccld.service")
  configure_file("${install_folder}/ccld.service.in" "$ENV{DESTDIR}${unit}" @ONLY)
  message(STATUS "Installing: $ENV{DESTDIR}${unit}")
  # What an operator has changed stays; packages have dpkg for that.
  foreach(pair "ccld.toml ccld/ccld.toml" "ccld.default default/ccld")
    string(REPLACE " " ";" pair "${pair}")
    list(GET pair 0 from)
    list(GET pair 1 to)
    set(to "$ENV{DESTDIR}${ETC}/${to}")
    if(EXISTS "${to}")
      message(STATUS "Kept: ${to}")
    else()
      configure_file("${install_folder}/${from}" "${to}" COPYONLY)
      message(STATUS "Installing: ${to}")
    endif()
  endforeach()
]] COMPONENT ccld)
