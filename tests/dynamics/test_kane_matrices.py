"""Kane's equations of trees in all of their 6N coordinates, against SymPy and the equations of the notes.

Kamman, Multibody Dynamics: Equations of Motion for Multibody Systems with Inter-Body Joint Constraints; numbers (…) below
are those of its equations.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.motion import Harmonic
from kane_problems import GROUND, KANE, WEIGHT, close
from kane_symbolic import BRANCHED, CHAIN, random_state, random_tree, tree_mechanism
from norms import size
from random_mechanisms import random_body


def test_matrices_of_the_plane():
    """[A] and {f} of two bodies in the plane with all six coordinates: Lagrange's equations by SymPy."""
    import sympy
    from sympy.physics import mechanics as me

    rng = np.random.default_rng(7)
    a, b = random_body(rng, 2), random_body(rng, 2)
    ends, g, torque = rng.uniform(-0.5, 0.5, (3, 2)), rng.normal(size=2) * 5, 1.3
    mech = mbs.Mechanism(
        {"a": a, "b": b},
        {
            "slide": planar.Translational(GROUND, "a", ends[0], ends[1], (1, 2)),
            "pin": planar.Revolute("b", "a", *ends[1:]),
        },
        forces={"gravity": mbs.Gravity(g), "torque": mbs.Torque("b", torque, "a")},
    )
    t = me.dynamicsymbols._t
    x = me.dynamicsymbols("phi_a phi_b x_a y_a x_b y_b")
    turn = lambda phi: sympy.Matrix([[sympy.cos(phi), -sympy.sin(phi)], [sympy.sin(phi), sympy.cos(phi)]])
    column = lambda s: sympy.Matrix([float(c) for c in s])
    # "b" is body i of its pin: the end on it is ends[1], that on "a" is ends[2].
    origin_a = column(ends[0]) + sympy.Matrix(x[2:4]) - turn(x[0]) * column(ends[1])
    origin_b = origin_a + turn(x[0]) * (column(ends[2]) + sympy.Matrix(x[4:])) - turn(x[0] + x[1]) * column(ends[1])
    lagrangian = 0
    for body, origin, phi in ((a, origin_a, x[0]), (b, origin_b, x[0] + x[1])):
        centre = origin + turn(phi) * column(body.com)
        kinetic = float(body.mass) * centre.diff(t).dot(centre.diff(t)) + float(body.inertia) * phi.diff(t) ** 2
        lagrangian += kinetic / 2 + float(body.mass) * column(g).dot(centre)
    method = me.LagrangesMethod(lagrangian + torque * x[1], x)
    method.form_lagranges_equations()
    speeds = sympy.symbols("y1:7")
    plain = dict(zip([c.diff(t) for c in x], speeds, strict=True))
    matrices = [m.xreplace(plain) for m in (method.mass_matrix, method.forcing)]
    expected = sympy.lambdify((x, speeds), matrices, cse=True)
    for _ in range(3):
        at, rates = rng.normal(size=6) * 2, rng.normal(size=6)
        for got, wanted in zip(mbs.kane_matrices(mech, at, rates), expected(at, rates), strict=True):
            assert size(got - np.asarray(wanted).reshape(got.shape)) < 1e-10 * size(wanted)
    assert mbs.Kane().of(mech).names == ("a.phi", "b.phi", "a.x", "a.y", "b.x", "b.y")


def skew(w):
    return np.cross(np.eye(3), w)


@pytest.mark.parametrize("lower", [CHAIN, BRANCHED], ids=["chain", "branched"])
def test_equations_3_and_4(lower):
    """(3) and (4) term by term with numpy, from `partial_velocities`; and v, ω of the state as these times y."""
    tree = random_tree(np.random.default_rng(9), lower)
    mech, rng = tree_mechanism(tree), np.random.default_rng(10)
    for _ in range(3):
        x, y = random_state(rng, len(lower))
        q, v, _ = mbs.Kane().of(mech).to_bodies(x, y)
        bodies = mbs.partial_velocities(mech, x, y)
        assert set(bodies) == set(lower)
        turn = {name: Rotation.from_quat(np.roll(q[k], -1)).as_matrix() for name, k in euler_slices(mech).items()}
        force_point, force = tree.force
        wrenches = {name: np.zeros((2, 3)) for name in lower}
        for name, body in mech.bodies.items():
            wrenches[name][0] += float(body.mass) * turn[name].T @ tree.gravity
        wrenches["B2"] += (
            force,
            np.cross(force_point - np.asarray(mech.bodies["B2"].com), force) - turn["B2"].T @ tree.torque,
        )
        wrenches["B1"][1] += turn["B1"].T @ tree.torque
        mass, f = np.zeros((x.size, x.size)), np.zeros(x.size)
        for name, body in mech.bodies.items():
            by_v, by_v_rate, by_w, by_w_rate = (np.asarray(m) for m in bodies[name])
            m, inertia, w, u = float(body.mass), np.asarray(body.inertia), by_w @ y, by_v @ y
            state = v[mech.layout.velocity_slices[name]]
            close(w, state[3:], 1e-13)
            close(u, turn[name].T @ state[:3] + np.cross(w, body.com), 1e-13)
            mass += m * by_v.T @ by_v + by_w.T @ inertia @ by_w
            f += by_v.T @ wrenches[name][0] + by_w.T @ wrenches[name][1]
            f -= m * by_v.T @ by_v_rate @ y
            f -= m * by_v.T @ skew(w) @ u
            f -= by_w.T @ inertia @ by_w_rate @ y
            f -= by_w.T @ skew(w) @ inertia @ w
        found = mbs.kane_matrices(mech, x, y)
        for got, wanted in zip(found, (mass, f), strict=True):
            assert size(got - wanted) < 1e-12 * size(wanted)
        assert size(found[0] - found[0].T) == 0


