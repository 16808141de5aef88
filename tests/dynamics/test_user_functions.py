"""Functions of the user as forces: of the state with named access, of numbers; what they close over; in files."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from dynamic_problems import four_bar, four_bar_design, four_bar_start
from jaxmbs import planar, spatial
from random_mechanisms import random_tree

TIMES = np.linspace(0, 0.1, 3)


def loaded(**forces):
    """The four-bar under other forces, and a state of motion."""
    b = four_bar_design()
    mech = four_bar(b)
    return mbs.Mechanism(mech.bodies, mech.constraints, forces=forces)


def state():
    b = four_bar_design()
    q = mbs.assemble(four_bar(b), four_bar_start(b, (1.0, 0.4, 1.2))).q
    return q, np.random.default_rng(0).normal(size=9)


def old_order(f):
    """A force f(q, v, t), as they were written once."""
    with pytest.warns(
        DeprecationWarning, match="UserForce\\(f\\) with f\\(q, v, t\\) is deprecated: write f\\(state\\)"
    ) as found:
        force = mbs.UserForce(f)
    assert [x.filename for x in found] == [__file__]
    return force


def force_of(**forces):
    return np.asarray(mbs.generalized_force(loaded(**forces), *state(), 0.3))


def test_functions_of_the_state_are_those_of_its_numbers():
    turned = lambda phi, s: jnp.stack(
        [jnp.cos(phi) * s[0] - jnp.sin(phi) * s[1], jnp.sin(phi) * s[0] + jnp.cos(phi) * s[1]]
    )
    s = (0.1, -0.2)
    pairs = {
        "point": (
            mbs.PointForce("rocker", (0.1, 0), lambda state: state["coupler"].point(s)),
            mbs.PointForce("rocker", (0.1, 0), lambda t, q, v: q[3:5] + turned(q[5], s)),
        ),
        "velocity": (
            mbs.PointForce("rocker", (0.1, 0), (2.0, lambda state: state["crank"].velocity(s)[1] * state.t)),
            mbs.PointForce("rocker", (0.1, 0), (2.0, lambda t, q, v: t * (v[1] + v[2] * turned(q[2], s)[0]))),
        ),
        "angle": (
            mbs.Torque("rocker", lambda state: -state["crank"].angle - 2 * state["crank"].angular_velocity),
            mbs.Torque("rocker", lambda t, q, v: -q[2] - 2 * v[2]),
        ),
        "joint": (
            mbs.TorsionSpring(
                "crank", "coupler", actuator=lambda state: state.joint("A").angle * state.joint("A").rate
            ),
            mbs.TorsionSpring("crank", "coupler", actuator=lambda t, q, v: (q[5] - q[2]) * (v[5] - v[2])),
        ),
        "all": (mbs.UserForce(lambda state: -state.t * state.q * state.v), old_order(lambda q, v, t: -t * q * v)),
    }
    for new, old in pairs.values():
        found, expected = force_of(force=new), force_of(force=old)
        assert np.any(expected != 0)
        np.testing.assert_allclose(found, expected, atol=1e-14)


def test_slides_and_angles_of_space_against_torsion_and_axial_springs():
    """A spring of one's own at a cylindrical joint is the one that there is."""
    ends = ("ground", "rod", (0.1, 0.2, 0), (0, -0.1, 0.3))
    axis = (1.0, 2.0, -1.0)
    unit = np.array(axis) / np.sqrt(6)
    own = lambda state: 5.0 * unit * (-state.joint("pin").angle - 0.1 * state.joint("pin").rate)
    slide = lambda state: unit * (-7.0 * state.joint("pin").slide - 0.2 * state.joint("pin").slide_rate)
    build = lambda *forces: mbs.Mechanism(
        {"rod": spatial.Body()},
        {"pin": spatial.Cylindrical(*ends, axis)},
        forces={f"{k}": f for k, f in enumerate(forces)},
    )
    mine = build(mbs.Torque("rod", own), mbs.PointForce("rod", ends[3], slide))
    theirs = build(
        mbs.TorsionSpring("ground", "rod", 5.0, 0.0, 0.5, axis_i=axis),
        mbs.AxialSpring(*ends, axis, stiffness=7.0, damping=0.2),
    )
    q = mbs.JointCoordinates().of(mine).configuration(jnp.array([0.4, 1.1]))
    v = mbs.velocity_transformation(mine, jnp.array([0.4, 1.1])) @ jnp.array([0.3, -2.0])
    np.testing.assert_allclose(mbs.generalized_force(mine, q, v), mbs.generalized_force(theirs, q, v), atol=1e-13)


