"""Slips of the pen: the message says what is wrong, where, and what to write."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial

TIMES = np.array([0.0, 0.1])
ROD = planar.Body()
PIN = planar.Revolute("ground", "rod", (0, 0), (-0.5, 0))
START = {"rod": (0.5, 0, 0)}


def rod(**more):
    return mbs.Mechanism({"rod": ROD}, {"pin": PIN}, **more)


def driven(motion):
    return rod(drivers={"motor": planar.RevoluteDriver("ground", "rod", motion)})


def pushed(force):
    """The start of a motion under a force."""
    return mbs.simulate(rod(forces={"push": force}), TIMES, START, step=0.1)


def in_space(joint):
    return mbs.Mechanism({"a": spatial.Body(), "b": spatial.Body()}, {"joint": joint})


def simulate(**options):
    return lambda: mbs.simulate(rod(), TIMES, START, **options)


WRITE_JAX = "write it in jax.numpy, jnp.sin for np.sin"
SLIPS = {
    "method, its class": (simulate(method=mbs.RK4), "method must be an object", "the class RK4", "write method=mbs.RK4()"),
    "method by name": (simulate(method="HHT"), "method must be", "got 'HHT'; write method=mbs.HHT()"),
    "method by another name": (simulate(method="euler"), "method must be", "'euler'", "method=mbs.RK4()"),
    "formulation, its class": (
        simulate(formulation=mbs.JointCoordinates), "the class JointCoordinates; write formulation=mbs.JointCoordinates()"
    ),
    "formulation as method": (simulate(method=mbs.Kane()), "method must be an object, such as mbs.RK4()", "Kane"),
    "formulation of reactions": (
        lambda: mbs.reactions(rod(), mbs.simulate(rod(), TIMES, START), formulation="Kane"), "formulation=mbs.Kane()"
    ),
    "method to explain": (lambda: mbs.explain(rod(), START, method="RK4"), "method=mbs.RK4()"),
    "NumPy in a motion": (lambda: driven(lambda t: np.sin(t)), "driver 'motor' (RevoluteDriver): motion: f", WRITE_JAX),
    "math in a motion": (lambda: driven(mbs.motion.Function(math.sin)), "'motor'", "motion: f", WRITE_JAX),
    "if in a motion": (lambda: driven(lambda t: t if t > 0 else 0.0), "'motor'", "motion: f", "jnp.where for if"),
    "vector motion": (lambda: driven(lambda t: jnp.stack([t, t])), "'motor'", "motion: f must give a number", "(2,)"),
    "NumPy in a force": (
        lambda: pushed(mbs.Torque("rod", lambda t, q, v: np.sin(q[2]))), "force 'push' (Torque): its function", WRITE_JAX
    ),
    "if in a force": (
        lambda: pushed(mbs.UserForce(lambda state: state.v if state.t > 1 else -state.v)),
        "force 'push' (UserForce)", "jnp.where for if",
    ),
    "NumPy in a potential actuator": (
        lambda: rod(forces={"push": mbs.SpringDamper("ground", "rod", actuator=mbs.motion.Function(np.cos))}),
        "force 'push' (SpringDamper): actuator: f", WRITE_JAX,
    ),
    "misspelt velocity": (simulate(v0={"rd.phi": 1.0}), "unknown name in the velocities", "did you mean 'rod.phi'?"),
    "no such velocity": (simulate(v0={"rod.omega": 1.0}), "'rod.omega'; ", "'rod' has 'rod.x', 'rod.y', 'rod.phi'"),
    "too few velocities": (simulate(v0={"rod": (1.0, 2.0)}), "velocities for 'rod' must have shape (3,), got (2,)"),
    "energy of four velocities": (lambda: mbs.energy(rod(), START, np.zeros(4)), "velocities have shape (3,), got (4,)"),
    "force of two velocities": (
        lambda: mbs.generalized_force(rod(), START, np.zeros(2)),
        "velocities have shape (3,), got (2,)",
    ),
    "no such coordinate": (lambda: mbs.assemble(rod(), {"rod.psi": 1.0}), "in the guess", "'rod' has 'rod.x'"),
    "coordinate in place of a velocity": (
        lambda: mbs.simulate(in_space(spatial.Spherical("a", "b")), TIMES, v0={"a.e1": 1.0}), "'a.e1'", "'a' has", "'a.wx'"
    ),
    "half an outline": (
        lambda: mbs.Mechanism(
            {"rod": ROD, "cam": ROD},
            {"joint": planar.PointFollower(
                "rod", "cam", (0, 0), outline_j=planar.FunctionOutline(lambda alpha: 1 + jnp.sqrt(3 - alpha))
            )},
        ),
        "'joint' (PointFollower)", "outline_j", "positive all round, for all angles from 0 to 2π", "got nan at 3.0",
    ),
    "NumPy in an outline": (
        lambda: mbs.Mechanism(
            {"rod": ROD, "cam": ROD},
            {"joint": planar.PointFollower("rod", "cam", (0, 0), outline_j=planar.FunctionOutline(lambda a: np.cos(a)))},
        ),
        "'joint' (PointFollower)", "outline_j", "rho", WRITE_JAX,
    ),
    "axis and frame": (
        lambda: in_space(spatial.Revolute("a", "b", axis_i=(0, 0, 1), frame_i=np.eye(3))),
        "'joint' (Revolute)", "axis_i and frame_i exclude each other: the third column of frame_i is the axis already",
    ),
    "axis and a Frame": (
        lambda: in_space(spatial.Revolute("a", "b", spatial.Frame((0, 0, 1)), axis_i=(0, 0, 1))),
        "axis_i and frame_i exclude", "a Frame as point_i has frame_i in it",
    ),
    "axis on one body and frame on the other": (
        lambda: in_space(spatial.Revolute("a", "b", axis_i=(0, 0, 1), frame_j=np.eye(3))),
        "'joint' (Revolute)", "give axes or frames, not an axis on one body and a frame on the other",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SLIPS)
def test_slip(name):
    slip, *parts = SLIPS[name]
    with pytest.raises(ValueError, match=re.escape(parts[0])) as caught:
        slip()
    message = str(caught.value)
    assert all(part in message for part in parts), message
    assert re.search(r"\n|0x[0-9a-f]{6}", message) is None


@pytest.mark.parametrize("ask", ["point", "point_velocity", "point_acceleration"])
@pytest.mark.parametrize("point", [(0,), 0.3, (0, 0, 0)])
def test_points_of_the_wrong_shape(ask, point):
    run = mbs.simulate(rod(), TIMES, START, step=0.1)
    wrong = re.escape(f"a point of 'rod' must have shape (2,), got {np.shape(point)}")
    with pytest.raises(ValueError, match=wrong):
        getattr(run, ask)("rod", point)
    with pytest.raises(ValueError, match=wrong):
        rod().point(run.q[0], "rod", point)
    with pytest.raises(ValueError, match="unknown body 'rd'; did you mean 'rod'"):
        run.rotation("rd")


def test_functions_that_are_fine():
    """NumPy of known numbers, closures over traced ones, and branches where everything is known."""
    lengths = np.array([1.0, 2.0])
    assert driven(lambda t: np.sum(lengths) * jnp.sin(t)).drivers["motor"].motion(0.0) == 0

    @jax.grad
    def slope(rate):
        mech = driven(lambda t: rate * t)
        return mbs.constraints(mech, START, 0.5)[-1]

    np.testing.assert_allclose(slope(2.0), -0.5)
    branching = rod(forces={"push": mbs.UserForce(lambda state: state.v if state.t > 1 else -state.v)})
    with pytest.warns(mbs.PerformanceWarning, match=r"UserForce.*branches with `if`"):
        np.testing.assert_array_equal(mbs.generalized_force(branching, START, jnp.ones(3), 0.0), -np.ones(3))
