"""Rows of `mbs.simulate`: the four-bars by every method, Andrews' mechanism, forty windows beside MuJoCo."""

import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import models
import numpy as np
import peers
import timing

import jaxmbs as mbs

sys.path.append(str(Path(__file__).parents[1] / "tests/helpers"))
from ptxas import programs_of

# Method of `mbs.simulate` for each row of simulations.
METHODS = {
    "RK4": mbs.RK4(),
    "RK4, Baumgarte": mbs.RK4(mbs.Baumgarte()),
    "semi-implicit Euler": mbs.SemiImplicitEuler(),
    "generalized-α": mbs.GeneralizedAlpha(0.9),
    "partitioning": mbs.CoordinatePartitioning(),
}
# Published crank angle of Andrews' mechanism at 0.03 s (rad), from the sources of `models.ANDREWS_BODIES`.
ANDREWS_BETA = 15.81077119629904
# Steps in the 0.03 s of Andrews' mechanism.
ANDREWS_STEPS = 160
# Number of windows in the row of four-bar windows.
WINDOWS = 40
# Step of jaxmbs for the row of windows (s); it closes the loops in every step.
WINDOWS_STEP = 4e-3
# Step of MuJoCo for the row of windows (s), a usual one.
MUJOCO_STEP = 1e-3


def simulate_row(name, problem):
    """`mbs.simulate` as a user calls it, with the final state and all statuses."""
    times = np.array([0.0, problem.h * problem.steps])

    def run(b, q, v):
        """Return final q and v, and the status."""
        motion = mbs.simulate(models.four_bar(b), times, q, v, step=problem.h, method=METHODS[name])
        return motion.q[-1], motion.v[-1], motion.status[-1]

    args = problem.designs, problem.q, problem.v
    function, compile_seconds = timing.compile_function(jax.vmap(run), *args)
    (q, _, status), runs = timing.measure(function, *args, repeats=9)
    more = {"gap": problem.gap(q), "compile s": compile_seconds, "failed": int((status != 0).sum())}
    return timing.row(f"simulate, {name}", runs, problem.count, kind="jaxmbs", **more)


# Formulation for each pair of rows with and without friction in the pins.
FORMULATIONS = {"Augmented": mbs.Augmented(), "joint coordinates": mbs.JointCoordinates()}
# Coefficient of friction in the pins.
PIN_FRICTION = 0.1
# Radius of the pins (m).
PIN_RADIUS = 0.02
# Sliding speed up to which friction grows (m/s).
PIN_VELOCITY = 0.01


def friction_row(name, friction, problem):
    """A four-bar with friction in all four pins from their reactions, or without, in a formulation.

    "operations" are those of a step, with two Newton steps for the friction in each evaluation of accelerations.
    """
    times = np.array([0.0, problem.h * problem.steps])
    pins = {
        f"rub {pin}": mbs.JointFriction(pin, PIN_FRICTION, radius=PIN_RADIUS, velocity=PIN_VELOCITY) for pin in "OABC"
    }

    def run(b, q, v):
        """Return final q and v, and the status."""
        plain = models.four_bar(b)
        mech = mbs.Mechanism(plain.bodies, plain.constraints, forces={**plain.forces, **(pins if friction else {})})
        motion = mbs.simulate(mech, times, q, v, step=problem.h, formulation=FORMULATIONS[name])
        return motion.q[-1], motion.v[-1], motion.status[-1]

    args = problem.designs, problem.q, problem.v
    function, compile_seconds = timing.compile_function(jax.vmap(run), *args)
    (_, _, status), runs = timing.measure(function, *args, repeats=9)
    title = f"{name}, {'friction in four pins' if friction else 'no friction'}"
    one = jax.tree.map(lambda x: x[0], args)
    work = max(program.work for program in programs_of(run, *one))
    more = {
        "operations": work / problem.steps, "compile s": compile_seconds, "failed": int((status != 0).sum())
    }  # fmt: skip
    return timing.row(title, runs, problem.count, kind="jaxmbs", **more)


# Options of `mbs.simulate` for each row of gradients.
GRADIENTS = {
    "RK4": {"method": mbs.RK4()},
    "RK4, Baumgarte": {"method": mbs.RK4(mbs.Baumgarte())},
    "semi-implicit Euler": {"method": mbs.SemiImplicitEuler()},
    "joint coordinates": {"formulation": mbs.JointCoordinates()},
}
# Steps of the simulations in the rows of gradients.
GRADIENT_STEPS = 1000


