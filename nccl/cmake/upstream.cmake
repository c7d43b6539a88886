# Gets upstream's source into the build folder: fetched, verified, patched. Included by nccl/CMakeLists.txt.

# Stops with one line: the space keeps CMake from wrapping it.
function(ccld_stop text)
  message(FATAL_ERROR " ${text}")
endfunction()

# Runs a command; when it fails, its last line becomes the error.
function(ccld_run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    string(REGEX REPLACE "^.*\n" "" reason "${errors}")
    ccld_stop("${what}: ${reason}")
  endif()
  string(REPLACE ";" "," errors "${errors}")
  string(REPLACE "\n" ";" lines "${errors}")
  foreach(line IN LISTS lines)
    message(STATUS "NCCL: ${line}")
  endforeach()
  set(ccld_run_output "${output}" PARENT_SCOPE)
endfunction()

# Writes a file only when its text changes, so that nothing that depends on it is built again for nothing.
function(ccld_write_if_different path text)
  if(EXISTS "${path}")
    file(READ "${path}" present)
    if(present STREQUAL text)
      return()
    endif()
  endif()
  file(WRITE "${path}" "${text}")
endfunction()

# Sets `tree` to the patched tree, in `folder`/upstream; to the release as it is when CCLD_NCCL_PRISTINE is set.
function(ccld_upstream_tree tree folder cache)
  message(STATUS "NCCL: getting upstream's release")
  ccld_run("NCCL cannot be fetched" "${ccld_repository}/scripts/fetch-nccl" "${cache}")
  set(tarball "${ccld_run_output}")
  set(series "")
  if(CCLD_NCCL_PRISTINE)
    ccld_write_if_different("${folder}/no_patches/series" "")
    set(series --patches "${folder}/no_patches")
  endif()
  ccld_run("NCCL cannot be patched"
    "${CCLD_PYTHON}" "${ccld_repository}/scripts/apply-patches" "${tarball}" "${folder}/upstream" ${series})
  set(${tree} "${folder}/upstream" PARENT_SCOPE)
endfunction()

# Writes nccl.h and the version header, which upstream's makefiles generate, to `folder`; sets CCLD_NCCL_VERSION.
function(ccld_upstream_generated_headers tree folder)
  file(STRINGS "${tree}/makefiles/version.mk" lines REGEX "^NCCL_(MAJOR|MINOR|PATCH|SUFFIX)")
  foreach(line IN LISTS lines)
    if(line MATCHES "^NCCL_([A-Z]+) *:= *(.*)$")
      set(version_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
    endif()
  endforeach()
  math(EXPR code "${version_MAJOR} * 10000 + ${version_MINOR} * 100 + ${version_PATCH}")
  file(READ "${tree}/src/nccl.h.in" text)
  string(REPLACE "\${nccl:Major}" "${version_MAJOR}" text "${text}")
  string(REPLACE "\${nccl:Minor}" "${version_MINOR}" text "${text}")
  string(REPLACE "\${nccl:Patch}" "${version_PATCH}" text "${text}")
  string(REPLACE "\${nccl:Suffix}" "${version_SUFFIX}" text "${text}")
  string(REPLACE "\${nccl:Version}" "${code}" text "${text}")
  if(text MATCHES "\\\${nccl:")
    ccld_stop("upstream's nccl.h.in has a field that nccl/cmake/upstream.cmake does not fill")
  endif()
  ccld_write_if_different("${folder}/nccl.h" "${text}")
  set(CCLD_NCCL_VERSION "${version_MAJOR}.${version_MINOR}.${version_PATCH}" PARENT_SCOPE)
  set(release "v${version_MAJOR}.${version_MINOR}.${version_PATCH}")
  ccld_write_if_different("${folder}/nccl_git_version.h"
    "#pragma once\n#define NCCL_GIT_BRANCH \"${release}\"\n#define NCCL_GIT_COMMIT_HASH \"ccld\"\n")
endfunction()
