"""Ways through a function, and what stands on the shortest of them."""
from collections import deque

from instruction import BRANCH, BYTES, EXIT, JUMP, KINDS, RETURN


class FlowError(Exception):
    pass


class Graph:
    """The instructions of a function, and of the functions it calls that are to be followed, as nodes 0, 1, ... A call
    that is not followed is an instruction like others: it comes back."""

    def __init__(self, functions, name, is_followed):
        self.instructions, self.chains, self.next = [], [], []
        self._all, self._is_followed = functions, is_followed
        self.entry, self.leaves = self._add(name, ())

    def _add(self, name, callers):
        """Entry, and the nodes that leave the function."""
        if name in callers:
            raise FlowError("%s calls itself" % name)
        function = self._all[name]
        first, count = len(self.instructions), len(function.instructions)
        self.instructions += function.instructions
        self.chains += function.chains
        self.next += [()] * count
        leaves = []
        for index, instruction in enumerate(function.instructions):
            node = first + index
            after = (node + 1,) if index + 1 < count else ()
            if instruction.flow == JUMP:
                self.next[node] = (first + instruction.target // BYTES,)
            elif instruction.flow == BRANCH:
                self.next[node] = after + (first + instruction.target // BYTES,)
            elif instruction.flow in (EXIT, RETURN):
                leaves.append(node)
                self.next[node] = after if instruction.conditional else ()
            elif index in function.callees and self._is_followed(function.callees[index]):
                entry, returns = self._add(function.callees[index], callers + (name,))
                self.next[node] = (entry,) + (after if instruction.conditional else ())
                for leaf in returns:
                    if self.instructions[leaf].flow == RETURN:
                        self.next[leaf] = self.next[leaf] + after
                    else:
                        leaves.append(leaf)
            else:
                self.next[node] = after
        return first, leaves

    def nodes(self, is_wanted):
        """Nodes for which `is_wanted(instruction, chain)` is true."""
        return {node for node, each in enumerate(self.instructions) if is_wanted(each, self.chains[node])}

    def shortest(self, stops):
        """Nodes of the shortest way from a node of the first stop, which is left out, to one of the last, which is part
        of it, by way of a node of each between; None where there is no such way. A stop is a set of nodes.
        """
        start = [(node, 1) for node in sorted(stops[0])]
        came_from = {state: None for state in start}
        waiting = deque(start)
        while waiting:
            state = waiting.popleft()
            node, stop = state
            for after in self.next[node]:
                # A node may be several stops in a row.
                reached = stop
                while reached < len(stops) and after in stops[reached]:
                    reached += 1
                next_state = (after, reached)
                if next_state in came_from:
                    continue
                came_from[next_state] = state
                if reached == len(stops):
                    return self._way(next_state, came_from)
                waiting.append(next_state)
        return None

    @staticmethod
    def _way(state, came_from):
        way = []
        while came_from[state] is not None:
            way.append(state[0])
            state = came_from[state]
        return way[::-1]


def count(instructions):
    """{"instructions": number, and of each kind of memory operation}"""
    counts = dict.fromkeys(("instructions",) + KINDS, 0)
    for instruction in instructions:
        counts["instructions"] += instruction.counts
        if instruction.kind:
            counts[instruction.kind] += 1
    return counts
