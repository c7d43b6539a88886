"""The result file of a run, which may go on in another run."""
import json
import os

import scoring
from store import write_json

# What a verdict depends on, as git pathspecs. Left out are the parts that store, send or show what was decided, and
# texts and build files.
DECIDES = ("nccl", "probe", "schemas", "decision", "benchmarks/accuracy", "test/support/faults", "test/support/workload", ":!*.md",
           ":!*CMakeLists.txt", ":!*.cmake") + tuple(
    ":!decision/" + part for part in ("advise", "cli", "cluster", "history", "import", "page", "trace", "validate", "webhook"))


class Results:
    """The file has a new row at once. Rows that it has of the same header stay in it, whenever and wherever they were measured."""

    def __init__(self, path, cases, header, commit):
        """`cases`: all there are, in order. `header`: on which a row depends; `sources`, one of them, is None if they are not known."""
        self._path, self._cases, self._header, self._commit = path, cases, header, commit
        self._rows = self._so_far()
        self._not_run = []
        os.makedirs(os.path.dirname(os.path.abspath(self._path)), exist_ok=True)

    def _so_far(self):
        try:
            with open(self._path) as file:
                known = json.load(file)
        except (OSError, ValueError):
            return {}
        same = self._header["sources"] is not None and all(known.get(name) == value for name, value in self._header.items())
        return {row["id"]: row for row in known["rows"]} if same else {}

    def known(self, case):
        return self._rows.get(case.id)

    def add(self, row):
        self._rows[row["id"]] = dict({"commit": self._commit}, **row)
        self.write()

    def leave_out(self, name, reason):
        self._not_run.append({"id": name, "reason": reason})

    def write(self):
        rows = [self._rows[case.id] for case in self._cases if case.id in self._rows]
        rule_sets = [rules for rules in ("default", "paper") if any(rules in row["rules"] for row in rows)]
        document = dict(self._header, complete=len(rows) == len(self._cases), machine={"processors": os.cpu_count()}, not_run=self._not_run,
                        rules={rules: scoring.summarize(rows, rules) for rules in rule_sets}, rows=rows)
        write_json(self._path, document)
        return document
