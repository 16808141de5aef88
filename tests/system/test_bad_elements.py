"""Elements that cannot be used are refused with a ValueError that names the element and the reason."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar
from refusals import BODY, MOTOR, PIN, assert_refused


def with_constraint(element, *, bodies=None):
    return mbs.Mechanism(bodies or {"crank": BODY, "rod": BODY}, {"joint": element})


def with_body(body):
    return mbs.Mechanism({"crank": body})


def with_driver(driver):
    return mbs.Mechanism({"crank": BODY, "rod": BODY}, drivers={"motor": driver})


HOLLOW = planar.FunctionOutline(lambda alpha: 1 + 0.5 * jnp.cos(3 * alpha))
NEGATIVE = planar.FunctionOutline(lambda alpha: 0.2 + jnp.cos(alpha))
CIRCLE = planar.FunctionOutline(1.0)
P = (0.1, 0.2)

# name → (what is built, what the message must say). `joint` is the element's name in all of them.
BAD_CONSTRAINTS = {
    "unknown body": (
        lambda: planar.Revolute("crnk", "rod", P, P),
        ["constraint 'joint' (Revolute)", "unknown body 'crnk'", "did you mean 'crank'?"],
    ),
    "unknown body, nothing like it": (
        lambda: planar.AbsoluteX("wheel", P),
        ["'joint' (AbsoluteX)", "unknown body 'wheel'", "'crank'"],
    ),
    "body that is not a name": (lambda: planar.AbsoluteX(3, P), ["'joint' (AbsoluteX)", "unknown body 3"]),
    "connected with itself": (lambda: planar.Revolute("rod", "rod", P, P), ["'joint' (Revolute)", "itself"]),
    "ground with itself": (lambda: planar.AbsoluteX("ground", P), ["'joint' (AbsoluteX)", "itself"]),
    "distance zero": (lambda: planar.Distance("crank", "rod", P, P, 0), ["'joint' (Distance)", "distance", "positive"]),
    "distance negative": (lambda: planar.Distance("crank", "rod", P, P, -1.0), ["(Distance)", "positive", "-1.0"]),
    "absolute distance zero": (
        lambda: planar.AbsoluteDistance("rod", P, (0, 0), 0.0),
        ["'joint' (AbsoluteDistance)", "distance", "positive"],
    ),
    "absolute distance negative": (
        lambda: planar.AbsoluteDistance("rod", P, (0, 0, -2)),
        ["'joint' (AbsoluteDistance)", "distance", "positive"],
    ),
    "axis of no length": (
        lambda: planar.Translational("crank", "rod", P, P, (0, 0)),
        ["'joint' (Translational)", "axis_i has no length", "points", "coincide"],
    ),
    "second axis of no length": (
        lambda: planar.Translational("crank", "rod", P, P, (1, 0), (0, 0)),
        ["'joint' (Translational)", "axis_j has no length", "coincide"],
    ),
    "line of no length": (
        lambda: planar.RevoluteTranslational("crank", "rod", P, P, (0.0, 0.0), 0.1),
        ["'joint' (RevoluteTranslational)", "axis_i has no length", "coincide"],
    ),
    "rack of no length": (
        lambda: planar.RackPinion("crank", "rod", P, P, (0.0, 0.0), 0.1),
        ["'joint' (RackPinion)", "axis_i has no length", "coincide"],
    ),
    "face of no length": (
        lambda: planar.CamFlatFollower("crank", "rod", P, P, CIRCLE, (0, 0)),
        ["'joint' (CamFlatFollower)", "axis_j has no length", "coincide"],
    ),
    "gear of radius zero": (
        lambda: planar.Gear("crank", "rod", P, P, 0.0, 1.0),
        ["'joint' (Gear)", "radius_i", "zero"],
    ),
    "pinion of radius zero": (
        lambda: planar.RackPinion("crank", "rod", P, P, (1, 0), 0.0),
        ["'joint' (RackPinion)", "radius_j", "zero"],
    ),
    "point with three coordinates": (
        lambda: planar.Revolute("crank", "rod", (0, 0, 0), P),
        ["'joint' (Revolute)", "point_i", "shape (2,)", "(3,)"],
    ),
    "number in place of a point": (
        lambda: planar.Revolute("crank", "rod", P, 0.5),
        ["'joint' (Revolute)", "point_j", "shape (2,)"],
    ),
    "point in place of a number": (
        lambda: planar.AbsoluteAngle("rod", P),
        ["'joint' (AbsoluteAngle)", "value", "a number"],
    ),
    "text in place of a point": (lambda: planar.Revolute("crank", "rod", P, "end"), ["(Revolute)", "point_j", "'end'"]),
    "ragged point": (lambda: planar.Revolute("crank", "rod", P, (1, (2, 3))), ["'joint' (Revolute)", "point_j"]),
    "complex number": (lambda: planar.AbsoluteX("rod", P, 1j), ["'joint' (AbsoluteX)", "value"]),
    "nothing in place of a point": (
        lambda: planar.Revolute("crank", "rod", None, P),
        ["(Revolute)", "point_i", "None"],
    ),
    "NaN": (lambda: planar.Revolute("crank", "rod", (np.nan, 0), P), ["'joint' (Revolute)", "point_i", "finite"]),
    "infinity": (lambda: planar.RelativeX("crank", "rod", P, P, np.inf), ["'joint' (RelativeX)", "offset", "finite"]),
    "cam with hollows, flat follower": (
        lambda: planar.CamFlatFollower("crank", "rod", P, P, HOLLOW),
        ["'joint' (CamFlatFollower)", "not convex"],
    ),
    "cam with hollows narrower than the roller": (
        lambda: planar.CamFollower("crank", "rod", P, P, HOLLOW, CIRCLE),
        ["'joint' (CamFollower)", "not convex"],
    ),
    "negative outline": (
        lambda: planar.PointFollower("crank", "rod", P, P, NEGATIVE),
        ["'joint' (PointFollower)", "outline_j", "radius", "positive"],
    ),
    "negative number as outline": (
        lambda: planar.CamFollower("crank", "rod", P, P, CIRCLE, planar.FunctionOutline(-0.2)),
        ["'joint' (CamFollower)", "outline_j", "radius", "positive"],
    ),
    "negative spline outline": (
        lambda: planar.CamFlatFollower("crank", "rod", P, P, planar.SplineOutline((1, 1, -1, 1))),
        ["'joint' (CamFlatFollower)", "radius", "positive"],
    ),
    "outline of two numbers": (
        lambda: planar.PointFollower("crank", "rod", P, P, planar.SplineOutline((1, 1))),
        ["'joint' (PointFollower)", "radii", "at least 3"],
    ),
    "NaN outline": (
        lambda: planar.PointFollower("crank", "rod", P, P, planar.SplineOutline((1, 1, np.nan))),
        ["'joint' (PointFollower)", "radii", "finite"],
    ),
    "no outline": (lambda: planar.PointFollower("crank", "rod", P), ["'joint' (PointFollower)", "outline_j"]),
    "number in place of an outline": (
        lambda: planar.CamFlatFollower("crank", "rod", P, P, 0.5),
        ["'joint' (CamFlatFollower)", "outline_i"],
    ),
    "body in place of a constraint": (lambda: planar.Body(), ["constraint 'joint' (Body)", "not a constraint"]),
    "no element at all": (lambda: 3.0, ["constraint 'joint' (float)", "not a constraint"]),
}


@pytest.mark.parametrize("case", BAD_CONSTRAINTS)
def test_bad_constraints(case):
    element, parts = BAD_CONSTRAINTS[case]
    assert_refused(lambda: with_constraint(element()), parts)


BAD_DRIVERS = {
    "unknown body": (lambda: planar.AbsoluteXDriver("rodd", P, 1.0), ["unknown body 'rodd'", "did you mean 'rod'?"]),
    "no motion": (lambda: planar.AbsoluteAngleDriver("rod"), ["motion"]),
    "NaN in the motion": (
        lambda: planar.AbsoluteAngleDriver("rod", mbs.motion.Ramp(np.nan)),
        ["motion: rate", "finite"],
    ),
    "wrong shape in the motion": (
        lambda: planar.RelativeAngleDriver("crank", "rod", mbs.motion.Ramp((1, 2))),
        ["rate", "a number"],
    ),
    "knots that do not increase": (
        lambda: planar.DistanceDriver("crank", "rod", P, P, mbs.motion.Spline((0, 2, 1), (1, 2, 3))),
        ["times must increase"],
    ),
    "vector in place of a motion": (lambda: planar.RelativeXDriver("crank", "rod", P, P, (1.0, 2.0)), ["a number"]),
    "axis of no length": (
        lambda: planar.TranslationalDriver("crank", "rod", P, P, (0, 0), mbs.motion.Ramp(1.0)),
        ["axis_i has no length", "coincide"],
    ),
    "connected with itself": (lambda: planar.RevoluteDriver("rod", "rod", 1.0), ["itself"]),
}


@pytest.mark.parametrize("case", BAD_DRIVERS)
def test_bad_drivers(case):
    driver, parts = BAD_DRIVERS[case]
    assert_refused(lambda: with_driver(driver()), ["driver 'motor'", *parts])


BAD_BODIES = {
    "mass negative": (lambda: planar.Body(mass=-1), ["mass", "positive", "-1"]),
    "mass NaN": (lambda: planar.Body(mass=np.nan), ["mass", "finite"]),
    "mass of two numbers": (lambda: planar.Body(mass=(1, 2)), ["mass", "a number"]),
    "inertia negative": (lambda: planar.Body(inertia=-0.1), ["inertia", "negative"]),
    "com in space": (lambda: planar.Body(com=(0, 0, 0)), ["com", "shape (2,)"]),
    "no body": (lambda: PIN, ["not a body"]),
    "a number": (lambda: 1.0, ["not a body"]),
}


@pytest.mark.parametrize("case", BAD_BODIES)
def test_bad_bodies(case):
    body, parts = BAD_BODIES[case]
    assert_refused(lambda: with_body(body()), ["body 'crank'", *parts])


BAD_FORCES = {
    "gravity in space": (lambda: mbs.Gravity((0, 0, -9.81)), ["force 'g' (Gravity)", "shape (2,)"]),
    "gravity NaN": (lambda: mbs.Gravity((0, np.nan)), ["force 'g' (Gravity)", "finite"]),
    "no force": (lambda: MOTOR, ["force 'g' (RevoluteDriver)", "not a force"]),
}


@pytest.mark.parametrize("case", BAD_FORCES)
def test_bad_forces(case):
    force, parts = BAD_FORCES[case]
    assert_refused(lambda: mbs.Mechanism({"crank": BODY}, forces={"g": force()}), parts)


BAD_NAMES = {
    "no bodies": (lambda: mbs.Mechanism({}), ["at least one body"]),
    "body called ground": (lambda: mbs.Mechanism({"ground": BODY}), ["body 'ground'", "fixed frame"]),
    "constraint called ground": (
        lambda: mbs.Mechanism({"crank": BODY}, {"ground": PIN}),
        ["constraint 'ground'", "fixed frame"],
    ),
    "two bodies of one name": (
        lambda: mbs.Mechanism([("crank", BODY), ("crank", BODY)]),
        ["duplicate name 'crank'", "body"],
    ),
    "two constraints of one name": (
        lambda: mbs.Mechanism({"crank": BODY}, [("pin", PIN), ("pin", PIN)]),
        ["duplicate name 'pin'", "constraint"],
    ),
    "constraint and driver of one name": (
        lambda: mbs.Mechanism({"crank": BODY}, {"pin": PIN}, {"pin": MOTOR}),
        ["duplicate name 'pin'", "constraint", "driver"],
    ),
    "force and driver of one name": (
        lambda: mbs.Mechanism({"crank": BODY}, {}, {"pin": MOTOR}, {"pin": mbs.Gravity((0, -1))}),
        ["duplicate name 'pin'", "force", "driver"],
    ),
    "body and cam of one name": (
        lambda: mbs.Mechanism(
            {"crank": BODY, "rod": BODY}, {"rod": planar.PointFollower("crank", "rod", P, P, CIRCLE)}
        ),
        ["duplicate name 'rod'", "body", "coordinates"],
    ),
    "number as name": (lambda: mbs.Mechanism({3: BODY}), ["body", "name"]),
    "empty name": (lambda: mbs.Mechanism({"crank": BODY}, {"": PIN}), ["constraint", "name"]),
    "elements without names": (lambda: mbs.Mechanism([BODY]), ["body", "name"]),
}


@pytest.mark.parametrize("case", BAD_NAMES)
def test_bad_names(case):
    make, parts = BAD_NAMES[case]
    assert_refused(make, parts)


def test_good_ones_are_not_refused():
    # Valid elements that the cases above change in one argument, so that each is refused for its own reason only.
    mech = mbs.Mechanism(
        [("crank", BODY), ("rod", BODY)],
        {
            "pin": planar.Revolute("crank", "rod", P, P),
            "cam": planar.CamFollower("crank", "rod", P, P, CIRCLE, planar.FunctionOutline(0.2)),
            "slide": planar.Translational("crank", "rod", P, P, (1, 0)),
            "gear": planar.Gear("crank", "rod", P, P, 1.0, 0.5),
            "ring": planar.Gear("crank", "rod", P, P, -1.0, 0.5),
            "belt": planar.Gear("crank", "rod", P, P, -1.0, 1.0),
            "bar": planar.AbsoluteDistance("rod", P, (0, 0, 2)),
        },
        {"motor": MOTOR},
        {"gravity": mbs.Gravity((0, -9.81))},
    )
    assert mech.layout.n == 8
    assert list(mech.bodies) == ["crank", "rod"]


def test_known_arrays_can_be_checked_inside_of_jit():
    # A traced function that closes over arrays of jax builds a mechanism from them.
    one, knots = jnp.ones(()), jnp.arange(4.0)

    def build(x):
        return mbs.Mechanism(
            {"crank": planar.Body(mass=one, inertia=one), "rod": BODY},
            {
                "bar": planar.Distance("crank", "rod", P, P, one),
                "gear": planar.Gear("crank", "rod", P, P, one, one),
                "rack": planar.RackPinion("crank", "rod", P, P, jnp.stack([x, x]), one),
                "slot": planar.PointFollower("crank", "rod", P, P, planar.SplineOutline(knots + 1)),
            },
            {
                "motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Spline(knots, knots)),
                "lift": planar.AbsoluteYDriver("crank", P, mbs.motion.Spline((0, 1, 2), (0, 1, 0))),
            },
        )

    built = jax.jit(build)(2.0)
    np.testing.assert_array_equal(built.constraints["rack"].axis_i, 2.0)
    np.testing.assert_array_equal(built.bodies["crank"].mass, 1.0)


def test_checks_also_hold_inside_of_transformations():
    # Numbers that are known are checked in a traced function, those that are traced are not.
    build = lambda distance: with_constraint(planar.Distance("crank", "rod", P, P, distance))
    jax.eval_shape(lambda distance: jax.tree.leaves(build(distance)), -1.0)
    for known in (-1.0, jnp.asarray(-1.0)):
        use = lambda x, known=known: jax.tree.leaves(build(known))
        assert_refused(lambda use=use: jax.eval_shape(use, 1.0), ["'joint' (Distance)", "positive"])
    assert_refused(
        lambda: jax.eval_shape(lambda x: jax.tree.leaves(with_constraint(planar.AbsoluteX("rod", x))), np.zeros(3)),
        ["'joint' (AbsoluteX)", "shape (2,)"],
    )
