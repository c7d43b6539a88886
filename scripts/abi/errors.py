class AbiError(Exception):
    """The check cannot run: one line that says why."""
