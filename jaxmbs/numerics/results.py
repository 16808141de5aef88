"""The status that every sample of a result carries."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import jax


class Status(IntEnum):
    """Status of a sample. Arrays of results hold it as integers, one per sample (and per time).

    The page `docs/troubleshooting.md` says what to do about each of them.

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.array([0.0, 1.0]), guess)
        >>> print(motion.status == mbs.Status.CONVERGED)
        [ True  True]
    """

    CONVERGED = 0
    """The constraints are satisfied, and position, velocity and acceleration are those of the mechanism."""
    NOT_ASSEMBLED = 1
    """No configuration near the guess satisfies the constraints; or, in a simulation, no motion has the velocities that
    were given by name."""
    NOT_CONVERGED = 2
    """The motion was lost for a reason other than a lock-up, or a step budget ran out. In an equilibrium: none was found,
    or a motion that should be steady is not."""
    LOCKED_UP = 3
    """The motion ends: past this time no configuration exists, and velocities grow without bound before it."""
    SINGULAR = 4
    """The position is right, but Φ_q is singular there (a bifurcation): the velocity is that with which the motion
    arrives. In an assembly: the configuration nearest to the guess is not unique. In an equilibrium: configurations beside
    it are at rest, too. In modes: the number of degrees of freedom is another one. In a simulation: the masses do not
    determine the motion, for example of a body without mass that nothing holds."""
    NON_FINITE = 5
    """A NaN or an infinity in the parameters, the times or the guess; or a simulated motion that grew without bound, as
    from steps that are too long for stiff forces."""
    REFUSED = 6
    """In a sweep that calls its measure for each design: it raised `ValueError` for this one."""
    JAMMED = 7
    """Friction and the reactions that it depends on have no common solution: Painlevé's paradox."""


class AnalysisError(ValueError):
    """Error for a bad status, raised if `throw=True`.

    Examples:
        >>> far = {"crank": (0, 0, 1.5), "slider": (0.5, 0, 0)}  # a rod of 0.5 does not reach the guide
        >>> mbs.assemble(slider_crank(rod=0.5), far, t=jnp.pi / 2, throw=True)
        Traceback (most recent call last):
        jaxmbs.numerics.results.AnalysisError: ...NOT_ASSEMBLED...
    """


def check_known(result: Any) -> None:
    """Raise `ValueError` if `throw=True` is used inside a transformation, where the result is traced."""
    check_outside("throw=True", "inside, read `.status`", result)


def check_outside(name: str, instead: str, *given: Any) -> None:
    """Raise `ValueError` if any number in `given` is traced: `name` cannot be used there, `instead` says what to do."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(given)):
        raise ValueError(f"{name} works outside jit, vmap and grad only; {instead}")
