"""Equations of motion of a model in the rates u of another program, v = R u, without its stops and dry friction."""

import copy
import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs.element import GROUND
from jaxmbs.forces.joint.stateful import AbstractStatefulForce
from jaxmbs.io.models.links.joints import BallTorque
from jaxmbs.io.models.mjcf.tendons import SiteTendon, TendonLaw
from jaxmbs.spatial import Body
from jaxmbs.system.equations import state_of, velocity_forces

# Step of differences in time, in s.
TIME_STEP = 1e-3
# Singular values of Jacobians below this, times the largest one or 1, are those of dependent rows.
MAX_DEPENDENT = 1e-9
# Smallest entry of M to which differences are relative.
MIN_MASS = 1e-15


class Equations(NamedTuple):
    """M u̇ = Q + Jᵀλ and J u̇ = γ: M (k, k), Q (k,), J (rows, k) and γ (rows,)."""

    mass: np.ndarray
    force: np.ndarray
    rows: np.ndarray
    rhs: np.ndarray

    def accelerations(self):
        """Return u̇ (k,)."""
        left, sizes, right = np.linalg.svd(self.rows)
        rank = rank_of(sizes)
        free, bound = right[rank:].T, right[:rank].T
        a = bound @ ((left.T @ self.rhs)[:rank] / sizes[:rank])
        return a + free @ np.linalg.solve(free.T @ self.mass @ free, free.T @ (self.force - self.mass @ a))


class Errors(NamedTuple):
    """Differences of the equations of two programs.

    Attributes:
        mass: largest of |ΔMᵢⱼ| / √(Mᵢᵢ Mⱼⱼ).
        acceleration: largest |Δu̇| over the largest |u̇|, or over 1.
        gap: largest of |Φ|, |Φ̇| and |Φ̈| along the motion of the other program, |Φ̈| over the same |u̇|.
        freedoms: difference of the numbers of degrees of freedom.
    """

    mass: float
    acceleration: float
    gap: float
    freedoms: int


def rank_of(sizes):
    """Return the number of independent rows of a matrix with these singular values."""
    return int(np.count_nonzero(sizes > MAX_DEPENDENT * max(1, *sizes))) if len(sizes) else 0


def rate_in_time(f):
    """Return ḟ(0), by central differences of the sixth order."""
    pairs = zip((45, -9, 1), (1, 2, 3), strict=True)
    return sum(weight * (f(k * TIME_STEP) - f(-k * TIME_STEP)) for weight, k in pairs) / (60 * TIME_STEP)


