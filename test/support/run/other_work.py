"""How much of the machine's processors did something else than this process and what it started."""
import os

# A run that is alone on two processors leaves 0.01 to others; one busy thread beside four ranks, which spin, gets 0.08 and more.
BUSY_PART_MIN = 0.04


class OtherWork:
    """Counts from when it is made."""

    def __init__(self):
        self._begin = _ticks()

    def part(self):
        """Of all the processor time since then, idle time included: 0 to 1."""
        whole, busy, own = (now - before for now, before in zip(_ticks(), self._begin))
        return max(0.0, busy - own) / whole if whole > 0 else 0.0

    def is_busy(self):
        return self.part() >= BUSY_PART_MIN


def until_told(ask, tells_nothing, may_be_other_work, attempts=5):
    """What `ask` answers. It asks again while the answer `tells_nothing` because the machine is busy, or `may_be_other_work` that slowed
    something, and other programs did run meanwhile."""
    for _ in range(attempts):
        other_work = OtherWork()
        answer = ask()
        if not tells_nothing(answer) and not (may_be_other_work(answer) and other_work.is_busy()):
            break
    return answer


def _ticks():
    """(all processors' time, what of it was not idle, what this process and its descendants used, those that have ended, too)"""
    with open("/proc/stat") as file:
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    busy = user + nice + system + irq + softirq + steal
    return busy + idle + iowait, busy, ticks_of_tree(os.getpid())


def ticks_of_tree(root):
    """Processor time of a process and its descendants, with that of those that have ended and were waited for."""
    parents, used = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % name) as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        parents[int(name)], used[int(name)] = int(fields[1]), sum(map(int, fields[11:15]))

    def is_in_tree(pid):
        while pid in parents and pid != root:
            pid = parents[pid]
        return pid == root
    return sum(ticks for pid, ticks in used.items() if is_in_tree(pid))
