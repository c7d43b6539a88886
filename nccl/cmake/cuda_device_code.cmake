# Upstream's device code with nvcc, for GPUs: the targets nccl_upstream_device, nccl_upstream_symmetric and nccl_upstream_tables,
# and ccld_link_device_code. Included by nccl/CMakeLists.txt. Flags as in upstream's makefiles.

option(CCLD_NCCL_SYMMETRIC "Build the symmetric-memory kernels, too (CUDA build; 4 minutes of processor time for each architecture)" OFF)
set(CCLD_NVCC_GENCODE "-gencode=arch=compute_90,code=sm_90" CACHE STRING
    "GPU architectures to build for, as nvcc takes them: -gencode=arch=compute_90,code=sm_90 ...; shipped: sm_80, sm_90, sm_100 \
and PTX; all: those of upstream's releases from sm_70 on")
include(cmake/gpu_architectures.cmake)
set(gencode "${CCLD_NVCC_GENCODE}")
if(gencode MATCHES "^(all|shipped)$")
  ccld_gpu_architectures(gencode "${gencode}" ${CCLD_CUDA_MAJOR} ${CCLD_CUDA_MINOR})
endif()
if(NOT gencode MATCHES "^ *-gencode[= ]arch=compute_")
  ccld_stop("CCLD_NVCC_GENCODE (make nccl NVCC_GENCODE=...) is '${CCLD_NVCC_GENCODE}': it must be shipped, all, or one or \
more of -gencode=arch=compute_90,code=sm_90")
endif()
set(CCLD_GPU_ARCHITECTURES "${gencode}" CACHE INTERNAL "CCLD_NVCC_GENCODE as nvcc takes it")

# The toolkit is the one whose headers were found.
get_filename_component(ccld_cuda_toolkit "${CCLD_CUDA_TOOLKIT_INCLUDE_DIR}/.." REALPATH)
find_program(CCLD_CUDA_NVCC nvcc HINTS "${ccld_cuda_toolkit}/bin" "${ccld_cuda_toolkit}/../../bin" NO_DEFAULT_PATH)
find_library(CCLD_CUDART_STATIC libcudart_static.a HINTS "${ccld_cuda_toolkit}/lib64" "${ccld_cuda_toolkit}/lib" NO_DEFAULT_PATH)
if(NOT CCLD_CUDA_NVCC OR NOT CCLD_CUDART_STATIC)
  ccld_stop("the CUDA build needs nvcc and libcudart_static.a beside the headers in ${CCLD_CUDA_TOOLKIT_INCLUDE_DIR}: install the \
whole toolkit and set CUDA_HOME to its folder")
endif()
set(CMAKE_CUDA_COMPILER "${CCLD_CUDA_NVCC}")
set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
set(CMAKE_CUDA_ARCHITECTURES OFF)  # CCLD_NVCC_GENCODE says them
enable_language(CUDA)
# Optimisation is part of upstream's flags.
foreach(type RELWITHDEBINFO RELEASE)
  set(CMAKE_CUDA_FLAGS_${type} "")
endforeach()

message(STATUS "NCCL: generating device functions")
set(generated "${work}/generated")
set(symmetric_argument "")
if(CCLD_NCCL_SYMMETRIC)
  set(symmetric_argument --symmetric)
endif()
ccld_run("NCCL's device functions cannot be generated"
  "${CCLD_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/functions/generate.py" --tree "${tree}" --out "${generated}"
  "--only-funcs=${CCLD_NCCL_ONLY_FUNCS}" ${symmetric_argument})
if(ccld_run_output)
  message(STATUS "NCCL: ${ccld_run_output}")
endif()

file(CREATE_LINK "${doca}/include" "${work}/include/doca_gpunetio" SYMBOLIC)  # upstream's makefile installs a copy
# No -isystem: nvcc looks into the toolkit's own include folder, which may hold another release's nccl*.h, before such folders.
set(device_include_folders
  "${CMAKE_CURRENT_SOURCE_DIR}/hooks" "${ccld_repository}"
  "${work}/include" "${src}/device" "${src}" "${src}/include" "${src}/include/plugin")
if(EXISTS "${CCLD_CUDA_INCLUDE_DIR}/cccl")  # until 12.9 these headers lie beside the others
  list(APPEND device_include_folders "${CCLD_CUDA_INCLUDE_DIR}/cccl")
endif()
set(device_definitions CUDA_MAJOR=${CCLD_CUDA_MAJOR} CUDA_MINOR=${CCLD_CUDA_MINOR} PROFAPI NCCL_OS_LINUX
  DOCA_VERBS_USE_CUDA_WRAPPER DOCA_VERBS_USE_NET_WRAPPER NCCL_GIN_PROXY_ENABLE=1)

# registers: a thread may have, for the block size that the kernels are launched with.
function(ccld_device_code name registers architectures separable)
  add_library(${name} OBJECT ${ARGN})
  set_target_properties(${name} PROPERTIES
    CUDA_STANDARD 17 CUDA_SEPARABLE_COMPILATION ${separable} CUDA_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${name} PRIVATE ${device_include_folders})
  target_compile_definitions(${name} PRIVATE ${device_definitions})
  target_compile_options(${name} PRIVATE -w -O3 --expt-extended-lambda "SHELL:-Xfatbin -compress-all"
    "SHELL:-Xptxas -maxrregcount=${registers}" "SHELL:${architectures}")
endfunction()

file(GLOB function_sources "${generated}/functions/*.cu")
ccld_device_code(nccl_upstream_device 96 "${gencode}" ON
  ${function_sources} "${src}/device/common.cu" "${src}/device/onerank.cu")

set(symmetric_objects "")
if(CCLD_NCCL_SYMMETRIC)
  # Kernels that multiply 8-bit numbers in the switch run on one family of architectures only.
  file(GLOB symmetric_sources "${generated}/symmetric/*.cu")
  set(one_family_sources ${symmetric_sources})
  list(FILTER one_family_sources INCLUDE REGEX "_f8e[0-9]m[0-9]_")
  list(REMOVE_ITEM symmetric_sources ${one_family_sources})
  ccld_device_code(nccl_upstream_symmetric 128 "${gencode}" OFF ${symmetric_sources})
  set(symmetric_objects $<TARGET_OBJECTS:nccl_upstream_symmetric>)
  ccld_gpu_family_architecture(family ${CCLD_CUDA_MAJOR} ${CCLD_CUDA_MINOR})
  if(family)
    ccld_device_code(nccl_upstream_symmetric_family 128 "${family}" OFF ${one_family_sources})
    list(APPEND symmetric_objects $<TARGET_OBJECTS:nccl_upstream_symmetric_family>)
  endif()
endif()

add_library(nccl_upstream_tables OBJECT
  "${generated}/functions/host_table.cc" "${generated}/functions/missing_functions.cc" "${generated}/symmetric/sym_kernels_host.cc")
set_target_properties(nccl_upstream_tables PROPERTIES CXX_STANDARD 17)
target_link_libraries(nccl_upstream_tables PRIVATE nccl_upstream_headers nccl_upstream_options)
