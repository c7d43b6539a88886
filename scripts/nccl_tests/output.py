"""Reads what a binary of nccl-tests prints: its devices, its table and its last lines.

The table's own header says what its columns are, so versions that differ in columns are read alike: with `error` instead of
`#wrong` (before 2.13), without a root, with statistics of single iterations, with a time of day at the end of each row. What is neither table
nor comment nor known is an OutputError that names the line: numbers are never guessed.
"""
import re
from collections import namedtuple

# time_us; algbw and busbw in GB/s; wrong: how many values, None where the binary did not look (N/A). Versions with a column `error`
# print a difference there and judge it in their last lines only: 0.
Measure = namedtuple("Measure", "time_us algbw busbw wrong")
# In place or out of place: None where the row has none. redop and root: None where the table has no such column.
Row = namedtuple("Row", "line size count type redop root out_of_place in_place")
Device = namedtuple("Device", "rank pid host device name")

FIRST_OF_A_MEASURE = ("time", "cputime")
WRONG = ("#wrong", "error")
LEADING = ("size", "count", "type", "redop", "root")
# Rows of a timestamp end with two words, a date and a time.
TIMESTAMP_WORDS = 2

DEVICE = re.compile(r"# +Rank +(\d+) (?:Group +\d+ )?Pid +(\d+) on +(\S+) device +(\d+) \[[^\]]*\] (.*)")
VERSION = re.compile(r"# nccl-tests version (\S+)")
WRONG_TOTAL = re.compile(r"# Out of bounds values +: +(\d+) +(OK|FAILED)")
BANDWIDTH = re.compile(r"# Avg bus bandwidth +: +(\S+) *(OK|FAILED)?")
FAILURE = re.compile(r"Test (?:\w+ )?failure|Test timeout|Invalid number of GPUs|invalid (?:option|size)|^USAGE:")
OF_NCCL = re.compile(r"\S+:\d+:\d+ \[-?\d+\] NCCL |NCCL version |ccld-cpu-device: |ncclProbe|^\[\S+\]\S* ")


class OutputError(Exception):
    """The output cannot be read: one line that names its line."""


class Result:
    """`wrong_total`, `bandwidth` and their verdicts are None until the binary has printed them; `failures` are lines that say that it failed."""

    def __init__(self):
        self.version = None
        self.devices, self.rows, self.failures = [], [], []
        self.wrong_total = self.wrong_ok = self.bandwidth = self.bandwidth_ok = None
        self.times_of_the_host = False  # the time column is the host's (-C 1), the bandwidths are not made of it

    @property
    def finished(self):
        return self.wrong_total is not None and self.bandwidth is not None


def parse(text):
    """Also of a binary that still runs or was killed: a row without its end is left alone."""
    result, table = Result(), None
    lines = text.split("\n")
    if not lines[-1].startswith("#") and not FAILURE.search(lines[-1]):
        lines.pop()
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\r")
        words = line.split()
        if not words:
            continue
        if words[0] == "#" and len(words) > 1 and words[1] == "size":
            table = _Table(number, words[1:])
            result.times_of_the_host = "cputime" in words
        elif FAILURE.search(line):
            result.failures.append(line.strip())
        elif OF_NCCL.search(line):
            continue
        elif line.startswith("#"):
            _comment(result, line)
        elif words[0].isdigit() and table is not None:
            result.rows.append(table.row(number, words))
        elif table is not None and not result.finished:
            raise OutputError("line %d cannot be read: %s" % (number, line.strip()))
    return result


def _comment(result, line):
    found = VERSION.match(line)
    if found:
        result.version = found.group(1)
    found = DEVICE.match(line)
    if found:
        rank, pid, host, device, name = found.groups()
        result.devices.append(Device(int(rank), int(pid), host, int(device), name.strip()))
    found = WRONG_TOTAL.match(line)
    if found:
        result.wrong_total, result.wrong_ok = int(found.group(1)), found.group(2) == "OK"
    found = BANDWIDTH.match(line)
    if found:
        result.bandwidth, result.bandwidth_ok = _number(0, found.group(1), "Avg bus bandwidth"), found.group(2) != "FAILED"


class _Table:
    """What a header line promises about the rows below it."""

    def __init__(self, line, names):
        starts = [index for index, name in enumerate(names) if name in FIRST_OF_A_MEASURE]
        self._has_timestamp = names[-1] == "timestamp"
        end = len(names) - self._has_timestamp
        if len(starts) != 2 or end - starts[1] != starts[1] - starts[0]:
            raise OutputError("line %d: the table's header has not the columns of nccl-tests: %s" % (line, " ".join(names)))
        self._leading = names[:starts[0]]
        self._measure = names[starts[0]:starts[1]]
        for needed in (("algbw",), ("busbw",), WRONG):
            if not any(name in self._measure for name in needed):
                raise OutputError("line %d: the table's header has no column %s" % (line, needed[0]))
        if self._leading[:3] != list(LEADING[:3]) or any(name not in LEADING for name in self._leading):
            raise OutputError("line %d: the table's header does not begin as those of nccl-tests do: %s" % (line, " ".join(names)))

    def row(self, line, words):
        if self._has_timestamp:
            words = words[:-TIMESTAMP_WORDS]
        block = len(self._measure)
        # Columns without a value are blank: old versions have no word for "no reduction" and "no root".
        leading = len(words) - 2 * block
        blocks = (-2 * block, -block)
        if leading == len(self._leading) - block and leading < 3:  # only measured in place
            leading, blocks = len(words) - block, (None, -block)
        if not 3 <= leading <= len(self._leading):
            raise OutputError("line %d: %d words in a row of a table with %d columns" % (
                line, len(words), len(self._leading) + 2 * block))
        values = dict(zip(self._leading, words[:leading]))
        measures = [None if begin is None else self._measure_of(line, words[len(words) + begin:len(words) + begin + block]) for begin in blocks]
        return Row(line, int(_number(line, values["size"], "size")), int(_number(line, values["count"], "count")), values["type"],
                   values.get("redop"), None if "root" not in values else int(_number(line, values["root"], "root")), *measures)

    def _measure_of(self, line, words):
        values = dict(zip(self._measure, words))
        column = next(name for name in WRONG if name in values)
        numbers = [_number(line, values[name], name) for name in (self._measure[0], "algbw", "busbw")]
        wrong = None
        if values[column] != "N/A":
            wrong = _number(line, values[column], column)
            if column == "error":
                wrong = 0.0
        return Measure(*numbers, wrong)


def _number(line, text, column):
    try:
        value = float(text)
    except ValueError:
        raise OutputError("line %d: %s is not a number: %s" % (line, column, text))
    if value != value or value in (float("inf"), float("-inf")):
        raise OutputError("line %d: %s is not a finite number: %s" % (line, column, text))
    return value
