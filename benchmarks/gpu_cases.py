"""What is measured on a GPU: functions of one sample, batches of them, and how many steps they take."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import chains
import jax
import jax.numpy as jnp
import models
import numpy as np

import jaxmbs as mbs
from jaxmbs import env

STEP = 1e-3
STEPS, LONG = 100, 1000
# How far lengths are spread, and angles of crank and chain at the start.
SPREAD = 0.05


class Case(NamedTuple):
    """A case.

    Attributes:
        make: dtype → (function of one sample, a batch of its arguments by the size of the batch).
        steps: of one sample: time steps, or positions.
        closes: whether the first output is q of a four-bar with its lengths as arguments, so that its gap can be computed.
        largest: the largest batch.
        single: whether float32 is measured as well.
        compared: whether it is measured as elementwise XLA as well.
        others: by the name of another simulator: `make` for the same outputs.
        counted: whether all loops have a known number of rounds, so that operations per step mean something.
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
    """Lengths of four-bars within 5 % of the nominal ones."""
    return jax.tree.map(lambda x: jnp.asarray(np.asarray(x), dtype), models.four_bar_batch(size, SPREAD))


def _simulated(formulation=None, steps=STEPS, gradient=False):
    def make(dtype):
        times = np.array([0.0, steps * STEP], dtype)

        def run(b):
            start = models.four_bar_guess(b, 1.0)
            motion = mbs.simulate(
                models.four_bar(b), times, start, step=STEP, method=mbs.RK4(), formulation=formulation
            )
            return motion.q[-1], motion.status[-1]

        slope = jax.grad(lambda b: jnp.sum(run(b)[0] ** 2))
        return (slope if gradient else run), lambda size: (_lengths(size, dtype),)

    return make


def _kinematics(gradient=False):
    def make(dtype):
        times = np.linspace(0, 6, STEPS).astype(dtype)

        def run(b):
            motion = mbs.kinematics(models.four_bar(b, motor=True), times, models.four_bar_guess(b))
            return motion.q[-1], motion.status[-1]

        slope = jax.grad(lambda b: jnp.sum(run(b)[0] ** 2))
        return (slope if gradient else run), lambda size: (_lengths(size, dtype),)

    return make


def _bricard(dtype):
    mech = models.bricard()
    q, v = (part(x) for part, x in zip((mech.coordinates, mech.velocities), models.bricard_start(), strict=True))
    times = np.array([0.0, STEPS * STEP], dtype)

    def run(factor):
        motion = mbs.simulate(mech, times, q.astype(dtype), v.astype(dtype) + 0.1 * factor, step=STEP)
        return motion.q[-1], motion.status[-1]

    return run, lambda size: (jnp.linspace(0.0, 1e-9, size, dtype=dtype),)


def _chain(links):
    def make(dtype):
        mech = chains.chain(chains.lengths_of(links), 3)
        times = np.array([0.0, STEPS * STEP], dtype)

        def run(angles):
            start = mbs.JointCoordinates().of(mech).configuration(angles)
            motion = mbs.simulate(mech, times, start, step=STEP, formulation=mbs.JointCoordinates())
            return mbs.JointCoordinates().of(mech).coordinates(motion.q[-1]), motion.status[-1]

        return run, lambda size: (jnp.asarray(chains.angles_of(links, size), dtype),)

    return make


def _mjx_chain(links):
    """The same steps of the same method by MuJoCo's own XLA program."""

    def make(dtype):
        import mujoco
        from mujoco import mjx

        model = mjx.put_model(mujoco.MjModel.from_xml_string(chains.xml(chains.lengths_of(links), 3)), impl="jax")
        blank = mjx.make_data(model)

        def run(angles):
            step = lambda data, _: (mjx.step(model, data), None)
            return jax.lax.scan(step, blank.replace(qpos=angles), length=STEPS)[0].qpos, jnp.zeros((), jnp.int32)

        return run, _chain(links)(dtype)[1]

    return make


def _environment(dtype):
    robot = env.make("five-bar", horizon=STEPS)

    def run(key, actions):
        step = lambda state, action: (robot.step(state, action), state.reward)
        state, rewards = jax.lax.scan(step, robot.reset(key), actions)
        return jnp.sum(rewards), state.q

    def batch(size):
        rng = np.random.default_rng(0)
        actions = rng.uniform(-1, 1, (size, STEPS, robot.action_size)).astype(dtype)
        return jax.random.split(jax.random.key(0), size), jnp.asarray(actions)

    return run, batch


CASES = {
    "four-bar, joint coordinates": Case(_simulated(mbs.JointCoordinates()), closes=True, single=True, compared=True),
    "four-bar, Augmented": Case(_simulated(), closes=True, single=True, compared=True),
    "joint coordinates, 1,000 steps": Case(_simulated(mbs.JointCoordinates(), LONG), LONG, closes=True, largest=2**18),
    "joint coordinates, 1,000 steps, gradient": Case(
        _simulated(mbs.JointCoordinates(), LONG, gradient=True), LONG, largest=2**18
    ),
    "Augmented, 1,000 steps": Case(_simulated(None, LONG), LONG, closes=True, largest=2**18),
    # Each sample keeps some 300 kB of states: 2¹⁸ need 71 GiB.
    "Augmented, 1,000 steps, gradient": Case(_simulated(None, LONG, gradient=True), LONG, largest=2**17),
    "kinematics": Case(_kinematics(), closes=True, single=True, compared=True, counted=False),
    "kinematics, gradient": Case(_kinematics(gradient=True), largest=2**18, counted=False),
    "Bricard's mechanism": Case(_bricard, largest=2**17),
    "spatial chain of 8": Case(_chain(8), largest=2**18, single=True, others={"MJX": _mjx_chain(8)}),
    "five-bar environment": Case(_environment, largest=2**17),
}
