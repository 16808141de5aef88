"""Forces that cannot be used are refused with the name and the reason."""

import numpy as np
import pytest

import jaxmbs as mbs
from free_bodies import BODIES, P, Q, S, V

RAMP = mbs.motion.Ramp(3.0, start=0.5)


def of_state(t, q, v):
    """A number that depends on everything."""
    return t + q[1] * v[5]


NOT_FINITE = mbs.motion.Ramp(np.nan)

# name → (force, what the message must say)
BAD = {
    "unknown body": (
        lambda: mbs.Spring("crnk", "rod", P, S, 1.0),
        ["(Spring)", "unknown body 'crnk'", "did you mean 'crank'?"],
    ),
    "unknown body of a torque": (lambda: mbs.Torque("rodd", 1.0), ["(Torque)", "'rodd'", "did you mean 'rod'?"]),
    "list instead of a body": (
        lambda: mbs.Torque(["rod"], 1.0),
        ["(Torque)", "unknown body ['rod']", "did you mean 'rod'?"],
    ),
    "list instead of a joint": (lambda: mbs.JointSpring([1.0], 1.0), ["(JointSpring)", "unknown joint [1.0]"]),
    "unknown body that bears": (
        lambda: mbs.Torque("rod", 1.0, reaction="crnk"),
        ["(Torque)", "'crnk'", "did you mean 'crank'?"],
    ),
    "unknown body of a point force": (
        lambda: mbs.PointForce("cranc", P, (1, 0)),
        ["(PointForce)", "'cranc'", "did you mean 'crank'?"],
    ),
    "unknown body of a torsion spring": (
        lambda: mbs.TorsionSpring("ground", "rodd", 1.0),
        ["(TorsionSpring)", "did you mean 'rod'?"],
    ),
    "with itself": (lambda: mbs.Damper("rod", "rod", P, S, 1.0), ["(Damper)", "'rod'", "itself"]),
    "torsion with itself": (lambda: mbs.TorsionDamper("rod", "rod", 1.0), ["(TorsionDamper)", "itself"]),
    "torque on itself": (lambda: mbs.Torque("rod", 1.0, reaction="rod"), ["(Torque)", "itself"]),
    "ground with itself": (lambda: mbs.Spring("ground", "ground", P, S, 1.0), ["(Spring)", "itself"]),
    "torque on the ground": (lambda: mbs.Torque("ground", 1.0), ["(Torque)", "ground"]),
    "no stiffness": (lambda: mbs.Spring("crank", "rod", P, S), ["(Spring)", "stiffness or force is missing"]),
    "no damping": (lambda: mbs.Damper("crank", "rod", P, S), ["(Damper)", "damping or force is missing"]),
    "no torsion stiffness": (lambda: mbs.TorsionSpring("crank", "rod"), ["(TorsionSpring)", "stiffness", "missing"]),
    "no torsion damping": (lambda: mbs.TorsionDamper("crank", "rod"), ["(TorsionDamper)", "damping", "missing"]),
    "no torque": (lambda: mbs.Torque("rod", None), ["(Torque)", "value is missing"]),
    "point in space": (lambda: mbs.Spring("crank", "rod", (0, 0, 0), S, 1.0), ["(Spring)", "point_i", "shape (2,)"]),
    "point that is a number": (lambda: mbs.Damper("crank", "rod", P, 0.5, 1.0), ["(Damper)", "point_j"]),
    "stiffness of two numbers": (
        lambda: mbs.Spring("crank", "rod", P, S, (1, 2)),
        ["(Spring)", "stiffness", "a number"],
    ),
    "torque in space": (lambda: mbs.Torque("rod", (0, 0, 1)), ["(Torque)", "value", "shape ()", "(3,)"]),
    "force that is a number": (lambda: mbs.PointForce("rod", P, 1.0), ["(PointForce)", "value", "shape (2,)"]),
    "three components": (
        lambda: mbs.PointForce("rod", P, (0.0, of_state, 1.0)),
        ["(PointForce)", "value", "2 components", "3"],
    ),
    "component of two numbers": (
        lambda: mbs.PointForce("rod", P, (of_state, (1, 2))),
        ["(PointForce)", "value", "(2,)"],
    ),
    "actuator of two numbers": (
        lambda: mbs.SpringDamper("crank", "rod", P, S, actuator=(1, 2)),
        ["(SpringDamper)", "actuator", "(2,)"],
    ),
    "NaN stiffness": (lambda: mbs.Spring("crank", "rod", P, S, np.nan), ["(Spring)", "stiffness", "finite"]),
    "NaN free angle": (lambda: mbs.TorsionSpring("crank", "rod", 1.0, np.nan), ["free_angle", "finite"]),
    "NaN point": (lambda: mbs.PointForce("rod", (0, np.nan), (1, 0)), ["(PointForce)", "point", "finite"]),
    "NaN value": (lambda: mbs.PointForce("rod", P, (1, np.nan)), ["(PointForce)", "value", "finite"]),
    "infinite torque": (lambda: mbs.Torque("rod", np.inf), ["(Torque)", "value", "finite"]),
    "NaN in a motion": (lambda: mbs.Torque("rod", NOT_FINITE), ["(Torque)", "rate", "finite"]),
    "NaN in a component": (lambda: mbs.PointForce("rod", P, (NOT_FINITE, 1)), ["(PointForce)", "rate", "finite"]),
    "NaN in an actuator": (
        lambda: mbs.TorsionSpring("crank", "rod", actuator=NOT_FINITE),
        ["(TorsionSpring)", "actuator", "finite"],
    ),
    "text for a torque": (lambda: mbs.Torque("rod", "much"), ["(Torque)", "value", "much"]),
    "text for a force": (lambda: mbs.PointForce("rod", P, "much"), ["(PointForce)", "value", "much"]),
    "text for a component": (lambda: mbs.PointForce("rod", P, (1, "much")), ["(PointForce)", "value", "much"]),
    "text for an actuator": (
        lambda: mbs.SpringDamper("crank", "rod", P, S, actuator="much"),
        ["(SpringDamper)", "actuator", "much"],
    ),
    "text for a stiffness": (lambda: mbs.Spring("crank", "rod", P, S, "stiff"), ["(Spring)", "stiffness", "stiff"]),
}


