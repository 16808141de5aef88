"""Open chains in joint coordinates beside Pinocchio and MuJoCo, and the velocity transformation R in a batch.

Rods of about 1 m, nearly straight and level at the start, fall under gravity: all axes parallel, or every other one turned
by a right angle. All tools take the same steps of RK4, so final angles are equal up to the growth of rounding errors.
"""

import ctypes
import functools

import jax
import jax.numpy as jnp
import numpy as np
import reference_kernel
import timing

import jaxmbs as mbs
from jaxmbs import planar, spatial

# Step of the simulated chains in seconds.
STEP = 1e-3
# Number of steps of the simulated chains.
STEPS = 100
# Numbers of links of the chains that are measured.
LINKS = (4, 8, 16, 32, 64, 256)
# Samples of each batch whose final angles are compared with Pinocchio's.
CHECKED = 8
# Chains with more links are measured in batches of an eighth of the usual size.
MAX_LINKS_FULL_BATCH = 64
# First words of the names of rows by dimension of the chain.
NAMES = {2: "planar chain", 3: "spatial chain"}


def chain(lengths, dimension):
    """Return the chain of rods with these lengths (n,) in m and masses of 1 kg/m; `dimension` is 2 or 3."""
    bodies, joints = {}, {}
    for k, length in enumerate(lengths):
        i, end = ("ground", 0.0) if k == 0 else (f"L{k - 1}", lengths[k - 1] / 2)
        across = length**3 / 12
        if dimension == 2:
            bodies[f"L{k}"] = planar.Body(length, across)
            joints[f"J{k}"] = planar.Revolute(i, f"L{k}", (end, 0.0), (-length / 2, 0.0))
        else:
            bodies[f"L{k}"] = spatial.Body(length, np.array([0.01, 1, 1]) * across)
            axis = (0.0, 1.0, 0.0) if k % 2 else (0.0, 0.0, 1.0)
            joints[f"J{k}"] = spatial.Revolute(i, f"L{k}", (end, 0.0, 0.0), (-length / 2, 0.0, 0.0), axis)
    down = (0.0, -9.81) if dimension == 2 else (0.0, 0.0, -9.81)
    return mbs.Mechanism(bodies, joints, forces={"weight": mbs.Gravity(down)})


def lengths_of(links):
    """Return lengths (links,) of the rods in m, within two per cent of 1, the same in every run."""
    return 1 + 0.02 * np.random.default_rng(0).uniform(-1, 1, links)


def angles_of(links, batch):
    """Return random angles of the joints at the start, (batch, links) in rad, at most 0.02."""
    return 0.02 * np.random.default_rng(1).uniform(-1, 1, (batch, links))


def batch_size(links, batch):
    """Return the size of the batch for a chain with this many links."""
    return batch // 8 if links > MAX_LINKS_FULL_BATCH else batch


def chain_row(dimension, links, batch):
    """`mbs.simulate` as a user calls it."""
    mech = chain(lengths_of(links), dimension)
    angles = angles_of(links, batch_size(links, batch))
    starts = jax.jit(jax.vmap(lambda theta: mbs.JointCoordinates().of(mech).configuration(theta)))(angles)
    times = np.array([0.0, STEP * STEPS])

    def run(start):
        """Return final q and status of the fall of a chain from a start."""
        result = mbs.simulate(mech, times, start, step=STEP, formulation=mbs.JointCoordinates())
        return result.q[-1], result.status[-1]

    compiled, seconds = timing.compile_function(jax.vmap(run), starts)
    (q, status), runs = timing.measure(compiled, starts)
    assert np.all(np.asarray(status) == 0)
    more = {"compile s": seconds, "links": links}
    found = jax.vmap(lambda q: mbs.JointCoordinates().of(mech).coordinates(q))(q[:CHECKED])
    wanted = pinocchio_angles(dimension, links, angles[:CHECKED])
    if wanted is not None:
        more["difference rad"] = float(np.abs(np.sin((np.asarray(found) - wanted) / 2)).max() * 2)
    count = len(angles) * STEPS
    more |= _per_link(runs, count, links)
    return timing.row(f"{NAMES[dimension]} {links}", runs, count, kind="jaxmbs", **more)


def _per_link(runs, count, links):
    """Return the column of nanoseconds per step and link as a dict; `count` is the number of steps of all samples."""
    return {"ns per link": timing.NS * runs.median / count / links}


def pinocchio_angles(dimension, links, angles):
    """Return final joint angles (batch, links) by Pinocchio, from those at the start; None without it or a compiler."""
    try:
        return _pinocchio()(dimension, lengths_of(links), angles, STEPS)
    except (ImportError, reference_kernel.NoCompiler):
        return None