def test_the_state_says_what_a_trajectory_says():
    rng = np.random.default_rng(4)
    mech, q = random_tree(rng, 3, dimension=3)
    v = jnp.asarray(rng.normal(size=mech.layout.m))
    body, s, row = mech.layout.bodies[1][0], (0.1, -0.2, 0.3), lambda x: jnp.asarray(x)[None]
    run = mbs.Trajectory(row(0.0), row(q), row(v), row(0 * v), jnp.zeros(1, int), mech.layout)
    spin = lambda state: jnp.concatenate([state[body].angular_velocity, state[body].rotation[:, 1], jnp.zeros(12)])
    seen = lambda state: jnp.concatenate([state[body].point(s), state[body].velocity(s), jnp.zeros(12)])
    force = lambda f: np.asarray(
        mbs.generalized_force(mbs.Mechanism(mech.bodies, forces={"f": mbs.UserForce(f)}), q, v)
    )
    np.testing.assert_allclose(force(seen)[:6], np.concatenate([run.point(body, s)[0], run.point_velocity(body, s)[0]]))
    own = mech.layout.velocity_slices[body]
    omega = np.asarray(run.rotation(body)[0]) @ np.asarray(v[own][3:])
    np.testing.assert_allclose(force(spin)[:6], np.concatenate([omega, run.rotation(body)[0, :, 1]]), atol=1e-14)


def test_functions_take_the_state_or_numbers_as_they_are_written():
    """One argument that has to be given is the state, several are t, q and v; defaults are constants of the function."""

    class Law:
        def __init__(self, stiffness):
            self.stiffness = stiffness

        def of_state(self, state):
            return -self.stiffness * state["crank"].angle

        def of_numbers(self, t, q, v):
            return -self.stiffness * q[2]

    def of_many(*numbers):
        return -3.0 * numbers[1][2]

    forms = (
        lambda state: -3.0 * state["crank"].angle,
        lambda state, k=3.0: -k * state["crank"].angle,
        functools.partial(lambda k, state: -k * state["crank"].angle, 3.0),
        Law(3.0).of_state,
        jax.jit(lambda state: -3.0 * state.q[2]),
        lambda t, q, v: -3.0 * q[2],
        lambda t, q, v, k=3.0: -k * q[2],
        functools.partial(lambda k, t, q, v: -k * q[2], 3.0),
        Law(3.0).of_numbers,
        of_many,
    )
    expected = force_of(drive=mbs.Torque("rocker", forms[0]))
    assert expected[8] != 0
    for form in forms:
        np.testing.assert_allclose(force_of(drive=mbs.Torque("rocker", form)), expected, rtol=1e-12)


@pytest.mark.variant
def test_numbers_in_functions_of_the_state_are_design_variables():
    q, v = state()

    def energy(stiffness):
        mech = loaded(spring=mbs.Torque("crank", lambda state: -stiffness * state.joint("O").angle))
        run = mbs.simulate(mech, TIMES, q, 0 * v, step=0.02)
        return run.energy.kinetic[-1]

    slope = jax.grad(energy)(3.0)
    h = 1e-5
    np.testing.assert_allclose(slope, (energy(3 + h) - energy(3 - h)) / (2 * h), rtol=1e-6)
    several = jax.vmap(energy)(jnp.array([2.0, 3.0]))
    np.testing.assert_allclose(several[1], energy(3.0), rtol=1e-12)


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda state: state["rockr"].angle, r"unknown body 'rockr'; did you mean 'rocker'\?"),
        (lambda state: state.joint("D").angle, "unknown joint 'D'; there are 'O', 'A', 'B', 'C'"),
        (lambda state: state.joint("C").slide, r"joint 'C' \(Revolute\) has no slide; it has the angle 'phi'"),
        (lambda state: state.joint("C").acceleration, "a force cannot use accelerations"),
        (lambda state: state.q, r"value must have shape \(\), got \(9,\)"),
    ],
)
def test_wrong_names_name_the_force(function, message):
    with pytest.raises(ValueError, match=r"force 'drive' \(Torque\): .*" + message):
        mbs.simulate(loaded(drive=mbs.Torque("crank", function)), TIMES, state()[0], step=0.05)


