"""Φ, Φ_q, ν and γ of every planar element against the formulas of Haug, chapter 3."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar
from planar_catalogue import CATALOGUE, quick_jit
from planar_formulas import FORMULAS, State, distance, polynomial, row

POSES = 6


def lone_element(name, b=None):
    """A mechanism of two free bodies and one element."""
    entry = CATALOGUE[name]
    element = entry.element(entry.b if b is None else b)
    bodies = {"first": planar.Body(), "second": planar.Body()}
    return mbs.Mechanism(bodies, drivers={"element": element})


def random_states(name):
    """q, v and t at random, angles all round; the first with all frames on each other and at rest."""
    rng = np.random.default_rng(sorted(FORMULAS).index(name))
    n = lone_element(name).layout.n
    q, v, t = rng.uniform(-3, 3, (POSES, n)), rng.uniform(-2, 2, (POSES, n)), rng.uniform(0, 0.5, POSES)
    q[0], v[0], t[0] = 0, 0, 0
    return q, v, t


def states(q, v):
    """The two bodies' states and the extra coordinates with their rates."""
    return State(q[:2], q[2], v[:2], v[2]), State(q[3:5], q[5], v[3:5], v[5]), (q[6:], v[6:])


def assert_close(got, expected):
    size = max(1.0, np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(got, np.reshape(expected, np.shape(got)), rtol=0, atol=1e-13 * size)


def test_every_element_has_a_formula():
    assert set(FORMULAS) == set(CATALOGUE)
    kinds = {type(entry.element(entry.b)).__name__ for entry in CATALOGUE.values()}
    not_elements = {"Body", "Rotor", "Pose", "AbstractOutline", "FunctionOutline", "SplineOutline"}
    not_elements |= {"OutlineContact", "FlatContact", "ElasticBelt"}
    # Not of the book: tests/planar/test_belts.py, tests/planar/test_geneva.py.
    not_elements |= {"Belt", "Rope", "GenevaDrive", "RoundedPolyline"}
    public = {name for name, value in vars(planar).items() if isinstance(value, type)}
    assert kinds == public - not_elements


@pytest.mark.parametrize("name", FORMULAS)
def test_agrees_with_the_book(name):
    q, v, t = random_states(name)
    mech = lone_element(name)

    @quick_jit
    @jax.vmap
    def all_of_it(q, v, t):
        return (
            mbs.constraints(mech, q, t),
            mbs.constraint_jacobian(mech, q, t),
            mbs.velocity_rhs(mech, q, t),
            mbs.acceleration_rhs(mech, q, v, t),
        )

    got = [np.asarray(x) for x in all_of_it(q, v, t)]
    b = jax.tree.map(np.asarray, CATALOGUE[name].b, is_leaf=lambda x: isinstance(x, tuple))
    for k in range(POSES):
        phi, jacobian, nu, gamma = (x[k] for x in got)
        i, j, extra = states(q[k], v[k])
        expected = FORMULAS[name](b, i, j, t[k], extra)
        assert_close(phi, expected.phi)
        assert_close(jacobian[:, :3], np.zeros_like(expected.by_j) if expected.by_i is None else expected.by_i)
        assert_close(jacobian[:, 3:6], expected.by_j)
        if jacobian.shape[1] > 6:
            assert_close(jacobian[:, 6:], expected.by_extra)
        assert_close(nu, expected.nu)
        assert_close(gamma, expected.gamma)


def test_translational_driver_is_that_of_the_book_on_a_translational_joint():
    # (3.5.13) and Table 3.5.1 hold A_ij constant. The full rows differ by a multiple of the relative angle's row, so
    # that they are the same for all velocities that a translational joint allows ...
    b = jax.tree.map(np.asarray, CATALOGUE["TranslationalDriver"].b, is_leaf=lambda x: isinstance(x, tuple))
    mech = lone_element("TranslationalDriver")
    q, v, t = random_states("TranslationalDriver")
    # ... with parallel axes and equal angular velocities.
    lean_i, lean_j = (np.arctan2(*b[axis][::-1]) for axis in ("axis_i", "axis_j"))
    q[:, 5] = q[:, 2] + lean_i - lean_j
    v[:, 5] = v[:, 2]
    v_i = b["axis_i"]

    @quick_jit
    @jax.vmap
    def right_and_left(q, v, t):
        return mbs.constraint_jacobian(mech, q, t)[0], mbs.acceleration_rhs(mech, q, v, t)[0]

    rows, gammas = right_and_left(q, v, t)
    for k in range(POSES):
        i, j, _ = states(q[k], v[k])
        book = row(-v_i @ i.A.T, v_i @ i.B.T @ (j.r - i.r), v_i @ i.A.T, 0)
        book_gamma = v_i @ (i.A.T @ (j.r - i.r) * i.w**2 - 2 * i.B.T @ (j.r_dot - i.r_dot) * i.w)
        C_ddot = polynomial(b["motion"])(t[k])[2]
        assert_close(np.asarray(rows[k]) @ v[k], book @ v[k])
        assert_close(gammas[k], book_gamma + np.hypot(*v_i) * C_ddot)
        multiple = v_i @ i.A.T @ j.B @ b["point_j"]
        assert_close(np.asarray(rows[k]) - book, multiple * row(0, 0, -1, 0, 0, 1))


def test_translational_driver_is_that_of_the_book_with_its_point_on_the_axis():
    # With P_j on the axis through the origin of body j that multiple vanishes: (3.5.13) to the letter.
    entry = CATALOGUE["TranslationalDriver"]
    v_i = np.array(entry.b["axis_i"])
    b = entry.b | {"point_j": tuple(0.7 * np.array(entry.b["axis_j"]))}
    lean_i, lean_j = (np.arctan2(*b[axis][::-1]) for axis in ("axis_i", "axis_j"))
    q = np.array([0.3, -0.4, 1.1, 1.7, 0.8, 1.1 + lean_i - lean_j])
    i, j, _ = states(q, np.zeros(6))
    got = mbs.constraint_jacobian(lone_element("TranslationalDriver", b), jnp.asarray(q))
    assert_close(got, row(-v_i @ i.A.T, v_i @ i.B.T @ (j.r - i.r), v_i @ i.A.T, 0))


def allowed_velocities(name, q):
    """Velocities that an element allows, the distance of the two points held; a basis as rows."""
    entry = CATALOGUE[name]
    i, j, extra = states(q, np.zeros(6))
    by_element = quick_jit(mbs.constraint_jacobian)(lone_element(name), jnp.asarray(q))
    b = jax.tree.map(np.asarray, entry.b, is_leaf=lambda x: isinstance(x, tuple))
    bar = distance(b, i, j, 0.0, extra, np.linalg.norm(i.point(b["point_i"]) - j.point(b["point_j"])))
    rows = np.vstack([by_element, row(bar.by_i, bar.by_j)])
    return np.linalg.svd(rows)[2][len(rows) :]


def assert_same_velocity(contact, q, v):
    i, j, _ = states(q, v)
    assert_close(i.velocity(i.A.T @ (contact - i.r)), j.velocity(j.A.T @ (contact - j.r)))


@pytest.mark.parametrize("name", ["Gear", "Gear, internal"])
def test_gears_roll_without_slip(name):
    # With the centres |R_i + R_j| apart along u(θ), (3.4.2), the material points in contact have the same velocity.
    b = jax.tree.map(np.asarray, CATALOGUE[name].b, is_leaf=lambda x: isinstance(x, tuple))
    R_i, R_j = b["radius_i"], b["radius_j"]
    q = np.array([0.3, -0.4, 1.1, 0.0, 0.0, -0.6])
    theta = (R_i * (q[2] + b["angle_i"]) + R_j * (q[5] + b["angle_j"] - np.pi)) / (R_i + R_j)
    u = np.array([np.cos(theta), np.sin(theta)])
    i, j, _ = states(q, np.zeros(6))
    q[3:5] = i.point(b["point_i"]) + abs(R_i + R_j) * u - j.A @ b["point_j"]
    allowed = allowed_velocities(name, q)
    assert allowed.shape == (4, 6)
    for v in allowed:
        assert_same_velocity(i.point(b["point_i"]) + abs(R_i) * u, q, v)


def test_rack_and_pinion_roll_without_slip():
    # With the pinion's centre R_j to the left of the rack, the material points in contact have the same velocity.
    b = jax.tree.map(np.asarray, CATALOGUE["RackPinion"].b, is_leaf=lambda x: isinstance(x, tuple))
    q = np.array([0.3, -0.4, 1.1, 0.0, 0.0, -0.6])
    i, j, _ = states(q, np.zeros(6))
    left = i.B @ b["axis_i"] / np.hypot(*b["axis_i"])
    contact = i.point(b["point_i"]) + 0.8 * i.A @ b["axis_i"]
    q[3:5] = contact + b["radius_j"] * left - j.A @ b["point_j"]
    allowed = allowed_velocities("RackPinion", q)
    assert allowed.shape == (3, 6)
    for v in allowed:
        assert_same_velocity(contact, q, v)
