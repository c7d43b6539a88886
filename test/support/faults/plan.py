"""Fault plans: read and checked. README.md beside this file documents every field.

A plan that cannot be used is one PlanError whose text names the file and the field.
"""
import json
import os
from collections import namedtuple

CLASSES = ("H1", "H2", "H3", "S1", "S2", "S3")

COMPONENTS = ("application", "process", "host", "gpu", "proxy", "nic", "link")
COMMUNICATORS = ("world", "tp", "pp", "dp", "ep")
OPTIONAL = object()  # as a default: the field may be absent, and then it is

# With a layout: which communicator's calls, and which of the rank's calls on it in a round.
OF_A_LAYOUT = {"comm": (str, OPTIONAL), "call": (int, OPTIONAL)}
# What the application itself does differently; the workload reads these from its fault file (workload/fault_file.h).
APPLICATION_KINDS = {
    "skip": {"rounds": (int, 1), **OF_A_LAYOUT},
    "delay": {"rounds": (int, 1), "ms": (float, None), **OF_A_LAYOUT},
    "pauses": {"rounds": (int, 0), "ms": (float, None), "share": (float, None), **OF_A_LAYOUT},
    "other_operation": {"rounds": (int, 1), "operation": (str, None), **OF_A_LAYOUT},
    "other_count": {"rounds": (int, 1), "factor": (float, None), **OF_A_LAYOUT},
    "other_type": {"rounds": (int, 1), "datatype": (str, None), **OF_A_LAYOUT},
    "other_order": {},
    "other_comm_order": {"rounds": (int, 1), "comm": (str, None), "with": (str, None)},
}
# What happens to a process. in_operation 1: at a moment when the rank is inside an operation.
PROCESS_KINDS = {
    "sigstop": {"in_operation": (int, 0)},
    "sigkill": {"in_operation": (int, 0)},
    "cpu_quota": {"share": (float, None), "period_ms": (float, 200.0), "jitter": (float, 0.0)},
}
# What happens to the proxy thread of a process, which serves its network connections.
PROXY_KINDS = {"stuck_proxy": {}, "slow_proxy": {"held_ms": (float, None), "period_ms": (float, None)}}
# What happens to the GPU of a process: lines of the CPU device's control file.
DEVICE_KINDS = {
    "freeze_channel": {"channel": (int, None)},
    "freeze_device": {},
    "slow_clock": {"factor": (float, None)},
}
# What happens to the link between the two nodes; `node` is the one whose sending side is meant.
LINK_KINDS = {"throttle_link": {"node": (int, None), "rate": (str, None)}, "cut_link": {"node": (int, None)}}
RANK_KINDS = {**APPLICATION_KINDS, **PROCESS_KINDS, **PROXY_KINDS, **DEVICE_KINDS}
ALL_KINDS = {**RANK_KINDS, **LINK_KINDS}

FLAG = bool  # an option without a value
WORKLOAD_OPTIONS = {
    "operation": ("--op", str), "bytes_min": ("-b", str), "bytes_max": ("-e", str), "factor": ("-f", int), "iterations": ("-n", int),
    "warm_up": ("-w", int), "check": ("-c", int), "reduction": ("-o", str), "datatype": ("-d", str), "seconds": ("--seconds", float),
    "compute_ms": ("--compute-ms", float), "jitter_ms": ("--jitter-ms", float), "pause_every": ("--pause-every", int),
    "pause_ms": ("--pause-ms", float), "pause_rank": ("--pause-rank", int), "seed": ("--seed", int),
    "idle_s": ("--idle-s", float), "tp": ("--tp", int), "pp": ("--pp", int),
    "dp": ("--dp", int), "ep": ("--ep", int), "micro_batches": ("--micro-batches", int), "layers": ("--layers", int),
    "irregular": ("--irregular", FLAG), "overlap": ("--overlap", FLAG),
}
LAYOUT_OPTIONS = ("tp", "pp", "dp", "ep")

# before_round: planted while all ranks wait in front of that round; 0: planted in running traffic, after after_round.
Fault = namedtuple("Fault", "kind rank node after_round before_round watch_rank arguments")
# `links`: pairs (sender, receiver), of which the verdict has to name at least one. `classes`: all that are right, fault_class
# first. Components: those that are right for the ranks and for the links; empty: any. `comm_name`: the communicator at fault, if
# there is one. `candidates`: a verdict that leaves candidates, the ranks among them, is right too.
# `directed`: the verdict has to tell the sender of the link from its receiver.
Expectation = namedtuple("Expectation", "fault_class ranks links classes rank_components link_components comm_name candidates directed",
                         defaults=((), frozenset(), frozenset(), "", False, False))


