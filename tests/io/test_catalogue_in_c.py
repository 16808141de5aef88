"""Every element in C compared with Python: kinematics, efforts of drivers in the plane, and steps.

With the package's own elementary functions results are equal to the bit. With those of math.h the bound of each result is
some roundings of its size, and what rounding the numbers of the problem does to it.
"""

import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from c_library import CHECKED, SAME_BITS, Compiled, needs_gcc, over_samples
from jaxmbs import spatial
from jaxmbs.io.c_code import MechanismFunctions
from jaxmbs.io.driven_motions import motions_of
from planar_catalogue import CATALOGUE
from random_mechanisms import KINDS, random_tree

EPS = float(np.finfo(float).eps)
ROUNDINGS = 10
SAMPLES = 100
# Length of a step (s).
STEP = 1e-2


def assert_equal_in_c(f, folder, numbers):
    """f(numbers) → dict of results and "status": in C as in Python, for a batch of numbers, with checks of the compiler."""
    rng = np.random.default_rng(1)
    program = mbs.program(f)
    python = jax.jit(jax.vmap(program))
    first = jax.tree.map(lambda x: x[0], numbers)
    in_c = lambda name, options: over_samples(
        Compiled(program.c(first, name=f"of_element_{name}", elementary=name), folder, options), program, numbers
    )
    found, own = in_c("libm", CHECKED), in_c("own", SAME_BITS)
    rounded = jax.tree.map(lambda x: x * (1 + EPS * rng.choice([-1, 1], x.shape)), numbers)
    expected, moved = python(numbers), python(rounded)
    jax.tree.map(np.testing.assert_array_equal, own, expected)
    status = expected.pop("status")
    np.testing.assert_array_equal(found.pop("status"), status)
    assert np.mean(status == 0) > 0.9
    for name, value in expected.items():
        for a, b, c in zip(*map(jax.tree.leaves, (found[name], value, moved[name])), strict=True):
            bound = ROUNDINGS * (EPS * np.abs(b).max(initial=1) + np.abs(c - b).max(initial=0))
            np.testing.assert_allclose(a, b, rtol=0, atol=bound, err_msg=name)


@needs_gcc
@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", CATALOGUE)
def test_kinematics_and_efforts_of_planar_elements(name, tmp_path):
    """For elements whose numbers differ by 1 %, from an estimate of the configuration that is 1 % wrong."""
    entry = CATALOGUE[name]
    rng = np.random.default_rng(1)
    functions = MechanismFunctions(entry.build, {}, (), STEP, mbs.RK4(), mbs.JointCoordinates())
    mech = entry.build(entry.b)
    t = jnp.asarray(0.2)
    run = mbs.kinematics(mech, t[None], entry.start(), throw=True)
    drive = {
        key: jnp.stack([motion(t), jnp.asarray(1.0), jnp.asarray(0.5)]) for key, motion in motions_of(mech).items()
    }

    def results(given):
        inputs = {"parameters": given["b"], "q": given["q"], "drive": drive, "t": t}
        efforts = functions.inverse_dynamics(inputs) if mech.drivers else {}
        return functions.kinematics(inputs) | efforts

    vary = lambda x: np.asarray(x) * (1 + 0.01 * rng.uniform(-1, 1, (SAMPLES, *np.shape(x))))
    numbers = {"b": jax.tree.map(vary, entry.b), "q": vary(run.q[0])}
    assert_equal_in_c(results, tmp_path, numbers)


@needs_gcc
@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", KINDS[3])
def test_steps_of_spatial_elements(kind, tmp_path):
    """A step of two bodies that hang on joints of one kind, with different velocities."""
    mech, q = random_tree(np.random.default_rng(zlib.crc32(kind.encode())), 2, kinds=(kind,))
    functions = MechanismFunctions(lambda _: mech, {}, (), STEP, mbs.RK4(), mbs.JointCoordinates())
    t = jnp.asarray(0.0)
    v = np.random.default_rng(2).normal(size=(SAMPLES, mech.layout.m))
    numbers = {"q": np.repeat(np.asarray(q)[None], SAMPLES, 0), "v": v}
    assert_equal_in_c(lambda given: functions.step({**given, "t": t}), tmp_path, numbers)


def with_drivers(mech, q):
    """Return a mechanism of one body with a total joint to the ground, which drives the freedom that its joint leaves."""
    (body,), zero = mech.bodies, mbs.motion.Constant(0.0)
    pose = mech.poses(q)[body]

    def driven(components):
        """Return the mechanism with these components driven."""
        words = [zero if k in components else "free" for k in range(6)]
        ends = ("ground", body, np.asarray(pose.r), np.zeros(3), tuple(words[:3]), tuple(words[3:]))
        hold = spatial.TotalJoint(*ends, frame_i=np.asarray(pose.a), frame_j=np.eye(3))
        held = {"hold": hold} if components else {}
        return mbs.Mechanism(mech.bodies, {**mech.constraints, **held}, forces=mech.forces)

    rank = lambda components: np.linalg.matrix_rank(mbs.constraint_jacobian(driven(components), q), 1e-6)
    chosen = []
    for k in range(6):
        if rank([*chosen, k]) > (rank(chosen) if chosen or mech.constraints else 0):
            chosen.append(k)
    return driven(chosen)


@needs_gcc
@pytest.mark.one_in(6)
@pytest.mark.parametrize("kind", sorted({*KINDS[3]} - {"Rigid"}))
def test_kinematics_of_spatial_elements(kind, tmp_path):
    """Kinematics of a body on one joint, whose freedom is driven, from an estimate that is 1 % wrong."""
    mech, q = random_tree(np.random.default_rng(zlib.crc32(kind.encode())), 1, kinds=(kind,))
    mech = with_drivers(mech, np.asarray(q))
    functions = MechanismFunctions(lambda _: mech, {}, (), STEP, mbs.RK4(), mbs.JointCoordinates())
    drive = {name: jnp.array([0.0, 1.0, 0.5]) for name in motions_of(mech)}
    rng = np.random.default_rng(1)
    numbers = {
        "q": np.asarray(q) * (1 + 0.01 * rng.uniform(-1, 1, (SAMPLES, len(q)))),
        "places": 0.02 * rng.normal(size=(SAMPLES, len(drive))),
    }

    def results(given):
        moved = {name: x.at[0].add(given["places"][k]) for k, (name, x) in enumerate(drive.items())}
        return functions.kinematics({"q": given["q"], "drive": moved, "t": jnp.asarray(0.0)})

    assert_equal_in_c(results, tmp_path, numbers)
