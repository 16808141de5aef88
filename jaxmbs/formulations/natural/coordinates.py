"""Natural coordinates: basic points and unit vectors in the ground frame, shared between bodies at the joints.

García de Jalón and Bayo 1994, Kinematic and Dynamic Simulation of Multibody Systems; Issa and Arczewski 1998, section 3.

The frame of a body is linear in its points and vectors: with the matrix X of its basis in the ground frame and X̄ in its
own, A = X X̄⁻¹ and r = p − A s̄ with a point p. In space the basis are three unit vectors, orthogonal to each other in the
body: one that is shared, if there is any, and the body's own. In the plane it is one vector w and w⊥: a unit vector, or
the difference of two points. Points and vectors on the ground are constants. So velocities of bodies are linear in ẋ, and
the mass matrix is constant.

Constraints Ψ(x, t) = 0 say in this order: unit vectors have length 1; each basis keeps its inner products; further points
and vectors of a body stay where they are in it; and what is left of Φ: the rows of joints that do not follow from shared
points and vectors, and all other constraints and drivers, through the poses of the bodies.

Inertia about one axis only, of a `spatial.Rotor`, is that of no points of mass. Its part of M depends on x.

The angles of the bodies of the plane, turns counted, and the Euler parameters of those of space, as one continuous motion,
are carried along behind x: they are not unknowns, they follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxmbs.element import GROUND, Shared
from jaxmbs.formulations.natural.frames import AXES, GEOMETRY, across
from jaxmbs.formulations.natural.parts import JOINTS_ONLY, Basic, Basics, BodyFrame, Chosen, Condition, Frame, State
from jaxmbs.numerics.space import Space
from jaxmbs.system.equations import applied_forces, residual_of
from jaxmbs.system.mechanism import Mechanism

# Both are traced once for all the places where equations of motion need them.


@jax.jit
def _shared(mech: Mechanism) -> dict[str, Shared]:
    return {name: element.shared for name, element in mech.constraints.items()}


def _once(method: Callable) -> Callable:
    """A method of `NaturalCoordinates` with arrays as arguments."""
    of = lambda chosen, mech, *args: method(NaturalCoordinates(mech, chosen), *args)
    traced = jax.jit(of, static_argnums=0)
    return wraps(method)(lambda natural, *args: traced(natural.chosen, natural.mech, *args))


class NaturalCoordinates(Space):
    """The natural coordinates of a mechanism, and the space that they make; array code.

    A configuration X is x (m,), the basic points, unit vectors and extra coordinates, with the attitudes of the bodies
    behind it, n numbers in all.

    Args:
        chosen: points and vectors in addition to those of the joints.
    """

    def __init__(self, mech: Mechanism, chosen: Chosen = JOINTS_ONLY):
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
        for place in chosen.points:
            self.elements.choose(place, mech.bodies, vector=False)
        for place in chosen.vectors:
            self.elements.choose(place, mech.bodies, vector=True)
        self.bodies = {
            name: BodyFrame(self.elements, self.geometry, name, kind, name in chosen.own_vectors)
            for name, kind in mech.layout.body_types.items()
        }
        self._extra = mech.layout.n - mech.layout.body_slices[mech.layout.bodies[-1][0]].stop

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the components of x."""
        layout = self.mech.layout
        parts = [f"{e.name}.{axis}" for e, _ in self.elements.placed for axis in AXES[: self.dimension]]
        return (*parts, *layout.coordinates[layout.n - self._extra :])

    @cached_property
    def m(self) -> int:
        """Length of x."""
        return self.elements.size + self._extra

    @cached_property
    def angular(self) -> np.ndarray:
        """Components of unit vectors and extra coordinates have no unit; the others are lengths."""
        angular = np.ones(self.m, bool)
        for e, where in self.elements.placed:
            angular[where] = e.vector
        return angular

    @cached_property
    def conditions(self) -> list[Condition]:
        """The rows of Ψ in their order."""
        light, dimension, found = self.mech.light, self.dimension, []
        heavy = [body for name, body in self.bodies.items() if not self.mech.bodies[name].massless[0]]
        carried = {name for body in heavy for name in body.carried}
        # In space the pseudo-inertia of plates and slender rods is singular, of others not.
        vague = dimension == 3
        for e, _ in self.elements.placed:
            if e.vector:
                supporting = vague or e.name not in carried or bool(light & set(e.places))
                unit = lambda state, e=e: (state.values[e.name] @ state.values[e.name] - 1)[None]
                found.append(Condition(e.name, 1, unit, supporting, angular=True))
        for name, body in self.bodies.items():
            gram = dimension if vague else int(body.by_points)
            if gram:
                rows = lambda state, name=name: jnp.stack(state.frames[name].gram)
                found.append(Condition(name, gram, rows, vague or name in light, angular=not body.by_points))
        for name, body in self.bodies.items():
            others = body.points[2:] if body.by_points else body.points[1:]
            candidates = body.points[1:] if body.by_points else others
            if others:
                supporting = name in light or any(point not in carried for point in candidates)
                rows = lambda state, name=name: jnp.concatenate(state.frames[name].further)
                found.append(Condition(name, dimension * len(others), rows, supporting))
            for vector in body.further:
                rows = lambda state, name=name, vector=vector: self._off(state, name, vector)
                supporting = name in light or vector not in carried
                found.append(Condition(name, dimension - 1, rows, supporting, angular=True))
        for name, element in {**self.mech.constraints, **self.mech.drivers}.items():
            kept = self._remaining.get(name, tuple(range(element.rows)))
            if kept:
                supporting = bool(element.extra) or bool({element.i, element.j} & light)
                rows = lambda state, name=name, element=element, kept=kept: self._rest(state, name, element, kept)
                found.append(Condition(name, len(kept), rows, supporting))
        return found

    def _off(self, state: State, body: str, vector: str):
        """Components of a further unit vector across its direction in the body."""
        a, local = state.frames[body].a, jnp.asarray(self.elements[vector].places[body], state.q.dtype)
        return jnp.stack([(a @ side) @ state.values[vector] for side in across(self.geometry, local)])

    def _rest(self, state: State, name: str, element, kept):
        """The rows of Φ that shared points and vectors do not imply."""
        rows = residual_of(self.mech, name, element, state.q, state.t, state.poses)
        return rows if len(kept) == element.rows else rows[np.array(kept)]

    def _split(self, big_x) -> dict[str, Array]:
        """The attitudes of the bodies in X."""
        found, start = {}, self.m
        for name in self.bodies:
            found[name] = big_x[start : (start := start + self._attitude_size(name))]
        return found

    def _values(self, x) -> dict[str, Array]:
        fixed = {name: e.places[GROUND] for name, e in self.elements.items() if e.start is None}
        values = {name: jnp.asarray(place).astype(x.dtype) for name, place in fixed.items()}
        return values | {e.name: x[where] for e, where in self.elements.placed}

    def frames(self, x, attitudes) -> dict[str, Frame]:
        """The frames of the bodies, linear in x."""
        values = self._values(x)
        return {name: body.frame(values, attitudes.get(name)) for name, body in self.bodies.items()}

    def state(self, big_x, t) -> State:
        """All that Ψ and forces take, in a configuration."""
        x, attitudes = big_x[: self.m], self._split(big_x)
        frames, layout = self.frames(x, attitudes), self.mech.layout
        q = self._bodies(frames, attitudes, x)
        poses = {
            name: self.geometry.pose(body.kind, frames[name].r, frames[name].a, attitudes[name])
            for name, body in self.bodies.items()
        }
        return State(self._values(x), frames, poses | {GROUND: layout.pose(GROUND, q)}, q, t)

    def _bodies(self, frames, attitudes, x):
        parts = [part for name in self.bodies for part in (frames[name].r, attitudes[name])]
        return jnp.concatenate([*parts, x[self.elements.size :]])

    @_once
    def bodies_at(self, big_x) -> Float[Array, " n"]:
        """q as in `Mechanism.coordinates`."""
        attitudes = self._split(big_x)
        return self._bodies(self.frames(big_x[: self.m], attitudes), attitudes, big_x)[: self.mech.layout.n]

    def with_attitudes(self, x, near=None) -> Array:
        """X of x: attitudes nearest to those of a configuration q of the bodies, or else by themselves."""
        layout = self.mech.layout
        given = {} if near is None else {b: near[layout.body_slices[b]][-self._attitude_size(b) :] for b in self.bodies}
        frames = self.frames(x, given)
        turned = lambda b: (
            self.geometry.nearest(given[b], frames[b].a) if given else self.geometry.attitude(frames[b].a)
        )
        return jnp.concatenate([x, *(turned(b) for b in self.bodies)])

    def _attitude_size(self, body: str) -> int:
        kind = self.bodies[body].kind
        return len(kind.coordinates) - kind.dimension

    def at(self, q) -> Float[Array, " m"]:
        """x of a configuration of the bodies."""
        poses = self.mech.poses(q)

        def place(e: Basic):
            body, s = e.owner, jnp.asarray(e.places[e.owner], q.dtype)
            return poses[body].direction(s) if e.vector else poses[body].point(s)

        parts = [place(e) for e, _ in self.elements.placed]
        return jnp.concatenate([*parts, q[self.mech.layout.n - self._extra :]])

    def rates(self, q, v) -> Float[Array, " m"]:
        """ẋ of velocities of the bodies; linear in v."""
        poses, layout = self.mech.poses(q), self.mech.layout

        def rate(e: Basic):
            body, s = e.owner, e.places[e.owner]
            own, d = v[layout.velocity_slices[body]], layout.body_types[body].dimension
            own = jnp.concatenate([jnp.zeros_like(own[:d]), own[d:]]) if e.vector else own
            return poses[body].velocity(jnp.asarray(s, q.dtype), own)

        parts = [rate(e) for e, _ in self.elements.placed]
        return jnp.concatenate([*parts, v[layout.m - self._extra :]])

    @_once
    def velocities(self, big_x, u) -> Float[Array, " k"]:
        """v of the bodies, conjugate to their forces, at ẋ = u; linear in u."""
        return jnp.concatenate([*self._twists(self.bodies, big_x, u).values(), u[self.elements.size :]])

    def _twists(self, bodies: Iterable[str], big_x, u) -> dict[str, Array]:
        """v of some bodies."""
        attitudes = self._split(big_x)

        def both(x):
            frames = self.frames(x, attitudes)
            return {name: (frames[name].r, frames[name].a) for name in bodies}

        now, rate = jax.jvp(both, (big_x[: self.m],), (u,))
        return {b: jnp.concatenate([rate[b][0], self.geometry.spin(now[b][1], rate[b][1])]) for b in bodies}

    @_once
    def residual(self, big_x, t) -> Float[Array, " rows"]:
        """Ψ."""
        state = self.state(big_x, t)
        rows = [condition.residual(state) for condition in self.conditions]
        return jnp.concatenate(rows) if rows else jnp.zeros(0, big_x.dtype)

    @_once
    def mass(self, big_x) -> Float[Array, "m m"]:
        """M = Σ ∫ CᵀC dm, constant: ½ ẋᵀM ẋ is the kinetic energy. The velocity C ẋ of the point s of a body is ṙ + Ȧ s.
        Of rotors it is BᵀM B with v = B ẋ, which is not constant."""
        attitudes = self._split(big_x)

        def columns(x):
            return {name: jnp.concatenate([f.r[:, None], f.a], axis=1) for name, f in self.frames(x, attitudes).items()}

        slopes, total = jax.jacfwd(columns)(big_x[: self.m]), jnp.zeros((self.m, self.m), big_x.dtype)
        moments = self.moments
        for name, c in slopes.items():
            if name in self.rotors:
                continue
            moved = jnp.einsum("ab,dbn->dan", moments[name].astype(c.dtype), c)
            total = total + jnp.einsum("dam,dan->mn", c, moved)
        by_rates = jax.jacfwd(lambda u: self._twists(self.rotors, big_x, u))(jnp.zeros(self.m, big_x.dtype))
        for name, b in by_rates.items():
            total = total + b.T @ self._own_mass(name, big_x) @ b
        return total

    @cached_property
    def rotors(self) -> tuple[str, ...]:
        """Bodies whose inertia is not that of points of mass, so that M would have negative eigenvalues."""
        return tuple(name for name, body in self.mech.bodies.items() if not body.of_points)

    def _own_mass(self, rotor: str, big_x):
        body, q = self.mech.bodies[rotor], self.bodies_at(big_x)
        return body.mass_matrix(self.mech.layout.pose(rotor, q)).astype(q.dtype)

    @property
    @_once
    def moments(self) -> dict[str, Float[Array, "k k"]]:
        """[[m, m sᵀ], [m s, ∫ s sᵀ dm]] about the origin of each body."""
        found = {}
        for name, body in self.mech.bodies.items():
            own = body.mass_matrix(body.pose(body.ground(jnp.asarray(body.mass).dtype)))
            first, second = self.geometry.moments(own)
            rows = [jnp.append(own[0, 0], first)[None], jnp.concatenate([first[:, None], second], axis=1)]
            found[name] = jnp.concatenate(rows)
        return found

    @_once
    def force(self, big_x, u, t) -> Float[Array, " m"]:
        """BᵀQ with v = B ẋ and Q of the applied forces, conjugate to v; of rotors also what goes with Ḃ ẋ."""
        v, pull = jax.vjp(lambda u: self.velocities(big_x, u), u)
        q = self.bodies_at(big_x)
        load, mech, slices = applied_forces(self.mech, q, v, t), self.mech, self.mech.layout.velocity_slices
        if self.rotors:
            twists = lambda big_x: self._twists(self.rotors, big_x, u)
            own, drift = jax.jvp(twists, (big_x,), (self.rate(big_x, u),))
            for name in self.rotors:
                turning = mech.bodies[name].velocity_force(mech.layout.pose(name, q), own[name])
                load = load.at[slices[name]].add(turning - self._own_mass(name, big_x) @ drift[name])
        return pull(load)[0]

    @_once
    def rate(self, big_x, u):
        layout, q, v = self.mech.layout, self.bodies_at(big_x), self.velocities(big_x, u)
        parts = [u]
        for name, body in self.bodies.items():
            rates = body.kind.manifold.rate(q[layout.body_slices[name]], v[layout.velocity_slices[name]])
            parts.append(rates[body.kind.dimension :])
        return jnp.concatenate(parts)

    @_once
    def retract(self, big_x, d):
        x, attitudes = big_x[: self.m] + d, self._split(big_x)
        frames = self.frames(x, attitudes)
        return jnp.concatenate([x, *(self.geometry.nearest(attitudes[b], frames[b].a) for b in self.bodies)])

    def difference(self, big_x, other):
        return other[: self.m] - big_x[: self.m]

    def chart_rate(self, d, u):
        return u

    def extent(self, big_x):
        return big_x[: self.m]

    def normalised(self, big_x):
        return self.retract(big_x, jnp.zeros(self.m, big_x.dtype))
