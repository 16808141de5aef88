"""Errors and warnings of programs."""


class ProgramError(ValueError):
    """A function cannot become a straight-line program; the message says why.

    Examples:
        >>> mbs.program(jnp.linalg.eigvalsh)(jnp.eye(2))
        Traceback (most recent call last):
        jaxmbs.programs.errors.ProgramError: ...eigh...
    """


class ProgramTooLarge(ProgramError):
    """A function has more scalar operations than a straight-line program may have."""


class PerformanceWarning(UserWarning):
    """A function runs much slower than it could; the message says why.

    Examples:
        >>> issubclass(mbs.PerformanceWarning, UserWarning)
        True
    """
