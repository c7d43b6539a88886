class VerifyError(Exception):
    """One line that says what is wrong; it ends the part (or, before any part, the run)."""


class OutOfTime(VerifyError):
    """The part's share of the run is used up."""


class NoDevice(VerifyError):
    """Nothing can be checked: the run ends."""
