"""Lengths and policy of a five-bar robot in one descent: torque is dear, and the robot shapes itself.

The tip shall follow an eight in 1.2 seconds, and torque has a price. First a network learns it with fixed lengths; then the
three lengths are learned together with it, by the same gradients through whole episodes. The robot is assembled with its
lengths in every update, and the gradient includes the assembly.
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

# Environment of the robot, with a high price of torque.
ENV = FiveBar(period=1.2, effort=3.0, torque=0.4, horizon=120)
# Episodes simulated in an update.
EPISODES = 32
# Numbers of neurons in the layers of the network, from observation to action.
LAYERS = (14, 32, 32, 2)
# Name of each case in the picture: False with fixed lengths, True with lengths that are learned.
NAMES = {False: "lengths as they are", True: "lengths and policy"}


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


def lengths(scales):
    """Return the design whose lengths are scaled by exp(scales)."""
    return {name: length * jnp.exp(scales[name]) for name, length in ENV.design.items()}


def episode(learned, key):
    """Return rewards, distances from the target, actions and statuses of an episode."""

    def step(state, _):
        """Return the next state; and reward, distance, action and status of the step."""
        action = policy(learned["layers"], state.observation)
        new = ENV.step(state, action, auto_reset=False)
        return new, (new.reward, new.metrics["distance"], action, new.status)

    return jax.lax.scan(step, ENV.reset(key, lengths(learned["scales"])), None, length=ENV.horizon)[1]


def loss(learned, keys):
    """Return minus the mean return, divided by the number of steps."""
    return -jnp.mean(jax.vmap(lambda key: episode(learned, key)[0].mean())(keys))


def trainer(updates):
    """Return optimizer and update; with `shaping` the update also changes the lengths."""
    rate = optax.cosine_decay_schedule(5e-3, updates)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))

    @jax.jit
    def update(learned, state, key, shaping):
        """Return weights, scales and optimiser state after a step, and the mean return before it."""
        value, gradient = jax.value_and_grad(loss)(learned, jax.random.split(key, EPISODES))
        gradient["scales"] = jax.tree.map(lambda x: shaping * x, gradient["scales"])
        changes, state = optimizer.update(gradient, state)
        return optax.apply_updates(learned, changes), state, -value * ENV.horizon

    return optimizer, update


def train(updates, key, optimizer, update, shaping):
    """Return weights and scales after all updates, and the mean returns on the way."""
    scales = {name: jnp.zeros(()) for name in ENV.design}
    learned, returns = {"layers": network(key), "scales": scales}, []
    state = optimizer.init(learned)
    for k in range(updates):
        learned, state, value = update(learned, state, jax.random.fold_in(key, k), float(shaping))
        returns.append(float(value))
    return learned, returns


def show(found, curves, file):
    """Draw learning curves, and the robots before and after."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    for (shaping, returns), ax in zip(curves.items(), axes[1:], strict=True):
        axes[0].plot(returns, color=style.colour_of(int(not shaping)), linewidth=1.6, label=NAMES[shaping])
        params = lengths(found[shaping]["scales"])
        state = ENV.reset(jax.random.key(3), params)
        mbs.viz.draw(ENV.build(params, jnp.zeros(2)), state.q, ax=ax)
        path = np.array(jax.vmap(lambda t: ENV.target(0.0, t))(np.linspace(0, ENV.period, 121)))
        ax.plot(*path.T, color=style.ACCENT, linewidth=1.6)
        ax.set(title=NAMES[shaping], xlabel="x (m)", ylabel="y (m)", xlim=(-0.33, 0.33), ylim=(-0.08, 0.4))
    axes[0].set(xlabel=f"update, {EPISODES} episodes each", ylabel="return", title="learning curves")
    axes[0].set_ylim(-100, ENV.horizon)
    axes[0].legend(frameon=False, fontsize=8, loc="lower right")
    for ax, equal in zip(axes, (False, True, True), strict=True):
        style.tidy(ax, equal=equal)
        ax.title.set_fontsize(10)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    """Train policies with fixed and with learned lengths, and draw both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer updates")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    began, updates = time.time(), 60 if options.quick else 500
    optimizer, update = trainer(updates)
    fresh = jax.random.split(jax.random.key(1), 64)  # episodes that it was not trained on
    test = jax.jit(jax.vmap(episode, (None, 0)))
    found, curves, record = {}, {}, {}
    for shaping in (False, True):
        found[shaping], curves[shaping] = train(updates, jax.random.key(0), optimizer, update, shaping)
        rewards, distances, actions, statuses = test(found[shaping], fresh)
        record[NAMES[shaping]] = {
            "return of 64 other episodes": float(rewards.sum(1).mean()),
            "distance in the last two thirds, root mean square (mm)": 1e3
            * float(jnp.sqrt(jnp.mean(distances[:, ENV.horizon // 3 :] ** 2))),
            "torque, root mean square (N m)": ENV.torque * float(jnp.sqrt(jnp.mean(actions**2))),
            "statuses all good": bool((statuses == mbs.Status.CONVERGED).all()),
            **{f"{name} (m)": float(x) for name, x in lengths(found[shaping]["scales"]).items()},
        }
        print(NAMES[shaping])
        for name, value in record[NAMES[shaping]].items():
            print(f"    {name:60}{value:10.4g}")
    record["seconds"] = time.time() - began
    print(f"{record['seconds']:.0f} s with compilation")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "15_five_bar_codesign.json").write_text(json.dumps(record, indent=2) + "\n")
    show(found, curves, options.output / "15_five_bar_codesign.png")


if __name__ == "__main__":
    main()
