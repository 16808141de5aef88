"""Kane's equations in relative coordinates, after Kamman.

Kamman, Multibody Dynamics: Equations of Motion for Multibody Systems with Inter-Body Joint Constraints.

Every body K moves on its lower body with six coordinates, as if there were no joint: orientation angles 1-2-3, and the
translation of its own point of the joint from the lower body's, along the axes of the lower body, or of the joint frame
there if the joint has one. In the plane there are three. Joints make some of them zero, or prescribe them in time. The
equations of unknown coordinates give the motion, those of known ones the forces and torques that hold or drive them.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from jaxmbs.element import unknown
from jaxmbs.formulations.augmented import AbstractFormulation, CartesianEquations
from jaxmbs.formulations.joint import space as spaces
from jaxmbs.formulations.joint.forms import BY_ANGLES, FREE, FREE_BY_ANGLES, OWN, Form, forms_with_drivers, turning_at
from jaxmbs.formulations.joint.joint_coordinates import JointEquations, JointUnknowns, tuple_of_names
from jaxmbs.formulations.view import check_entries, mass_and_force
from jaxmbs.numerics import rotation
from jaxmbs.numerics.repeated import vmap_axes
from jaxmbs.numerics.results import Status
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.topology import Names, Tree, spanning_tree
from jaxmbs.system.trajectory import Trajectory


class Kane(AbstractFormulation):
    """Kane's equations for the unknown relative speeds y: [A]{ẏ} = {f}; Kamman (2) to (12).

    Rows and columns of coordinates that joints hold or drivers prescribe are left out. The prescribed components of a
    `TotalJoint` or `RelativeJoint` are known coordinates. The same holds for a coordinate of a tree joint if a driver
    prescribes it independently of the other coordinates. If all joints of a mechanism are driven, there is nothing to
    integrate, and the driving torques are those of inverse dynamics. All other equations (of joints that close loops,
    of other drivers, of gears and distances) are constraint rows with multipliers, (6) and (7). The forces and torques
    that hold known coordinates follow from the equations of the bodies further out in the tree, without a further
    system of equations.

    Args:
        base: see `topology.spanning_tree`.
        cut: names of joints to cut.
        angles: names of spherical and free joints, and of bodies that no joint holds, whose rotation is to be described
            by orientation angles 1-2-3, with their rates as speeds. These angles are singular if cos θ₂ = 0; the status
            is then SINGULAR. Joints with an axis raise `ValueError`.
        euler_parameters: names of joints to be described by Euler parameters, with the relative angular velocity as
            speeds. Spherical and free joints have them without being named. Any other joint that is named here keeps
            all its six coordinates, and its equations are constraint rows. In the plane there are none.

    Examples:
        >>> start = {"bob": (1, 0, jnp.pi / 2)}
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.5]), start, step=0.01, formulation=mbs.Kane())
        >>> print(run.position("bob.phi").round(3))
        [1.571 0.402]
    """

    base: str | tuple[str, ...] | None = eqx.field(static=True, default=None)
    cut: tuple[str, ...] = eqx.field(static=True, default=(), converter=tuple_of_names)
    angles: tuple[str, ...] = eqx.field(static=True, default=(), converter=tuple_of_names, kw_only=True)
    euler_parameters: tuple[str, ...] = eqx.field(static=True, default=(), converter=tuple_of_names, kw_only=True)

    def equations(self, mech):
        """Return the equations in the unknown relative coordinates of the tree."""
        tree = spanning_tree(mech, base=self.base, cut=self.cut)
        kinds = self._kinds(mech, tree)
        space = spaces.space_of(mech, tree, any_angle=True, forms=forms_with_drivers(mech, tree, kinds))
        return JointEquations(spaces.joint_tree(mech, space))

    def unknowns(self, mech):
        """Return the 6N relative coordinates, 3N in the plane, in Kamman's order."""
        return _unknowns(mech, self.base, self.cut)

    def _kinds(self, mech: Mechanism, tree: Tree) -> list[str]:
        """Return the kind of `Form` for the joint of each body."""
        names = [body if joint is None else joint for body, joint in zip(tree.bodies, tree.joints, strict=True)]
        for name in (*self.angles, *self.euler_parameters):
            if name not in names:
                raise ValueError(f"Kane: {unknown('joint of the tree', name, names)}")
            if name in self.angles and name in self.euler_parameters:
                raise ValueError(f"Kane: {name!r} cannot have angles and Euler parameters at once")
        kinds = []
        for k, name in enumerate(names):
            turning = turning_at(mech, tree, k)
            if name in self.angles:
                if turning is None or not turning.replaceable:
                    raise ValueError(f"Kane: {name!r} has no Euler parameters for which angles could stand")
                kinds.append(BY_ANGLES)
            elif name in self.euler_parameters:
                if mech.layout.bodies[0][1].dimension == 2:
                    raise ValueError(f"Kane: {name!r} lies in the plane, which has no Euler parameters")
                kinds.append(OWN if turning is not None and turning.replaceable else FREE)
            else:
                kinds.append(OWN)
        return kinds


