"""Who may use how much of the run.

A part may use its own share and what earlier parts have left over, and never the shares of later parts: so a part that hangs costs the
parts behind it nothing. Pure: the clock is given.
"""
import contextlib
import signal

from .errors import OutOfTime, VerifyError

# Every wait of a part is limited by its allowance. What hangs all the same, in a call that has no limit, is ended so much later.
GRACE_S = 10.0


class Schedule:
    def __init__(self, shares, total_s, clock):
        """`shares`: [(name, seconds)] in the order of the run; they are stretched or shrunk to fill `total_s`."""
        if total_s <= 0:
            raise VerifyError("--deadline-s is %g: it must be above 0" % total_s)
        names = [name for name, _ in shares]
        if len(set(names)) != len(names) or any(seconds <= 0 for _, seconds in shares):
            raise VerifyError("every part has one share above 0")
        self._clock = clock
        self._begin = clock()
        scale = total_s / sum(seconds for _, seconds in shares)
        self._ends, end = {}, 0.0
        for name, seconds in shares:
            end += seconds * scale
            self._ends[name] = end

    def elapsed_s(self):
        return self._clock() - self._begin

    def left_s(self, name):
        """Of that part, from now on; not above 0: its time is over."""
        return self._ends[name] - self.elapsed_s()


class Allowance:
    """The time of one part."""

    def __init__(self, schedule, name):
        self._schedule, self._name = schedule, name

    def left_s(self):
        return self._schedule.left_s(self._name)

    def is_over(self, needed_s=0.0):
        return self.left_s() <= needed_s

    def limit(self, wanted_s):
        """How long something may take that would like so many seconds."""
        left_s = self.left_s()
        if left_s <= 0:
            raise OutOfTime("the time of this part is over")
        return min(wanted_s, left_s)


@contextlib.contextmanager
def hard_limit(allowance, grace_s=GRACE_S):
    """OutOfTime out of whatever the main thread does when the time of the part has been over for a while."""
    def over(*_):
        raise OutOfTime("it hung until long after its time was over")
    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(0.001, allowance.left_s() + grace_s))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
