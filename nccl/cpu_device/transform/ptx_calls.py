"""Turns inline PTX into C++: asm("PTX" : outputs : inputs : clobbers) becomes a call of a template on the PTX text.

`asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(x) : "l"(p));` becomes
`::ccld::cpu_device::ptx<"ld.volatile.global.u64 %0, [%1];">(x, p);`
Constraints and clobbers go away, the order of the operands stays. It also works inside multi-line macros, and every
line keeps its number.
"""
import re

CALL = "::ccld::cpu_device::ptx"
ASM = re.compile(r"(?<!\w)(?:asm|__asm__)\b(?:\s+(?:volatile|__volatile__))?\s*\(")


class TransformError(Exception):
    """One line that says what cannot be transformed."""


def after_string(text, i):
    """`i` is at a quote; returns the index after the closing one."""
    quote = text[i]
    i += 1
    while i < len(text) and text[i] != quote:
        i += 2 if text[i] == "\\" else 1
    return i + 1


def after_comment(text, i):
    """The index after the comment that starts at `i`, or `i` when none does."""
    if text.startswith("//", i):
        end = text.find("\n", i)
        return len(text) if end < 0 else end
    if text.startswith("/*", i):
        end = text.find("*/", i + 2)
        return len(text) if end < 0 else end + 2
    return i


def is_quote(text, i):
    # 1'000'000 holds digit separators, not character literals
    return text[i] == '"' or (text[i] == "'" and not (i > 0 and text[i - 1].isalnum()))


def closing(text, i):
    """`i` is at an opening parenthesis; returns the index of its match."""
    depth = 0
    while i < len(text):
        end = after_comment(text, i)
        if end != i:
            i = end
            continue
        c = text[i]
        if is_quote(text, i):
            i = after_string(text, i)
            continue
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                return i
        i += 1
    raise TransformError("a parenthesis is never closed")


def split_top(text, separator):
    """Splits at `separator` outside of strings and brackets."""
    parts, depth, i, start = [], 0, 0, 0
    while i < len(text):
        if is_quote(text, i):
            i = after_string(text, i)
            continue
        c = text[i]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif depth == 0 and c == separator:
            parts.append(text[start:i])
            start = i + 1
        i += 1
    parts.append(text[start:])
    return parts


def operand_expression(operand):
    """`"=r"(x)`, `"=" #type(x)`, `"=" REG(bits)(x)`: the last parenthesised group is the C++ expression."""
    operand = operand.strip()
    if not operand.endswith(")"):
        raise TransformError("asm operand without an expression: %s" % operand)
    depth = 0
    for i in range(len(operand) - 1, -1, -1):
        if operand[i] == ")":
            depth += 1
        elif operand[i] == "(":
            depth -= 1
            if depth == 0:
                return operand[i + 1:-1].strip()
    raise TransformError("asm operand with unbalanced parentheses: %s" % operand)


def rewrite_statement(body):
    """`body` is what stands between the parentheses of an asm statement."""
    sections = [s.replace("\\\n", " ").strip() for s in split_top(body, ":")]
    if len(sections) > 4 or not sections[0]:
        raise TransformError("an asm statement that is not \"PTX\" : outputs : inputs : clobbers")
    ptx = re.sub(r"\s+", " ", sections[0])
    operands = [operand_expression(o) for section in sections[1:3] for o in split_top(section, ",") if o.strip()]
    line_end = "\\\n" if "\\\n" in body else "\n"
    return "%s<%s>(%s)%s" % (CALL, ptx, ", ".join(operands), line_end * body.count("\n")), ptx


def rewrite(text):
    """Returns the text with all asm statements rewritten, and the PTX templates found, in order."""
    out, found, start, i = [], [], 0, 0
    while i < len(text):
        end = after_comment(text, i)
        if end != i:
            i = end
            continue
        if is_quote(text, i):
            i = after_string(text, i)
            continue
        match = ASM.match(text, i) if text[i] in "a_" else None
        if match is None:
            i += 1
            continue
        close = closing(text, match.end() - 1)
        try:
            call, ptx = rewrite_statement(text[match.end():close])
        except TransformError as error:
            raise TransformError("line %d: %s" % (text.count("\n", 0, i) + 1, error))
        out += [text[start:i], call]
        found.append(ptx)
        start = i = close + 1
    out.append(text[start:])
    return "".join(out), found
