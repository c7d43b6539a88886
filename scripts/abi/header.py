"""What a compiled program keeps of nccl.h: the values of constants, the sizes of structs and where their fields are."""
import os
import re
from collections import namedtuple

import elf
from errors import AbiError

# constants: name -> value. structs: name -> (size, {field: (offset, size)}).
Layout = namedtuple("Layout", "version constants structs")

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
ENUM = re.compile(r"\benum\s*\w*\s*\{(.*?)\}", re.S)
STRUCT = re.compile(r"typedef\s+struct\s*\w*\s*\{([^{}]*)\}\s*(\w+)\s*;", re.S)
FIELD = re.compile(r"(\w+)\s*(?:\[[^\]]*\])?\s*(?:,|$)")
# Counts of what a release knows: the next one has more.
COUNTS = re.compile(r"^ncclNum|^ncclNumTypes$")


def layout(folder, program):
    """The Layout of folder/nccl.h, as the C compiler sees it."""
    path = os.path.join(folder, "nccl.h")
    try:
        with open(path) as file:
            text = COMMENT.sub(" ", file.read())
    except OSError as error:
        raise AbiError("%s: %s" % (path, error.strerror))
    constants = sorted({part.split("=")[0].strip() for body in ENUM.findall(text) for part in body.split(",")} - {""})
    structs = {name: [found.group(1) for declaration in body.split(";") for found in [FIELD.search(declaration.strip())] if found]
               for body, name in STRUCT.findall(text)}
    if not constants or not structs:
        raise AbiError("%s has no constants or no structs that this check can read" % path)
    lines = ["#include <stddef.h>", "#include <stdio.h>", '#include "nccl.h"', "int main(void) {", '  printf("version %d\\n", NCCL_VERSION_CODE);']
    lines += ['  printf("constant %s %%lld\\n", (long long)%s);' % (name, name) for name in constants]
    for name, fields in sorted(structs.items()):
        lines.append('  printf("struct %s %%zu\\n", sizeof(%s));' % (name, name))
        lines += ['  printf("field %s %s %%zu %%zu\\n", offsetof(%s, %s), sizeof(((%s*)0)->%s));' % (name, field, name, field, name, field)
                  for field in fields]
    with open(program + ".c", "w") as file:
        file.write("\n".join(lines + ["  return 0;", "}", ""]))
    toolkit = [os.path.join(os.environ[name], "include") for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    elf.run([os.environ.get("CC", "cc"), "-o", program, program + ".c", "-I" + folder] +
            ["-I" + include for include in toolkit + ["/usr/local/cuda/include"]], "%s cannot be compiled" % path)
    return parse(elf.run([program], program))


def parse(text):
    version, constants, structs = "unknown", {}, {}
    for kind, *words in (line.split() for line in text.splitlines()):
        if kind == "version":
            version = words[0]
        elif kind == "constant":
            constants[words[0]] = int(words[1])
        elif kind == "struct":
            structs[words[0]] = (int(words[1]), {})
        elif kind == "field":
            structs[words[0]][1][words[1]] = (int(words[2]), int(words[3]))
    return Layout(version, constants, structs)


def compare(stock, ours):
    """Lines that say what a program compiled with `stock` would misunderstand."""
    for name, value in stock.constants.items():
        if name not in ours.constants:
            yield "nccl.h: %s is gone" % name
        elif ours.constants[name] != value and not COUNTS.match(name):
            yield "nccl.h: %s is %d, in the stock header %d" % (name, ours.constants[name], value)
    for name, (size, fields) in stock.structs.items():
        if name not in ours.structs:
            yield "nccl.h: %s is gone" % name
            continue
        our_size, our_fields = ours.structs[name]
        if our_size < size:
            yield "nccl.h: %s has %d bytes, in the stock header %d" % (name, our_size, size)
        # Such a struct says its own size, so a newer library knows which fields it has.
        elif our_size > size and "size" not in fields:
            yield "nccl.h: %s grew from %d to %d bytes and does not say its size" % (name, size, our_size)
        for field, place in fields.items():
            if our_fields.get(field) != place:
                yield "nccl.h: %s.%s is elsewhere or of another size" % (name, field)