class PartialVelocities(NamedTuple):
    """Matrices of a body whose columns belong to the speeds y; velocities are those in the ground frame.

    Attributes:
        velocity: (3, 6N), of the mass centre, in the frame of the body.
        velocity_rate: its derivative by time.
        angular_velocity: (3, 6N), in the plane (1, 3N), in the frame of the body.
        angular_velocity_rate: its derivative by time.
    """

    velocity: Float[Array, "d m"]
    velocity_rate: Float[Array, "d m"]
    angular_velocity: Float[Array, "s m"]
    angular_velocity_rate: Float[Array, "s m"]


def kane_matrices(
    mech: Mechanism, x: ArrayLike, y: ArrayLike, t: ArrayLike = 0.0, *, base: Names | None = None, cut: Names = ()
) -> tuple[Array, Array]:
    """Return [A] (6N, 6N) and {f} (6N,) of the system without its joints, [A]{ẏ} = {f}; Kamman (2) to (4).

    They are `mass_matrix` and `force` of `Kane(base=base, cut=cut).of(mech)`, computed together. {f} contains the forces
    and torques of the mechanism and all terms that depend on velocities, but no forces of joints and drivers.

    Args:
        mech: the mechanism.
        x: coordinates (6N,), in the plane (3N,), in the order of the names of `Kane().of(mech)`.
        y: speeds, in the same order.
        t: time.
        base: see `topology.spanning_tree`.
        cut: names of joints to cut.

    Returns:
        [A] (6N, 6N) and {f} (6N,); in the plane (3N, 3N) and (3N,).

    Raises:
        ValueError: x or y of a wrong shape, or a name in `base` or `cut` that cannot be used; see
            `topology.spanning_tree`.

    Examples:
        >>> a, f = mbs.kane_matrices(pendulum, jnp.array([jnp.pi / 2, 0, 0]), jnp.zeros(3))
        >>> print(f.round(6))  # the moment of the weight about the pin, then the weight
        [-19.62   0.   -19.62]
    """
    unknowns = _unknowns(mech, base, cut)
    x, y = _as_arrays(mech, unknowns, x, y)
    return ProgramWithFallback.of(mass_and_force, unknowns)(mech, x, y, jnp.asarray(t, x.dtype))


