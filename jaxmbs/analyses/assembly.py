"""Assembly: a configuration that satisfies the constraints, from a rough guess; Haug 3.6.1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from jaxmbs.numerics.arrays import finite
from jaxmbs.numerics.implicit import differentiable_root, jacobian
from jaxmbs.numerics.linear_algebra import factor
from jaxmbs.numerics.results import Status, check_known
from jaxmbs.numerics.search import find_root
from jaxmbs.programs.function import Straight
from jaxmbs.system.equations import residuals
from jaxmbs.system.failure import Failures, failures
from jaxmbs.system.kept import Kept
from jaxmbs.system.mechanism import Coordinates, Mechanism, as_times
from jaxmbs.system.summary import batch, number, statuses


class Assembly(eqx.Module):
    """An assembled configuration.

    Attributes:
        q: (n,), the configuration; where it could not be assembled, the one that comes closest.
        status: CONVERGED, NOT_ASSEMBLED or NON_FINITE.
        residual: max |Φ_k| at q.
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
    mechanism: Kept | None

    def __repr__(self) -> str:
        shape = np.shape(self.q)
        parts = [*batch(shape[:-1]), f"{shape[-1]} coordinates" if shape else number("q", self.q)]
        return f"Assembly({'; '.join([*parts, number('residual', self.residual), statuses(self.status)])})"

    def explain_failure(self) -> Failures:
        """What failed, as text: `print(assembly.explain_failure())`; see `Failures`.

        Raises:
            ValueError: inside a transformation, where nothing is known yet.
        """
        q = self.q[..., None, :]
        return failures(self.t[..., None], q, q, q, self.status[..., None], self.mechanism)


def assemble(
    mech: Mechanism,
    guess: Coordinates | None = None,
    t: ArrayLike = 0.0,
    *,
    hold: Sequence[str] = (),
    throw: bool = False,
) -> Assembly:
    """Find q with Φ(q, t) = 0 close to a guess: minimise ‖q − guess‖² + r ΦᵀΦ for growing r, then Newton.

    The minimisation is Haug (3.6.9). Drivers count as constraints. Coordinates that the constraints leave free stay
    close to the guess; those in `hold` keep the values of the guess.

    `q` is a differentiable function of the numbers b of the mechanism and of t: dq = −Φ_q⁻¹ (Φ_b db + Φ_t dt). If
    coordinates are free and not held, dq is the change of smallest norm, and a change of the guess moves q along the
    free coordinates. This derivative is exact if the guess satisfies the constraints for every b. If the guess is
    rough, the free coordinates may settle elsewhere when b changes, and the derivative does not show this. Then hold as
    many coordinates as there are degrees of freedom.

    Args:
        mech: the mechanism.
        guess: a mapping of names to coordinates, or q (n,); see `Mechanism.coordinates`.
        t: time.
        hold: names of coordinates, "crank.phi", …, that keep the values of the guess.
        throw: raise `AnalysisError` where assembly fails, with the text of `explain_failure`; only outside jit, vmap
            and grad.

    Returns:
        `.q`, `.status` and `.residual`; see `Assembly`.

    Raises:
        ValueError: an unknown name in `hold`.

    Examples:
        >>> rough = {"crank": (0, 0, 1.5), "rod": (0, 1, -0.5), "slider": (1.7, 0, 0)}
        >>> assembly = mbs.assemble(mech, rough, t=jnp.pi / 2)
        >>> print(assembly.status, assembly.q[6].round(6))  # x of the slider: √3
        0 1.732051
    """
    near, at = _common(mech, guess, t)
    found = _assemble(mech, near, at, tuple(mech.layout.index(name) for name in hold))
    result = Assembly(*found, at, Kept(mech.geometry, ()))
    if throw:
        check_known(result)
        result.explain_failure().throw(f"assembly (residual {result.residual})")
    return result


def _common(mech, guess, t):
    """Guess and time in one floating-point type."""
    q = mech.coordinates(guess)
    t = as_times(t, q.dtype)
    dtype = jnp.result_type(q, t)
    return q.astype(dtype), t.astype(dtype)


@eqx.filter_jit
def _assemble(mech: Mechanism, guess, t, held: tuple[int, ...] = ()) -> tuple[Array, Array, Array]:
    q, status, residual = Straight(_search(held))(*jax.lax.stop_gradient((mech, guess, t)))
    assembled = status == Status.CONVERGED
    phi, still, _ = frozen(mech, guess, t, held)
    if mech.layout.m > len(mech.layout.row_owners) + len(held):
        q = _move_with_guess(still, mech.layout, q, guess, t, assembled)
    q = differentiable_root(phi, mech.layout, q, jnp.where(jnp.isfinite(t), t, 0), assembled) + (
        q - jax.lax.stop_gradient(q)
    )
    return q, status, residual


@cache
def _search(held: tuple[int, ...]) -> Callable:
    """The assembly without its derivatives, a function of (mech, guess, t): q, status and max |Φ|."""

    def search(mech: Mechanism, guess, t):
        guess_or_zero = jnp.where(jnp.isfinite(guess), guess, 0)
        _, phi, usable = frozen(mech, guess_or_zero, t, held)
        root = find_root(lambda q: phi(q, t), mech.layout, guess_or_zero)
        finite = usable & jnp.all(jnp.isfinite(guess)) & jnp.isfinite(t)
        residual = jnp.max(jnp.abs(phi(root.q, t)), initial=0)
        status = jnp.where(root.found, int(Status.CONVERGED), int(Status.NOT_ASSEMBLED))
        status = jnp.where(finite & jnp.isfinite(residual), status, int(Status.NON_FINITE))
        return root.q, status.astype(jnp.int32), residual

    return search


def _move_with_guess(still, space, q, guess, t, assembled):
    """q, with the derivative (I − Φ_q⁺ Φ_q) by the guess: the free coordinates follow it."""
    matrix = jacobian(still, space, q, jax.lax.stop_gradient(t))
    shift = jnp.where(assembled, space.difference(jax.lax.stop_gradient(guess), guess), 0)
    return q + space.rate(q, shift - factor(matrix).solve(matrix @ shift))


def frozen(mech: Mechanism, q, t, held: tuple[int, ...] = ()) -> tuple[Callable, Callable, Array]:
    """Φ as a differentiable function of (q, t), the same cut off from differentiation, and whether all numbers of the
    mechanism are finite. Numbers that are not are replaced by 1, so that they spoil neither values nor derivatives.
    The coordinates `held` add rows that keep them where they are in q.
    """
    mech, usable = finite(mech)
    places, kept = np.array(held, int), q

    def phi(q, t):
        rows = residuals(mech, q, t)
        return jnp.append(rows, q[places] - kept[places]) if held else rows

    # Functions inside motions and outlines may close over traced numbers as well: closure_convert finds those too.
    still, numbers = jax.closure_convert(phi, q, t)
    numbers = jax.lax.stop_gradient(numbers)
    return phi, lambda q, t: still(q, t, *numbers), usable