def euler_slices(mech):
    """Of each body the entries of q with its Euler parameters."""
    return {name: slice(at.start + 3, at.stop) for name, at in mech.layout.body_slices.items()}


def test_rates_of_partial_velocities():
    """Rates are derivatives along the motion: by automatic differentiation, and by central differences."""
    tree = random_tree(np.random.default_rng(11), BRANCHED)
    mech = tree_mechanism(tree)
    x, y = random_state(np.random.default_rng(12), 3)
    values = jax.jit(lambda x: [m[::2] for m in mbs.partial_velocities(mech, x).values()])
    given = [m[1::2] for m in mbs.partial_velocities(mech, x, y).values()]
    by_jvp, h = jax.jvp(values, (x,), (y,))[1], 1e-4
    steps = [values(x + k * h * y) for k in (-2, -1, 1, 2)]
    for body in range(3):
        for k in range(2):
            close(given[body][k], by_jvp[body][k], 1e-13)
            a, b, c, d = (step[body][k] for step in steps)
            close(given[body][k], (a - 8 * b + 8 * c - d) / (12 * h), 1e-9)


def test_names_and_states():
    """Names are ordered as (1), all angles first; `coordinates` and `velocities` are the inverse of `to_bodies`."""
    mech = tree_mechanism(random_tree(np.random.default_rng(13), BRANCHED))
    kane = mbs.Kane().of(mech)
    each = [[f"{body}.{c}" for body in BRANCHED for c in group] for group in (("theta_1", "theta_2", "theta_3"), "xyz")]
    assert kane.names == (*each[0], *each[1])
    x, y = random_state(np.random.default_rng(14), 3)
    x[1:9:3] /= 2.1  # |θ₂| < π/2
    q, v, _ = kane.to_bodies(x, y)
    close(kane.configuration(x), q, 1e-13)
    close(kane.coordinates(q), x, 1e-12)
    close(kane.velocities(q, v), y, 1e-12)
    assert size(kane.to_bodies(x, 0 * y)[1]) == 0


def test_matrices_under_transformations():
    """`kane_matrices` under jit, vmap and grad: batches give the same numbers, gradients are central differences."""
    tree = random_tree(np.random.default_rng(15), CHAIN)
    rng = np.random.default_rng(16)
    states = [random_state(rng, 2) for _ in range(3)]
    mech = tree_mechanism(tree)
    batch = jax.jit(jax.vmap(lambda x, y: mbs.kane_matrices(mech, x, y)))(
        *(np.stack(part) for part in zip(*states, strict=True))
    )
    for k, state in enumerate(states):
        for found, expected in zip(batch, mbs.kane_matrices(mech, *state), strict=True):
            close(found[k], expected, 1e-13)
    weights = rng.normal(size=12)

    @jax.jit
    def total(x, y, length, mass):
        moved = mbs.Mechanism(
            {"B1": spatial.Body(mass, 0.3, (0.1, 0.2, 0.3)), "B2": tree.bodies["B2"]},
            {"2": spatial.Spherical("B1", "B2", jnp.stack([length, 0.1, 0.2]), (0.1, -0.2, 0.3))},
            forces=WEIGHT,
        )
        matrix, force = mbs.kane_matrices(moved, x, y)
        return weights @ matrix @ weights + weights @ force

    point = [*map(jnp.asarray, states[0]), jnp.asarray(0.4), jnp.asarray(1.3)]
    slopes, h = jax.grad(total, range(4))(*point), 1e-5
    for k, slope in enumerate(slopes):
        direction = rng.normal(size=slope.shape)
        ends = [total(*(p + sign * h * direction if n == k else p for n, p in enumerate(point))) for sign in (1, -1)]
        expected = (ends[0] - ends[1]) / (2 * h)
        assert abs(np.sum(slope * direction) - expected) < 1e-6 * max(1, abs(expected))


def test_gradients_of_a_motion():
    """Of a driven double pendulum by a driver's amplitude and a link's length: central differences; and a batch of both."""

    def end(design):
        amplitude, length = design
        bodies = {"a": planar.Body(1.3, 0.2, (0.4, 0)), "b": planar.Body(0.9, 0.15, (0.3, 0))}
        pins = {
            "O": planar.Revolute(GROUND, "a", (0, 0), (0, 0)),
            "A": planar.Revolute("a", "b", jnp.stack([length, 0 * length]), (0, 0)),
        }
        motor = {"motor": planar.RevoluteDriver(GROUND, "a", Harmonic(amplitude, 3.0, 0.3))}
        mech = mbs.Mechanism(bodies, pins, motor, {"gravity": mbs.Gravity((0, -9.81))})
        run = mbs.simulate(mech, np.array([0.0, 0.5]), step=0.01, formulation=KANE)
        return run.position("b.phi")[-1] + run.multipliers[-1, -1]

    design, h = jnp.array([0.8, 0.7]), 1e-5
    slopes = jax.jit(jax.grad(end))(design)
    around = jnp.concatenate([design[None] + h * np.eye(2), design[None] - h * np.eye(2)])
    values = jax.jit(jax.vmap(end))(around)
    expected = (values[:2] - values[2:]) / (2 * h)
    assert np.all(np.abs(slopes - expected) < 1e-6 * np.abs(expected))
    assert abs(jax.jit(end)(around[0]) - values[0]) < 1e-12 * abs(values[0])
