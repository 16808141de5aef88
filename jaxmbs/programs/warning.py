"""The warning about functions that run slower than they could."""


class PerformanceWarning(UserWarning):
    """A function runs much slower than it could; the message says why.

    Examples:
        >>> issubclass(mbs.PerformanceWarning, UserWarning)
        True
    """
