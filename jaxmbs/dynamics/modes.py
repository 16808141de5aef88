"""Natural frequencies, damping and shapes of small motions about a configuration."""

from __future__ import annotations

import importlib
from os import PathLike
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Complex, Float, Int

from jaxmbs.analyses.assembly import assembled_configuration
from jaxmbs.dynamics.local_motion import Choice, local_motion, start_of
from jaxmbs.formulations.augmented import AbstractFormulation
from jaxmbs.numerics.eigen import general_eigen, symmetric_eigen
from jaxmbs.numerics.results import Status
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.broadcast_tree import BroadcastTree
from jaxmbs.system.mechanism import Coordinates, Mechanism, Velocities
from jaxmbs.system.summary import batch, statuses
from jaxmbs.system.trajectory import Trajectory

# Largest displacement in a film of a mode: an angle in radians, or a length relative to the size of the mechanism.
FILM_AMPLITUDE = 0.15


class Modes(eqx.Module):
    """Modes of small motions about a configuration, in order of their frequencies.

    There are as many modes as degrees of freedom and states of forces; with `damped=False` as many as degrees of freedom.
    An oscillating mode is listed by its eigenvalue with a positive imaginary part, any other one by a real eigenvalue. If
    states of forces oscillate among themselves, partners of pairs fill the end of the list.

    Attributes:
        frequencies: (modes,), |λ| / 2π, in Hz if the unit of time is the second; ascending. The frequency of the damped
            oscillation is `eigenvalues.imag / 2π`.
        damping: (modes,), ζ = −Re λ / |λ|: 1 for a decay, −1 for a growth without oscillation, between them for an
            oscillation. Where nothing holds a motion, λ is zero to rounding, and ζ means nothing.
        eigenvalues: (values,), λ of the modes, then all others: partners of complex pairs, and second real eigenvalues of
            modes with ζ ≥ 1. With `damped=False` only those of the modes.
        shapes: (modes, m), velocities of the bodies, in the order of `Mechanism.velocities`; complex unless
            `damped=False`. They have unit modal mass, φᴴMφ = 1, and their entry of largest modulus is real and positive.
        q: (n,), the configuration.
        accelerations: (m,), those of the bodies in this state; zero in an equilibrium.
        t: time.
        status: CONVERGED; NOT_ASSEMBLED; NON_FINITE; SINGULAR if the number of degrees of freedom is not that of the
            modes, or the masses do not determine the motion. Modes of other statuses than CONVERGED are NaN.
        mechanism: the mechanism, which `animate` needs.

    Examples:
        >>> modes = mbs.modes(pendulum, below)
        >>> print(modes.frequencies.round(4), modes.shapes.real.round(4))  # √9.81 / 2π; 1 / √2
        [0.4985] [[0.7071 0.     0.7071]]
    """

    frequencies: Float[Array, "*batch modes"]
    damping: Float[Array, "*batch modes"]
    eigenvalues: Complex[Array, "*batch values"]
    shapes: Float[Array, "*batch modes m"] | Complex[Array, "*batch modes m"]
    q: Float[Array, "*batch n"]
    accelerations: Float[Array, "*batch m"]
    t: Float[Array, "*batch"]
    status: Int[Array, "*batch"]
    mechanism: BroadcastTree

    def __repr__(self) -> str:
        shape = np.shape(self.frequencies)
        return f"Modes({'; '.join([*batch(shape[:-1]), f'{shape[-1]} modes', statuses(self.status)])})"

    def animate(
        self,
        k: int,
        path: str | PathLike[str] | None = None,
        *,
        amplitude: float = FILM_AMPLITUDE,
        frames: int = 40,
        **options: Any,
    ) -> Any:
        """Write one period of a mode as a moving picture; see `mbs.viz.animate`.

        Each frame is a displacement along the shape, with closed joints. Decay or growth is not shown.

        Args:
            k: index of the mode.
            path: the file, or None for an object that notebooks show.
            amplitude: largest displacement, relative to the size of the mechanism, or angle in radians.
            frames: number of frames.
            **options: those of `mbs.viz.animate`.

        Returns:
            The result of `mbs.viz.animate`.

        Raises:
            ValueError: no such mode, a batch of modes, a bad status, or a call inside jit, vmap or grad.

        Examples:
            >>> mbs.modes(pendulum, below).animate(0, "mode.html", frames=8).name
            'mode.html'
        """
        if not 0 <= k < np.shape(self.frequencies)[-1]:
            raise ValueError(f"there are {np.shape(self.frequencies)[-1]} modes, numbered from 0; got {k}")
        if np.ndim(self.frequencies) != 1:
            raise ValueError("animate shows one mode; pick one of the batch: jax.tree.map(lambda x: x[k], modes)")
        mech = self.mechanism.at_index(())
        if mech is None or self.status != Status.CONVERGED:
            raise ValueError(f"there is no mode to show; {statuses(self.status)}")
        layout, size = mech.layout, mech.size(self.q)
        angles = np.linspace(0, 2 * np.pi, frames, endpoint=False)
        shape = np.asarray(self.shapes[k])
        largest = np.max(np.abs(shape) / np.where(layout.angular, 1, size))
        moves = np.real(np.exp(1j * angles)[:, None] * shape) * amplitude / largest
        q, status = _closed_configurations(mech, self.q, jnp.asarray(moves, self.q.dtype), self.t)
        rate = 2 * np.pi * float(self.frequencies[k])
        still = jnp.zeros((frames, layout.m), self.q.dtype)
        times = jnp.asarray(angles / (rate if rate > 0 else 1))
        run = Trajectory(times, q, still, still, status, layout)
        # Pictures are in a higher layer of the package.
        return importlib.import_module("jaxmbs.viz").animate(mech, run, path, **options)


