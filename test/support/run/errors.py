"""Errors that end a run with one clear line instead of a trace."""


class RunError(Exception):
    """Something the user can act on: the text is the whole message."""


class Interrupted(BaseException):
    """A signal asked the run to end; cleaning up goes first."""

    def __init__(self, signal_number):
        super().__init__(signal_number)
        self.signal_number = signal_number
