"""Natural coordinates: basic points and unit vectors in the ground frame, shared between bodies at the joints.

García de Jalón and Bayo 1994, Kinematic and Dynamic Simulation of Multibody Systems; Issa and Arczewski 1998, section 3.

The frame of a body is linear in its points and vectors: with the matrix X of its basis in the ground frame and X̄ in its
own, A = X X̄⁻¹ and r = p − A s̄ with a point p. In space the basis consists of three unit vectors, orthogonal to each other
in the body: one that is shared, if there is any, and the body's own. In the plane it is one vector w and w⊥: a unit vector,
or the difference of two points. Points and vectors on the ground are constants. So velocities of bodies are linear in ẋ,
and the mass matrix is constant.

Constraints Ψ(x, t) = 0 are in this order: unit vectors have length 1; each basis keeps its inner products; further points
and vectors of a body are fixed in it; and the remaining rows of Φ: rows of joints that do not follow from shared points and
vectors, and all other constraints and drivers, as functions of the poses of the bodies.

The inertia about one axis of a `spatial.Rotor` is not that of mass points. Its part of M depends on x.

The attitudes of the bodies, angles with all turns in the plane and Euler parameters in space, are appended to x so that
they are continuous: they are not unknowns, they follow from x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial, wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import GROUND, Shared
from jaxmbs.formulations.natural.frames import AXES, GEOMETRY, across
from jaxmbs.formulations.natural.parts import (
    JOINTS_ONLY,
    Basic,
    Basics,
    BodyFrame,
    ChosenBasics,
    Condition,
    Frame,
    Placement,
)
from jaxmbs.numerics.space import Space
from jaxmbs.system.equations import applied_forces, residual_of
from jaxmbs.system.mechanism import Mechanism


@jax.jit
def _shared(mech: Mechanism) -> dict[str, Shared]:
    """Return the shared points and vectors of all constraints, traced once for all equations of motion."""
    return {name: element.shared for name, element in mech.constraints.items()}


def _traced_once(method: Callable) -> Callable:
    """Decorate a method of `NaturalCoordinates` with arrays as arguments, so that all equations of motion trace it once."""
    of = lambda chosen, mech, *args: method(NaturalCoordinates(mech, chosen), *args)
    traced = jax.jit(of, static_argnums=0)
    return wraps(method)(lambda natural, *args: traced(natural.chosen, natural.mech, *args))


class NaturalCoordinates(Space):
    """The natural coordinates of a mechanism, and the space of their configurations; array code.

    A configuration X consists of x (m,), the basic points, unit vectors and extra coordinates, and the attitudes of the
    bodies.

    Args:
        mech: the mechanism.
        chosen: points and vectors in addition to those of the joints.
    """

    def __init__(self, mech: Mechanism, chosen: ChosenBasics = JOINTS_ONLY):
        self.mech, self.chosen = mech, chosen
        self.dimension = mech.layout.bodies[0][1].dimension
        self.geometry: Any = GEOMETRY[self.dimension]
        self.elements = Basics(self.dimension)
        self._remaining: dict[str, tuple[int, ...]] = {}
        by_name = _shared(mech)
        for name, element in mech.constraints.items():
            shared = by_name[name]
            self._remaining[name] = shared.rows
            for label, pairs in (("", shared.points), (".axis", shared.vectors)):
                for k, pair in enumerate(pairs):
                    places = dict(zip((element.i, element.j), pair, strict=True))
                    self.elements.add(f"{name}{label}{k + 1 if k else ''}", places, vector=bool(label))
        for basic in chosen.points:
            self.elements.add_chosen(basic, mech.bodies, vector=False)
        for basic in chosen.vectors:
            self.elements.add_chosen(basic, mech.bodies, vector=True)
        self.bodies = {
            name: BodyFrame(self.elements, self.geometry, name, kind, name in chosen.own_vectors)
            for name, kind in mech.layout.body_types.items()
        }
        self._extra = mech.layout.n - mech.layout.body_slices[mech.layout.bodies[-1][0]].stop

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the components of x."""
        layout = self.mech.layout
        parts = [f"{e.name}.{axis}" for e, _ in self.elements.moving for axis in AXES[: self.dimension]]
        return (*parts, *layout.coordinates[layout.n - self._extra :])

    @property
    def velocities(self) -> tuple[str, ...]:
        """Names of the components of ẋ: those of x."""
        return self.names

    @cached_property
    def m(self) -> int:
        """Length of x, without the attitudes."""
        return self.elements.size + self._extra

    @cached_property
    def angular(self) -> np.ndarray:
        """(m,), True for components of unit vectors and extra coordinates, False for lengths."""
        angular = np.ones(self.m, bool)
        for e, where in self.elements.moving:
            angular[where] = e.vector
        return angular

    @cached_property
    def conditions(self) -> list[Condition]:
        """Rows of Ψ in their order, as one `Condition` for each vector, body, constraint or driver."""
        light, dimension, found = self.mech.light, self.dimension, []
        heavy = [body for name, body in self.bodies.items() if not self.mech.bodies[name].massless[0]]
        carried = {name for body in heavy for name in body.carried}
        # In space the pseudo-inertia of plates and slender rods is singular.
        may_be_singular = dimension == 3
        for e, _ in self.elements.moving:
            if e.vector:
                supporting = may_be_singular or e.name not in carried or bool(light & set(e.places))
                unit = lambda placement, e=e: (placement.values[e.name] @ placement.values[e.name] - 1)[None]
                found.append(Condition(1, unit, supporting, angular=True))
        for name, body in self.bodies.items():
            gram = dimension if dimension == 3 else int(body.by_points)
            if gram:
                rows = lambda placement, name=name: jnp.stack(placement.frames[name].gram)
                supporting = may_be_singular or name in light
                found.append(Condition(gram, rows, supporting, angular=not body.by_points))
        for name, body in self.bodies.items():
            others = body.points[2:] if body.by_points else body.points[1:]
            candidates = body.points[1:] if body.by_points else others
            if others:
                supporting = name in light or any(point not in carried for point in candidates)
                rows = lambda placement, name=name: jnp.concatenate(placement.frames[name].further)
                found.append(Condition(dimension * len(others), rows, supporting))
            for vector in body.further:
                rows = lambda placement, name=name, vector=vector: self._deviation(placement, name, vector)
                supporting = name in light or vector not in carried
                found.append(Condition(dimension - 1, rows, supporting, angular=True))
        for name, element in {**self.mech.constraints, **self.mech.drivers}.items():
            kept = self._remaining.get(name, tuple(range(element.rows)))
            if kept:
                supporting = bool(element.extra) or bool({element.i, element.j, *element.others} & light)
                rows = partial(self._remaining_rows, name=name, element=element, kept=kept)
                found.append(Condition(len(kept), rows, supporting))
        return found

    def _deviation(self, placement: Placement, body: str, vector: str):
        """Return the components of a further unit vector across the direction that it has in the body."""
        a, local = placement.frames[body].a, jnp.asarray(self.elements[vector].places[body], placement.q.dtype)
        return jnp.stack([(a @ side) @ placement.values[vector] for side in across(self.geometry, local)])

    def _remaining_rows(self, placement: Placement, name: str, element, kept):
        """Return the rows of an element that shared points and vectors do not imply."""
        rows = residual_of(self.mech, name, element, placement.q, placement.t, placement.poses)
        return rows if len(kept) == element.rows else rows[np.array(kept)]

    def _attitudes(self, big_x) -> dict[str, Array]:
        """Return the attitude of each body in X, by name: its angle, or Euler parameters."""
        found, start = {}, self.m
        for name in self.bodies:
            found[name] = big_x[start : (start := start + self._attitude_size(name))]
        return found

    def _values(self, x) -> dict[str, Array]:
        """Return all basic points and unit vectors (d,) in the ground frame, by name, from x."""
        fixed = {name: e.places[GROUND] for name, e in self.elements.items() if e.start is None}
        values = {name: jnp.asarray(place).astype(x.dtype) for name, place in fixed.items()}
        return values | {e.name: x[where] for e, where in self.elements.moving}

    def frames(self, x, attitudes) -> dict[str, Frame]:
        """Return the frames of the bodies by name, linear in x."""
        values = self._values(x)
        return {name: body.frame(values, attitudes.get(name)) for name, body in self.bodies.items()}

    def placement(self, big_x, t) -> Placement:
        """Return points, vectors, frames and poses in the configuration X at the time t."""
        x, attitudes = big_x[: self.m], self._attitudes(big_x)
        frames, layout = self.frames(x, attitudes), self.mech.layout
        q = self._bodies(frames, attitudes, x)
        poses = {
            name: self.geometry.pose(body.kind, frames[name].r, frames[name].a, attitudes[name])
            for name, body in self.bodies.items()
        }
        return Placement(self._values(x), frames, poses | {GROUND: layout.pose(GROUND, q)}, q, t)

    def _bodies(self, frames, attitudes, x):
        """Return q of the bodies from their frames and attitudes, with the extra coordinates at the end of x."""
        parts = [part for name in self.bodies for part in (frames[name].r, attitudes[name])]
        return jnp.concatenate([*parts, x[self.elements.size :]])

    @_traced_once
    def bodies_at(self, big_x) -> Float[Array, " n"]:
        """Return q (n,) of the bodies in the configuration X, as in `Mechanism.coordinates`."""
        attitudes = self._attitudes(big_x)
        return self._bodies(self.frames(big_x[: self.m], attitudes), attitudes, big_x)[: self.mech.layout.n]

    def with_attitudes(self, x, near=None) -> Array:
        """Return X = (x, attitudes), attitudes nearest to those of a configuration `near`, else in the first turn."""
        layout = self.mech.layout
        given = {} if near is None else {b: near[layout.body_slices[b]][-self._attitude_size(b) :] for b in self.bodies}
        frames = self.frames(x, given)
        attitude = lambda b: (
            self.geometry.nearest(given[b], frames[b].a) if given else self.geometry.attitude(frames[b].a)
        )
        return jnp.concatenate([x, *(attitude(b) for b in self.bodies)])

    def _attitude_size(self, body: str) -> int:
        """Return the number of coordinates of a body's attitude: 1 in the plane, 4 in space."""
        kind = self.bodies[body].kind
        return len(kind.coordinates) - kind.dimension

    def of_bodies(self, q) -> Float[Array, " m"]:
        """Return x for a configuration q (n,) of the bodies."""
        poses = self.mech.poses(q)

        def place(e: Basic):
            """Return a point or vector in the ground frame, from the pose of the body that defines it."""
            body, s = e.owner, jnp.asarray(e.places[e.owner], q.dtype)
            return poses[body].direction(s) if e.vector else poses[body].point(s)

        parts = [place(e) for e, _ in self.elements.moving]
        return jnp.concatenate([*parts, q[self.mech.layout.n - self._extra :]])

    def rates_of_bodies(self, q, v) -> Float[Array, " m"]:
        """Return ẋ for velocities v of the bodies in the configuration q; linear in v."""
        poses, layout = self.mech.poses(q), self.mech.layout

        def rate(e: Basic):
            """Return the rate of a point or vector, from the velocities of the body that defines it."""
            body, s = e.owner, e.places[e.owner]
            own, d = v[layout.velocity_slices[body]], layout.body_types[body].dimension
            own = jnp.concatenate([jnp.zeros_like(own[:d]), own[d:]]) if e.vector else own
            return poses[body].velocity(jnp.asarray(s, q.dtype), own)

        parts = [rate(e) for e, _ in self.elements.moving]
        return jnp.concatenate([*parts, v[layout.m - self._extra :]])

    @_traced_once
    def body_velocities(self, big_x, u) -> Float[Array, " k"]:
        """Return v of the bodies, conjugate to their forces, at ẋ = u; linear in u."""
        return jnp.concatenate([*self._velocities_of(self.bodies, big_x, u).values(), u[self.elements.size :]])

    def _velocities_of(self, bodies: Iterable[str], big_x, u) -> dict[str, Array]:
        """Return v of the named bodies, by name, at ẋ = u."""
        attitudes = self._attitudes(big_x)

        def both(x):
            """Return (r, A) of each of the bodies, by name."""
            frames = self.frames(x, attitudes)
            return {name: (frames[name].r, frames[name].a) for name in bodies}

        now, rate = jax.jvp(both, (big_x[: self.m],), (u,))
        return {b: jnp.concatenate([rate[b][0], self.geometry.spin(now[b][1], rate[b][1])]) for b in bodies}

    @_traced_once
    def residual(self, big_x, t) -> Float[Array, " rows"]:
        """Return Ψ(X, t)."""
        placement = self.placement(big_x, t)
        rows = [condition.residual(placement) for condition in self.conditions]
        return jnp.concatenate(rows) if rows else jnp.zeros(0, big_x.dtype)

    @_traced_once
    def mass(self, big_x) -> Float[Array, "m m"]:
        """Return M = Σ ∫ CᵀC dm, constant, with ½ ẋᵀM ẋ the kinetic energy and C ẋ = ṙ + Ȧ s the velocity of a point s.

        The part of rotors is BᵀM B with v = B ẋ, which is not constant.
        """
        attitudes = self._attitudes(big_x)

        def columns(x):
            """Return [r, A] (d, 1 + d) of each body, by name, linear in x."""
            return {name: jnp.concatenate([f.r[:, None], f.a], axis=1) for name, f in self.frames(x, attitudes).items()}

        slopes, total = jax.jacfwd(columns)(big_x[: self.m]), jnp.zeros((self.m, self.m), big_x.dtype)
        moments = self.moments
        for name, c in slopes.items():
            if name in self.rotors:
                continue
            moved = jnp.einsum("ab,dbn->dan", moments[name].astype(c.dtype), c)
            total = total + jnp.einsum("dam,dan->mn", c, moved)
        by_rates = jax.jacfwd(lambda u: self._velocities_of(self.rotors, big_x, u))(jnp.zeros(self.m, big_x.dtype))
        for name, b in by_rates.items():
            total = total + b.T @ self._own_mass(name, big_x) @ b
        return total

    @cached_property
    def rotors(self) -> tuple[str, ...]:
        """Names of the bodies whose inertia is not that of mass points, so that M would have negative eigenvalues."""
        return tuple(name for name, body in self.mech.bodies.items() if not body.of_points)

    def _own_mass(self, rotor: str, big_x):
        """Return the mass matrix of a rotor in the configuration X, conjugate to its v."""
        body, q = self.mech.bodies[rotor], self.bodies_at(big_x)
        return body.mass_matrix(self.mech.layout.pose(rotor, q)).astype(q.dtype)

    @property
    @_traced_once
    def moments(self) -> dict[str, Float[Array, "k k"]]:
        """Second moments [[m, m sᵀ], [m s, ∫ s sᵀ dm]] about the origin of each body, by name, in the body frame."""
        found = {}
        for name, body in self.mech.bodies.items():
            own = body.mass_matrix(body.pose(body.ground(jnp.asarray(body.mass).dtype)))
            first, second = self.geometry.moments(own)
            rows = [jnp.append(own[0, 0], first)[None], jnp.concatenate([first[:, None], second], axis=1)]
            found[name] = jnp.concatenate(rows)
        return found

    @_traced_once
    def force(self, big_x, u, t) -> Float[Array, " m"]:
        """Return the force (m,) conjugate to ẋ = u.

        It is BᵀQ with the velocities v = B u of the bodies and the applied forces Q conjugate to v. For rotors Q also
        has their gyroscopic forces and −M Ḃ u, with M their mass matrix: the terms of M v̇ that do not depend on ẍ.
        """
        v, pull = jax.vjp(lambda u: self.body_velocities(big_x, u), u)
        q = self.bodies_at(big_x)
        load, mech, slices = applied_forces(self.mech, q, v, t), self.mech, self.mech.layout.velocity_slices
        if self.rotors:
            twists = lambda big_x: self._velocities_of(self.rotors, big_x, u)
            own, drift = jax.jvp(twists, (big_x,), (self.rate(big_x, u),))
            for name in self.rotors:
                turning = mech.bodies[name].velocity_force(mech.layout.pose(name, q), own[name])
                load = load.at[slices[name]].add(turning - self._own_mass(name, big_x) @ drift[name])
        return pull(load)[0]

    @_traced_once
    def rate(self, big_x, u):
        """Return the rate of X at ẋ = u: u, then the rates of the attitudes."""
        layout, q, v = self.mech.layout, self.bodies_at(big_x), self.body_velocities(big_x, u)
        parts = [u]
        for name, body in self.bodies.items():
            rates = body.kind.manifold.rate(q[layout.body_slices[name]], v[layout.velocity_slices[name]])
            parts.append(rates[body.kind.dimension :])
        return jnp.concatenate(parts)

    @_traced_once
    def retract(self, big_x, d):
        """Return X with x + d, and the attitudes nearest to the old ones."""
        x, attitudes = big_x[: self.m] + d, self._attitudes(big_x)
        frames = self.frames(x, attitudes)
        return jnp.concatenate([x, *(self.geometry.nearest(attitudes[b], frames[b].a) for b in self.bodies)])

    def difference(self, big_x, other):
        """Return the difference of x; attitudes follow from x."""
        return other[: self.m] - big_x[: self.m]

    def chart_rate(self, d, u):
        """Return u: displacements of x are added."""
        return u

    def extent(self, big_x):
        """Return x, without the attitudes."""
        return big_x[: self.m]

    def normalised(self, big_x):
        """Return X with its attitudes computed from x, nearest to the old ones."""
        return self.retract(big_x, jnp.zeros(self.m, big_x.dtype))
