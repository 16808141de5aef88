"""Forces: power, potential, action and reaction, values of every kind."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from free_bodies import BODIES, COM, MASS, P, Q, S, T, V, close, place


def alone(force):
    """Two free bodies with one force."""
    return mbs.Mechanism(BODIES, forces={"force": force})


def generalized(forces):
    """For each force, by name, its generalized force in all states, (5, 6)."""
    mechs = {name: alone(force) for name, force in forces.items()}
    at = lambda q, v: {name: mbs.generalized_force(mech, q, v, T) for name, mech in mechs.items()}
    return {name: np.asarray(found) for name, found in jax.jit(jax.vmap(at))(Q, V).items()}


def distance(i, j):
    """q ↦ the distance of the point P of a body and S of another."""

    def between(q):
        d = place(q, j, S) - place(q, i, P)
        return jnp.sqrt(d @ d)

    return between


def turned(i, j):
    """q ↦ the angle of a body relative to another."""
    angle = lambda q, body: {"ground": 0.0, "a": q[2], "b": q[5]}[body]
    return lambda q: angle(q, j) - angle(q, i)


def push(q, body, s, force):
    """The generalized force of a force at a point, by the moment about the body's origin."""
    arm = place(q, body, s) - place(q, body, (0.0, 0.0))
    load = jnp.array([force[0], force[1], arm[0] * force[1] - arm[1] * force[0]])
    return jnp.concatenate([load, jnp.zeros(3)] if body == "a" else [jnp.zeros(3), load])


def twist(torque, body):
    """The generalized force of a torque."""
    return torque * np.eye(6)[2 if body == "a" else 5]


PAIRS = {"two bodies": ("a", "b"), "the other way round": ("b", "a"), "ground": ("ground", "a")}


def weight_potential(q):
    """m g y of both centres of mass, for a slanting gravity."""
    return -sum(
        m * place(q, body, s) @ jnp.array([1.2, -9.81]) for body, m, s in (("a", MASS, COM), ("b", 1.1, (0, 0)))
    )


def bump(q):
    """A potential of no built-in force."""
    return jnp.sin(q[0]) * q[4] ** 2 + q[2] * q[5]


# name → force, potential energy by hand
CONSERVATIVE = {
    "gravity": (mbs.Gravity((1.2, -9.81)), weight_potential),
    "user": (mbs.UserForce(lambda state: -jax.grad(bump)(state.q), bump), bump),
}
for _name, (_i, _j) in PAIRS.items():
    CONSERVATIVE |= {
        f"spring, {_name}": (
            mbs.Spring(_i, _j, P, S, 30.0, 0.4),
            lambda q, i=_i, j=_j: 15 * (distance(i, j)(q) - 0.4) ** 2,
        ),
        f"spring and no damper, {_name}": (
            mbs.SpringDamper(_i, _j, P, S, 30.0, free_length=0.4),
            lambda q, i=_i, j=_j: 15 * (distance(i, j)(q) - 0.4) ** 2,
        ),
        f"torsion spring, {_name}": (
            mbs.TorsionSpring(_i, _j, 4.0, 0.3),
            lambda q, i=_i, j=_j: 2 * (turned(i, j)(q) - 0.3) ** 2,
        ),
    }


@pytest.fixture(scope="module")
def conservative():
    """Of each conservative force in all states: generalized force, energy, the slope of the energy by hand."""
    mechs = {name: alone(force) for name, (force, _) in CONSERVATIVE.items()}

    def at(q, v):
        found = {}
        for name, mech in mechs.items():
            by_hand = CONSERVATIVE[name][1]
            potential = lambda q, mech=mech: mbs.energy(mech, q, v).potential
            forces = mbs.generalized_force(mech, q, v, T), -jax.grad(potential)(q), -jax.grad(by_hand)(q)
            found[name] = (*forces, potential(q), by_hand(q))
        return found

    return jax.jit(jax.vmap(at))(Q, V)


@pytest.mark.parametrize("name", CONSERVATIVE)
def test_force_is_the_slope_of_its_potential(conservative, name):
    force, slope, slope_by_hand, energy, energy_by_hand = conservative[name]
    close(energy, energy_by_hand)
    close(force, slope)
    close(force, slope_by_hand)


def test_turns_of_a_torsion_spring_are_counted():
    mech = alone(mbs.TorsionSpring("ground", "a", stiffness=2.0, free_angle=0.5))
    found = mbs.generalized_force(mech, {"a.phi": 0.5 + 6 * np.pi}, np.zeros(6))
    np.testing.assert_allclose(found[2], -12 * np.pi, rtol=1e-12)


DAMPERS = {f"damper, {name}": (mbs.Damper(*pair, P, S, 5.0), distance(*pair)) for name, pair in PAIRS.items()}
DAMPERS |= {
    f"in a spring-damper, {name}": (mbs.SpringDamper(*pair, P, S, damping=5.0), distance(*pair))
    for name, pair in PAIRS.items()
}
DAMPERS |= {
    f"torsion damper, {name}": (mbs.TorsionDamper(*pair, damping=5.0), turned(*pair)) for name, pair in PAIRS.items()
}
DAMPERS |= {
    f"in a torsion spring, {name}": (mbs.TorsionSpring(*pair, damping=5.0), turned(*pair))
    for name, pair in PAIRS.items()
}


