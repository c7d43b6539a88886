# Upstream's device code as C++, for the CPU device: the targets nccl_upstream_device and nccl_upstream_tables. Included by
# nccl/CMakeLists.txt.

file(GLOB own_device_headers CONFIGURE_DEPENDS RELATIVE "${ccld_repository}"
     "${ccld_repository}/probe/device/*_device.h" "${ccld_repository}/nccl/hooks/*_device.h")
file(GLOB transform CONFIGURE_DEPENDS cpu_device/transform/*.py)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${transform})
set(header_arguments "")
foreach(header IN LISTS own_device_headers)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${ccld_repository}/${header}")
  list(APPEND header_arguments --header "${header}")
endforeach()

message(STATUS "NCCL: making C++ from the device code")
set(transformed "${work}/transformed")
ccld_run("NCCL's device code cannot be transformed"
  "${CCLD_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/cpu_device/transform/transform.py"
  --tree "${tree}" --out "${transformed}"
  --only-funcs "${CCLD_NCCL_ONLY_FUNCS}" --root "${ccld_repository}" ${header_arguments})
if(ccld_run_output)
  message(STATUS "NCCL: ${ccld_run_output}")
endif()

file(GLOB function_sources "${transformed}/functions/*.cu")
set(device_sources ${function_sources} "${transformed}/device/common.cu" "${transformed}/device/onerank.cu"
    "${CMAKE_CURRENT_SOURCE_DIR}/cpu_device/device/nccl_glue.cc")
set_source_files_properties(${device_sources} PROPERTIES LANGUAGE CXX)

# Our transformed headers come before the originals they were made from.
add_library(nccl_upstream_device OBJECT ${device_sources})
set_target_properties(nccl_upstream_device PROPERTIES CXX_STANDARD 20)
target_include_directories(nccl_upstream_device PRIVATE
  "${transformed}/device" "${transformed}/ours/nccl/hooks" "${transformed}/ours")
target_link_libraries(nccl_upstream_device PRIVATE nccl_upstream_headers nccl_upstream_options)
# nvcc inlines device code whole. Without g++'s limits this build does too, and a patch costs what it does, not what g++
# stops inlining because of it.
set(inline_everything "")
foreach(limit max-inline-insns-single=20000 inline-unit-growth=10000
        large-function-insns=100000 large-function-growth=100000 large-stack-frame=100000 large-stack-frame-growth=100000)
  list(APPEND inline_everything "SHELL:--param ${limit}")
endforeach()
# -O1: built in two thirds of the time of -O2.
target_compile_options(nccl_upstream_device PRIVATE -O1 -fno-strict-aliasing ${inline_everything}
  "SHELL:-include ${CMAKE_CURRENT_SOURCE_DIR}/cpu_device/device/device_code.h")

add_library(nccl_upstream_tables OBJECT
  "${transformed}/functions/host_table.cc" "${transformed}/functions/missing_functions.cc"
  "${transformed}/symmetric/sym_kernels_host.cc")
set_target_properties(nccl_upstream_tables PROPERTIES CXX_STANDARD 17)
target_link_libraries(nccl_upstream_tables PRIVATE nccl_upstream_headers nccl_upstream_options)
