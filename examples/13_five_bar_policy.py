"""A five-bar robot learns to follow an eight, by gradients through its closed loop.

The tip of a five-bar parallel robot shall follow a point that runs along an eight. A small network maps tip and target to
the torques of both motors. Whole episodes are differentiated with respect to its weights, through every time step and the
closed loop, for Adam: an analytic policy gradient.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import jaxmbs as mbs
from jaxmbs.env import FiveBar
from jaxmbs.viz import style

jax.config.update("jax_enable_x64", True)

# Episodes simulated in an update.
EPISODES = 32
# Numbers of neurons in the layers of the network, from observation to action.
LAYERS = (14, 32, 32, 2)


def network(key):
    """Return random weights and offsets; the last layer is small, so that the first policy hardly moves."""
    keys = jax.random.split(key, len(LAYERS) - 1)
    sizes = zip(keys, LAYERS, LAYERS[1:], strict=False)
    layers = [(jax.random.normal(k, (n, m)) / np.sqrt(n), jnp.zeros(m)) for k, n, m in sizes]
    return [*layers[:-1], (0.1 * layers[-1][0], layers[-1][1])]


def policy(layers, observation):
    """Return the action, between −1 and 1."""
    for weights, offsets in layers:
        observation = jnp.tanh(observation @ weights + offsets)
    return observation


def episode(env, layers, key, params=None):
    """Return all states of an episode, with the first one."""

    def step(state, _):
        """Return the next state, as carry and as output of `scan`."""
        new = env.step(state, policy(layers, state.observation), auto_reset=False)
        return new, new

    first = env.reset(key, params)
    states = jax.lax.scan(step, first, None, length=env.horizon)[1]
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, states)


def mean_return(env, layers, keys):
    """Return the sum of rewards over an episode, averaged over the episodes of `keys`."""
    return jnp.mean(jax.vmap(lambda key: episode(env, layers, key).reward.sum())(keys))


def train(env, updates, key):
    """Return the weights after all updates, and the mean return before each."""
    start, key = jax.random.split(key)
    layers = network(start)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(5e-3, updates)))

    @jax.jit
    def update(layers, state, key):
        """Return weights and optimiser state after a step, and the mean return before it."""
        loss = lambda layers: -mean_return(env, layers, jax.random.split(key, EPISODES)) / env.horizon
        value, gradient = jax.value_and_grad(loss)(layers)
        changes, state = optimizer.update(gradient, state)
        return optax.apply_updates(layers, changes), state, -value * env.horizon

    state, returns = optimizer.init(layers), []
    for k in range(updates):
        layers, state, value = update(layers, state, jax.random.fold_in(key, k))
        returns.append(float(value))
    return layers, returns


def show(env, states, returns, file):
    """Draw learning curve, an episode, and distances from the target."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    axes[0].plot(returns, color=style.colour_of(0), linewidth=1.6)
    axes[0].axhline(env.horizon, color=style.GROUND_COLOUR, linewidth=1, linestyle=":")
    axes[0].set(xlabel=f"update, {EPISODES} episodes each", ylabel="return", title="learning curve")
    axes[0].set_ylim(max(min(returns), -300), env.horizon + 25)
    first = jax.tree.map(lambda x: x[0, 0], states.params)
    mech = env.build(first, jnp.zeros(2))
    tips = np.array(jax.vmap(lambda q: mech.point(q, "left arm", (first["distal"], 0)))(states.q[0]))
    wanted = np.array(jax.vmap(lambda k: env.target(states.task[0, 0], k * env.control_step))(np.arange(len(tips))))
    mbs.viz.draw(mech, states.q[0, -1], ax=axes[1])
    axes[1].plot(*wanted.T, color=style.GROUND_COLOUR, linewidth=3, alpha=0.4, label="wanted")
    axes[1].plot(*tips.T, color=style.ACCENT, linewidth=1.3, label="tip")
    axes[1].legend(frameon=False, fontsize=8, loc="lower right")
    axes[1].set(xlabel="x (m)", ylabel="y (m)", title="one episode")
    times = env.control_step * np.arange(len(tips))
    axes[2].semilogy(
        times, 1e3 * np.array(states.metrics["distance"]).T, color=style.colour_of(0), alpha=0.4, linewidth=0.8
    )
    axes[2].set(xlabel="time (s)", ylabel="distance from the target (mm)", title=f"{len(states.q)} episodes")
    for ax, equal in zip(axes, (False, True, False), strict=True):
        style.tidy(ax, equal=equal)
        ax.title.set_fontsize(10)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    """Train the policy, and draw its learning curve and an episode."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer updates")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    began, env = time.time(), FiveBar()

    layers, returns = train(env, 60 if options.quick else 500, jax.random.key(0))
    trained = time.time() - began
    fresh = jax.random.split(jax.random.key(1), 64)  # episodes that it was not trained on
    states = jax.jit(jax.vmap(lambda key: episode(env, layers, key)))(fresh)
    far = np.array(states.metrics["distance"])[:, env.horizon // 3 :]
    gaps = jax.jit(jax.vmap(lambda p, q: mbs.constraints(env.build(p, jnp.zeros(2)), q, 0.0)))
    record = {
        "return at first": returns[0],
        "return of 64 other episodes": float(states.reward.sum(1).mean()),
        "largest possible": env.horizon,
        "distance from the target in the last two seconds, root mean square (mm)": 1e3
        * float(np.sqrt(np.mean(far**2))),
        "gap of the loop (m)": float(abs(gaps(jax.tree.map(lambda x: x[:, -1], states.params), states.q[:, -1])).max()),
        "statuses all good": bool((states.status == mbs.Status.CONVERGED).all()),
        "seconds of training": trained,
    }
    for name, value in record.items():
        print(f"{name:74}{value:10.4g}")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "13_five_bar_policy.json").write_text(json.dumps(record, indent=2) + "\n")
    show(env, states, returns, options.output / "13_five_bar_policy.png")


if __name__ == "__main__":
    main()
