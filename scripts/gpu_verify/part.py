"""What every part gets, and what it gives back."""
import os

PASSED, MISSED, FAILED, SKIPPED, NOT_RUN = "passed", "missed", "failed", "skipped", "not_run"


class Context:
    """`folder`: for logs, it stays; `frames`: for probing frames (a GPU can register only files in memory), it goes."""

    def __init__(self, layout, folder, frames, quick, allowance, show):
        self.layout, self.folder, self.frames, self.quick, self.allowance, self.show = layout, folder, frames, quick, allowance, show

    def subfolder(self, name):
        path = os.path.join(self.folder, name)
        os.makedirs(path, exist_ok=True)
        return path

    @property
    def on_gpu(self):
        return self.layout.device == "cuda"

    def within(self, allowance):
        """The same with less time."""
        return Context(self.layout, self.folder, self.frames, self.quick, allowance, self.show)

    def need_frame_files(self):
        if self.layout.frames_refused:
            raise Skip("frames have no file on this machine: %s" % self.layout.frames_refused)


class Result:
    """`problems`: one line each for what is not as it must be; `not_run`: what there was no time for, by name; `facts`: the part's figures."""

    def __init__(self, facts=None, problems=(), not_run=(), summary=""):
        self.facts, self.problems, self.not_run, self.summary = dict(facts or {}), list(problems), list(not_run), summary
        self.status = MISSED if self.problems else NOT_RUN if self.not_run else PASSED

    def report(self):
        result = {"status": self.status, "summary": self.summary, "problems": self.problems, "not_run": self.not_run}
        result.update(self.facts)
        return result


def without_result(status, reason):
    """A part that was skipped, failed as a whole, or never began."""
    result = Result(summary=reason)
    result.status = status
    if status == FAILED:
        result.problems = [reason]
    return result


class Skip(Exception):
    """Raised by a part that has nothing to check here; the text says why."""
