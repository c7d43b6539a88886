"""What the functions of one side, upstream's or ours, need on each way, for a chunk of data and for each hook."""
from flow import Graph, count
from ways import BEGIN, CALL, DATA, ENTRY, EXIT, WAYS, Places


def is_ours(name):
    return "ccld_" in name


class Measure:
    """`kernel` and `function`: {mangled name: program.Function} of the cubins that have the kernel and the case's function.
    In the kernel's own case both are the same, and its function is code of the kernel."""

    def __init__(self, kernel, function, source):
        self._places = Places(source)
        self._kernel = self._graph(kernel, "ncclDevKernel")
        self._function = self._kernel if function is kernel else self._graph(function, "ncclDevFunc")

    @staticmethod
    def _graph(functions, prefix):
        name, = [name for name in functions if prefix in name]
        return Graph(functions, name, is_ours)

    def ways(self):
        """{(part, thread): counts, or None where there is no such way}"""
        return {(way.part, way.thread): self._way(way) for way in WAYS}

    def _way(self, way):
        if self._function is self._kernel:
            pieces = [(self._kernel, (ENTRY, *way.by, DATA) if way.part == BEGIN else (DATA, *way.by, EXIT))]
        elif way.part == BEGIN:
            # The function is reached through the kernel, where our begin is, and left for it, where our end is.
            pieces = [(self._kernel, (ENTRY, *way.by, CALL)), (self._function, (ENTRY, DATA))]
        else:
            pieces = [(self._function, (DATA, EXIT)), (self._kernel, (CALL, *way.by, EXIT))]
        instructions = []
        for graph, stops in pieces:
            piece = self._shortest(graph, stops)
            if piece is None:
                return None
            instructions += piece
        return count(instructions)

    def _shortest(self, graph, stops):
        way = graph.shortest([self._nodes(graph, stop) for stop in stops])
        if way is None:
            return None
        if stops[0] == ENTRY:
            way = [graph.entry] + way
        return [graph.instructions[node] for node in way]

    def _nodes(self, graph, stop):
        if stop == ENTRY:
            return {graph.entry}
        if stop == EXIT:
            return set(graph.leaves)
        return graph.nodes(lambda instruction, chain: self._places.is_at(stop, instruction, chain))

    def chunk(self):
        """Counts of all code that moves chunks, for one call of the primitives: as many as the function has calls."""
        calls, instructions = set(), []
        for instruction, chain in zip(self._function.instructions, self._function.chains):
            call = self._places.chunk(chain)
            if call:
                calls.add(call)
                instructions.append(instruction)
        return {kind: round(number / len(calls), 1) for kind, number in count(instructions).items()}

    def whole(self):
        return count(self._function.instructions)

    def hooks(self):
        """{name of the hook: {"places": number, counts for one place}}"""
        found = {}
        for instruction, chain in zip(self._function.instructions, self._function.chains):
            hook = self._places.hook(chain)
            if hook:
                calls, instructions = found.setdefault(hook[0], (set(), []))
                calls.add(hook[1])
                instructions.append(instruction)
        return {name: dict(places=len(calls), **{kind: round(number / len(calls), 1) for kind, number in count(instructions).items()})
                for name, (calls, instructions) in sorted(found.items())}
