"""Loops over many things: the same as one after the other, for few and for many."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import spatial
from jaxmbs.numerics.repeated import MIN_IN_LOOP, map_rows


@pytest.mark.parametrize("count", [MIN_IN_LOOP - 1, MIN_IN_LOOP, 40])
def test_rows_and_their_derivatives(count):
    rng = np.random.default_rng(count)
    a, b = jnp.asarray(rng.normal(size=(count, 3))), jnp.asarray(rng.normal(size=(count, 3)))
    assert np.allclose(map_rows(jnp.cross, a, b), np.cross(a, b), rtol=0, atol=1e-15)
    # The volume (a × b)·w changes with a by b × w.
    w = jnp.asarray(rng.normal(size=3))
    slope = jax.grad(lambda a: jnp.sum(map_rows(jnp.cross, a, b) @ w))(a)
    assert np.allclose(slope, np.cross(b, w), rtol=0, atol=1e-14)


@pytest.mark.parametrize("count", [2, MIN_IN_LOOP + 1])
def test_kinetic_energy_of_many_bodies_of_three_kinds(count):
    """½ m |ṙ + A (ω × s)|² + ½ ωᵀJω: points, bodies with a centre of mass beside their origin, and bodies without."""
    rng = np.random.default_rng(count)
    kinds = [{"inertia": 0}, {"inertia": (1.0, 2.0, 2.5), "com": (0.1, 0.2, 0.3)}, {"inertia": 0.7}]
    masses = rng.uniform(1, 2, (count, len(kinds)))
    bodies = {f"{k}{n}": spatial.Body(mass=masses[n, k], **kind) for n in range(count) for k, kind in enumerate(kinds)}
    mech = mbs.Mechanism(bodies)
    p = rng.normal(size=(len(bodies), 4))
    p /= np.linalg.norm(p, axis=1, keepdims=True)
    q, v = np.concatenate([rng.normal(size=(len(bodies), 3)), p], axis=1), rng.normal(size=(len(bodies), 6))
    kinetic = 0
    for (e0, *e), (*rate, x, y, z), mass, kind in zip(p, v, masses.ravel(), kinds * count, strict=True):
        omega, e = np.array([x, y, z]), np.array(e)
        along = np.cross(omega, kind.get("com", (0, 0, 0)))
        turned = along + 2 * np.cross(e, np.cross(e, along) + e0 * along)
        kinetic += mass * np.sum((rate + turned) ** 2) / 2 + np.sum(kind["inertia"] * omega**2) / 2
    found = mbs.energy(mech, jnp.asarray(q.ravel()), jnp.asarray(v.ravel())).kinetic
    assert np.isclose(found, kinetic, rtol=1e-13, atol=0)