def partial_velocities(
    mech: Mechanism, x: ArrayLike, y: ArrayLike | None = None, *, base: Names | None = None, cut: Names = ()
) -> dict[str, PartialVelocities]:
    """Return partial velocities and partial angular velocities of all bodies, and their rates.

    Args:
        mech: the mechanism.
        x: coordinates (6N,), in the plane (3N,), in the order of the names of `Kane().of(mech)`.
        y: speeds, in the same order; zero unless given.
        base: see `topology.spanning_tree`.
        cut: names of joints to cut.

    Returns:
        By name of the body the velocity (d, m) of its centre of mass and its angular velocity (s, m), one column for each
        speed, and their rates; see `PartialVelocities`.

    Raises:
        ValueError: x or y of a wrong shape, or a name in `base` or `cut` that cannot be used; see
            `topology.spanning_tree`.

    Examples:
        >>> of_bob = mbs.partial_velocities(pendulum, jnp.zeros(3))["bob"]
        >>> print(of_bob.velocity)  # columns: φ, x, y
        [[1. 1. 0.]
         [0. 0. 1.]]
    """
    unknowns = _unknowns(mech, base, cut)
    found = ProgramWithFallback.of(_partial_velocities, unknowns)(mech, *_as_arrays(mech, unknowns, x, y))
    return {name: found[name] for name in mech.bodies}


def kane_multipliers(
    mech: Mechanism, run: Trajectory, *, base: Names | None = None, cut: Names = ()
) -> Float[Array, "*batch T m"]:
    """Return the generalized forces of constraints and drivers along a motion: [A]{ẏ} − {f}, the rows of Kamman's (11).

    In an open system, the entries of known coordinates are their multipliers, and the entries of unknown coordinates are
    zero to rounding. The order is that of the names of `Kane().of(mech)`. `joint_moment` computes the moment of a joint
    from the multipliers of a body.

    Args:
        mech: the mechanism.
        run: a `Trajectory`.
        base: see `topology.spanning_tree`.
        cut: names of joints to cut.

    Returns:
        (T, 6N), in the plane (T, 3N): torques for the angles, forces for the translations.

    Raises:
        ValueError: a name in `base` or `cut` that cannot be used; see `topology.spanning_tree`.

    Examples:
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.1]), below, step=0.02)
        >>> print(mbs.kane_multipliers(pendulum, run)[0].round(6))  # no moment at the pin, but the weight
        [ 0.    0.   19.62]
    """
    function = partial(ProgramWithFallback.of(_multipliers, _unknowns(mech, base, cut)), mech)
    return vmap_axes(function, jnp.ndim(run.t))(run.t, run.q, run.v, run.a)


class JointMoment(NamedTuple):
    """Force and moment of a joint on a body K, which moves on its lower body J.

    Attributes:
        force: (3,), on K at its own point of the joint, in the frame of J.
        moment_lower: (3,), about that point, in the frame of J.
        moment: (3,), the same moment in the frame of K.
        status: `Status.SINGULAR` if cos θ₂ = 0, where angles do not determine the moment; the moment is then zero.

    Examples:
        >>> mbs.joint_moment(jnp.zeros(3), jnp.array([1.0, 2, 3, 4, 5, 6])).moment.tolist()
        [1.0, 2.0, 3.0]
    """

    force: Float[Array, "3"]
    moment_lower: Float[Array, "3"]
    moment: Float[Array, "3"]
    status: Int[Array, ""]


def joint_moment(angles: ArrayLike, multipliers: ArrayLike) -> JointMoment:
    """Return the force and moment of a joint from the multipliers of a body's coordinates; Kamman (28) to (34).

    With ω = E θ̇ in the frame of K the multipliers of the angles are λ = EᵀM. So M = E⁻ᵀλ in the frame of K, which has
    1/cos θ₂; in that of J it is turned by A = A₁(θ₁) A₂(θ₂) A₃(θ₃). The multipliers of the translations are the force.

    Args:
        angles: θ (3,), orientation angles 1-2-3 of K on J.
        multipliers: (6,), of the angles, then of the translations; zero for unknown coordinates.

    Returns:
        The force (3,), the moment (3,) in the frames of J and K, and a status; see `JointMoment`.

    Raises:
        ValueError: angles or multipliers of a wrong shape.

    Examples:
        >>> joint = mbs.joint_moment(jnp.array([0.0, jnp.pi / 3, 0]), jnp.array([1.0, 0, 0, 0, 0, 6]))
        >>> print(joint.moment.round(6), joint.force)  # 1 / cos θ₂ about x
        [2. 0. 0.] [0. 0. 6.]
    """
    angles, multipliers = jnp.asarray(angles), jnp.asarray(multipliers)
    for name, value, size in (("angles", angles, 3), ("multipliers", multipliers, 6)):
        if value.shape != (size,):
            raise ValueError(f"{name} must have shape ({size},), got {value.shape}")
    singular = jnp.abs(jnp.cos(angles[1])) < jnp.finfo(angles.dtype).eps ** 0.5
    angles = jnp.where(singular, 0, angles)
    moment = rotation.velocity_to_angles(angles).T @ jnp.where(singular, 0, multipliers[:3])
    status = jnp.where(singular, int(Status.SINGULAR), int(Status.CONVERGED)).astype(jnp.int32)
    return JointMoment(multipliers[3:], rotation.matrix(rotation.from_angles(angles)) @ moment, moment, status)