def pinocchio_chain_row(dimension, links, batch):
    """Pinocchio's articulated-body algorithm, with all loops in C++. The time to build the models is subtracted."""
    name = f"Pinocchio (C++), {NAMES[dimension]} {links}"
    try:
        call = _pinocchio()
    except (ImportError, reference_kernel.NoCompiler) as error:
        return timing.skipped_row(name, error)
    angles, lengths = angles_of(links, batch_size(links, batch) // 4), lengths_of(links)
    _, setup = timing.measure(lambda: call(dimension, lengths, angles, 0), repeats=3)
    _, runs = timing.measure(lambda: call(dimension, lengths, angles, STEPS), repeats=3)
    runs = timing.Runs(runs.median - setup.median, runs.best - setup.best)
    count = len(angles) * STEPS
    more = {"links": links, **_per_link(runs, count, links)}
    return timing.row(name, runs, count, **more, note="four calls of aba for each step")


@functools.cache
def _pinocchio():
    """Return the function (dimension, lengths, angles, steps) ↦ final joint angles of the compiled C++ library."""
    import peers

    library = peers.pinocchio_library("pinocchio_chain.cpp")
    pointer = np.ctypeslib.ndpointer(np.float64, flags="C")
    library.rollout.argtypes = [ctypes.c_long] * 4 + [ctypes.c_double] + [pointer] * 3
    library.rollout.restype = None

    def call(dimension, lengths, angles, steps):
        """Return the final joint angles (batch, links) of chains in the plane or in space."""
        angles = np.array(angles.T, order="C")
        each = np.array(np.broadcast_to(lengths[:, None], angles.shape), order="C")
        library.rollout(len(lengths), dimension == 3, angles.shape[1], steps, STEP, each, angles, np.zeros_like(angles))
        return angles.T

    return call


def mujoco_model(dimension, links):
    """Return the `MjModel` of the chain with this number of links; `dimension` is 2 or 3."""
    import mujoco

    return mujoco.MjModel.from_xml_string(mjcf(lengths_of(links), dimension))


def mujoco_chain_row(dimension, links, batch):
    """MuJoCo, RK4, without contacts."""
    name = f"MuJoCo, {NAMES[dimension]} {links}"
    try:
        import mujoco
    except ImportError as error:
        return timing.skipped_row(name, error)
    model = mujoco_model(dimension, links)
    data = mujoco.MjData(model)

    def run():
        """Take all steps from the first state."""
        mujoco.mj_resetData(model, data)
        mujoco.mj_step(model, data, nstep=STEPS)

    _, runs = timing.measure(run, repeats=15)
    more = {"links": links, **_per_link(runs, STEPS, links)}
    return timing.row(name, runs, STEPS, **more, note="one system, 100 steps for each call")


def mjcf(lengths, dimension):
    """Return the MJCF of a chain of hinged rods with these lengths (n,), in the plane or in space."""
    text = ""
    for k, length in reversed(list(enumerate(lengths))):
        axis = "0 1 0" if dimension == 3 and k % 2 else "0 0 1"
        across = length**3 / 12
        text = (
            f'<body pos="{lengths[k - 1] if k else 0} 0 0"><joint axis="{axis}"/><inertial pos="{length / 2} 0 0" '
            f'mass="{length}" diaginertia="{0.01 * across} {across} {across}"/>{text}</body>'
        )
    down = "0 -9.81 0" if dimension == 2 else "0 0 -9.81"
    option = f'<option timestep="{STEP}" integrator="RK4" gravity="{down}"><flag contact="disable"/></option>'
    return f'<mujoco><compiler boundmass="0"/>{option}<worldbody>{text}</worldbody></mujoco>'


def transformation_row(dimension, links, batch):
    """Time R(θ), the velocity transformation, for a batch of different chains at different angles."""
    lengths = jnp.asarray(1 + 0.02 * np.random.default_rng(0).uniform(-1, 1, (batch, links)))
    theta = jnp.asarray(np.random.default_rng(1).normal(size=(batch, links)))
    run = lambda lengths, theta: mbs.velocity_transformation(chain(lengths, dimension), theta)
    compiled, seconds = timing.compile_function(jax.vmap(run), lengths, theta)
    _, runs = timing.measure(compiled, lengths, theta, repeats=15)
    more = {"compile s": seconds, "R per s": batch / runs.median}
    return timing.row(f"R, {NAMES[dimension]} {links}", runs, batch, kind="jaxmbs", **more)


# Row functions of the table of chains with their arguments.
CALLS = [
    *((row, d, n) for d in (2, 3) for n in LINKS for row in (chain_row, pinocchio_chain_row, mujoco_chain_row)),
    *((transformation_row, d, n) for d in (2, 3) for n in (4, 8)),
]