def modes(
    mech: Mechanism,
    q: Coordinates | Trajectory | None = None,
    t: ArrayLike = 0.0,
    *,
    v: Velocities | None = None,
    damped: bool = True,
    count: int | None = None,
    formulation: AbstractFormulation | None = None,
) -> Modes:
    """Return natural frequencies, damping and shapes of small motions about an equilibrium or a steady motion.

    They are the eigenvalues and eigenvectors of `linearise`: constraint forces, gyroscopic forces and forces without a
    potential are included. If the configuration is no equilibrium, `accelerations` are not zero, and the modes are those
    of the linear terms alone, which depend on the coordinates.

    With `damped=False` forces are evaluated at zero velocity, states of forces have their initial values, damping is left
    out, and the stiffness is replaced by its symmetric part: the modes of K φ = ω² M φ. It takes less time in batches and
    runs on GPUs; eigenvalues of unsymmetric matrices need a CPU.

    All results are differentiable. Derivatives are right for simple eigenvalues, also
    where others coincide.

    Args:
        mech: the mechanism.
        q: configuration, as for `simulate`; known numbers are assembled first, traced ones have to be assembled already.
            Or one time of a motion, as for `linearise`.
        t: time. The motions of drivers are held at their values at t, unless v is given.
        v: velocities of a steady motion, as for `linearise`; at rest unless given.
        damped: False for undamped modes.
        count: number of degrees of freedom. It is found if all numbers are known. Inside jit, vmap and grad it is by
            default the number of velocities of the formulation less that of its constraints, which is too small if some
            of them are redundant.
        formulation: chooses the coordinates; `JointCoordinates()` by default.

    Returns:
        Frequencies, damping, eigenvalues, shapes, and a status; see `Modes`.

    Raises:
        ValueError: an unknown name; no degree of freedom; v together with `damped=False`.

    Examples:
        >>> damper = mbs.TorsionDamper("ground", "bob", 4 * 9.81**0.5 * 0.2)
        >>> damped = mbs.Mechanism(pendulum.bodies, pendulum.constraints, forces={**pendulum.forces, "damper": damper})
        >>> print(mbs.modes(damped, below).damping.round(6))
        [0.2]

        Derivatives for a batch of pendulums with springs:

        >>> def frequency(stiffness):
        ...     spring = mbs.TorsionSpring("ground", "bob", stiffness)
        ...     held = mbs.Mechanism(pendulum.bodies, pendulum.constraints, forces={**pendulum.forces, "spring": spring})
        ...     return mbs.modes(held, below).frequencies[0]
        >>> print(jax.vmap(jax.grad(frequency))(jnp.array([0.0, 10.0])).round(5))
        [0.0127  0.01034]
    """
    start = start_of(mech, q, v, t, formulation)
    if start.v is not None and not damped:
        raise ValueError("damped=False needs a mechanism at rest: leave out velocities, or damped=False")
    if count is None:
        count = len(start.independent()) if start.is_known else start.grubler_count
    if count < 1:
        raise ValueError("the mechanism has no degree of freedom: constraints and drivers determine its motion")
    program = ProgramWithFallback.of(_reduced_equations, Choice(start.formulation, count), damped)
    local = program(start.mech, start.q, start.v, start.t, start.states)
    frequencies, damping, values, shapes, status = _modes(local, start.status, count, damped)
    return Modes(
        frequencies=frequencies,
        damping=damping,
        eigenvalues=values,
        shapes=shapes,
        q=start.q,
        accelerations=local.accelerations,
        t=start.t,
        status=status,
        mechanism=BroadcastTree(start.mech, ()),
    )