@pytest.fixture(scope="module")
def damped():
    return generalized({name: force for name, (force, _) in DAMPERS.items()})


@pytest.mark.parametrize("name", DAMPERS)
def test_dampers_take_their_part_of_the_power(damped, name):
    _, measure = DAMPERS[name]
    power = np.sum(damped[name] * V, axis=1)
    h = 1e-5
    rate = np.array([(measure(q + h * v) - measure(q - h * v)) / (2 * h) for q, v in zip(Q, V, strict=True)])
    assert np.all(power < 0)
    np.testing.assert_allclose(power, -5 * rate**2, rtol=1e-8)
    # The damper acts along its length or angle, with −c times the rate.
    exact = [jax.jvp(measure, (q,), (v,))[1] for q, v in zip(Q, V, strict=True)]
    close(damped[name], [-5 * r * np.asarray(jax.grad(measure)(q)) for q, r in zip(Q, exact, strict=True)])


def test_spring_damper_is_the_sum_of_its_parts():
    found = generalized(
        {
            "whole": mbs.SpringDamper("a", "b", P, S, 30.0, 5.0, 0.4, actuator=2.0),
            "spring": mbs.Spring("a", "b", P, S, 30.0, 0.4),
            "damper": mbs.Damper("a", "b", P, S, 5.0),
            "actuator": mbs.SpringDamper("a", "b", P, S, actuator=2.0),
            "torsion": mbs.TorsionSpring("a", "b", 4.0, 0.3, 0.6, actuator=2.0),
            "torsion spring": mbs.TorsionSpring("a", "b", 4.0, 0.3),
            "torsion damper": mbs.TorsionDamper("a", "b", 0.6),
            "torque": mbs.Torque("b", 2.0, reaction="a"),
        }
    )
    close(found["whole"], found["spring"] + found["damper"] + found["actuator"])
    close(found["torsion"], found["torsion spring"] + found["torsion damper"] + found["torque"])


BETWEEN = {
    "spring": mbs.Spring("a", "b", P, S, 30.0, 0.4),
    "damper": mbs.Damper("b", "a", P, S, 5.0),
    "actuator": mbs.SpringDamper("a", "b", P, S, actuator=lambda t, q, v: 2.0 + t * q[0] * v[4]),
    "torsion spring": mbs.TorsionSpring("a", "b", 4.0, 0.3, actuator=mbs.motion.Ramp(2.0)),
    "torsion damper": mbs.TorsionDamper("b", "a", 0.6),
    "torque": mbs.Torque("a", 1.5, reaction="b"),
}


def test_action_is_reaction():
    for name, load in generalized(BETWEEN).items():
        on_a, on_b = load[:, :3], load[:, 3:]
        assert np.abs(load).max() > 0.1, name
        moment = lambda q, load: q[:, 0] * load[:, 1] - q[:, 1] * load[:, 0] + load[:, 2]
        size = 1e-13 * np.abs(load).max()
        np.testing.assert_allclose(on_a[:, :2] + on_b[:, :2], 0, atol=size, err_msg=name)
        about_origin = moment(Q[:, :3], on_a) + moment(Q[:, 3:], on_b)
        np.testing.assert_allclose(about_origin, 0, atol=10 * size, err_msg=name)


RAMP = mbs.motion.Ramp(3.0, start=0.5)
AT_T = 0.5 + 3.0 * T


def of_state(t, q, v):
    """A number that depends on everything."""
    return t + q[1] * v[5]


def pull(value, q):
    """The generalized force of a value that pulls P of a and S of b together."""
    d = place(q, "b", S) - place(q, "a", P)
    force = value * d / jnp.sqrt(d @ d)
    return push(q, "a", P, force) + push(q, "b", S, -force)


def along(q, body, vector):
    """A vector given in a body frame."""
    return place(q, body, vector) - place(q, body, (0.0, 0.0))


