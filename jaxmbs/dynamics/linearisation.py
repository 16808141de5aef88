"""Linear equations of motion about a state: ẋ = A x + B u, y = C x + D u, in minimal coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Complex, Float, Int

from jaxmbs.dynamics.linear_inputs import inputs_of, with_inputs
from jaxmbs.dynamics.local_motion import Choice, LocalMotion, Start, start_of
from jaxmbs.dynamics.quantities import AXES, MotionWithReactions, quantity
from jaxmbs.element import require, require_name
from jaxmbs.formulations.augmented import AbstractFormulation
from jaxmbs.formulations.stateful import state_names, with_states
from jaxmbs.numerics.arrays import is_concrete
from jaxmbs.numerics.results import Status
from jaxmbs.system.equations import energy
from jaxmbs.system.mechanism import Coordinates, Mechanism, Velocities
from jaxmbs.system.summary import batch, named, statuses
from jaxmbs.system.trajectory import Trajectory

# A name as for `quantity`, or a body and a point of it: ("coupler", (x, y)).
Output = str | tuple[str, Sequence[float] | Array]


class Linearisation(eqx.Module):
    """Linear equations ẋ = A x + B u, y = C x + D u for small changes about a state.

    x are the displacements of the independent coordinates, the changes of their rates, those of states of forces, and, for
    each driver among the inputs, the changes of its motion C and of Ċ.

    Attributes:
        A: (states, states).
        B: (states, inputs).
        C: (outputs, states).
        D: (outputs, inputs).
        output: (outputs,), outputs in this state; y is the deviation from it.
        rate: (states,), ẋ in this state: zeros for the displacements, then the accelerations of the independent
            coordinates and the rates of states. Zero in an equilibrium.
        q: (n,), the configuration.
        v: (m,), the velocities.
        t: time.
        status: CONVERGED; NOT_ASSEMBLED; NON_FINITE; SINGULAR if the coordinates are not independent, or not as many as
            the degrees of freedom, or if masses do not determine the accelerations. Unless it is CONVERGED, the matrices
            are NaN.
        coordinates: names of the independent coordinates, "pin.phi".
        state_names: names of x: "pin.phi", …, "velocity.pin.phi", …, "motor.current", ….
        input_names: names of u.
        output_names: names of y.

    Examples:
        >>> linear = mbs.linearise(pendulum, below)
        >>> print(linear.state_names, linear.A.round(3).tolist())  # g / l = 9.81
        ('pin.phi', 'velocity.pin.phi') [[0.0, 1.0], [-9.81, 0.0]]
    """

    A: Float[Array, "*batch states states"]
    B: Float[Array, "*batch states inputs"]
    C: Float[Array, "*batch outputs states"]
    D: Float[Array, "*batch outputs inputs"]
    output: Float[Array, "*batch outputs"]
    rate: Float[Array, "*batch states"]
    q: Float[Array, "*batch n"]
    v: Float[Array, "*batch m"]
    t: Float[Array, "*batch"]
    status: Int[Array, "*batch"]
    coordinates: tuple[str, ...] = eqx.field(static=True)
    state_names: tuple[str, ...] = eqx.field(static=True)
    input_names: tuple[str, ...] = eqx.field(static=True)
    output_names: tuple[str, ...] = eqx.field(static=True)

    def __repr__(self) -> str:
        names = (("states", self.state_names), ("inputs", self.input_names), ("outputs", self.output_names))
        parts = [*batch(np.shape(self.A)[:-2]), *(text for kind, given in names for text in named(kind, given))]
        return f"Linearisation({'; '.join([*parts, statuses(self.status)])})"

    def transfer(self, s: ArrayLike) -> Complex[Array, "*s outputs inputs"]:
        """Return the transfer function C (s I − A)⁻¹ B + D.

        Args:
            s: complex numbers of any shape, per unit of time; 1j * omega for a harmonic input. At poles, such as s = 0 with
                a driver as input, the result is not finite.

        Returns:
            The shape of s, then the axes of a batch, then (outputs, inputs).

        Examples:
            >>> pushed = mbs.Mechanism(pendulum.bodies, pendulum.constraints, forces={"push": mbs.Torque("bob", 0.0)})
            >>> linear = mbs.linearise(pushed, below, inputs=("push",), outputs=("bob.phi",))
            >>> print(linear.transfer(2j).round(6))  # 1 / (2 s²)
            [[-0.125+0.j]]
        """
        s = jnp.asarray(s).astype(jnp.result_type(self.A, jnp.complex64))
        unit = jnp.eye(self.A.shape[-1], dtype=s.dtype)
        one = lambda s: self.C @ jnp.linalg.solve(s * unit - self.A, self.B.astype(s.dtype)) + self.D
        return jax.vmap(one)(s.reshape(-1)).reshape(*s.shape, *self.D.shape)

    def to_scipy(self) -> Any:
        """Return the equations for SciPy's functions; needs SciPy.

        Returns:
            A `scipy.signal.StateSpace`.

        Examples:
            >>> print(mbs.linearise(pendulum, below, outputs=("bob.x",)).to_scipy().C)
            [[1. 0.]]
        """
        from scipy.signal import StateSpace

        return StateSpace(*(np.asarray(x) for x in (self.A, self.B, self.C, self.D)))


def linearise(
    mech: Mechanism,
    q: Coordinates | Trajectory | None = None,
    v: Velocities | None = None,
    t: ArrayLike = 0.0,
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[Output] = (),
    coordinates: Sequence[str] | None = None,
    formulation: AbstractFormulation | None = None,
) -> Linearisation:
    """Return the linear equations of small motions about a state, in minimal coordinates.

    Without v the mechanism is at rest, and motions of drivers and forces are held at their values at t. With v the drivers
    keep moving. About a steady motion A does not depend on time in joint coordinates; about any other motion it is the
    matrix at the time t.

    A and B are exact derivatives of the equations of motion, with all forces, constraints and gyroscopic terms. They are
    differentiable, and work under `jit` and `vmap` if `coordinates` are given.

    Inputs are changes of arguments of forces that may be functions of the state: the value of a `Torque` or `PointForce`,
    the voltage of a `Motor`, the target of a `Servo`, the control of an `Actuator`. A vector has an input for each entry:
    "push.x", "push.y"; "push" stands for all. A driver as input is the acceleration C̈ of its motion, and the changes of C
    and Ċ are further states: so C and D stay finite. The transfer function from the motion C itself is s² times
    that from C̈.

    Outputs are quantities by name, as in sweeps and reports: "rod.x", "velocity.rod.x", "acceleration.rod.x",
    "point(rod,0.3,0).x", "pin.phi" of a joint, "B.force.x" of a reaction in the ground frame, "motor.effort",
    "motor.current", "energy.potential"; or a point of a body, ("rod", (0.3, 0)), with all of its coordinates.

    Args:
        mech: the mechanism.
        q: configuration, as for `simulate`; known numbers are assembled first, traced ones have to be assembled already.
            Or one time of a motion, which gives v, t and states of forces as well: `jax.tree.map(lambda x: x[k], run)`.
        v: velocities, as for `Mechanism.velocities`; the constraints correct them. None: at rest.
        t: time.
        inputs: names of forces and drivers, or of one entry of a vector, "push.x".
        outputs: names of quantities, and points.
        coordinates: names of independent velocities of the formulation, "pin.phi"; by default those that make the basis
            well-conditioned.
        formulation: chooses the coordinates; `JointCoordinates()` by default.

    Returns:
        The matrices with names; see `Linearisation`.

    Raises:
        ValueError: an unknown name; coordinates that are not independent, or whose number is not that of the degrees of
            freedom; no degree of freedom; traced numbers without `coordinates`.

    Examples:
        >>> push = mbs.PointForce("bob", (0, 0), (0, 0))
        >>> pushed = mbs.Mechanism(pendulum.bodies, pendulum.constraints, forces={"push": push})
        >>> linear = mbs.linearise(pushed, below, inputs=("push.x",), outputs=("bob.x", ("bob", (0, 1)), "pin.force.x"))
        >>> print(linear.B.round(6).tolist(), linear.output_names[1:3])
        [[0.0], [0.5]] ('point(bob,0,1).x', 'point(bob,0,1).y')
        >>> print(linear.D.round(6).tolist())  # the bob is a point mass: nothing of the push reaches the pin
        [[0.0], [0.0], [0.0], [0.0]]
    """
    start = start_of(mech, q, v, t, formulation)
    names = start.velocity_names
    independent = _independent(start, coordinates, names)
    given_inputs = inputs_of(start.mech, inputs, start.q, start.t)
    choice = Choice(start.formulation, len(independent), independent, given_inputs)
    outputs = tuple(output if isinstance(output, str) else tuple(output) for output in outputs)
    output_names = tuple(name for output in outputs for name in _output_names(start.mech, output))
    local = start.local_motion(choice)
    if coordinates is not None and is_concrete(local.status) and local.status == Status.SINGULAR:
        free = start.independent()
        possible = ", ".join(names[k] for k in free)
        raise ValueError(
            f"coordinates {', '.join(coordinates)} are not independent, not {len(free)} as the degrees of freedom are, or "
            f"masses do not determine their motion; independent are, for example, {possible}"
        )
    chosen, moved = tuple(names[k] for k in independent), tuple(one.owner for one in choice.driver_inputs)
    rates = lambda names: tuple(f"velocity.{name}" for name in names)
    states = (*chosen, *rates(chosen), *state_names(start.mech), *moved, *rates(moved))
    output, by = _output_derivatives(start.mech, choice, start.t, local, outputs)
    cut = len(states)
    matrices = (
        local.rate_derivatives[:, :cut],
        local.rate_derivatives[:, cut:],
        by[:, :cut],
        by[:, cut:],
        output,
        local.rate,
    )
    a, b, c, d, output, rate = (jnp.where(local.status == Status.CONVERGED, x, jnp.nan) for x in matrices)
    return Linearisation(
        A=a,
        B=b,
        C=c,
        D=d,
        output=output,
        rate=rate,
        q=local.motion[0],
        v=local.motion[1],
        t=start.t,
        status=local.status,
        coordinates=chosen,
        state_names=states,
        input_names=tuple(one.name for one in given_inputs),
        output_names=output_names,
    )


def _independent(start: Start, coordinates: Sequence[str] | None, names: Sequence[str]) -> tuple[int, ...]:
    """Return the indices of the independent velocities: those named, or chosen ones.

    Raises:
        ValueError: an unknown name; traced numbers without names; no degree of freedom.
    """
    require(not isinstance(coordinates, str), f"coordinates must be a tuple of names, such as ({coordinates!r},)")
    if coordinates is None:
        if not start.is_known:
            possible = ", ".join(names)
            raise ValueError(
                "the coordinates cannot be chosen inside jit, vmap or grad: give coordinates=(…) with independent ones of "
                f"{possible}"
            )
        return start.independent()
    for name in coordinates:
        require_name("coordinate", name, names)
    return tuple(names.index(name) for name in coordinates)


def _output_names(mech: Mechanism, output: Output) -> list[str]:
    """Return the name of an output, or the names of the coordinates of a point. An unknown one raises `ValueError`."""
    if isinstance(output, str):
        quantity(mech, output)
        return [output]
    body, point = output
    mech.layout.point(body, point, mech.coordinates())
    place = ",".join(f"{float(x):g}" if is_concrete(x) else "…" for x in point)
    return [f"point({body},{place}).{axis}" for axis in AXES[: mech.layout.dimension]]


@eqx.filter_jit
def _output_derivatives(mech: Mechanism, choice: Choice, t, local: LocalMotion, outputs) -> tuple[Array, Array]:
    """Return the outputs (outputs,) and their derivatives (outputs, p) by p of `LocalMotion`."""
    size, drivers = local.rate_derivatives.shape[1], len(choice.driver_inputs)
    if not outputs:
        return jnp.zeros(0, t.dtype), jnp.zeros((0, size), t.dtype)

    def values(motion, motions, speeds, inputs):
        """Return the outputs for (q, v, a, z), motions of drivers and their rates, and inputs."""
        moved = with_inputs(mech, choice.inputs, t, motions, speeds, inputs)
        q, v, a, states = jax.tree.map(lambda x: x[None], motion)
        energies = energy(mech if states is None else with_states(mech, states[0]), q[0], v[0])
        energies = jax.tree.map(lambda x: x[None], energies)
        status, names = jnp.zeros(1, jnp.int32), state_names(mech) if states is not None else ()
        run = Trajectory(t[None], q, v, a, status, mech.layout, None, energies, None, states, names).of(moved)
        given = MotionWithReactions(moved, run)
        found = [quantity(moved, x)(given) if isinstance(x, str) else run.point(*x) for x in outputs]
        return jnp.concatenate([x.reshape(-1) for x in found])

    begin = size - 2 * drivers - len(choice.inputs)
    still = jnp.zeros(size - begin, t.dtype)
    parts = lambda x: jnp.split(x, [drivers, 2 * drivers])
    given = (local.motion, *parts(still))
    own = jnp.eye(size, dtype=t.dtype)[begin:]
    column = lambda changes, own: jax.jvp(values, given, (changes, *parts(own)))[1]
    return values(*given), jax.vmap(column, in_axes=-1, out_axes=-1)(local.motion_derivatives, own)