class ReducedEquations(NamedTuple):
    """Equations of small motions in independent coordinates y.

    Attributes:
        matrix: A; for undamped modes −M⁻¹K, with K not symmetrised.
        mass: (count, count), M.
        to_bodies: (m, count), matrix that maps ẏ to velocities of the bodies.
        accelerations: (m,), v̇ of the bodies.
        status: see `Modes`.
    """

    matrix: Float[Array, "states states"]
    mass: Float[Array, "count count"]
    to_bodies: Float[Array, "m count"]
    accelerations: Float[Array, " m"]
    status: Int[Array, ""]


def _reduced_equations(choice: Choice, damped: bool, mech: Mechanism, q, v, t, states) -> ReducedEquations:
    """Return the `ReducedEquations` in a state of the bodies; array code of one sample."""
    local, count = local_motion(choice, mech, q, v, t, states), choice.freedom
    matrix = local.rate_derivatives if damped else local.rate_derivatives[count : 2 * count, :count]
    _, v_changes, _, _ = local.motion_derivatives
    return ReducedEquations(matrix, local.mass, v_changes[:, count : 2 * count], local.motion[2], local.status)


@eqx.filter_jit
def _modes(local: ReducedEquations, start_status, count: int, damped: bool) -> tuple[Array, ...]:
    """Return frequencies, damping, eigenvalues, shapes and the status of `Modes`."""
    matrix, mass, to_bodies, _, status = local
    status = jnp.where(start_status == Status.CONVERGED, status, start_status)
    good, unit = status == Status.CONVERGED, jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    matrix, mass = jnp.where(good, matrix, -unit), jnp.where(good, mass, jnp.eye(count, dtype=mass.dtype))
    root = jnp.linalg.cholesky(mass) if count > 1 else _safe_sqrt(mass)
    good = good & jnp.all(jnp.isfinite(root)) & jnp.all(jnp.diagonal(root) > 0)
    status = jnp.where((status == Status.CONVERGED) & ~good, int(Status.SINGULAR), status)
    root = jnp.where(good, root, jnp.eye(count, dtype=mass.dtype))
    values, vectors = (_damped_eigenpairs if damped else _undamped_eigenpairs)(matrix, mass, root, count)
    shapes = vectors.T @ jnp.where(good, to_bodies, 1).T.astype(vectors.dtype)
    # The largest entry, which defines the phase, is positive.
    largest = jnp.take_along_axis(shapes, jnp.argmax(jnp.abs(shapes), axis=1)[:, None], axis=1)
    shapes = shapes * jnp.conj(largest) / _nonzero(_modulus(largest))
    size, kept = _modulus(values), slice(0, shapes.shape[0])
    found = size[kept] / (2 * np.pi), (-values.real / _nonzero(size))[kept], values, shapes
    return *(jnp.where(good, x, jnp.nan) for x in found), status


