"""Gears, belts and racks without marks mesh as they are drawn in the guess, in plane and space."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial

ORIGIN = (0.0, 0.0)
TIMES = np.array([0.0, 0.7, 2.0])
SPEED = mbs.motion.Ramp(1.0)
# The driven gear stands askew, above the driving one.
DRAWN = {"a": (0, 0, 0), "b": (0, 3, 0.3)}
IN_SPACE = {"b": spatial.coordinates((0, 3, 0), (0, 0, 0.3))}


def gears(radii=(1.0, 2.0), **angles):
    """A driven gear at the origin, another one three above it."""
    return mbs.Mechanism(
        {"a": planar.Body(), "b": planar.Body()},
        {
            "A": planar.Revolute("ground", "a", ORIGIN, ORIGIN),
            "B": planar.Revolute("ground", "b", (0, 3), ORIGIN),
            "mesh": planar.Gear("a", "b", ORIGIN, ORIGIN, *radii, **angles),
        },
        {"motor": planar.RevoluteDriver("ground", "a", SPEED)},
    )


def gears_in_space(radii=(1.0, 2.0)):
    return mbs.Mechanism(
        {"a": spatial.Body(), "b": spatial.Body()},
        {
            "A": spatial.Revolute("ground", "a"),
            "B": spatial.Revolute("ground", "b", (0, 3, 0)),
            "mesh": spatial.Gear("a", "b", radius_i=radii[0], radius_j=radii[1]),
        },
        {"motor": spatial.RevoluteDriver("ground", "a", SPEED)},
    )


def rack():
    return mbs.Mechanism(
        {"a": planar.Body(), "b": planar.Body()},
        {
            "A": planar.Translational("ground", "a", ORIGIN, ORIGIN, (1, 0)),
            "B": planar.Revolute("ground", "b", (0, 0.5), ORIGIN),
            "mesh": planar.RackPinion("a", "b", ORIGIN, ORIGIN, (1, 0), 0.5),
        },
        {"ram": planar.TranslationalDriver("ground", "a", ORIGIN, ORIGIN, (1, 0), SPEED)},
    )


# Angle of the second gear for that of the first.
RATIOS = {"outer": (1.0, 2.0), "inner": (-4.0, 1.0), "belt": (-0.5, 1.0), "pulleys alike": (-1.0, 1.0)}


@pytest.mark.parametrize("kind", RATIOS)
def test_gears_turn_from_where_they_are_drawn(kind):
    first, second = RATIOS[kind]
    motion = mbs.kinematics(gears((first, second)), TIMES, DRAWN, throw=True)
    np.testing.assert_allclose(motion.position("b.phi"), 0.3 - first / second * TIMES, atol=1e-12)


def test_pinion_turns_from_where_it_is_drawn():
    motion = mbs.kinematics(rack(), TIMES, {"b": (0, 0.5, 0.3)}, throw=True)
    np.testing.assert_allclose(motion.position("b.phi"), 0.3 + TIMES / 0.5, atol=1e-12)


def test_gears_in_space_turn_from_where_they_are_drawn():
    """Directions of the centres that the guess leaves out are measured too."""
    motion = mbs.kinematics(gears_in_space(), TIMES, IN_SPACE, throw=True)
    np.testing.assert_allclose(motion.joint("B").angle, 0.3 - TIMES / 2, atol=1e-12)
    np.testing.assert_allclose(motion.q[0, -2:], [np.pi / 2, -np.pi / 2 - 0.3], atol=1e-12)


def test_one_angle_is_enough():
    """With one of them given the other is zero, as it always was."""
    q = {"a": (0, 0, 0.2), "b": (0, 3, 0.3)}
    for given in ({"angle_i": 0.4}, {"angle_j": 0.4}):
        both = {"angle_i": 0.0, "angle_j": 0.0} | given
        np.testing.assert_array_equal(mbs.constraints(gears(**given), q), mbs.constraints(gears(**both), q))


def test_analyses_agree():
    """Each analysis measures the marks in its own guess, and the result keeps them: as with marks given once for all."""
    mech = gears()
    fixed = mbs.with_marks(mech, DRAWN)
    assert mbs.with_marks(fixed, {"b": (1, 1, 1)}).constraints["mesh"].angle_j == fixed.constraints["mesh"].angle_j
    start = mbs.assemble(mech, DRAWN, t=0.7)
    known = mbs.assemble(fixed, DRAWN, t=0.7)
    np.testing.assert_allclose(start.q, known.q, atol=1e-13)
    run = mbs.simulate(mech, TIMES, DRAWN, step=0.05)
    np.testing.assert_allclose(run.q, mbs.kinematics(fixed, TIMES, DRAWN).q, atol=1e-9)
    assert run.status.max() == 0
    # The Φ of a configuration by itself has no gap between the gears; that of the marks has.
    turned = {"a": (0, 0, 0), "b": (0, 3, 0.4)}
    np.testing.assert_allclose(mbs.constraints(mech, turned), 0, atol=1e-14)
    assert abs(mbs.constraints(fixed, turned)[4]) > 0.1
    np.testing.assert_allclose(
        mbs.constraint_jacobian(mech, run.q[-1], 2.0), mbs.constraint_jacobian(fixed, run.q[-1], 2.0), atol=1e-9
    )
    diagnosis = mbs.diagnose(mech, run.q[-1], 2.0)
    assert (diagnosis.dof, diagnosis.rank, diagnosis.redundant) == (1, 6, ())
    assert mbs.find_singularities(mech, TIMES, DRAWN).kinds == ()
    # A trajectory knows its marks: far from the guess a gap is one to them.
    kept = run.mechanism.at_index((2,)).constraints["mesh"]
    np.testing.assert_allclose(kept.angle_j, fixed.constraints["mesh"].angle_j, atol=1e-14)


def test_forces_between_gears():
    """2 N m on the driven gear: −1 N m on the driving one, whichever marks."""
    mech = gears()
    mech = mbs.Mechanism(mech.bodies, mech.constraints, mech.drivers, {"load": mbs.Torque("b", 2.0)})
    motion = mbs.kinematics(mech, TIMES, DRAWN)
    np.testing.assert_allclose(mbs.reactions(mech, motion)["motor"].effort, 1.0, atol=1e-12)
    fixed = mbs.with_marks(mech, DRAWN)
    found, known = (mbs.reactions(m, motion)["mesh"] for m in (mech, fixed))
    np.testing.assert_allclose(found.multipliers, known.multipliers, atol=1e-12)


def difference(f, x, h=1e-5):
    return (np.asarray(f(x + h)) - np.asarray(f(x - h))) / (2 * h)


@pytest.mark.parametrize("kind", ["outer", "pulleys alike"])
def test_derivatives_by_radius_and_guess(kind):
    """Of motion and reactions, where pulleys are alike too: the marks move with the design and with the guess."""
    first, second = RATIOS[kind]

    def found(x):
        guess = {"a": (0, 0, 0.2), "b": (0.1 * x[1], 3, 0.3 + x[1])}
        mech = gears((first + x[0], second))
        mech = mbs.Mechanism(mech.bodies, mech.constraints, mech.drivers, {"load": mbs.Torque("b", 2.0)})
        motion = mbs.kinematics(mech, TIMES, guess)
        return jnp.append(motion.position("b.phi"), mbs.reactions(mech, motion)["motor"].effort)

    by = jax.jit(jax.jacfwd(found))(jnp.zeros(2))
    program = jax.jit(found)
    for k in range(2):
        numeric = difference(lambda h, k=k: program(jnp.zeros(2).at[k].set(h)), 0.0)
        np.testing.assert_allclose(by[:, k], numeric, atol=1e-8)


def test_batch_of_drawings():
    """Each sample keeps the marks of its own guess."""
    angles = jnp.array([0.0, 0.3, -2.0])
    guess = lambda angle: {"a": jnp.zeros(3), "b": jnp.stack([0.0 * angle, 3.0 + 0 * angle, angle])}
    follow = lambda angle: mbs.kinematics(gears(), TIMES, guess(angle))
    motion = jax.jit(jax.vmap(follow))(angles)
    np.testing.assert_allclose(motion.position("b.phi"), np.asarray(angles)[:, None] - TIMES / 2, atol=1e-12)
    assert not motion.explain_failure()
    with pytest.raises(ValueError, match="marks are not known"):
        gears().constraints["mesh"].residual(*[planar.Pose(jnp.zeros(2), jnp.zeros(()))] * 2, 0.0)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("formulation", [mbs.Augmented(), mbs.Natural(), mbs.JointCoordinates(), mbs.Kane()])
def test_formulations_agree(formulation):
    """1 N m on the first gear is inertia 1 + 1/4 by the ratio 1 : 2: φ̈ = 1 / (1 + 1/4)."""
    mech = gears()
    mech = mbs.Mechanism(mech.bodies, mech.constraints, forces={"torque": mbs.Torque("a", 1.0)})
    run = mbs.simulate(mech, TIMES[:2], DRAWN, step=0.1, formulation=formulation, throw=True)
    np.testing.assert_allclose(run.position("b.phi")[1], 0.3 - 0.8 * 0.7**2 / 4, atol=1e-6)
    found = mbs.reactions(mech, run, formulation=formulation)["mesh"]
    np.testing.assert_allclose(found.torque, -0.4, atol=1e-6)


@pytest.mark.variant
def test_designs_of_gears_are_found():
    """A search builds anew for each design, with the marks of the guess."""
    times = np.array([0.1, 0.2, 0.3])
    targets = 0.3 - times / 2.5
    found = mbs.synthesis.fit(
        lambda radius: gears((1.0, radius)), 2.0, targets, "b.phi", times=times, cyclic=False, guess=DRAWN,
        lower=1.5, upper=4.0, starts=4,
    ).best  # fmt: skip
    assert found.design == pytest.approx(2.5, abs=1e-9)
    assert not found.mechanism.constraints["mesh"].lacks_marks


def test_diagnosis_measures_marks():
    """A rack holds the distance of a pinion from its line, as the slide of the rack does: one row is redundant."""
    mech = mbs.Mechanism(
        {"pinion": planar.Body(), "rack": planar.Body()},
        {
            "O": planar.Revolute("ground", "pinion", ORIGIN, ORIGIN),
            "slide": planar.Translational("ground", "rack", (0, -0.5), ORIGIN, (1, 0), (1, 0)),
            "mesh": planar.RackPinion("rack", "pinion", ORIGIN, ORIGIN, (1, 0), 0.5),
        },
    )
    diagnosis = mbs.diagnose(mech, {"pinion": (0, 0, 0.4), "rack": (0.2, -0.5, 0)})
    assert (diagnosis.dof, diagnosis.rank, diagnosis.redundant) == (1, 5, ("mesh",))
