"""Reads Perfetto traces without Perfetto and without a schema: protobuf's wire format, and the published field numbers.

It knows nothing of how ccld writes them. Unknown fields and broken lengths are errors, so that a wrong field number shows.
"""
import struct
from collections import namedtuple

Slice = namedtuple("Slice", "group row begin_ns end_ns name category args arrows")
Instant = namedtuple("Instant", "group row at_ns name category args arrows")
Counter = namedtuple("Counter", "group row at_ns value")


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, value) of each field: int, or bytes of a message, text or fixed number."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                assert kind == 2, "wire type %d" % kind
                size, at = varint(data, at)
            assert at + size <= len(data), "a field is longer than its message"
            value, at = data[at:at + size], at + size
        yield tag >> 3, value


def message(data, known):
    """{name: [values]}; `known`: {number: name}."""
    out = {name: [] for name in known.values()}
    for number, value in fields(data):
        assert number in known, "field %d is not expected" % number
        out[known[number]].append(value)
    return out


def one(values, default=None):
    assert len(values) <= 1, values
    return values[0] if values else default


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def double(data):
    return struct.unpack("<d", data)[0]


TRACE = {1: "packet"}
PACKET = {8: "timestamp", 10: "sequence", 11: "event", 12: "interned", 13: "flags", 60: "track"}
TRACK = {1: "uuid", 2: "name", 3: "process", 5: "parent", 8: "counter", 11: "ordering", 12: "rank"}
PROCESS = {1: "pid", 6: "name", 8: "labels"}
EVENT = {3: "categories", 4: "args", 9: "type", 10: "name_iid", 11: "track", 23: "name", 44: "double", 47: "flows", 48: "last_flows"}
INTERNED = {1: "categories", 2: "names", 3: "args"}
NAME = {1: "iid", 2: "name"}
ARG = {1: "name_iid", 3: "uint", 4: "int", 5: "double", 6: "text", 10: "name"}
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


class Trace:
    """`groups`: {name: labels}; slices, instants, counters; `flows`: {id: [(ns, group, row)]}, sorted."""

    def __init__(self, data):
        self.groups, self.slices, self.instants, self.counters = {}, [], [], []
        self.names = {"categories": {}, "names": {}, "args": {}}
        self.tracks, self.opened, self.events = {}, {}, []
        group_of = {}
        first = True
        flows = {}
        for packet in message(data, TRACE)["packet"]:
            p = message(packet, PACKET)
            assert one(p["sequence"]) == 1
            assert not first or one(p["flags"], 0) & 1, "the first packet clears the names"
            first = False
            for interned in p["interned"]:
                for kind, values in message(interned, INTERNED).items():
                    for value in values:
                        entry = message(value, NAME)
                        assert one(entry["iid"]) not in self.names[kind], "a number has two names"
                        self.names[kind][one(entry["iid"])] = one(entry["name"]).decode()
            for track in p["track"]:
                t = message(track, TRACK)
                uuid = one(t["uuid"])
                assert uuid not in self.tracks and uuid not in group_of
                if t["process"]:
                    process = message(one(t["process"]), PROCESS)
                    group_of[uuid] = one(process["name"]).decode()
                    self.groups[group_of[uuid]] = one(process["labels"], b"").decode()
                else:
                    self.tracks[uuid] = (group_of[one(t["parent"])], one(t["name"]).decode())
            for event in p["event"]:
                self.add(one(p["timestamp"]), message(event, EVENT), flows)
        self.events.sort(key=lambda e: e[0])  # stable, as the viewer does
        for _, add in self.events:
            add()
        assert not any(self.opened.values()), "a slice has no end"
        self.flows = {flow: sorted(points) for flow, points in flows.items()}

    def add(self, at_ns, e, flows):
        uuid, kind = one(e["track"]), one(e["type"])
        group, row = self.tracks[uuid]
        if kind == END:
            def close():
                begin_ns, name, category, args, arrows = self.opened[uuid].pop()
                self.slices.append(Slice(group, row, begin_ns, at_ns, name, category, args, arrows))
            self.events.append((at_ns, close))
            return
        if kind == COUNTER:
            self.counters.append(Counter(group, row, at_ns, double(one(e["double"]))))
            return
        name = self.names["names"][one(e["name_iid"])] if e["name_iid"] else one(e["name"]).decode()
        category = self.names["categories"][one(e["categories"])]
        args = {}
        for arg in e["args"]:
            a = message(arg, ARG)
            key = self.names["args"][one(a["name_iid"])] if a["name_iid"] else one(a["name"]).decode()
            values = a["uint"] + [signed(v) for v in a["int"]] + [double(v) for v in a["double"]] + [v.decode() for v in a["text"]]
            args[key] = one(values)
        arrows = tuple(struct.unpack("<Q", flow)[0] for flow in e["flows"] + e["last_flows"])
        for flow in arrows:
            flows.setdefault(flow, []).append((at_ns, group, row))
        if kind == INSTANT:
            self.instants.append(Instant(group, row, at_ns, name, category, args, arrows))
            return
        assert kind == BEGIN
        self.events.append((at_ns, lambda: self.opened.setdefault(uuid, []).append((at_ns, name, category, args, arrows))))