@eqx.filter_jit
def _closed_configurations(mech: Mechanism, q, moves, t) -> tuple[Array, Array]:
    """Return configurations (T, n) with closed joints near q displaced by the rows of `moves` (T, m), and their status."""
    displaced = jax.vmap(lambda d: mech.layout.retract(q, d))(moves)
    return jax.vmap(lambda q: assembled_configuration(mech, q, t, (), DEFAULT_TOLERANCE)[:2])(displaced)


def _undamped_eigenpairs(matrix, mass, root, count: int) -> tuple[Array, Array]:
    """Return λ (count,) and vectors y (count, count) as columns with yᵀM y = 1, for ÿ = `matrix` y; M = `root` `root`ᵀ."""
    if count == 1:
        squares, vectors = -matrix[0], 1 / root
    else:
        stiffness = -mass @ matrix
        lower = lambda x: jax.scipy.linalg.solve_triangular(root, x, lower=True)
        reduced = lower(lower((stiffness + stiffness.T) / 2).T)
        squares, vectors = symmetric_eigen((reduced + reduced.T) / 2)
        vectors = jax.scipy.linalg.solve_triangular(root.T, vectors, lower=False)
    size = _safe_sqrt(jnp.abs(squares))
    values = jnp.where(squares < 0, size + 0j, 1j * size)
    order = jnp.argsort(size)
    return values[order], vectors[:, order]


def _damped_eigenpairs(matrix, mass, root, count: int) -> tuple[Array, Array]:
    """Return λ of the whole `matrix`, and the vectors y of the modes as columns (count, modes) with yᴴM y = 1."""
    if matrix.shape[0] == 2:
        half, product = jnp.trace(matrix) / 2, matrix[0, 0] * matrix[1, 1] - matrix[0, 1] * matrix[1, 0]
        square = half**2 - product
        size = _safe_sqrt(jnp.abs(square))
        # Of two real roots the larger one is computed without cancellation, and the other one from their product.
        far = half + jnp.where(half < 0, -size, size)
        near = product / _nonzero(far)
        pair = jnp.stack([half + 1j * size, half - 1j * size])
        values = jnp.where(square < 0, pair, jnp.stack([near, far]) + 0j)
        vectors = jnp.ones((1, 2), values.dtype)
    else:
        values, _, vectors = general_eigen(matrix)
        vectors = vectors[:count]
    order = _order(jax.lax.stop_gradient(values), count)
    vectors = vectors[:, order][:, : matrix.shape[0] - count]
    scaled = root.T.astype(vectors.dtype) @ vectors
    modal = jnp.sum(scaled.real**2 + scaled.imag**2, axis=0)
    return values[order], vectors / _nonzero(_safe_sqrt(modal))[None, :]


def _order(values: Complex[Array, " values"], count: int) -> Int[Array, " values"]:
    """Return the indices that sort eigenvalues by modulus: first one for each mode, then all others.

    The others are conjugates, and so many real values that `count` of all values are others: the fastest decays.
    """
    by_size = jnp.argsort(jnp.abs(values))
    values = values[by_size]
    real = values.imag == 0
    surplus = count - jnp.sum(values.imag > 0)
    rank = jnp.argsort(jnp.argsort(jnp.where(real, values.real, jnp.inf)))
    others = (values.imag < 0) | (real & (rank < surplus))
    return by_size[jnp.argsort(others, stable=True)]


def _modulus(values: Array) -> Array:
    """Return |λ|, with a derivative of zero at zero."""
    return _safe_sqrt(values.real**2 + values.imag**2)


def _safe_sqrt(x: Array) -> Array:
    """Return √x, with a derivative of zero at zero."""
    return jnp.where(x == 0, 0, jnp.sqrt(jnp.where(x == 0, 1, x)))


def _nonzero(x: Array) -> Array:
    """Return x with 1 in place of zeros."""
    return jnp.where(x == 0, 1, x)
