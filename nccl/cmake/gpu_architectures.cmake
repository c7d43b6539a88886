# Which GPU architectures a CUDA toolkit can build for, as nvcc's -gencode arguments. Only functions: also read by its test.

# `set`: all (those of upstream's releases that our device code runs on), or shipped (what clusters have: sm_80, sm_90,
# sm_100), each with PTX of the newest for GPUs to come. Our kernels store with the memory model of sm_70.
function(ccld_gpu_architectures result set cuda_major cuda_minor)
  math(EXPR version "${cuda_major} * 100 + ${cuda_minor}")
  set(architectures 70 80 90)
  set(newest 90)
  if(version GREATER_EQUAL 1208)  # knows Blackwell
    list(APPEND architectures 100 120)
    set(newest 120)
  endif()
  if(version GREATER_EQUAL 1300)  # has dropped Volta
    list(REMOVE_ITEM architectures 70)
    list(APPEND architectures 75 110)
    list(SORT architectures COMPARE NATURAL)
  endif()
  if(set STREQUAL "shipped")
    list(FILTER architectures INCLUDE REGEX "^(80|90|100)$")
  endif()
  set(arguments "")
  foreach(architecture IN LISTS architectures)
    list(APPEND arguments "-gencode=arch=compute_${architecture},code=sm_${architecture}")
  endforeach()
  list(APPEND arguments "-gencode=arch=compute_${newest},code=compute_${newest}")
  list(JOIN arguments " " arguments)
  set(${result} "${arguments}" PARENT_SCOPE)
endfunction()

# For symmetric kernels that multiply 8-bit numbers in the switch, which only one family of architectures can. Empty: this
# toolkit does not know it, and upstream's table leaves those kernels out.
function(ccld_gpu_family_architecture result cuda_major cuda_minor)
  math(EXPR version "${cuda_major} * 100 + ${cuda_minor}")
  if(version GREATER_EQUAL 1209)
    set(${result} "-gencode=arch=compute_100f,code=sm_100f" PARENT_SCOPE)
  elseif(version GREATER_EQUAL 1207)
    set(${result} "-gencode=arch=compute_100a,code=sm_100a" PARENT_SCOPE)
  else()
    set(${result} "" PARENT_SCOPE)
  endif()
endfunction()