def simulate_gradient_row(name, problem):
    """Value and gradient by lengths, masses and start through 1,000 steps of `mbs.simulate`, beside the forward run."""
    times = np.array([0.0, problem.h * GRADIENT_STEPS])

    def loss(b, q, v):
        """Return the sum of squares of the final q and v of a design."""
        motion = mbs.simulate(models.four_bar(b), times, q, v, step=problem.h, **GRADIENTS[name])
        return jnp.sum(motion.q[-1] ** 2) + jnp.sum(motion.v[-1] ** 2)

    args = problem.designs, problem.q, problem.v
    forward, _ = timing.compile_function(jax.vmap(loss), *args)
    _, forward_runs = timing.measure(forward, *args)
    gradient, compile_seconds = timing.compile_function(jax.vmap(jax.value_and_grad(loss, (0, 1, 2))), *args)
    _, runs = timing.measure(gradient, *args)
    count = len(problem.q) * GRADIENT_STEPS
    more = {"ns forward": timing.NS * forward_runs.median / count, "times forward": runs.median / forward_runs.median}
    more |= {"compile s": compile_seconds}
    return timing.row(f"value and gradient, {name}", runs, count, kind="jaxmbs", **more)


def andrews_row(batch):
    """Andrews' mechanism with its torque and its spring, 0.03 s: milliseconds for each sample and the error of β."""
    mech = models.squeezer()
    q = mbs.assemble(mech, models.andrews_guess(models.ANDREWS)).q
    times = np.array([0.0, 0.03])
    run = lambda q: mbs.simulate(mech, times, q, step=0.03 / ANDREWS_STEPS).position("K1.phi")[-1]
    function, compile_seconds = timing.compile_function(jax.vmap(run), jnp.tile(q, (batch, 1)))
    beta, runs = timing.measure(function, jnp.tile(q, (batch, 1)))
    more = {"ms per sample": 1e3 * runs.median / batch, "error rad": float(jnp.max(jnp.abs(beta - ANDREWS_BETA)))}
    more |= {"steps": ANDREWS_STEPS, "compile s": compile_seconds}
    return timing.row("Andrews, 0.03 s", runs, batch * ANDREWS_STEPS, kind="jaxmbs", **more)


def windows_row(batch):
    """Forty windows: milliseconds for each simulated second, and the change of the energy in it."""
    mech, q, v = models.windows(WINDOWS), *models.windows_start(WINDOWS)
    q, v = mech.coordinates(q), mech.coordinates(v)
    run = partial(_windows, mech, q)
    speeds = v * jnp.linspace(1, 1.1, batch)[:, None]
    function, compile_seconds = timing.compile_function(jax.vmap(run), speeds)
    (energy, status), runs = timing.measure(function, speeds, repeats=3)
    more = {
        "ms per simulated second": 1e3 * runs.median / batch,
        "energy J": float(jnp.max(jnp.abs(energy[:, 1] - energy[:, 0]))),
        "failed": int((status[:, -1] != 0).sum()),
        "compile s": compile_seconds,
    }
    return timing.row("40 windows", runs, batch / WINDOWS_STEP, kind="jaxmbs", **more)


def _windows(mech, q, v):
    """Return the energies at the ends of one second of motion of the windows, and its statuses."""
    motion = mbs.simulate(mech, np.array([0.0, 1.0]), q, v, step=WINDOWS_STEP)
    return motion.energy.total, motion.status


def mujoco_windows_row(batch):
    """Forty windows in MuJoCo: hinges, couplers on the tips of the cranks, `connect` at their other ends."""
    try:
        import mujoco
    except ImportError as error:
        return timing.skipped_row("40 windows, MuJoCo", error)
    model = mujoco.MjModel.from_xml_string(_windows_xml())
    velocities = [rate for k in range(WINDOWS + 1) for rate in ((-1.0, 1.0) if k < WINDOWS else (-1.0,))]
    steps = round(1 / MUJOCO_STEP)
    run = peers.mujoco_final_positions([model] * batch, steps, velocities=velocities)
    angles, runs = timing.measure(run, repeats=3)
    cranks = np.append(angles[0, 0::2][:-1], angles[0, -1])
    more = {"ms per simulated second": 1e3 * runs.median / batch, "cranks apart rad": float(np.ptp(cranks))}
    return timing.row("40 windows, MuJoCo", runs, batch * steps, **more, note="Euler, 1 ms, connect")


def _windows_xml() -> str:
    """Return the MJCF of upright cranks in the plane x–z; all except the last carry the coupler to the next one."""
    # Only the moment about the hinges matters; the others must be possible.
    inertial = f'<inertial pos="{{}}" mass="1" diaginertia="{1 / 12} {1 / 12} {1 / 12}"/>'
    hinge = '<joint type="hinge" axis="0 -1 0"/>'
    bodies, ties = [], []
    for k in range(WINDOWS + 1):
        coupler = f'<body name="L{k}" pos="0 0 1">{hinge}{inertial.format("0.5 0 0")}</body>' if k < WINDOWS else ""
        bodies.append(f'<body name="C{k}" pos="{k} 0 0">{hinge}{inertial.format("0 0 0.5")}{coupler}</body>')
        if k < WINDOWS:
            ties.append(f'<connect body1="L{k}" body2="C{k + 1}" anchor="1 0 0"/>')
    return (
        f'<mujoco><option timestep="{MUJOCO_STEP}" gravity="0 0 -9.81"><flag contact="disable"/></option>'
        f"<worldbody>{''.join(bodies)}</worldbody><equality>{''.join(ties)}</equality></mujoco>"
    )