class PlanError(Exception):
    pass


class Plan:
    """name, title, ranks, network (namespaces or not), workload {option: value}, environment, settings, faults, expect, time limits."""

    def __init__(self, document, where, base_settings=None):
        reader = _Reader(where)
        document = reader.object(document, "", {"name", "title", "ranks", "network", "workload", "environment", "settings", "faults",
                                                "expect", "within_s", "settle_s"})
        self.name = reader.value(document, "name", str)
        self.title = reader.value(document, "title", str)
        self.rank_count = reader.value(document, "ranks", int, 8)
        if self.rank_count < 2 or self.rank_count % 2:
            reader.refuse("ranks", "must be even and at least 2: two nodes share them")
        network = reader.value(document, "network", str, "loopback")
        if network not in ("loopback", "namespaces"):
            reader.refuse("network", "must be \"loopback\" or \"namespaces\", not \"%s\"" % network)
        self.namespaces = network == "namespaces"
        self.workload = reader.object(document.get("workload", {}), "workload", set(WORKLOAD_OPTIONS))
        for name in self.workload:
            self.workload[name] = reader.value(self.workload, name, WORKLOAD_OPTIONS[name][1], prefix="workload.")
        self.environment = {name: str(value) for name, value in reader.object(document.get("environment", {}), "environment").items()}
        self.settings = dict(base_settings or {})
        self.settings.update({name: str(value) for name, value in reader.object(document.get("settings", {}), "settings").items()})
        self.within_s = reader.value(document, "within_s", float, 30.0)
        self.settle_s = reader.value(document, "settle_s", float, 1.0)
        faults = document.get("faults", [])
        if not isinstance(faults, list):
            reader.refuse("faults", "must be a list")
        self.faults = [self._fault(reader, fault, "faults[%d]" % index) for index, fault in enumerate(faults)]
        self.expect = self._expectation(reader, document.get("expect"))
        if bool(self.faults) != bool(self.expect):
            reader.refuse("expect", "goes with faults: a plan has both or neither")
        self._check_relations(reader)

    def _fault(self, reader, document, where):
        kind = document.get("kind") if isinstance(document, dict) else None
        if kind not in ALL_KINDS:
            reader.refuse(where + ".kind", "must be one of %s, not %s" % (", ".join(sorted(ALL_KINDS)), json.dumps(kind)))
        fields = ALL_KINDS[kind]
        place = {"rank"} if kind in RANK_KINDS else set()
        document = reader.object(document, where, {"kind", "after_round", "before_round", "watch_rank"} | place | set(fields))
        rank = node = None
        prefix = where + "."
        if place:
            rank = reader.value(document, "rank", int, prefix=prefix)
            if not 0 <= rank < self.rank_count:
                reader.refuse(prefix + "rank", "must be from 0 to %d" % (self.rank_count - 1))
        arguments = {name: reader.value(document, name, kind_, default, prefix=prefix) for name, (kind_, default) in fields.items()
                     if default is not OPTIONAL or name in document}
        for name in ("comm", "with"):
            if name in arguments and arguments[name] not in COMMUNICATORS:
                reader.refuse(prefix + name, "must be one of %s" % ", ".join(COMMUNICATORS))
        if "share" in arguments and not 0 < arguments["share"] <= 1:
            reader.refuse(prefix + "share", "must be above 0 and at most 1")
        if "jitter" in arguments and not 0 <= arguments["jitter"] < 1:
            reader.refuse(prefix + "jitter", "must be 0 or more and below 1")
        if "held_ms" in arguments and not 0 < arguments["held_ms"] < arguments["period_ms"]:
            reader.refuse(prefix + "held_ms", "must be above 0 and below period_ms")
        if "node" in arguments:
            node = arguments.pop("node")
            if node not in (0, 1):
                reader.refuse(prefix + "node", "must be 0 or 1")
            if not self.namespaces:
                reader.refuse(prefix + "kind", "%s needs \"network\": \"namespaces\"" % kind)
        watch_rank = reader.value(document, "watch_rank", int, rank if rank is not None else 0, prefix=prefix)
        after_round = reader.value(document, "after_round", int, 0, prefix=prefix)
        before_round = reader.value(document, "before_round", int, 0, prefix=prefix)
        if after_round and before_round:
            reader.refuse(prefix + "before_round", "excludes after_round")
        if before_round and arguments.get("in_operation"):
            reader.refuse(prefix + "before_round", "excludes in_operation: nobody is in an operation then")
        return Fault(kind, rank, node, after_round, before_round, watch_rank, arguments)

    def _check_relations(self, reader):
        size = 1
        for name in ("tp", "pp", "dp"):
            size *= self.workload.get(name, 1)
        if self.has_layout() and size != self.rank_count:
            reader.refuse("workload", "tp x pp x dp is %d, and there are %d ranks" % (size, self.rank_count))
        if len({fault.before_round for fault in self.faults}) > 1:
            reader.refuse("faults", "must all have the same before_round, or none")
        for index, fault in enumerate(self.faults):
            if ("comm" in fault.arguments or "call" in fault.arguments) and not self.has_layout():
                reader.refuse("faults[%d].comm" % index, "needs a workload with a layout: tp, pp, dp or ep")

    def _expectation(self, reader, document):
        if document is None:
            return None
        document = reader.object(document, "expect", {"class", "ranks", "links", "rank_components", "link_components", "comm_name", "candidates",
                                                      "directed"})
        classes = document.get("class")
        classes = classes if isinstance(classes, list) and classes else [reader.value(document, "class", str, prefix="expect.")]
        if not all(fault_class in CLASSES for fault_class in classes):
            reader.refuse("expect.class", "must be one of %s, or a list of them" % ", ".join(CLASSES))
        components = {}
        for name in ("rank_components", "link_components"):
            components[name] = document.get(name, [])
            if not isinstance(components[name], list) or not all(each in COMPONENTS for each in components[name]):
                reader.refuse("expect." + name, "must be a list out of %s" % ", ".join(COMPONENTS))

        def is_ranks(value):
            return isinstance(value, list) and all(isinstance(rank, int) and 0 <= rank < self.rank_count for rank in value)
        ranks, links = document.get("ranks", []), document.get("links", [])
        if not is_ranks(ranks):
            reader.refuse("expect.ranks", "must be a list of ranks")
        if not isinstance(links, list) or not all(is_ranks(link) and len(link) == 2 for link in links):
            reader.refuse("expect.links", "must be a list of pairs: sending rank, receiving rank")
        if not ranks and not links:
            reader.refuse("expect.ranks", "is missing, and so is expect.links")
        return Expectation(classes[0], frozenset(ranks), tuple(tuple(link) for link in links), tuple(classes),
                           frozenset(components["rank_components"]), frozenset(components["link_components"]),
                           reader.value(document, "comm_name", str, "", prefix="expect."), bool(document.get("candidates", False)),
                           bool(document.get("directed", False)))

    def held_round(self):
        """The round in front of which all ranks wait until the faults are planted; 0: none."""
        return self.faults[0].before_round if self.faults else 0

    def workload_arguments(self):
        arguments = []
        for name, value in self.workload.items():
            option, kind = WORKLOAD_OPTIONS[name]
            if kind is not FLAG:
                arguments += [option, str(value)]
            elif value:
                arguments.append(option)
        return arguments

    def has_layout(self):
        return any(name in self.workload for name in LAYOUT_OPTIONS)

    def planted_ranks(self):
        """The ranks of the report: those at fault, and both ends of the links at fault."""
        return sorted(self.expect.ranks.union(*self.expect.links))


def load(path, base_settings=None):
    return Plan(read_json(path), os.path.basename(path), base_settings)


def read_json(path):
    try:
        with open(path) as file:
            return json.load(file)
    except OSError as error:
        raise PlanError("%s: %s" % (path, error.strerror))
    except ValueError as error:
        raise PlanError("%s: is not JSON: %s" % (path, error))


class _Reader:
    def __init__(self, where):
        self._where = where

    def refuse(self, field, why):
        raise PlanError("%s: %s: %s" % (self._where, field or "document", why))

    def object(self, value, field, known=None):
        if not isinstance(value, dict):
            self.refuse(field, "must be an object")
        for name in value:
            if known is not None and name not in known:
                self.refuse((field + "." if field else "") + name, "is not known; known are %s" % ", ".join(sorted(known)))
        return dict(value)

    def value(self, document, name, kind, default=None, prefix=""):
        if name not in document:
            if default is None:
                self.refuse(prefix + name, "is missing")
            return default
        value = document[name]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.refuse(prefix + name, "must be a %s" % {str: "text", int: "whole number", float: "number", bool: "true or false"}[kind])
        return value
