"""Assembly: a configuration that satisfies the constraints, from a rough guess; Haug 3.6.1."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from jaxmbs.analyses.unknowns import (
    ConstraintFunctions,
    check_formulation,
    choose_formulation,
    configuration_of_bodies,
    constraint_functions,
    with_constants,
)
from jaxmbs.formulations.augmented import AbstractFormulation
from jaxmbs.numerics.nearest import differentiable_nearest_root, nearest_root
from jaxmbs.numerics.results import Status, check_known
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE, Units, gap_limit
from jaxmbs.numerics.search import find_root
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.broadcast_tree import BroadcastTree
from jaxmbs.system.equations import residuals
from jaxmbs.system.failure import Failures, failures
from jaxmbs.system.inputs import analysis_inputs
from jaxmbs.system.mechanism import Coordinates, Mechanism
from jaxmbs.system.summary import batch, number, statuses


class Assembly(eqx.Module):
    """An assembled configuration.

    Attributes:
        q: (n,), the configuration; if assembly fails, the one with the smallest gaps found.
        status: CONVERGED, NOT_ASSEMBLED, NON_FINITE, or SINGULAR where q satisfies Φ = 0 but the nearest configuration is
            not unique.
        residual: max |Φ_k| at q: lengths, their squares and angles, as the rows of Φ are.
        t: time.
        mechanism: the constraints and drivers, which `explain_failure` needs.

    Examples:
        >>> assembly = mbs.assemble(pendulum, {"bob": (0.6, -0.7, 0.6)}, hold=("bob.x",))
        >>> print(assembly.q.round(6), assembly.status)
        [ 0.6     -0.8      0.643501] 0
    """

    q: Float[Array, " n"]
    status: Int[Array, ""]
    residual: Float[Array, ""]
    t: Float[Array, ""]
    mechanism: BroadcastTree | None

    def __repr__(self) -> str:
        shape = np.shape(self.q)
        parts = [*batch(shape[:-1]), f"{shape[-1]} coordinates" if shape else number("q", self.q)]
        return f"Assembly({'; '.join([*parts, number('residual', self.residual), statuses(self.status)])})"

    def explain_failure(self) -> Failures:
        """Return the reason of a failure as `Failures`, which you print; `ValueError` inside jit, vmap or grad."""
        q = self.q[..., None, :]
        return failures(self.t[..., None], q, q, q, self.status[..., None], self.mechanism)


def assemble(
    mech: Mechanism,
    guess: Coordinates | None = None,
    t: ArrayLike = 0.0,
    *,
    hold: Sequence[str] = (),
    formulation: AbstractFormulation | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    throw: bool = False,
) -> Assembly:
    """Find the configuration q with Φ(q, t) = 0 that is nearest to a guess.

    q minimises ½ yᵀy, where q = guess ⊕ y: y has the displacements of the bodies divided by the size of the mechanism
    (see `Mechanism.size`) and the vectors of their rotations in radians. Drivers count as constraints. Coordinates in
    `hold` keep the values of the guess. A root is searched by minimising yᵀy + r ΦᵀΦ for growing r, Haug (3.6.9), and
    then moved along Φ = 0 to the nearest one by Newton's method for y + Φ_yᵀμ = 0, Φ = 0.

    `q` is differentiable by the numbers of the mechanism, by t and by the guess. The derivatives follow from the same
    conditions, so they are exact from every guess. The status is SINGULAR where the nearest configuration is not unique,
    for example if a point has to be on a circle and the guess is its centre.

    Redundant constraints may contradict each other by as much as `tolerance`, because geometry is inexact. The gap that
    remains is shared among them in the sense of least squares, in joint coordinates among those outside the tree only; all
    other constraints are closed to rounding.

    Args:
        mech: the mechanism.
        guess: a mapping of names to coordinates, or q (n,); see `Mechanism.coordinates`.
        t: time.
        hold: names of coordinates, "crank.phi", …, that keep the values of the guess.
        formulation: chooses the unknowns. `Augmented()`: the coordinates of the bodies. `JointCoordinates()` or `Kane()`:
            those of the joints of a spanning tree; these joints are closed exactly, and only the other constraints and
            the drivers give equations. None: joint coordinates if the bodies have at least 48 velocities and the joints
            of the tree at most half as many velocities, else the coordinates of the bodies; `explain` shows which. From
            a rough guess the search may end in another configuration with other unknowns.
        tolerance: largest gap of an assembled mechanism, relative to its size (`Mechanism.size`).
        throw: raise `AnalysisError` where assembly fails, with the text of `explain_failure`; only outside jit, vmap
            and grad.

    Returns:
        The configuration q (n,), its `status`, and the largest gap `residual`; see `Assembly`.

    Raises:
        ValueError: an unknown name or a wrong number of values in `guess` or `hold`; a driven distance that is not
            positive at t; `Natural()` as the formulation; `throw` inside jit, vmap or grad.
        AnalysisError: assembly failed, and `throw` is set.

    Examples:
        >>> rough = {"crank": (0, 0, 1.5), "rod": (0, 1, -0.5), "slider": (1.7, 0, 0)}
        >>> assembly = mbs.assemble(mech, rough, t=jnp.pi / 2)
        >>> print(assembly.status, assembly.q[6].round(6))  # x of the slider: √3
        0 1.732051
    """
    mech, q, t = analysis_inputs(mech, guess, t)
    held = tuple(mech.layout.index(name) for name in hold)
    check_formulation(formulation)
    found = assembled_configuration(mech, q, t, held, float(tolerance), formulation)
    result = Assembly(*found, t, BroadcastTree(mech.geometry, ()))
    if throw:
        check_known(result)
        result.explain_failure().throw(f"assembly (residual {result.residual})")
    return result


@eqx.filter_jit
def assembled_configuration(
    mech: Mechanism,
    guess: Array,
    t: Array,
    held: tuple[int, ...],
    tolerance: float,
    formulation: AbstractFormulation | None = None,
) -> tuple[Float[Array, " n"], Int[Array, ""], Float[Array, ""]]:
    """Return q, status and max |Φ| of the configuration nearest to a guess; q is differentiable by all numbers given.

    The inputs are those of `analysis_inputs`; `held` are the indices in q of the coordinates that keep their values.
    """
    formulation = choose_formulation(mech, formulation)
    constants = jax.lax.stop_gradient((mech, guess, t))
    x, status, residual, units = ProgramWithFallback.of(_search, held, tolerance, formulation)(*constants)
    regular = status == Status.CONVERGED
    guess, t = (jnp.where(jnp.isfinite(x), x, 0) for x in (guess, t))
    given = constraint_functions(mech, guess, t, held, formulation, (x, units))
    equations, size = given.structure, given.mech.size
    distance = _distance(given) if equations.own_coordinates else None
    x = differentiable_nearest_root(given.phi, equations.space, size, x, guess, t, tolerance, regular, distance)
    if equations.own_coordinates:
        q = configuration_of_bodies(given, x, t, guess)
        x = jnp.where(regular, q, jax.lax.stop_gradient(q))
    return x, status, residual


def is_assembled(mech: Mechanism, q: Array, t: Array) -> bool:
    """Return True if q satisfies Φ(q, t) = 0 to rounding. All numbers must be known, not traced."""
    gap, size = map(float, _largest_gap(mech.geometry, q, t))
    return gap <= gap_limit(q.dtype, 0.0) * min(1, size, size**2)


@eqx.filter_jit
@ProgramWithFallback
def _largest_gap(mech: Mechanism, q: Array, t: Array) -> tuple[Array, Array]:
    """Return the largest |Φ_k| at q and t, and the size of the mechanism (`Mechanism.size`)."""
    return jnp.max(jnp.abs(residuals(mech, q, t)), initial=0), mech.size(q)


def _search(
    held: tuple[int, ...], tolerance: float, formulation: AbstractFormulation, mech: Mechanism, guess: Array, t: Array
) -> tuple[Array, Array, Array, Array | None]:
    """Search the configuration nearest to a guess (n,); the result is not differentiable.

    Args:
        held: indices in q of coordinates that keep their values.
        tolerance: largest gap, relative to `Mechanism.size`.
        formulation: chooses the unknowns.
        mech: the mechanism.
        guess: (n,).
        t: time.

    Returns:
        x, the unknowns; the code of its `Status`; max |Φ|; and the units of the rows of Φ, None if they have none.
    """
    guess_or_zero = jnp.where(jnp.isfinite(guess), guess, 0)
    given = constraint_functions(mech, guess_or_zero, t, held, formulation)
    equations, units = formulation.equations(given.mech), given.units
    space, size = equations.space, given.mech.size(guess_or_zero)
    constant_phi = given.constant_phi
    phi = lambda x: constant_phi(x, t)
    start, distance = equations.coordinates(guess_or_zero, t), None
    if equations.own_coordinates:
        from_guess = with_constants(_distance(given), start, guess_or_zero, t)
        distance = lambda x: from_guess(x, guess_or_zero, t)
    root = find_root(phi, space, start, size, tolerance, scaled=units is not None)
    nearest = nearest_root(phi, space, start, root, tolerance, distance)
    x = jnp.where(root.found, nearest.q, root.q)
    residual = jnp.max(jnp.abs(phi(x) if units is None else units * phi(x)), initial=0)
    usable = given.is_finite & jnp.all(jnp.isfinite(guess)) & jnp.isfinite(t) & jnp.isfinite(residual)
    status = jnp.where(nearest.found, int(Status.CONVERGED), int(Status.SINGULAR))
    status = jnp.where(root.found, status, int(Status.NOT_ASSEMBLED))
    status = jnp.where(usable, status, int(Status.NON_FINITE))
    return x, status.astype(jnp.int32), residual, units


def _distance(given: ConstraintFunctions) -> Callable[[Array, Array, Array], Array]:
    """Return the function (x, guess, t) ↦ z (m,), the displacement from the guess to q(x, t) in units of the mechanism."""
    mech, formulation = given.mech, given.formulation

    def distance(x: Array, guess: Array, t: Array) -> Array:
        """Return z for unknowns x and a guess of q."""
        units = Units(mech.layout.angular, mech.size(guess))
        return mech.layout.difference(guess, formulation.equations(mech).configuration(x, t)) / units.vector

    return distance
