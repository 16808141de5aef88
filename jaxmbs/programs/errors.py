"""Errors and warnings of programs."""


class ProgramError(ValueError):
    """A function that cannot become a straight-line program, and why.

    Examples:
        >>> mbs.program(jnp.linalg.eigvalsh)(jnp.eye(2))
        Traceback (most recent call last):
        jaxmbs.programs.errors.ProgramError: ...eigh...
    """


class ProgramTooLarge(ProgramError):
    """A function with more scalar operations than a straight-line program should have."""


class PerformanceWarning(UserWarning):
    """A function runs much slower than it could; the message says why.

    Examples:
        >>> issubclass(mbs.PerformanceWarning, UserWarning)
        True
    """
