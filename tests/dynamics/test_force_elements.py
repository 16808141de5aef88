"""The report of forces along a motion, and springs whose law is a function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial

K, FREE, C = 30.0, 0.4, 0.7


def planar_mechanism():
    """Two bodies on a pin, with every kind of force."""
    return mbs.Mechanism(
        {"a": planar.Body(1.0, 0.1, (0.1, 0.05)), "b": planar.Body(0.7, 0.05)},
        {"O": planar.Revolute("ground", "a", (0, 0), (0, 0))},
        forces={
            "gravity": mbs.Gravity((0.0, -9.81)),
            "spring": mbs.Spring("a", "b", (0.5, 0.0), (0.1, 0.2), K, FREE),
            "damper": mbs.Damper("ground", "b", (1.0, 0.0), (0.0, 0.1), C),
            "stiffening": mbs.Spring("ground", "b", (0, 1), force=lambda length, rate: 5 * length**3 + 0.2 * rate),
            "coil": mbs.TorsionSpring("a", "b", 2.0, 0.3, 0.1, actuator=mbs.motion.Harmonic(0.5, 3.0)),
            "dry": mbs.TorsionSpring("ground", "a", torque=lambda angle, rate: -0.3 * jnp.tanh(rate / 0.1)),
            "motor": mbs.Torque("a", 0.4),
            "push": mbs.PointForce("b", (0.1, 0.0), (0.5, -0.2), follower=True),
            "user": mbs.UserForce(lambda state: -0.1 * state.v),
        },
    )


def spatial_mechanism():
    """The same in space, with a spring along an axis."""
    return mbs.Mechanism(
        {"a": spatial.Body(1.0, (0.1, 0.2, 0.15), (0.1, 0.05, 0)), "b": spatial.Body(0.7, 0.05)},
        {"O": spatial.Revolute("ground", "a", (0, 0, 0), (0, 0, 0), (0, 1, 1))},
        forces={
            "gravity": mbs.Gravity((0.0, 1.0, -9.81)),
            "spring": mbs.Spring("a", "b", (0.5, 0.0, 0.1), (0.1, 0.2, 0.0), K, FREE),
            "damper": mbs.Damper("ground", "b", (1.0, 0.0, 0.3), damping=C),
            "slide": mbs.AxialSpring("a", "b", axis_i=(1, 1, 0), stiffness=2.0, damping=0.1),
            "law": mbs.AxialSpring("a", "b", axis_i=(1, 0, 1), force=lambda s, rate: -(s**3) - 0.1 * rate),
            "coil": mbs.TorsionSpring("a", "b", 2.0, 0.1, axis_i=(0, 0, 1)),
            "motor": mbs.Torque("a", (0.1, 0.2, 0.3), "b"),
            "push": mbs.PointForce("b", (0.1, 0.0, 0.0), (0.5, -0.2, 0.1)),
        },
    )


STARTS = {
    2: (planar_mechanism, {"b": (0.9, 0.3, 0.4)}, {"b": (0.3, -0.5, 1.0), "a.phi": 0.7}),
    3: (spatial_mechanism, {"b": (0.9, 0.3, 0.4, 1, 0, 0, 0)}, {"b": (0.3, -0.5, 0.2, 1.0, 0.3, -0.4)}),
}


@pytest.fixture(scope="module", params=STARTS)
def found(request):
    build, start, velocities = STARTS[request.param]
    mech = build()
    run = mbs.simulate(mech, np.linspace(0, 0.2, 4), start, velocities, step=0.01, throw=True)
    return mech, run, mbs.force_elements(mech, run)


def test_powers_of_all_forces_add_up_to_the_rate_of_the_kinetic_energy(found):
    mech, run, forces = found
    assert list(forces) == list(mech.forces)

    def kinetic(q, v):
        return mbs.energy(mech, q, v).kinetic

    def rate(q, v, a):
        return jax.jvp(kinetic, (q, v), (mech.layout.rate(q, v), a))[1]

    power = sum(forces[name].power for name in forces)
    np.testing.assert_allclose(power, jax.jit(jax.vmap(rate))(run.q, run.v, run.a), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(sum(f.potential for f in forces.values()), run.energy.potential, rtol=1e-12)


def test_springs_and_dampers_say_what_their_laws_say(found):
    _, run, forces = found
    spring, damper, coil = (forces[name] for name in ("spring", "damper", "coil"))
    s = ((0.5, 0.0, 0.1), (0.1, 0.2, 0.0)) if run.layout.body_types["a"].dimension == 3 else ((0.5, 0.0), (0.1, 0.2))
    apart = run.point("b", s[1]) - run.point("a", s[0])
    length = np.linalg.norm(apart, axis=-1)
    rate = np.sum(apart * (run.point_velocity("b", s[1]) - run.point_velocity("a", s[0])), axis=-1) / length
    np.testing.assert_allclose(spring.length, length, rtol=1e-12)
    np.testing.assert_allclose(spring.rate, rate, rtol=1e-10)
    np.testing.assert_allclose(spring.force, K * (length - FREE), rtol=1e-12)
    np.testing.assert_allclose(spring.potential, K * (length - FREE) ** 2 / 2, rtol=1e-12)
    np.testing.assert_allclose(damper.force, C * damper.rate, rtol=1e-12)
    for element in (f for f in forces.values() if f.rate is not None):
        effort, sign = (element.force, -1) if element.angle is None else (element.torque, 1)
        sign = 1 if element is forces.get("slide") or element is forces.get("law") else sign
        np.testing.assert_allclose(element.power, sign * effort * element.rate, rtol=1e-9, atol=1e-12)
    assert coil.length is None
    assert coil.force is None
    assert spring.angle is None
    assert spring.torque is None
    assert forces["gravity"].force is None


def test_given_forces_and_torques_are_those_in_the_ground_frame(found):
    mech, run, forces = found
    push = mech.forces["push"]
    value = np.asarray(push.value)
    turned = np.einsum("tab,b->ta", run.rotation("b"), value) if push.follower else np.tile(value, (len(run.t), 1))
    np.testing.assert_allclose(forces["push"].force, turned, atol=1e-12)
    power = np.sum(turned * run.point_velocity("b", push.point), axis=-1)
    np.testing.assert_allclose(forces["push"].power, power, rtol=1e-9)
    np.testing.assert_allclose(
        forces["motor"].torque, np.broadcast_to(mech.forces["motor"].value, forces["motor"].torque.shape)
    )


def test_reports_come_in_batches_and_have_gradients():
    mech = planar_mechanism()
    q, v = np.random.default_rng(0).normal(size=(2, 2, 3, 6))
    run = mbs.Trajectory(
        jnp.zeros((2, 3)), jnp.asarray(q), jnp.asarray(v), jnp.asarray(v), jnp.zeros((2, 3), int), mech.layout
    )
    both = mbs.force_elements(mech, run)
    one_by_one = jax.vmap(lambda run: mbs.force_elements(mech, run))(run)
    for ours, theirs in zip(jax.tree.leaves(both), jax.tree.leaves(one_by_one), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    assert both["push"].force.shape == (2, 3, 2)

    def energy(q):
        moved = mbs.Trajectory(run.t[0, :1], q[None], run.v[0, :1], run.a[0, :1], run.status[0, :1], mech.layout)
        return mbs.force_elements(mech, moved)["spring"].potential[0]

    # −∂V/∂q is the generalized force of the spring alone.
    alone = mbs.Mechanism(mech.bodies, forces={"spring": mech.forces["spring"]})
    np.testing.assert_allclose(
        -jax.grad(energy)(run.q[0, 0]), mbs.generalized_force(alone, q[0, 0], v[0, 0]), rtol=1e-10, atol=1e-10
    )


def falling(force, **start):
    mech = mbs.Mechanism({"a": planar.Body(2.0, 0.3)}, forces={"f": force})
    return mech, mech.coordinates(start), jnp.arange(1.0, 4.0)


@pytest.mark.parametrize(
    ("law", "given"),
    [
        (
            mbs.Spring("ground", "a", (0.1, 0.2), (0.3, 0.0), force=lambda length, rate: 3.0 * (length - 0.5)),
            mbs.Spring("ground", "a", (0.1, 0.2), (0.3, 0.0), 3.0, 0.5),
        ),
        (
            mbs.Damper("a", "ground", (0.1, 0.2), (0.3, 0.0), force=lambda length, rate: 0.7 * rate),
            mbs.Damper("a", "ground", (0.1, 0.2), (0.3, 0.0), 0.7),
        ),
        (
            mbs.SpringDamper("a", "ground", (0.1, 0.2), (0.3, 0), 2.0, force=lambda length, rate: length + 0.7 * rate),
            mbs.SpringDamper("a", "ground", (0.1, 0.2), (0.3, 0.0), 3.0, 0.7),
        ),
        (
            mbs.TorsionSpring("a", "ground", torque=lambda angle, rate: -2.0 * (angle - 0.3) - 0.1 * rate),
            mbs.TorsionSpring("a", "ground", 2.0, 0.3, 0.1),
        ),
    ],
)
def test_linear_laws_are_springs_and_dampers(law, given):
    (mech, q, v), (linear, *_) = falling(law, a=(1.0, 0.4, 0.8)), falling(given)
    np.testing.assert_allclose(mbs.generalized_force(mech, q, v), mbs.generalized_force(linear, q, v), rtol=1e-12)


def test_the_stiffness_that_a_law_closes_over_is_a_design_variable():
    def force(k):
        mech, q, v = falling(mbs.Spring("ground", "a", force=lambda length, rate: k * length**3), a=(3.0, 4.0, 0.0))
        return mbs.generalized_force(mech, q, v)[0]

    # f = k ℓ³ at ℓ = 5, three fifths of it along x.
    np.testing.assert_allclose(jax.grad(force)(2.0), -0.6 * 125, rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(force)(jnp.arange(3.0)), -0.6 * 125 * np.arange(3.0), rtol=1e-12)


@pytest.mark.parametrize("law", [lambda length, rate: 1 / length, lambda length, rate: jnp.sqrt(length) * rate])
def test_laws_without_a_value_or_slope_at_length_zero_are_finite_there(law):
    mech, q, v = falling(mbs.Spring("ground", "a", force=law))
    value = lambda q, v: mbs.generalized_force(mech, q, v)
    np.testing.assert_array_equal(value(q, v), 0)
    for slope in jax.jacrev(value, (0, 1))(q, v) + jax.jacfwd(value, (0, 1))(q, v):
        np.testing.assert_array_equal(slope, 0)


def test_a_hardening_spring_swings_with_the_period_of_its_integral():
    """m ẍ = −k x³ from rest at A: a quarter period is √(m / 2k) / A ∫₀¹ du / √((1 − u⁴) / 4) = 1.854075 √(m/k) / A."""
    mech = mbs.Mechanism(
        {"a": spatial.Body(2.0)},
        {"slide": spatial.Prismatic("ground", "a", axis_i=(1, 0, 0))},
        forces={"spring": mbs.AxialSpring("ground", "a", axis_i=(1, 0, 0), force=lambda s, rate: -8.0 * s**3)},
    )
    quarter = 1.8540746773013719 * np.sqrt(2.0 / 8.0) / 0.5
    run = mbs.simulate(mech, np.array([0.0, quarter]), {"a.x": 0.5}, step=1e-2, throw=True)
    np.testing.assert_allclose(run.position("a.x")[-1], 0, atol=1e-7)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: mbs.Spring("ground", "a", force=lambda length: length), "force must be a function of (length, rate)"),
        (lambda: mbs.Spring("ground", "a", force=3.0), "force must be a function of (length, rate)"),
        (
            lambda: mbs.Spring("ground", "a", force=mbs.motion.Constant(1.0)),
            "force must be a function of (length, rate)",
        ),
        (lambda: mbs.Damper("ground", "a", force=lambda length, rate: np.sin(rate)), "written in jax.numpy"),
        (lambda: mbs.Damper("ground", "a", force=lambda length, rate: jnp.zeros(2)), "it gives shape (2,)"),
        (lambda: mbs.TorsionSpring("ground", "a", torque=lambda: 1.0), "torque must be a function of (angle, rate)"),
    ],
)
def test_laws_that_are_none_are_refused_where_they_are_given(make, words):
    with pytest.raises(ValueError, match="force 'f'") as caught:
        falling(make())
    assert words in str(caught.value)
