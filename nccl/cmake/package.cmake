# What programs are built against: include/, lib/, pkg-config and CMake files as NVIDIA's package has them, in the build
# folder (NCCL_HOME=build/cuda/nccl) and where `make install` puts them. Included by nccl/CMakeLists.txt.
#
# Left out: libnccl_static.a and the program ncclras, which are not built.

# Copies the headers of the device API from the patched tree beside nccl.h, as upstream's makefile does. Files that stay
# the same keep their time.
function(ccld_package_headers tree include)
  set(headers "${tree}/src/include")
  set(doca "${tree}/src/transport/net_ib/gdaki/doca-gpunetio/include")
  file(GLOB_RECURSE device_headers RELATIVE "${headers}" "${headers}/nccl_device/*.h")
  foreach(header nccl_device.h ${device_headers})
    configure_file("${headers}/${header}" "${include}/${header}" COPYONLY)
  endforeach()
  file(GLOB doca_headers RELATIVE "${doca}" "${doca}/doca_gpunetio_device.h" "${doca}/common/*.h" "${doca}/device/*.cuh")
  foreach(header IN LISTS doca_headers)
    configure_file("${doca}/${header}" "${include}/nccl_device/gin/gdaki/doca_gpunetio/${header}" COPYONLY)
  endforeach()
endfunction()

# Writes what tells pkg-config and CMake about the library; all paths are relative to these files.
function(ccld_package_files tree lib version)
  string(REPLACE "." ";" parts "${version}")
  list(GET parts 0 major)
  list(GET parts 1 minor)
  list(GET parts 2 patch)
  file(READ "${tree}/src/nccl.pc.in" text)
  string(REPLACE "\${nccl:Prefix}" "\${pcfiledir}/../.." text "${text}")
  string(REPLACE "\${nccl:Major}" "${major}" text "${text}")
  string(REPLACE "\${nccl:Minor}" "${minor}" text "${text}")
  string(REPLACE "\${nccl:Patch}" "${patch}" text "${text}")
  if(text MATCHES "\\\${nccl:")
    ccld_stop("upstream's nccl.pc.in has a field that nccl/cmake/package.cmake does not fill")
  endif()
  ccld_write_if_different("${lib}/pkgconfig/nccl.pc" "${text}")
  include(CMakePackageConfigHelpers)
  set(CCLD_NCCL_VERSION "${version}")
  configure_file("${CMAKE_CURRENT_SOURCE_DIR}/cmake/NCCLConfig.cmake.in" "${lib}/cmake/NCCL/NCCLConfig.cmake" @ONLY)
  write_basic_package_version_file("${lib}/cmake/NCCL/NCCLConfigVersion.cmake"
                                   VERSION "${version}" COMPATIBILITY SameMajorVersion)
endfunction()

# Rules for `cmake --install --component nccl`, which is `make install`.
function(ccld_install_package tree include lib version)
  install(FILES "${include}/nccl.h" "${include}/nccl_device.h" DESTINATION include COMPONENT nccl)
  install(DIRECTORY "${include}/nccl_device" DESTINATION include COMPONENT nccl)
  install(DIRECTORY "${lib}/pkgconfig" "${lib}/cmake" DESTINATION lib COMPONENT nccl)
  install(FILES "${tree}/LICENSE.txt" DESTINATION share/doc/nccl COMPONENT nccl)
  install(PROGRAMS "$<TARGET_FILE:nccl>" DESTINATION lib RENAME "libnccl.so.${version}" COMPONENT nccl)
  set(links "libnccl.so.2 libnccl.so.${version}" "libnccl.so libnccl.so.2")
  if(TARGET ccld_cpu_device)  # the library needs its CUDA beside it
    install(PROGRAMS "$<TARGET_FILE:ccld_cpu_device>" DESTINATION lib COMPONENT nccl)
    foreach(alias libcuda.so.1 libnvidia-ml.so.1 libcudart.so.${CCLD_CUDA_MAJOR})
      list(APPEND links "${alias} $<TARGET_FILE_NAME:ccld_cpu_device>")
    endforeach()
  endif()
  foreach(link IN LISTS links)
    string(REPLACE " " ";" link "${link}")
    list(GET link 0 name)
    list(GET link 1 target)
    install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" -E create_symlink ${target}
      \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/${name}\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT nccl)
  endforeach()
endfunction()