def refused(make, parts):
    with pytest.raises(ValueError, match=r"\w") as caught:
        make()
    message = str(caught.value)
    assert [part for part in ("force 'f'", *parts) if part not in message] == [], message


@pytest.mark.parametrize("case", BAD)
def test_bad_forces(case):
    force, parts = BAD[case]
    refused(lambda: mbs.Mechanism({"crank": BODIES["a"], "rod": BODIES["b"]}, forces={"f": force()}), parts)


def test_user_force_that_is_no_function():
    refused(
        lambda: mbs.Mechanism({"a": BODIES["a"]}, forces={"f": mbs.UserForce(3.0)}),
        ["(UserForce)", "f must be a function"],
    )


# Functions whose values are known only when they are called.
BAD_LATER = {
    "torque": (mbs.Torque("a", lambda t, q, v: q[:2]), ["(Torque)", "value", "shape ()", "(2,)"]),
    "point force": (mbs.PointForce("a", P, lambda t, q, v: q), ["(PointForce)", "value", "shape (2,)", "(6,)"]),
    "point force, number": (mbs.PointForce("a", P, lambda t, q, v: t), ["(PointForce)", "value", "shape (2,)"]),
    "point force, motion": (mbs.PointForce("a", P, RAMP), ["(PointForce)", "value", "shape (2,)"]),
    "component": (mbs.PointForce("a", P, (1.0, lambda t, q, v: v)), ["(PointForce)", "value", "shape ()"]),
    "actuator": (mbs.SpringDamper("a", "b", P, S, actuator=lambda t, q, v: v), ["(SpringDamper)", "actuator", "(6,)"]),
    "torsion actuator": (mbs.TorsionSpring("a", "b", actuator=lambda t, q, v: v), ["(TorsionSpring)", "actuator"]),
    "user force": (mbs.UserForce(lambda state: state.q[:3]), ["(UserForce)", "shape (6,)", "(3,)"]),
}


@pytest.mark.parametrize("case", BAD_LATER)
def test_functions_of_wrong_shape_are_refused_when_used(case):
    force, parts = BAD_LATER[case]
    mech = mbs.Mechanism(BODIES, forces={"f": force})
    refused(lambda: mbs.simulate(mech, np.array([0.0, 0.1]), step=0.1), parts)
    refused(lambda: mbs.generalized_force(mech, Q[0], V[0]), parts)
