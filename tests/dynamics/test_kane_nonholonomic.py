"""Rows b y + b₀ = 0 of generalized speeds, Kamman (6), beside the matrices of Kane's equations."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar

SLOPE = 2.0
SPIN = 3.0
DRIFT = 0.5
STEPS = 400
END = 2.0


def test_skate_on_a_slope():
    """A skate on an incline, g sin α = 2 along x, that spins with ω and cannot slip across its blade: it runs along a
    cycloid; Neimark and Fufaev. Of a slope that moves down it with a known speed, b₀ ≠ 0, it is the same.
    """
    mech = mbs.Mechanism({"skate": planar.Body(2.0, 0.3)}, forces={"slope": mbs.Gravity((SLOPE, 0))})
    view = mbs.Kane().of(mech)
    assert view.names == ("skate.phi", "skate.x", "skate.y")

    def rates(state, drift):
        x, y = state
        a, f = view.mass_matrix(x), view.force(x, y)
        row = lambda x: jnp.stack([0 * x[0], -jnp.sin(x[0]), jnp.cos(x[0])])
        b, b_dot = jax.jvp(row, (x,), (y,))
        # (6) in time: b ẏ = −ḃ y − ḃ₀ with b₀ = −b (0, 0, drift); (7): A ẏ = f + bᵀλ.
        known = -b_dot @ (y - jnp.array([0, 0, drift]))
        matrix = jnp.block([[a, -b[:, None]], [b[None], jnp.zeros((1, 1))]])
        return y, jnp.linalg.solve(matrix, jnp.append(f, known))[:3]

    def step(state, _, drift):
        h = END / STEPS
        move = lambda k, c: jax.tree.map(lambda s, r: s + c * h * r, state, k)
        k1 = rates(state, drift)
        k2 = rates(move(k1, 0.5), drift)
        k3 = rates(move(k2, 0.5), drift)
        k4 = rates(move(k3, 1.0), drift)
        return jax.tree.map(lambda s, *k: s + h / 6 * (k[0] + 2 * k[1] + 2 * k[2] + k[3]), state, k1, k2, k3, k4), None

    @jax.jit
    @jax.vmap
    def end(drift):
        start = jnp.zeros(3), jnp.array([SPIN, 0, 0]).at[2].set(drift)
        return jax.lax.scan(lambda s, _: step(s, _, drift), start, None, length=STEPS)[0][0]

    phi = SPIN * END
    cycloid = SLOPE / (2 * SPIN**2) * np.array([np.sin(phi) ** 2, phi - np.sin(2 * phi) / 2])
    for found, drift in zip(end(jnp.array([0.0, DRIFT])), (0.0, DRIFT), strict=True):
        np.testing.assert_allclose(found, [phi, cycloid[0], cycloid[1] + drift * END], atol=1e-7)
