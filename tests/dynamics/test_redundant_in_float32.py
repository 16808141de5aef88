"""Closed loops in space with redundant constraints, in float32 and by every backend: statuses and accelerations."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import spatial
from jaxmbs.programs import primitive
from spatial_problems import bricard, frame

# Masses of the samples, relative to those of the mechanism.
MASSES = np.linspace(0.7, 1.4, 6)


def tilted_four_bar():
    """Return crank, coupler and rocker on four parallel hinges in a plane that is tilted, and a start."""
    plane = frame(np.array([1.0, 2.0, -0.5]), np.array([0.2, 1.0, 1.5]))
    points = np.array([[0, 0], [0.3, 0.9], [2.1, 1.7], [2.4, 0.0]]) @ plane[:, :2].T
    frames = {
        "ground": (np.zeros(3), np.eye(3)),
        "crank": (points[:2].mean(0), frame(np.array([1.0, 0.3, 0.2]), np.array([0.0, 1.0, 0.0]))),
        "coupler": (points[1:3].mean(0), frame(np.array([-0.4, 0.3, 1.0]), np.array([1.0, 0.0, 0.0]))),
        "rocker": (points[2:].mean(0), frame(np.array([0.1, -1.0, 0.4]), np.array([0.0, 0.0, 1.0]))),
    }
    pairs = zip(["ground", "crank", "coupler", "rocker"], ["crank", "coupler", "rocker", "ground"], strict=True)
    joints = {}
    for point, (i, j) in zip(points, pairs, strict=True):
        (r_i, a_i), (r_j, a_j) = frames[i], frames[j]
        axes = {"axis_i": a_i.T @ plane[:, 2], "axis_j": a_j.T @ plane[:, 2]}
        joints[f"{i} on {j}"] = spatial.Revolute(i, j, a_i.T @ (point - r_i), a_j.T @ (point - r_j), **axes)
    del frames["ground"]
    bodies = dict.fromkeys(frames, spatial.Body(1.0, (0.1, 0.2, 0.25)))
    start = {name: spatial.coordinates(*placed) for name, placed in frames.items()}
    return mbs.Mechanism(bodies, joints, forces={"gravity": mbs.Gravity((0, 0, -9.81))}), start


def door():
    """Return a door on four hinges on one line, and a start."""
    axis = np.array([1.0, 2.0, 2.0]) / 3
    hinges = {
        f"hinge {k}": spatial.Revolute(
            "ground", "door", 0.4 * k * axis + [0.1, 0, 0], 0.4 * k * axis + [-0.5, -0.2, 0.3], axis_i=axis, axis_j=axis
        )
        for k in range(4)
    }
    mech = mbs.Mechanism(
        {"door": spatial.Body(2.0, (0.3, 0.2, 0.25))}, hinges, forces={"gravity": mbs.Gravity((0, 0, -9.81))}
    )
    return mech, {"door": spatial.coordinates((0.6, 0.2, -0.3), np.eye(3))}


# Roundings of float32, relative to the largest, by which the accelerations after five steps may be off.
MECHANISMS = {"Bricard": (bricard, 40), "four-bar": (tilted_four_bar, 400), "door": (door, 10)}


# Output times (s) of five steps, and of none.
FIVE_STEPS = (0, 0.05)
NO_STEP = (0,)


def motions(build, formulation, emission, dtype, times):
    """Return statuses and accelerations of all samples at the last of the times, by steps of 10 ms from rest."""
    mech, start = build()
    mech = mech.astype(dtype)

    def run(scale):
        bodies = {name: spatial.Body(scale * body.mass, body.inertia) for name, body in mech.bodies.items()}
        changed = mbs.Mechanism(bodies, mech.constraints, forces=mech.forces)
        options = {"step": 0.01, "method": mbs.SemiImplicitEuler(), "formulation": formulation}
        found = mbs.simulate(changed, np.array(times, dtype), start, **options)
        return found.status, found.a[-1]

    with primitive.emission(emission):
        return jax.tree.map(np.asarray, jax.jit(jax.vmap(run))(jnp.asarray(MASSES, dtype)))


FORMULATIONS = {"augmented": mbs.Augmented(), "joint": mbs.JointCoordinates()}


@lru_cache
def in_double_precision(name, formulation, times):
    """Return the accelerations by machine code in float64."""
    return motions(MECHANISMS[name][0], FORMULATIONS[formulation], "llvm", np.float64, times)[1]


def assert_right(name, formulation, emission, times):
    """All samples have status 0, and accelerations of float32."""
    build, roundings = MECHANISMS[name]
    expected = in_double_precision(name, formulation, times)
    status, accelerations = motions(build, FORMULATIONS[formulation], emission, np.float32, times)
    assert accelerations.dtype == np.float32
    np.testing.assert_array_equal(status, 0)
    limit = roundings * np.finfo(np.float32).eps * np.abs(expected).max()
    np.testing.assert_allclose(accelerations, expected, rtol=0, atol=limit)


@pytest.mark.parametrize("emission", ["llvm", pytest.param("gpu-on-host", marks=pytest.mark.variant)])
@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_kernels(name, formulation, emission):
    assert_right(name, formulation, emission, FIVE_STEPS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "emission"), [("Bricard", "xla"), ("four-bar", "xla"), ("door", "xla"), ("door", "tpu-on-host")]
)
def test_code_for_xla(name, emission):
    """In joint coordinates and without steps, because XLA compiles more for many minutes on a CPU."""
    assert_right(name, "joint", emission, NO_STEP)
