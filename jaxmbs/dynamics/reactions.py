"""Forces and torques in the joints of a mechanism in motion."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxmbs.dynamics.formulations import AbstractFormulation, Augmented
from jaxmbs.element import GROUND
from jaxmbs.motion import Function
from jaxmbs.numerics.arrays import instance_of
from jaxmbs.programs.function import straight
from jaxmbs.system.equations import residual_of
from jaxmbs.system.layout import unknown
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory

# What is left of a vector in the null space of the constraint forces, where there is none.
INDETERMINATE = 1e-4


class Reaction(eqx.Module):
    """What a joint or driver does to body j; the opposite force, at the same place, acts on body i. T rows in every array.

    `RelativeX`, `RelativeY` and their drivers are no joints of hardware: they push along axes of the ground at point_i and
    at point_j, and the opposite force acts on body i at point_i.

    Attributes:
        force: on body j from body i, in the ground frame.
        torque: on body j about point_j (its origin, if the element has no points), in the ground frame; a number in the
            plane, a vector in space.
        components: force and torque in the joint's frame on body i, or in the frame of body i, the lower body, where the
            joint has none: (f_x, f_y, torque) in the plane, (f, torque) with six numbers in space.
        body_force, body_torque: force and torque in the frame of body j.
        multipliers (T, rows): λ of the element's equations.
        effort: the driving force or torque of what prescribes a motion C(t), on which it does the work effort · dC; one for
            each motion of a `TotalJoint`; None otherwise. It is the multiplier where Φ is a length or angle.
        unique (T,): False where constraints are redundant and this reaction is one of many that are possible.
    """

    force: Float[Array, "*batch T d"]
    torque: Float[Array, "*batch T ..."]
    components: Float[Array, "*batch T k"]
    body_force: Float[Array, "*batch T d"]
    body_torque: Float[Array, "*batch T ..."]
    multipliers: Float[Array, "*batch T m"]
    unique: Bool[Array, "*batch T"]
    effort: Float[Array, "*batch T ..."] | None = None


class Reactions(Mapping):
    """Reactions by the names of constraints and drivers."""

    def __init__(self, by_name: dict[str, Reaction]):
        self._by_name = by_name

    def __getitem__(self, name: str) -> Reaction:
        if name not in self._by_name:
            raise KeyError(unknown("constraint or driver", name, self._by_name))
        return self._by_name[name]

    def __iter__(self):
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"Reactions({', '.join(self._by_name)})"


jax.tree_util.register_pytree_node(
    Reactions,
    lambda r: (tuple(r._by_name.values()), tuple(r._by_name)),
    lambda names, values: Reactions(dict(zip(names, values, strict=True))),
)


def reactions(mech: Mechanism, run: Trajectory, *, formulation: AbstractFormulation | None = None) -> Reactions:
    """Force and torque of every joint and driver along a motion: `reactions(mech, run)["A"].force`.

    The constraint force on body j is Φ_qjᵀλ. Of a motion by `kinematics` the multipliers are found first: those forces
    and driving torques that the motion needs, inverse dynamics. Where constraints are redundant λ has the smallest norm,
    and `unique` tells whose values mean nothing by themselves. Differentiable; where a status is bad values belong to the
    state that is shown. A batch goes through `jax.vmap`, or comes as leading axes.

    Args:
        run: a `Trajectory`.
        formulation: `Augmented()` by default.
    """
    return _reactions(mech, run, instance_of(AbstractFormulation, "formulation", formulation, Augmented()))


@eqx.filter_jit
def _reactions(mech: Mechanism, run: Trajectory, formulation: AbstractFormulation) -> Reactions:
    at_one_time = lambda mech, t, q, v: _at_one_time(mech, formulation, t, q, v)
    function = partial(straight, at_one_time, mech)
    for _ in range(jnp.ndim(run.t)):
        function = jax.vmap(function)
    found = function(run.t, run.q, run.v)
    return Reactions({name: found[name] for name in (*mech.constraints, *mech.drivers)})


def _at_one_time(mech: Mechanism, formulation, t, q, v) -> dict[str, Reaction]:
    equations = formulation.equations(mech)
    own = equations.from_bodies(q, v, t)
    # The same configuration with the Euler parameters, of two possible ones, to which the multipliers belong.
    q, v, _ = equations.to_bodies(*own, jnp.zeros_like(own[1]), t)
    multipliers = equations.multipliers(*own, t)
    indeterminate = jnp.abs(Augmented().equations(mech).indeterminate(q, t)) > INDETERMINATE
    space, poses, found = mech.layout, mech.poses(q), {}
    for name, element in {**mech.constraints, **mech.drivers}.items():
        rows = mech.layout.row_slices[name]
        own = multipliers[rows]
        moved = lambda d, element=element, name=name: residual_of(mech, name, element, q + space.rate(q, d), t)
        force, torque = _on_j(mech, element, poses, jax.vjp(moved, jnp.zeros(space.m, q.dtype))[1](own)[0])
        found[name] = Reaction(
            force=force,
            torque=torque,
            components=element.components(poses[element.i], force, torque),
            body_force=poses[element.j].components(force),
            body_torque=poses[element.j].components(torque) if torque.ndim else torque,
            multipliers=own,
            effort=_efforts(mech, name, element, q, t, own),
            unique=~jnp.any(indeterminate[rows]),
        )
    return found


def _efforts(mech: Mechanism, name: str, element, q, t, multipliers) -> Array | None:
    """−λᵀ ∂Φ/∂C for each motion C of an element: what it does for a unit of it."""
    motions = element.motions

    def residual(changes):
        moved = [Function(lambda t, c=c, d=d: c(t) + d) for c, d in zip(motions, changes, strict=True)]
        return residual_of(mech, name, element.with_motions(moved), q, t)

    efforts = []
    for k in range(len(motions)):
        one = [jnp.full_like(t, float(k == other)) for other in range(len(motions))]
        efforts.append(-multipliers @ jax.jvp(residual, ([jnp.zeros_like(t)] * len(motions),), (one,))[1])
    if not motions:
        return None
    return efforts[0] if hasattr(element, "motion") else jnp.stack(efforts)


def _on_j(mech: Mechanism, element, poses, generalized):
    """Force and torque about point_j of generalized constraint forces; from the other side where j is the ground."""
    slices, j, i = mech.layout.velocity_slices, poses[element.j], poses[element.i]
    origin = jnp.zeros(mech.layout.bodies[0][1].dimension, generalized.dtype)
    if element.j != GROUND:
        point = getattr(element, "point_j", getattr(element, "point", origin))
        return j.load(generalized[slices[element.j]], point)
    # Action and reaction: the opposite load, about the place where point_j is.
    force, torque = i.load(generalized[slices[element.i]], origin)
    arm = j.point(getattr(element, "point_j", origin)) - i.point(origin)
    return -force, -(torque - i.moment(arm, force))
