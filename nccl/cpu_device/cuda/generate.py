#!/usr/bin/env python3
"""Reads the installed CUDA headers and writes, into the build folder, what must not be copied into the repository:

unsupported.cc    a weak function for every entry point of the runtime and driver API. Those the CPU device implements
                  replace theirs at link time; each of the others answers "not supported" and names itself once.
error_names.inc   the names of all cudaError_t and CUresult values.
exports.map       the linker's version script: what the library shows.

Usage: generate.py CUDA_INCLUDE_DIR OUTPUT_DIR
"""
import pathlib
import re
import sys

# Entry points that cudart exports without declaring them in cuda_runtime_api.h (or only for graphics).
EXTRA_RUNTIME = ["cudaProfilerStart", "cudaProfilerStop", "__cudaInitModule", "__cudaGetKernel", "__cudaLaunchKernel",
                 "__cudaPopCallConfiguration", "__cudaPushCallConfiguration", "__cudaRegisterFatBinary",
                 "__cudaRegisterFatBinaryEnd", "__cudaRegisterFunction", "__cudaRegisterHostVar",
                 "__cudaRegisterManagedVar", "__cudaRegisterUnifiedTable", "__cudaRegisterVar",
                 "__cudaUnregisterFatBinary", "__cudaGetProcAddress", "__cudaLaunchKernel_ptsz"]


def runtime_functions(text):
    names = set(re.findall(r"\bCUDARTAPI\s+(cuda\w+)\s*\(", text))
    # Programs built for per-thread default streams call the same functions under these names.
    names |= {f"{name}{suffix}" for macro, suffix in (("PTSZ", "_ptsz"), ("PTDS", "_ptds"))
              for name in re.findall(rf"__CUDART_API_{macro}\((cuda\w+)\)", text)}
    return names | set(EXTRA_RUNTIME)


def driver_functions(text):
    names = set(re.findall(r"\bCUresult\s+CUDAAPI\s+(cu\w+)\s*\(", text))
    # cuda.h renames functions to their newest version with macros.
    names |= set(re.findall(r"#\s*define\s+cu[A-Z]\w*\s+(?:__CUDA_API_PTDS|__CUDA_API_PTSZ)?\(?(cu\w+_v\d+)\b", text))
    return names


def enumerators(text, prefix):
    found = {}
    for name, value in re.findall(rf"^\s*({prefix}\w*)\s*=\s*(\d+)\s*,?", text, re.M):
        found.setdefault(int(value), name)
    return sorted(found.items())


def write_if_changed(path, text):
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main():
    include, output = map(pathlib.Path, sys.argv[1:3])
    output.mkdir(parents=True, exist_ok=True)
    runtime_header = (include / "cuda_runtime_api.h").read_text(errors="replace")
    driver_header = (include / "cuda.h").read_text(errors="replace")
    types_header = (include / "driver_types.h").read_text(errors="replace")
    version = int(re.search(r"#define\s+CUDART_VERSION\s+(\d+)", runtime_header).group(1))

    runtime, driver = runtime_functions(runtime_header), driver_functions(driver_header)
    runtime_errors = enumerators(types_header, "cudaError")
    driver_errors = enumerators(driver_header, "CUDA_(?:SUCCESS|ERROR_)")
    runtime_errors.insert(0, (0, "cudaSuccess"))
    if len(runtime) < 200 or len(driver) < 200 or len(runtime_errors) < 80 or len(driver_errors) < 60:
        sys.exit(f"generate.py: the headers in {include} look unlike CUDA's (found {len(runtime)} runtime and "
                 f"{len(driver)} driver functions, {len(runtime_errors)} and {len(driver_errors)} errors)")

    stubs = ["// Generated from the installed CUDA headers.", '#include "nccl/cpu_device/cuda/unsupported.h"', ""]
    stubs += [f"CCLD_UNSUPPORTED_RUNTIME({name})" for name in sorted(runtime)]
    stubs += [f"CCLD_UNSUPPORTED_DRIVER({name})" for name in sorted(driver)]
    write_if_changed(output / "unsupported.cc", "\n".join(stubs) + "\n")

    names = [f'CCLD_RUNTIME_ERROR({value}, "{name}")' for value, name in sorted(set(runtime_errors))]
    names += [f'CCLD_DRIVER_ERROR({value}, "{name}")' for value, name in driver_errors]
    write_if_changed(output / "error_names.inc", "\n".join(names) + "\n")

    # The node's name is the one of the real library, so that programs linked against that run with this one.
    write_if_changed(output / "exports.map", "libcudart.so.%d {\n  global: cuda*; __cuda*; cu[A-Z]*; nvml*; "
                     "ccld_cpu_device_busy; _ZN4ccld10cpu_device*;\n  local: *;\n};\n" % (version // 1000))


main()
