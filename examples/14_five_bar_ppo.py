"""The same five-bar robot learns by proximal policy optimisation, a method that uses only rewards, from another library.

skrl's PPO uses the environment through Gymnasium's vector interface: 512 robots in one batch. Beside the learning curve of
example 13 it shows the value of gradients through the mechanism. Needs skrl: `jaxmbs[learn]`.
"""

import argparse
import json
import time
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from flax import linen
from skrl import config, logger
from skrl.agents.jax.ppo import PPO
from skrl.envs.wrappers.jax import wrap_env
from skrl.memories.jax import RandomMemory
from skrl.models.jax import DeterministicMixin, GaussianMixin, Model
from skrl.trainers.jax import SequentialTrainer

from jaxmbs.env import GymnasiumVectorEnv
from jaxmbs.viz import style

logger.setLevel("WARNING")

# Robots that are simulated at once.
ROBOTS = 512
# Control steps of all robots between two updates.
ROLLOUT = 16
# Seed of all random numbers.
SEED = 0
# Settings of skrl's PPO agent.
PPO_SETTINGS = {
    "rollouts": ROLLOUT,
    "learning_epochs": 5,
    "mini_batches": 4,
    "discount_factor": 0.97,
    "gae_lambda": 0.95,
    "learning_rate": 7e-4,
    "grad_norm_clip": 0.5,
    "value_loss_scale": 1.0,
    "time_limit_bootstrap": True,
    "rewards_shaper": lambda rewards, *_: 0.1 * rewards,
    "experiment": {"write_interval": 0, "checkpoint_interval": 0},
}


def hidden_layers(x):
    """Apply two tanh layers of 64 units to observations (…, n); policy and value have layers of their own."""
    for _ in range(2):
        x = linen.tanh(linen.Dense(64)(x))
    return x


class Policy(GaussianMixin, Model):
    """Mean of the action, and a standard deviation that does not depend on the observation."""

    def __init__(self, observation_space, action_space, device=None, **kwargs):
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device=device, **kwargs)
        GaussianMixin.__init__(self, clip_actions=False)

    @linen.compact
    def __call__(self, inputs, role):
        mean = linen.tanh(
            linen.Dense(2, kernel_init=linen.initializers.normal(0.01))(hidden_layers(inputs["observations"]))
        )
        spread = self.param("log_std", lambda _: jnp.full(2, -1.0, jnp.float32))
        return mean, {"log_std": spread}


class Value(DeterministicMixin, Model):
    """Expected return."""

    def __init__(self, observation_space, action_space, device=None, **kwargs):
        Model.__init__(self, observation_space=observation_space, action_space=action_space, device=device, **kwargs)
        DeterministicMixin.__init__(self)

    @linen.compact
    def __call__(self, inputs, role):
        return linen.Dense(1)(hidden_layers(inputs["observations"])), {}


class Returns(gymnasium.vector.VectorWrapper):
    """Record the return of every episode that ends, with the number of the step."""

    def __init__(self, env):
        super().__init__(env)
        self.sums, self.steps, self.ended = np.zeros(env.num_envs), 0, []

    def step(self, actions):
        """Take a control step of all robots, and record the returns of episodes that end with it."""
        results = self.env.step(actions)
        self.sums, self.steps = self.sums + results[1], self.steps + 1
        over = results[2] | results[3]
        if over.any():
            self.ended.append((self.steps, float(self.sums[over].mean()), int(over.sum())))
        self.sums[over] = 0
        return results


def train(updates):
    """Return the trained policy, and the environment with its returns."""
    config.jax.key, config.jax.device = SEED, str(jax.devices()[0].platform)
    returns = Returns(GymnasiumVectorEnv("five-bar", ROBOTS))
    env = wrap_env(returns, wrapper="gymnasium", verbose=False)
    spaces = env.observation_space, env.action_space
    models = {"policy": Policy(*spaces), "value": Value(*spaces)}
    for role, model in models.items():
        model.init_state_dict(role=role)
    agent = PPO(
        models=models,
        memory=RandomMemory(memory_size=ROLLOUT, num_envs=ROBOTS),
        observation_space=spaces[0],
        action_space=spaces[1],
        cfg=PPO_SETTINGS,
    )
    settings = {"timesteps": updates * ROLLOUT, "headless": True, "disable_progressbar": True}
    SequentialTrainer(env=env, agents=agent, cfg=settings).train()
    return models["policy"], returns


def evaluate(policy, robots=64):
    """Return returns and distances (steps, robots) of episodes without noise in the actions."""
    env = GymnasiumVectorEnv("five-bar", robots)
    observation, _ = env.reset(seed=1000)
    mean = jax.jit(lambda x: policy.apply(policy.state_dict.params, {"observations": x}, "policy")[0])
    rewards, distances = [], []
    for _ in range(env.environment.horizon):
        observation, reward, _, _, info = env.step(np.array(mean(observation)))
        rewards.append(reward)
        distances.append(info["distance"])
    return np.sum(rewards, axis=0), np.array(distances)


def show(ended, horizon, distances, step, file):
    """Draw the learning curve, and distances from the target."""
    figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.8), layout="constrained")
    steps, means, _ = np.array(ended).T
    axes[0].plot(steps * ROBOTS / 1e6, means, color=style.colour_of(1), linewidth=1.4)
    axes[0].axhline(horizon, color=style.GROUND_COLOUR, linewidth=1, linestyle=":")
    axes[0].set(xlabel="control steps of all robots (millions)", ylabel="return", title="learning curve of PPO")
    axes[0].set_ylim(max(means.min(), -300), horizon + 25)
    times = step * np.arange(1, len(distances) + 1)
    axes[1].semilogy(times, 1e3 * distances, color=style.colour_of(1), alpha=0.4, linewidth=0.8)
    axes[1].set(xlabel="time (s)", ylabel="distance from the target (mm)", title=f"{distances.shape[1]} other episodes")
    for ax in axes:
        style.tidy(ax, equal=False)
        ax.title.set_fontsize(10)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def main():
    """Train the policy, evaluate it, and draw the learning curve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer updates")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    options = parser.parse_args()
    began = time.time()
    policy, returns = train(20 if options.quick else 300)
    trained = time.time() - began
    sums, distances = evaluate(policy)
    environment = returns.env.environment
    later = distances[environment.horizon // 3 :]
    record = {
        "return at first": returns.ended[0][1],
        "return in training, at the end": float(np.mean([mean for _, mean, _ in returns.ended[-3:]])),
        "return of 64 other episodes": float(sums.mean()),
        "largest possible": environment.horizon,
        "distance from the target in the last two seconds, root mean square (mm)": 1e3
        * float(np.sqrt(np.mean(later**2))),
        "control steps": returns.steps * ROBOTS,
        "seconds of training": trained,
    }
    for name, value in record.items():
        print(f"{name:74}{value:10.4g}")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "14_five_bar_ppo.json").write_text(json.dumps(record, indent=2) + "\n")
    show(
        returns.ended, environment.horizon, distances, environment.control_step, options.output / "14_five_bar_ppo.png"
    )


if __name__ == "__main__":
    main()
