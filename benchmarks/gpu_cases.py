"""Cases of `gpu`: functions of one sample, their batches and numbers of steps."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import chains
import jax
import jax.numpy as jnp
import models
import numpy as np
import peers

import jaxmbs as mbs
from jaxmbs import env

# Step of the simulated cases in seconds.
STEP = 1e-3
# Default number of steps of a simulated case.
STEPS = 100
# Number of steps of the cases with long simulations.
LONG_STEPS = 1000
# Largest relative deviation of the lengths of a batch of four-bars from the nominal ones.
SPREAD = 0.05


class Case(NamedTuple):
    """A function of one sample to check and measure.

    Attributes:
        make: function from a dtype to the function of one sample, and the function from a size to a batch.
        steps: time steps or positions of one sample.
        closes: True if the first output is q of a four-bar whose lengths are the arguments; then its gap is computed.
        largest: largest batch.
        single: True to measure float32 too.
        compared: True to measure elementwise XLA too.
        others: `make` of other simulators by name, with the same outputs.
        counted: True if all loops have a known number of iterations, so that operations per step have a meaning.
    """

    make: Callable
    steps: int = STEPS
    closes: bool = False
    largest: int = 2**20
    single: bool = False
    compared: bool = False
    others: Mapping[str, Callable] = MappingProxyType({})
    counted: bool = True


def _lengths(size, dtype):
    """Return a batch of lengths of four-bars within `SPREAD` of the nominal ones."""
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x), dtype), models.four_bar_batch(size, SPREAD))


def _simulation(formulation=None, steps=STEPS, gradient=False):
    """Return the function `make` (see `Case`) of a simulation of the four-bar, or its gradient."""

    def make(dtype):
        """Return the function of one sample, and the function from a size to a batch, in a dtype."""
        times = np.array([0.0, steps * STEP], dtype)

        def run(b):
            """Return final q and status of the simulation of a design."""
            mech, start = models.four_bar(b), models.four_bar_guess(b, 1.0)
            motion = mbs.simulate(mech, times, start, step=STEP, method=mbs.RK4(), formulation=formulation)
            return motion.q[-1], motion.status[-1]

        slope = jax.grad(lambda b: jnp.sum(run(b)[0] ** 2))
        return (slope if gradient else run), lambda size: (_lengths(size, dtype),)

    return make


def _kinematics(gradient=False):
    """Return the function `make` (see `Case`) of the kinematics of the four-bar, or its gradient."""

    def make(dtype):
        """Return the function of one sample, and the function from a size to a batch, in a dtype."""
        times = np.linspace(0, 6, STEPS).astype(dtype)

        def run(b):
            """Return last q and status of the motion of a design."""
            motion = mbs.kinematics(models.four_bar(b, motor=True), times, models.four_bar_guess(b))
            return motion.q[-1], motion.status[-1]

        slope = jax.grad(lambda b: jnp.sum(run(b)[0] ** 2))
        return (slope if gradient else run), lambda size: (_lengths(size, dtype),)

    return make


def _bricard(dtype):
    """Return `run` and `batch` of simulations of Bricard's mechanism, in a dtype."""
    mech = models.bricard()
    q, v = (part(x) for part, x in zip((mech.coordinates, mech.velocities), models.bricard_start(), strict=True))
    times = np.array([0.0, STEPS * STEP], dtype)

    def run(factor):
        """Return final q and status of a motion that starts with velocities changed by 0.1 `factor`."""
        motion = mbs.simulate(mech, times, q.astype(dtype), v.astype(dtype) + 0.1 * factor, step=STEP)
        return motion.q[-1], motion.status[-1]

    return run, lambda size: (jnp.linspace(0.0, 1e-9, size, dtype=dtype),)


def _chain(links):
    """Return the function `make` (see `Case`) of a spatial chain in joint coordinates."""

    def make(dtype):
        """Return the function of one sample, and the function from a size to a batch, in a dtype."""
        mech = chains.chain(chains.lengths_of(links), 3)
        times = np.array([0.0, STEPS * STEP], dtype)

        def run(angles):
            """Return the final joint coordinates and status of a chain from joint coordinates at the start."""
            start = mbs.JointCoordinates().of(mech).configuration(angles)
            motion = mbs.simulate(mech, times, start, step=STEP, formulation=mbs.JointCoordinates())
            return mbs.JointCoordinates().of(mech).coordinates(motion.q[-1]), motion.status[-1]

        return run, lambda size: (jnp.asarray(chains.angles_of(links, size), dtype),)

    return make


def _mjx_chain(links):
    """Return `make` of the spatial chain in MJX, with the method and the steps of `_chain`."""

    def make(dtype):
        """Return the function of one sample, whose status is 0, and the function from a size to a batch, in a dtype."""
        final_angles = peers.mjx_final_positions(chains.mujoco_model(3, links), STEPS)
        run = lambda angles: (final_angles(angles), jnp.zeros((), jnp.int32))
        return run, _chain(links)(dtype)[1]

    return make


def _environment(dtype):
    """Return `run` and `batch` of episodes of the five-bar environment, in a dtype."""
    robot = env.make("five-bar", horizon=STEPS)

    def run(key, actions):
        """Return the sum of rewards and the last q of an episode."""
        step = lambda state, action: (robot.step(state, action), state.reward)
        state, rewards = jax.lax.scan(step, robot.reset(key), actions)
        return jnp.sum(rewards), state.q

    def batch(size):
        """Return random keys and actions of a batch of episodes."""
        rng = np.random.default_rng(0)
        actions = rng.uniform(-1, 1, (size, STEPS, robot.action_size)).astype(dtype)
        return jax.random.split(jax.random.key(0), size), jnp.asarray(actions)

    return run, batch


# All cases of the GPU benchmark by name.
CASES = {
    "four-bar, joint coordinates": Case(_simulation(mbs.JointCoordinates()), closes=True, single=True, compared=True),
    "four-bar, Augmented": Case(_simulation(), closes=True, single=True, compared=True),
    "joint coordinates, 1,000 steps": Case(
        _simulation(mbs.JointCoordinates(), LONG_STEPS), LONG_STEPS, closes=True, largest=2**18
    ),
    "joint coordinates, 1,000 steps, gradient": Case(
        _simulation(mbs.JointCoordinates(), LONG_STEPS, gradient=True), LONG_STEPS, largest=2**18
    ),
    "Augmented, 1,000 steps": Case(_simulation(None, LONG_STEPS), LONG_STEPS, closes=True, largest=2**18),
    # Each sample keeps some 300 kB of states: 2¹⁸ samples need 71 GiB.
    "Augmented, 1,000 steps, gradient": Case(_simulation(None, LONG_STEPS, gradient=True), LONG_STEPS, largest=2**17),
    "kinematics": Case(_kinematics(), closes=True, single=True, compared=True, counted=False),
    "kinematics, gradient": Case(_kinematics(gradient=True), largest=2**18, counted=False),
    "Bricard's mechanism": Case(_bricard, largest=2**17),
    "spatial chain of 8": Case(_chain(8), largest=2**18, single=True, others={"MJX": _mjx_chain(8)}),
    "five-bar environment": Case(_environment, largest=2**17),
}
