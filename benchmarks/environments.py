"""Rows of learning environments: a control step with observation, reward and automatic reset."""

import jax
import jax.numpy as jnp
import numpy as np
import timing

from jaxmbs import env

# Control steps in each measured call.
STEPS = 50


def environment_row(name, batch):
    """Episodes of an environment with random actions, with its default settings."""
    task = env.make(name)

    def run(key, actions):
        """Return the sum of the rewards and the last configuration of an episode with automatic resets."""
        state = task.reset(key)
        step = lambda state, action: (task.step(state, action), state.reward)
        state, rewards = jax.lax.scan(step, state, actions)
        return jnp.sum(rewards), state.q

    actions = np.random.default_rng(0).uniform(-1, 1, (batch, STEPS, task.action_size))
    args = jax.random.split(jax.random.key(0), batch), jnp.asarray(actions)
    function, compile_seconds = timing.compile_function(jax.vmap(run), *args)
    _, runs = timing.measure(function, *args)
    more = {"substeps": task.substeps, "compile s": compile_seconds}
    return timing.row(name, runs, batch * STEPS, kind="jaxmbs", **more)
