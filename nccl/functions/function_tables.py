"""Upstream's generated tables of device functions and kernels, made safe for a build that leaves functions out.

Upstream maps every function that ONLY_FUNCS leaves out to one that does nothing. Here each of them gets an id of its
own behind the built ones, and a table with its name, so that using one ends with a line that says which function is
missing. Symmetric kernels are all built or none.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile


class FunctionsError(Exception):
    """One line that says what is wrong."""

ROW = re.compile(r"^(/\*\s*\d+\*/) (-?\d+),(?: // (.*))?$", re.M)


def run_generator(script, folder, *arguments):
    environment = dict(os.environ, NCCL_USE_CMAKE="1", PYTHONDONTWRITEBYTECODE="1")  # 1: no makefile in the output
    done = subprocess.run([sys.executable, script, folder] + list(arguments), env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        lines = done.stdout.strip().split("\n")
        raise FunctionsError("upstream's %s failed: %s" % (script, lines[-1]))


def read_folder(folder):
    files = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            files[name] = f.read()
    return files


def replace_once(text, find, replace, what):
    text, count = re.subn(find, replace, text, flags=re.M)
    if count != 1:
        raise FunctionsError("%s was found %d times instead of once in upstream's generated tables" % (what, count))
    return text


def append_to_array(text, array, end, rows):
    """Puts `rows` before the last row of `array`, which `end` closes."""
    pattern = r"(%s\[\] = \{\n(?:.*\n)*?)%s" % (array, re.escape(end))
    return replace_once(text, pattern, lambda m: m.group(1) + rows + end, array)


def generate(device_source, only_funcs, with_symmetric):
    """Runs upstream's generators (`device_source`: its src/device; `only_funcs`: its ONLY_FUNCS grammar, empty: all).

    Returns two dictionaries of name -> text: the sources of functions with their tables and the names of what is left
    out, and those of symmetric kernels with their table; without them the table alone, with null for each.
    """
    work = tempfile.mkdtemp(prefix="ccld-functions.")
    try:
        restricted, everything, symmetric = (os.path.join(work, name) for name in ("some", "all", "symmetric"))
        generator = os.path.join(device_source, "generate.py")
        run_generator(generator, restricted, only_funcs)
        run_generator(generator, everything)
        run_generator(os.path.join(device_source, "symmetric", "generate.py"), symmetric)
        generated = read_folder(restricted)
        missing = name_missing_functions(generated, read_folder(everything))
        symmetric_kernels = read_folder(symmetric)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    # upstream also writes a file per operation for its dependency scan; it defines nothing
    functions = {name: text for name, text in generated.items()
                 if "DEFINE_" in text or name in ("host_table.cc", "device_table.cu")}
    functions["missing_functions.cc"] = missing + symmetric_flag(with_symmetric)
    if not with_symmetric:
        table = "sym_kernels_host.cc"
        return functions, {table: without_symmetric_kernels(symmetric_kernels[table])}
    return functions, {name: text for name, text in symmetric_kernels.items() if "__global__" in text}


def name_missing_functions(generated, all_functions):
    """`generated` and `all_functions`: the files of the restricted and of the full generation. Changes the tables in
    `generated`, returns the source of the table of names."""
    host = generated["host_table.cc"]
    count = int(re.search(r"ncclDevFuncIdCount = (\d+);", host).group(1))
    full_names = [m.group(3) for m in ROW.finditer(rows_of(all_functions["host_table.cc"]))]
    missing = []

    def number_row(match):
        index, function, name = match.group(1), match.group(2), match.group(3)
        if name != "Nop":
            row[0] += 1
            return match.group(0)
        missing.append(full_names[row[0]])
        row[0] += 1
        return "%s %d, // not built: %s" % (index, count + len(missing) - 1, missing[-1])

    row = [0]
    rows = rows_of(host)
    host = host.replace(rows, ROW.sub(number_row, rows))
    if row[0] != len(full_names):
        raise FunctionsError("upstream's generator numbers functions differently with and without ONLY_FUNCS")
    extra = len(missing)
    host = replace_once(host, r"ncclDevFuncIdCount = \d+;", "ncclDevFuncIdCount = %d;" % (count + extra),
                        "the count of functions")
    generic = "".join("/*%4d*/ (void*)ncclDevKernel_Generic,\n" % (count + i) for i in range(extra))
    host = append_to_array(host, "ncclDevKernelForFunc", "nullptr};", generic)
    flags = "".join("/*%4d*/ 0,\n" % (count + i) for i in range(extra))
    host = append_to_array(host, "ncclDevKernelForFuncIsSpecialized", "0};", flags)
    generated["host_table.cc"] = host
    nops = "".join("/*%4d*/ ncclDevFunc_Nop,\n" % (count + i) for i in range(extra))
    generated["device_table.cu"] = append_to_array(generated["device_table.cu"], "ncclDevFuncTable", "nullptr};", nops)
    return ("// Made by nccl/functions: the functions that this build leaves out.\n"
            "extern const int ccld_first_missing_function;\nextern const char* const ccld_missing_functions[];\n"
            "const int ccld_first_missing_function = %d;\n"
            "const char* const ccld_missing_functions[] = {\n%s  nullptr};\n" %
            (count, "".join('  "%s",\n' % name for name in missing)))


def rows_of(host_table):
    start = host_table.find("ncclDevFuncRowToId[] = {\n")
    end = host_table.find("\n-1};", start)
    if start < 0 or end < 0:
        raise FunctionsError("upstream's host_table.cc has no ncclDevFuncRowToId")
    return host_table[start:end + 1]


def symmetric_flag(built):
    return ("extern const bool ccld_symmetric_kernels_built;\nconst bool ccld_symmetric_kernels_built = %s;\n" %
            ("true" if built else "false"))


def without_symmetric_kernels(table):
    """`table`, with null in place of every kernel, as upstream itself has it for those that a toolkit is too old for."""
    table, count = re.subn(r"__global__ void (\w+)\(ncclSymkDevWorkArgs4K const\);", r"static void* const \1 = nullptr;", table)
    if count == 0:
        raise FunctionsError("upstream's sym_kernels_host.cc declares no kernel")
    return table
