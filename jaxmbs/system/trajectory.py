"""Trajectories: the motion of a mechanism at a row of times."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from jaxmbs.element import GROUND, AbstractBody, AbstractConstraint, unknown
from jaxmbs.numerics.arrays import is_concrete, with_fields
from jaxmbs.numerics.results import Status
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.relative_motion import JointMotion, coordinates_of, measure_joint, unwrap
from jaxmbs.system.broadcast_tree import BroadcastTree
from jaxmbs.system.equations import Energy
from jaxmbs.system.failure import Failures, failures
from jaxmbs.system.layout import Layout
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.summary import batch, elements, named, number, statuses


class Trajectory(eqx.Module):
    """Configurations, velocities and accelerations in time, with access by name.

    Arrays may have further leading axes: a batch made by `vmap` has one more axis in every array.

    Attributes:
        t: (T,), times.
        q: (T, n), configurations. If a sample has failed, q, v and a are the last good ones; at a bifurcation in
            `kinematics` (SINGULAR) q is right.
        v: (T, m), velocities.
        a: (T, m), accelerations, the rates of v.
        status: (T,); see `Status`.
        layout: names and indices of the coordinates.
        multipliers: (T, rows), λ with M v̇ = Q + Φ_qᵀλ, rows as in Φ. Those of drivers are the driving forces and
            torques. None if the motion was not computed from forces.
        energy: kinetic and potential, each (T,); None whenever the multipliers are.
        mechanism: the constraints and drivers of the mechanism, which `joint` needs.
        states: (T, k), the states of forces, such as currents of motors; None if no force has states.
        state_names: names of the states, "motor.current".

    Examples:
        >>> motion = mbs.kinematics(mech, jnp.array([0.0, jnp.pi / 2]), guess)
        >>> print(motion.position("slider.x").round(6), motion.velocity("slider.x").round(6))
        [3.       1.732051] [ 0. -1.]
        >>> print(motion.point("crank", (1.0, 0.0)).round(6))  # the pin A
        [[1. 0.]
         [0. 1.]]
    """

    t: Float[Array, "*T"]
    q: Float[Array, "*T n"]
    v: Float[Array, "*T m"]
    a: Float[Array, "*T m"]
    status: Int[Array, "*T"]
    layout: Layout = eqx.field(static=True)
    multipliers: Float[Array, "*T rows"] | None = None
    energy: Energy | None = None
    mechanism: BroadcastTree | None = None
    states: Float[Array, "*T k"] | None = None
    state_names: tuple[str, ...] = eqx.field(static=True, default=())

    # Modules make pytrees of their bound methods, and for that take themselves apart whenever one is called.
    __getattribute__ = object.__getattribute__

    def __repr__(self) -> str:
        shape = np.shape(self.t)
        times = f"{shape[-1]} times" if shape else number("t", self.t)
        if len(shape) == 1 and shape[0] and isinstance(self.t, (np.ndarray, jax.Array)) and is_concrete(self.t):
            times += f" from {float(self.t[0]):.6g} to {float(self.t[-1]):.6g}"
        parts = [*batch(shape[:-1]), times, *elements(self.layout), *named("states", self.state_names)]
        return f"Trajectory({'; '.join([*parts, statuses(self.status)])})"

    def of(self, mech: Mechanism) -> Trajectory:
        """Return the motion with its mechanism `mech`, which `joint` and `explain_failure` need."""
        return with_fields(Trajectory, self, mechanism=BroadcastTree(mech.geometry, jnp.shape(self.t)))

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the trajectory to a file that `mbs.load_trajectory` reads: `.npz`, arrays of NumPy, without pickle.

        The file has all arrays, names, energy and states, and the constraints and drivers as the document that
        `mbs.save` writes, with functions as scalar operations. If they cannot be written so, for example elements of your
        own types, they are left out, and a warning says why.

        Args:
            path: the file, which ends in `.npz`.

        Returns:
            The path.

        Raises:
            ValueError: another suffix, a body of your own type, or a call inside jit, vmap or grad.

        Examples:
            >>> run = mbs.simulate(pendulum, jnp.linspace(0, 1, 3), below, step=0.1)
            >>> mbs.load_trajectory(run.save("run.npz")).layout == run.layout
            True
        """
        # Files are in a higher layer of the package.
        return importlib.import_module("jaxmbs.io.trajectories").save_trajectory(self, path)

    def explain_failure(self) -> Failures:
        """Explain failures: `print(run.explain_failure())`, "nothing failed" if all is well; see `Failures`.

        The text has samples and times with their status, the largest gaps by name, singular values of Φ_q, and the
        nearest lock-up. The error of `throw=True` says the same.

        Returns:
            The failed samples with their reasons; false if nothing failed. See `Failures`.

        Raises:
            ValueError: a call inside jit, vmap or grad.
        """
        return failures(self.t, self.q, self.v, self.a, self.status, self.mechanism)

    def joint(self, name: str, coordinate: str | None = None) -> JointMotion:
        """Return the angle and slide of a joint over time, with their rates and accelerations, each (*batch, T).

        They are `run.joint("pin").angle`, `.rate`, `.acceleration`, `.slide`, `.slide_rate`, `.slide_acceleration`: those
        of body j relative to body i, positive along the joint's axis; zeros are those of `JointCoordinates`, see
        `JointMotion`. In the plane the coordinates themselves count turns. In space the angle is in (−π, π] at the first
        time. From one time to the next, the number of full turns is chosen so that the change of the angle comes nearest
        to the trapezoidal integral of its rate. So the times must be close enough for that prediction to be right to
        within half a turn.

        Args:
            name: name of the joint.
            coordinate: name of one of several angles or slides: "alpha" or "beta" of a universal joint, "x" or "y", …

        Returns:
            Angles in radians, slides as lengths, their rates and accelerations; see `JointMotion`. An angle or a slide that
            the joint does not have raises `ValueError` when it is read.

        Raises:
            ValueError: an unknown name, or a trajectory without its mechanism.
        """
        if self.mechanism is None:
            raise ValueError("this trajectory does not know its mechanism: use run.of(mech).joint(…)")
        mech = self.mechanism.structure
        of = coordinates_of({**mech.constraints, **mech.drivers}, name, coordinate)
        try:
            joint = self.mechanism.part(lambda mech: mech.constraints[name])
        except ValueError as error:
            raise ValueError(f"{of.joint}: {error}; use run.of(mech).joint(…)") from None
        element = joint.structure
        motions = [self._body_motion(body) for body in (element.i, element.j)]
        joint = joint.part(lambda joint: joint.anonymous())
        values, rates, accelerations = _joint_motion(joint, self.layout.bodies[0][1], *motions)
        if of.wraps and jnp.ndim(self.t) > 0:
            good = (self.status == Status.CONVERGED) | (self.status == Status.SINGULAR)
            slides = len(of.slides)
            angles = unwrap(values[..., slides:], rates[..., slides:], self.t, good)
            values = jnp.concatenate([values[..., :slides], angles], axis=-1)
        return JointMotion(of, values, rates, accelerations)

    def state(self, name: str) -> Float[Array, "*T"]:
        """Return a state of a force over time.

        Args:
            name: such as "motor.current".

        Returns:
            (T,), in the unit of the state.

        Raises:
            ValueError: an unknown name.
        """
        if self.states is None or name not in self.state_names:
            raise ValueError(unknown("state of a force", name, self.state_names))
        return self.states[..., self.state_names.index(name)]

    def _body_motion(self, name: str) -> tuple[Array, Array, Array]:
        """Return the coordinates, velocities and accelerations of a body, each (*T, …)."""
        if name == GROUND:
            kind = self.layout.bodies[0][1]
            at_rest = (kind.ground(self.q.dtype), *(jnp.zeros(len(kind.velocities), x.dtype) for x in (self.v, self.a)))
            x, v, a = (jnp.broadcast_to(x, (*jnp.shape(self.t), *x.shape)) for x in at_rest)
            return x, v, a
        own, own_v = self.layout.body_slices[name], self.layout.velocity_slices[name]
        return self.q[..., own], self.v[..., own_v], self.a[..., own_v]

    def point(self, body: str, s: ArrayLike | Sequence[float] | None = None) -> Float[Array, "*T d"]:
        """Return the positions (T, d) of the point `s` of a `body`, its origin unless given, in the ground frame."""
        return self._at_each_time(lambda q, v, a: self.layout.point(body, s, q))

    def point_velocity(self, body: str, s: ArrayLike | Sequence[float] | None = None) -> Float[Array, "*T d"]:
        """Return the velocities (T, d) of the point `s` of a `body`, its origin unless given, in the ground frame."""
        return self._at_each_time(lambda q, v, a: self._velocity(body, s, q, v))

    def point_acceleration(self, body: str, s: ArrayLike | Sequence[float] | None = None) -> Float[Array, "*T d"]:
        """Return the accelerations (T, d) of the point `s` of a `body`, its origin unless given, in the ground frame."""
        velocity = partial(self._velocity, body, s)
        return self._at_each_time(lambda q, v, a: jax.jvp(velocity, (q, v), (self.layout.rate(q, v), a))[1])

    def rotation(self, body: str) -> Float[Array, "*T d d"]:
        """Return the rotation matrices (T, d, d) of a `body`; their columns are the body's axes in the ground frame."""
        axes = np.eye(self.layout.dimension)
        matrix = lambda q: jnp.stack(
            [self.layout.pose(body, q).direction(jnp.asarray(e, q.dtype)) for e in axes], axis=1
        )
        return jnp.vectorize(matrix, signature="(n)->(d,d)")(self.q)

    def position(self, coordinate: str) -> Float[Array, "*T"]:
        """Return a `coordinate` by name, such as "crank.phi", (T,)."""
        return self.q[..., self.layout.index(coordinate)]

    def velocity(self, coordinate: str) -> Float[Array, "*T"]:
        """Return the rate of a `coordinate`, or another velocity by name, such as "rod.wx", (T,)."""
        return self.v[..., self.layout.velocity_index(coordinate)]

    def acceleration(self, coordinate: str) -> Float[Array, "*T"]:
        """Return the second derivative of a `coordinate`, or the rate of another velocity, (T,)."""
        return self.a[..., self.layout.velocity_index(coordinate)]

    def _velocity(self, body: str, s: ArrayLike | Sequence[float] | None, q: Array, v: Array) -> Array:
        """Return the velocity of the point s of a body in the ground frame."""
        return jax.jvp(partial(self.layout.point, body, s), (q,), (self.layout.rate(q, v),))[1]

    def _at_each_time(self, function: Callable[[Array, Array, Array], Array]) -> Array:
        """Return the values (T, d) of a function of (q, v, a) along the motion."""
        return jnp.vectorize(function, signature="(n),(k),(k)->(d)")(self.q, self.v, self.a)


# Compiled once for joints that are alike.
@eqx.filter_jit
def _joint_motion(joint: BroadcastTree, body_type: type[AbstractBody], *motions: tuple[Array, ...]) -> list[Array]:
    """Return the slides and angles of a joint, their rates and second rates, from the motions of its two bodies."""

    def at_one_time(element: AbstractConstraint, *motions: tuple[Array, ...]) -> list[Array]:
        """Return the slides and angles, their rates and second rates at one time."""
        return ProgramWithFallback(lambda element, i, j: measure_joint(element, body_type, i, j), runs="once")(
            element, *motions
        )

    return joint.vmap(at_one_time)(*motions)
