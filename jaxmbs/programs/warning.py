"""The warning about functions that run slower than they could."""


class PerformanceWarning(UserWarning):
    """A function that runs much slower than others of its kind, and why.

    Examples:
        >>> issubclass(mbs.PerformanceWarning, UserWarning)
        True
    """
