# What programs are built against: include/, lib/, pkg-config and CMake files as NVIDIA's package has them, in the build
# folder (NCCL_HOME=build/cuda/nccl) and where `make install-nccl` puts them. Included by nccl/CMakeLists.txt.
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

# Symbolic links of a component. Each of the others: "name target".
function(ccld_install_links component folder)
  foreach(link IN LISTS ARGN)
    string(REPLACE " " ";" link "${link}")
    list(GET link 0 name)
    list(GET link 1 target)
    install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" -E create_symlink ${target}
      \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/${name}\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
  endforeach()
endfunction()

# Sets ${out} to the links by which the CPU device stands in for CUDA's libraries.
function(ccld_cuda_links out)
  set(links "")
  foreach(alias libcuda.so.1 libnvidia-ml.so.1 libcudart.so.${CCLD_CUDA_MAJOR})
    list(APPEND links "${alias} $<TARGET_FILE_NAME:ccld_cpu_device>")
  endforeach()
  set(${out} "${links}" PARENT_SCOPE)
endfunction()

# Rules for `cmake --install --component nccl`, which is `make install-nccl`.
function(ccld_install_package tree include lib version)
  install(FILES "${include}/nccl.h" "${include}/nccl_device.h" DESTINATION include COMPONENT nccl)
  install(DIRECTORY "${include}/nccl_device" DESTINATION include COMPONENT nccl)
  install(DIRECTORY "${lib}/pkgconfig" "${lib}/cmake" DESTINATION lib COMPONENT nccl)
  install(FILES "${tree}/LICENSE.txt" DESTINATION share/doc/nccl COMPONENT nccl)
  install(PROGRAMS "$<TARGET_FILE:nccl>" DESTINATION lib RENAME "libnccl.so.${version}" COMPONENT nccl)
  set(links "libnccl.so.2 libnccl.so.${version}" "libnccl.so libnccl.so.2")
  if(TARGET ccld_cpu_device)  # the library needs its CUDA beside it
    install(PROGRAMS "$<TARGET_FILE:ccld_cpu_device>" DESTINATION lib COMPONENT nccl)
    ccld_cuda_links(cuda_links)
    list(APPEND links ${cuda_links})
  endif()
  ccld_install_links(nccl lib ${links})
endfunction()

# Rules for `cmake --install --component library`: what a job loads, alone in a folder of its own (scripts/install/README.md). Says in
# CCLD_LIBRARY_FACTS what it is.
function(ccld_install_library tree version)
  set(folder lib/ccld)
  install(TARGETS nccl LIBRARY DESTINATION ${folder} COMPONENT library NAMELINK_SKIP)
  install(FILES "${tree}/LICENSE.txt" DESTINATION share/doc/libnccl2-ccld RENAME copyright.nccl COMPONENT library)
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION share/doc/libnccl2-ccld RENAME copyright COMPONENT library)
  set(set cpu)
  if(TARGET ccld_cpu_device)
    install(TARGETS ccld_cpu_device LIBRARY DESTINATION ${folder} COMPONENT library NAMELINK_SKIP)
    ccld_cuda_links(links)
    ccld_install_links(library ${folder} ${links})
  else()
    # "cuda13.0-sm_90-sm_100": what tells archives of one version apart.
    set(set "cuda${CCLD_CUDA_MAJOR}.${CCLD_CUDA_MINOR}")
    string(REGEX MATCHALL "code=[^ ;]*" codes "${gencode}")
    string(REGEX REPLACE "code=|[][\"]" "" codes "${codes}")
    string(REGEX REPLACE "[;,]+" "-" codes "${codes}")
    string(APPEND set "-${codes}")
  endif()
  set_property(GLOBAL PROPERTY CCLD_LIBRARY_FACTS "nccl_version=${version}\ndevice=${CCLD_NCCL_DEVICE}\nset=${set}\n")
endfunction()