# name → force, its generalized force by hand
GIVEN = {
    "torque, number": (mbs.Torque("a", 2), lambda q, v: twist(2.0, "a")),
    "torque, motion": (mbs.Torque("b", RAMP), lambda q, v: twist(AT_T, "b")),
    "torque, function": (mbs.Torque("b", of_state), lambda q, v: twist(of_state(T, q, v), "b")),
    "torque, with a reaction": (
        mbs.Torque("a", RAMP, reaction="b"),
        lambda q, v: twist(AT_T, "a") - twist(AT_T, "b"),
    ),
    "point force, numbers": (mbs.PointForce("a", P, (1, -2)), lambda q, v: push(q, "a", P, (1.0, -2.0))),
    "point force, function": (
        mbs.PointForce("b", P, lambda t, q, v: t * v[:2]),
        lambda q, v: push(q, "b", P, T * v[:2]),
    ),
    "point force, components": (
        mbs.PointForce("b", S, (RAMP, of_state)),
        lambda q, v: push(q, "b", S, (AT_T, of_state(T, q, v))),
    ),
    "point force, a number and a motion": (
        mbs.PointForce("a", S, [3, RAMP]),
        lambda q, v: push(q, "a", S, (3.0, AT_T)),
    ),
    "follower, numbers": (
        mbs.PointForce("a", P, (1, -2), follower=True),
        lambda q, v: push(q, "a", P, along(q, "a", (1.0, -2.0))),
    ),
    "follower, components": (
        mbs.PointForce("b", P, (RAMP, 0.5), follower=True),
        lambda q, v: push(q, "b", P, along(q, "b", (AT_T, 0.5))),
    ),
    "actuator, number": (mbs.SpringDamper("a", "b", P, S, actuator=4), lambda q, v: pull(4.0, q)),
    "actuator, motion": (mbs.SpringDamper("a", "b", P, S, actuator=RAMP), lambda q, v: pull(AT_T, q)),
    "actuator, function": (
        mbs.SpringDamper("a", "b", P, S, actuator=of_state),
        lambda q, v: pull(of_state(T, q, v), q),
    ),
    "actuator, the bodies swapped": (mbs.SpringDamper("b", "a", S, P, actuator=4.0), lambda q, v: pull(4.0, q)),
    "torsion actuator, number": (
        mbs.TorsionSpring("a", "b", actuator=4.0),
        lambda q, v: twist(4.0, "b") - twist(4.0, "a"),
    ),
    "torsion actuator, function": (
        mbs.TorsionSpring("ground", "b", actuator=of_state),
        lambda q, v: twist(of_state(T, q, v), "b"),
    ),
    "torsion actuator on the ground": (mbs.TorsionSpring("b", "ground", actuator=RAMP), lambda q, v: -twist(AT_T, "b")),
    "user": (
        mbs.UserForce(lambda state: state.t * state.q - state.v**2),
        lambda q, v: T * q - v**2,
    ),
}


@pytest.fixture(scope="module")
def given():
    expected = jax.jit(jax.vmap(lambda q, v: {name: jnp.asarray(hand(q, v)) for name, (_, hand) in GIVEN.items()}))
    return generalized({name: force for name, (force, _) in GIVEN.items()}), expected(Q, V)


@pytest.mark.parametrize("name", GIVEN)
def test_given_values(given, name):
    found, expected = given
    close(found[name], expected[name])


def test_what_has_no_potential_has_none():
    mech = alone(mbs.SpringDamper("a", "b", P, S, damping=5.0, actuator=4.0))
    assert mbs.energy(mech, Q[0], V[0]).potential == 0


def hung(force):
    """The first body alone, on a force, for a while: where it is and how fast."""
    mech = mbs.Mechanism({"a": BODIES["a"]}, forces={"force": force, "gravity": mbs.Gravity((0, -9.81))})
    run = mbs.simulate(mech, np.array([0.0, 0.1, 0.2]), {"a": (1.0, 0.3, 0.2)}, {"a.phi": 2.0}, step=0.02)
    return jnp.concatenate([run.q[-1], run.v[-1]])


def copied(k):
    """A spring as a user force, which closes over its stiffness."""

    def force(state):
        length = lambda q: jnp.linalg.norm(place(jnp.append(q, jnp.zeros(3)), "a", S) - jnp.asarray(P))
        return -jax.grad(lambda q: k * (length(q) - 0.4) ** 2 / 2)(state.q)

    return mbs.UserForce(force)


@pytest.mark.slow
def test_user_force_that_copies_a_spring_moves_and_differentiates_like_it():
    value_and_slope = lambda make: jax.jvp(lambda k: hung(make(k)), (30.0,), (1.0,))
    found = value_and_slope(copied)
    expected = value_and_slope(lambda k: mbs.Spring("ground", "a", P, S, k, 0.4))
    assert np.abs(expected[1]).max() > 1e-3
    for a, b in zip(found, expected, strict=True):
        close(a, b, 1e-10)
    reverse = jax.jacrev(lambda k: hung(copied(k)))(30.0)
    close(reverse, expected[1], 1e-9)


def test_spring_whose_ends_coincide_pulls_nowhere():
    # Numbers that have no rounding.
    q = np.array([0.5, 0.25, 0.0, 1.0, 0.75, 0.3])
    point = (0.5, 0.5)

    def force(k, free, q):
        mech = alone(mbs.SpringDamper("a", "b", point, (0, 0), k, 5.0, free))
        return mbs.generalized_force(mech, q, V[0])

    def energy(k, free, q):
        return mbs.energy(alone(mbs.Spring("a", "b", point, (0, 0), k, free)), q, V[0]).potential

    np.testing.assert_array_equal(force(30.0, 0.4, q), 0)
    np.testing.assert_allclose(energy(30.0, 0.4, q), 15 * 0.4**2, rtol=1e-14)
    for jacobian in (jax.jacfwd, jax.jacrev):
        for derivative in (*jacobian(force, (0, 1, 2))(30.0, 0.4, q), *jacobian(energy, (0, 1, 2))(30.0, 0.4, q)):
            assert np.all(np.isfinite(derivative))