@dataclasses.dataclass
class Motion:
    """A state of a model, along the rates u of another program.

    Attributes:
        model: the model.
        q, v: configuration and velocities.
        by_rates: R (m, k), with v = R u.
        drift: Ṙ u (m,).
    """

    model: mbs.Model
    q: Any
    v: Any
    by_rates: Any
    drift: Any

    def masses_and_forces(self):
        """Return M (k, k), with inertias of joints, and the forces (k,) without M v̇."""
        model, q, v = self.model, jnp.asarray(self.q), jnp.asarray(self.v)
        state = state_of(model, q, v, jnp.zeros(()))
        mass = np.zeros((model.layout.m,) * 2)
        for name, body in model.bodies.items():
            own = model.layout.velocity_slices[name]
            mass[own, own] = np.asarray(body.mass_matrix(state.poses[name]))
        force = np.asarray(velocity_forces(model, q, v))
        inertia = np.zeros_like(mass)
        for one in map(_without_stop, model.forces.values()):
            if isinstance(one, mbs.JointInertia):
                push = np.asarray(state.along(one.joint, one.coordinate).push)
                inertia += float(one.inertia) * np.outer(push, push)
            elif one is not None:
                if isinstance(one, AbstractStatefulForce) and one.states:
                    one = eqx.tree_at(lambda f: f.own, one, jnp.array(one.start), is_leaf=lambda x: x is None)
                force = force + np.asarray(one.generalized(state))
        r = self.by_rates
        return r.T @ (mass + inertia) @ r, r.T @ (force - mass @ self.drift)

    def constraints(self, a):
        """Return Φ, Φ̇, Φ̈ (rows,) for accelerations a (m,) of the bodies, and Φ_q (rows, m)."""
        layout, motion = self.model.layout, (self.q, self.v, a)
        values = np.zeros((3, layout.kinematic_rows + layout.driver_rows))
        phi_q = np.zeros((values.shape[1], layout.m))
        for name, element in {**self.model.constraints, **self.model.drivers}.items():
            bodies, rows = (element.i, element.j, *element.others), layout.row_slices[name]
            parts = [*dict.fromkeys(body for body in bodies if body != GROUND), *[name] * bool(element.extra)]
            own = [[layout.entries(part, velocities=part_of > 0)[0] for part in parts] for part_of in range(3)]
            places = tuple(-1 if body == GROUND else parts.index(body) for body in bodies)
            given = [[np.asarray(x)[k] for k in entries] for x, entries in zip(motion, own, strict=True)]
            *found, jacobians = _constraint(_without_names(element), places, *given)
            values[:, rows] = found
            for k, columns in zip(own[1], jacobians, strict=True):
                phi_q[rows, k] = columns
        return (*values, phi_q)

    def errors(self, other: Equations):
        """Return the differences between the equations of the model, closed loops included, and those of a program."""
        mass, force = self.masses_and_forces()
        gap, rate, second_rate, phi_q = self.constraints(self.drift)
        own = Equations(mass, force, phi_q @ self.by_rates, -second_rate)
        found, expected = own.accelerations(), other.accelerations()
        size = max(np.abs(expected).max(), 1.0)
        gaps = (gap, rate, (second_rate + own.rows @ expected) / size)
        freedoms = [x.shape[1] - rank_of(np.linalg.svd(x, compute_uv=False)) for x in (phi_q, other.rows)]
        sizes = np.sqrt(np.diag(other.mass))
        return Errors(
            np.abs((mass - other.mass) / np.maximum(np.outer(sizes, sizes), MIN_MASS)).max(),
            np.abs(found - expected).max() / size,
            max(np.abs(gap).max(initial=0) for gap in gaps),
            freedoms[0] - freedoms[1],
        )


def _without_names(element):
    """Return an element without the names of its bodies, so that elements of a kind share a compiled function."""
    element = copy.copy(element)
    for field, value in (("i", "i"), ("j", "j"), ("others", len(element.others) * ("",))):
        if getattr(element, field) != value:
            object.__setattr__(element, field, value)
    return element


@eqx.filter_jit
def _constraint(element, places, q, v, a):
    """Return Φ, Φ̇, Φ̈, and Φ_q by part, for coordinates, velocities and accelerations of bodies and extra coordinates.

    `places` has the index of each body of the element, −1 for the ground.
    """
    t = jnp.zeros(())
    moving = len(q) - bool(element.extra)
    rates = lambda q, v: [*map(Body.manifold.rate, q[:moving], v[:moving]), *v[moving:]]

    def phi(q, t):
        """Return Φ."""
        poses = [Body.pose(q[k] if k >= 0 else Body.ground(float)) for k in places]
        return element.residual(*poses[:2], t, *poses[2:], *(q[-1] if element.extra else ()))

    def rate(q, v, t):
        """Return Φ̇."""
        return jax.jvp(phi, (q, t), (rates(q, v), jnp.ones_like(t)))[1]

    first, second = jax.jvp(rate, (q, v, t), (rates(q, v), a, jnp.ones_like(t)))
    return phi(q, t), first, second, jax.jacfwd(rate, 1)(q, v, t)


def _without_stop(force):
    """Return a force without its stop; None for stops and dry friction, which MuJoCo has as constraints."""
    law = getattr(getattr(force, "f", None), "f", None) or getattr(force, "f", None)
    if isinstance(force, mbs.JointStop | mbs.JointFriction) or (isinstance(law, BallTorque) and law.limit is not None):
        return None
    if isinstance(law, SiteTendon) and isinstance(law.law, TendonLaw):
        loose = dataclasses.replace(law, law=dataclasses.replace(law.law, limits=(None, None)))
        return mbs.UserForce(loose)
    return force