@pytest.mark.variant
def test_functions_of_the_state_in_files(tmp_path):
    mech = loaded(
        drive=mbs.Torque("crank", lambda state: -state.joint("A").angle - state["rocker"].velocity((0.1, 0))[0]),
        gas=mbs.PointForce("rocker", (0.1, 0), (lambda state: state["crank"].point()[1], 0.5)),
        drag=mbs.UserForce(lambda state: -0.1 * state.v),
    )
    q, v = state()
    mbs.save(mech, tmp_path / "model.json", guess=q)
    found = mbs.generalized_force(mbs.load(tmp_path / "model.json"), q, v, 0.3)
    np.testing.assert_allclose(found, mbs.generalized_force(mech, q, v, 0.3), rtol=1e-12)
    wrong = loaded(drive=mbs.Torque("crank", lambda state: state["rockr"].angle))
    with pytest.raises(ValueError, match="force 'drive': value: unknown body 'rockr'"):
        mbs.save(wrong, tmp_path / "wrong.json", guess=q)


def test_a_body_of_space_has_no_angle():
    mech = mbs.Mechanism({"rod": spatial.Body()}, forces={"turn": mbs.Torque("rod", lambda state: state["rod"].angle)})
    with pytest.raises(ValueError, match=r"force 'turn' \(Torque\): a body of space has no angle: use .rotation"):
        mbs.generalized_force(mech, mech.coordinates(), mech.velocities())


def test_the_ground_stands_still():
    mech = mbs.Mechanism(
        {"rod": planar.Body()}, forces={"f": mbs.PointForce("rod", (0, 0), lambda state: state["ground"].point((1, 2)))}
    )
    found = mbs.generalized_force(mech, mech.coordinates(), mech.velocities())
    np.testing.assert_allclose(found, (1, 2, 0))


def ways(stiffness):
    """NumPy's inverse of a local array, wherever a function may have it from."""
    flexibility, damping = np.linalg.inv(stiffness), 2.0
    inverse = lambda matrix: jnp.asarray(np.linalg.inv(matrix))
    box = {"flexibility": flexibility, "damping": damping}

    def inner(q):
        return inverse(flexibility) @ q

    class Law:
        def force(self, state):
            return -inverse(flexibility) @ state.q - damping * state.v

    return {
        "cell": lambda state: -inverse(flexibility) @ state.q - damping * state.v,
        "default": lambda state, f=flexibility, c=damping: -inverse(f) @ state.q - c * state.v,
        "partial": functools.partial(lambda f, state, c: -inverse(f) @ state.q - c * state.v, flexibility, c=damping),
        "nested": lambda state: -inner(state.q) - damping * state.v,
        "container": lambda state: -inverse(box["flexibility"]) @ state.q - box["damping"] * state.v,
        "method": Law().force,
    }


STIFFNESS = np.array([[3.0, 1, 0], [1, 2, 0], [0, 0, 4]])


@pytest.mark.parametrize("way", ways(STIFFNESS))
def test_functions_of_numpy_take_arrays_of_numpy_that_a_force_closes_over(way):
    """A local array behaves as a global one does."""
    mech = mbs.Mechanism({"a": planar.Body()}, forces={"f": mbs.UserForce(ways(STIFFNESS)[way])})
    q, v = np.array([0.1, 0.2, 0.3]), np.array([1.0, -1, 0.5])
    found = jax.jit(mbs.generalized_force)(mech, q, v)
    np.testing.assert_allclose(found, -STIFFNESS @ q - 2 * v, rtol=1e-12)