def _unknowns(mech: Mechanism, base, cut) -> JointUnknowns:
    """Return the 6N relative coordinates, 3N in the plane, as unknowns in the order of Kamman (1)."""
    tree = spanning_tree(mech, base=base, cut=cut)
    forms = (Form(FREE_BY_ANGLES),) * len(tree.bodies)
    space = spaces.space_of(mech, tree, any_angle=False, forms=forms)
    slices = dict(zip(tree.bodies, space.slices, strict=True))
    joints = dict(zip(tree.bodies, space.joints, strict=True))
    places = np.concatenate([np.arange(slices[body].start, slices[body].stop) for body in mech.bodies])
    angular = space.angular[places]
    order = np.concatenate([places[angular], places[~angular], np.arange(places.size, space.n)])
    own = {
        slices[body].start + k: f"{body}.{c}" for body in tree.bodies for k, c in enumerate(joints[body].coordinates)
    }
    names = tuple(own.get(k, space.coordinates[k]) for k in order)
    return JointUnknowns(space, names, names, order=tuple(order.tolist()))


def _as_arrays(mech: Mechanism, unknowns: JointUnknowns, x, y) -> tuple[Array, Array]:
    """Return x and y as arrays of one floating-point type; y is zero unless given."""
    x = jnp.asarray(x)
    y = jnp.zeros_like(x) if y is None else jnp.asarray(y)
    check_entries("x", x, unknowns.coordinate_names)
    check_entries("y", y, unknowns.rate_names)
    dtype = jnp.result_type(mech.dtype, x, y)
    return x.astype(dtype), y.astype(dtype)


def _partial_velocities(unknowns: JointUnknowns, mech, x, y):
    """Return the `PartialVelocities` of each body by name, as array code."""
    space, order = unknowns.space, np.array(unknowns.order)
    tree, slices, back = spaces.joint_tree(mech, space), mech.layout.velocity_slices, np.argsort(order)

    def matrices(theta):
        """Return velocity and angular velocity by unit speeds of each body, by name."""
        by_speeds, q = spaces.transformation(tree, theta)[:, order], spaces.configuration(tree, theta)
        found = {}
        for name, body in mech.bodies.items():
            pose, rows = mech.layout.pose(name, q), by_speeds[slices[name]]
            centre = lambda v, pose=pose, body=body: pose.components(pose.velocity(body.com, v))
            found[name] = jax.vmap(centre, in_axes=1, out_axes=1)(rows), rows[pose.dimension :]
        return found

    values, rates = jax.jvp(matrices, (x[back],), (y[back],))
    return {
        name: PartialVelocities(values[name][0], rates[name][0], values[name][1], rates[name][1])
        for name in mech.bodies
    }


def _multipliers(unknowns: JointUnknowns, mech, t, q, v, a):
    """Return [A]{ẏ} − {f} at one time, in the order of the unknowns, as array code."""
    tree = spaces.joint_tree(mech, unknowns.space)
    by_speeds = spaces.transformation(tree, spaces.measure_coordinates(tree, q))[:, np.array(unknowns.order)]
    return by_speeds.T @ CartesianEquations(mech).imbalance(q, v, a, t)