def test_arrays_of_numpy_in_motions_outlines_and_values():
    table = np.array([0.3, 0.1, 0.05])
    rows = lambda: np.linalg.norm(table)  # of NumPy, wherever it is called
    values = {
        "motion": jax.jit(lambda c: c(0.5))(mbs.motion.Function(lambda t: rows() * t)),
        "outline": jax.jit(lambda c: c.radius(0.5))(planar.FunctionOutline(lambda angle: rows() * angle)),
    }
    for value in values.values():
        np.testing.assert_allclose(value, 0.5 * np.linalg.norm(table))
    mech = mbs.Mechanism(
        {"a": planar.Body()}, forces={"f": mbs.PointForce("a", (0, 0), (0.0, lambda t, q, v: rows() * q[0]))}
    )
    found = jax.jit(mbs.generalized_force)(mech, jnp.array([2.0, 0, 0]), jnp.zeros(3))
    np.testing.assert_allclose(found[1], 2 * np.linalg.norm(table))


def test_arrays_of_jax_and_floats_are_design_variables_and_those_of_numpy_constants():
    def mech(stiffness, factor, scale):
        force = lambda state: -factor * stiffness @ (scale * state.q)
        return mbs.Mechanism({"a": planar.Body()}, forces={"f": mbs.UserForce(force)})

    traces = []

    @jax.jit
    def force(mech):
        traces.append(0)
        return mbs.generalized_force(mech, jnp.ones(3), jnp.zeros(3))

    unit = jnp.eye(3)
    for factor in (1.0, 2.0, 3.0):  # made anew: equal constants, other design variables
        np.testing.assert_allclose(
            force(mech(factor * unit, factor, np.array([1.0, 2, 3]))), [-(factor**2) * k for k in (1, 2, 3)]
        )
    assert len(traces) == 1
    np.testing.assert_allclose(force(mech(unit, 1.0, np.array([1.0, 2, 4]))), [-1, -2, -4])
    by_numbers = jax.grad(lambda mech: mbs.generalized_force(mech, jnp.ones(3), jnp.zeros(3)).sum())
    slopes = jax.tree.leaves(by_numbers(mech(2 * unit, 3.0, np.array([1.0, 2, 3]))).forces)
    assert sorted(np.shape(x) for x in slopes) == [(), (3, 3)]
    by_design = jax.grad(lambda s: mbs.generalized_force(mech(unit, 1.0, s), jnp.ones(3), jnp.zeros(3)).sum())
    np.testing.assert_allclose(by_design(jnp.array([1.0, 2, 3])), -1)


def test_a_constant_is_what_it_was_when_the_force_was_made():
    stiffness = np.eye(3)
    mech = mbs.Mechanism({"a": planar.Body()}, forces={"f": mbs.UserForce(lambda state: -stiffness @ state.q)})
    stiffness *= 5
    np.testing.assert_allclose(mbs.generalized_force(mech, jnp.ones(3), jnp.zeros(3)), -1)


def test_partial_functions_take_words():
    law = lambda kind, state: -state.q if kind == "spring" else -state.v
    mech = mbs.Mechanism({"a": planar.Body()}, forces={"f": mbs.UserForce(functools.partial(law, "spring"))})
    np.testing.assert_allclose(jax.jit(mbs.generalized_force)(mech, jnp.ones(3), jnp.zeros(3)), -1)


FORMULATIONS = (mbs.Augmented(), mbs.Natural(), mbs.JointCoordinates(), mbs.Kane())


@pytest.mark.variant
def test_functions_of_the_state_in_every_formulation():
    law = lambda state: -3.0 * state.joint("B").angle - state["rocker"].velocity((0.1, 0))[0]
    mech, (q, _) = loaded(drive=mbs.Torque("crank", law)), state()
    first = [mbs.simulate(mech, TIMES[:1], q, {"crank.phi": 2.0}, formulation=f).a[0] for f in FORMULATIONS]
    assert np.abs(first[0]).max() > 0.1
    for other in first[1:]:
        np.testing.assert_allclose(other, first[0], atol=1e-9 * np.abs(first[0]).max())
