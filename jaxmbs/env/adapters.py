"""Adapters to Gymnasium: a single environment, and a batch."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

try:
    import gymnasium
    from gymnasium.utils import seeding
    from gymnasium.vector import AutoresetMode
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise ImportError("GymnasiumEnv and GymnasiumVectorEnv need gymnasium: pip install gymnasium") from error

from jaxmbs.env.environment import Environment, State
from jaxmbs.env.registry import ENVIRONMENTS, make
from jaxmbs.numerics.arrays import where_tree

# Seeds of the keys of episodes are drawn below this number.
MAX_SEED = 2**31


class GymnasiumEnv(gymnasium.Env):
    """An `Environment` as a `gymnasium.Env`, for single samples; most of its time goes into calls.

    `gymnasium.make("jaxmbs/five-bar-v0")` also makes one, and `gymnasium.make_vec` a `GymnasiumVectorEnv`.

    Observations are in float32 and clipped to `observation_bounds`, actions are clipped to ±1. `info` has the `status`
    of the step (see `mbs.Status`) and the metrics.

    Args:
        environment: the environment, or its name in `ENVIRONMENTS`; a name takes the `settings` of its class.
        params: the design; by default that of the environment.
        render_mode: "rgb_array" for pictures, which need matplotlib; None for none.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(self, environment: Environment | str, params=None, render_mode: str | None = None, **settings):
        self.environment = _environment(environment, settings)
        self.metadata = {**self.metadata, "render_fps": round(1 / self.environment.control_step)}
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f'render_mode must be None or "rgb_array", got {render_mode!r}')
        self.params, self.render_mode = params, render_mode
        self.observation_space, self.action_space = spaces(self.environment)
        self.state: State | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Start a new episode; `options={"params": …}` changes the design from here on."""
        super().reset(seed=seed)
        self.params = (options or {}).get("params", self.params)
        key = jax.random.key(int(self.np_random.integers(MAX_SEED)))
        self.state = self.environment.reset(key, self.params)
        return _clip_to_space(self.state.observation, self.observation_space), self._info(self.state)

    def step(self, action):
        """Take one control step; return the observation, the reward, `terminated`, `truncated` and `info`."""
        if self.state is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        self.state = self.environment.step(self.state, np.clip(action, -1, 1), auto_reset=False)
        observation = _clip_to_space(self.state.observation, self.observation_space)
        flags = bool(self.state.terminated), bool(self.state.truncated)
        return observation, float(self.state.reward), *flags, self._info(self.state)

    def _info(self, state: State):
        """Return the status and the metrics of a state as Gymnasium's `info`."""
        return {"status": int(state.status), **{name: float(x) for name, x in state.metrics.items()}}

    def render(self):
        """Return a picture (height, width, 3) of the mechanism, or None without `render_mode`."""
        if self.render_mode is None or self.state is None:
            return None
        return picture(self.environment, self.state)


class GymnasiumVectorEnv(gymnasium.vector.VectorEnv):
    """A batch of an `Environment` as a `gymnasium.vector.VectorEnv`: a step is one call of a compiled program.

    Spaces, `info` and seeds are those of `GymnasiumEnv`: the first episode of sample k with seed s + k is that of a
    `GymnasiumEnv` with this seed. Later episodes begin at the same first state with a new task until `reset` is called.

    Args:
        environment: the environment, or its name in `ENVIRONMENTS`; a name takes the `settings` of its class.
        num_envs: size of the batch.
        params: the design of all samples, by default that of the environment; with `batched` a design for each sample.
        batched: True if `params` have a leading axis (num_envs,).
        autoreset_mode: `SAME_STEP`, with the end of the old episode in `info["final_obs"]` and `info["final_info"]`;
            `NEXT_STEP`: the step after an end begins the next episode and ignores its action; or `DISABLED`: call
            `reset(options={"reset_mask": …})`. Wrappers of Gymnasium that change observations need NEXT_STEP.
        render_mode: None; batches have no pictures.
    """

    def __init__(
        self,
        environment: Environment | str,
        num_envs: int = 1,
        params=None,
        *,
        batched: bool = False,
        render_mode: str | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        **settings,
    ):
        self.environment, self.num_envs = _environment(environment, settings), num_envs
        if not isinstance(num_envs, int) or num_envs < 1:
            raise ValueError(f"num_envs must be a positive whole number, got {num_envs!r}")
        if render_mode is not None:
            raise ValueError("render_mode of a batch must be None; only GymnasiumEnv makes pictures")
        self.mode = AutoresetMode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.mode, "render_modes": []}
        self.render_mode = None
        self.single_observation_space, self.single_action_space = spaces(self.environment)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.params = self.environment.design if params is None else params
        self.state: State | None = None
        self._generators: list[np.random.Generator] = []
        axis = 0 if batched else None
        self._reset = jax.jit(jax.vmap(self.environment.reset, in_axes=(0, axis)))
        self._step = jax.jit(jax.vmap(self._one_step))

    def _one_step(self, state: State, action):
        """Step one sample, with the automatic reset of the mode."""
        action = jnp.clip(action, -1, 1)
        if self.mode is AutoresetMode.SAME_STEP:
            return self.environment.step(state, action)
        end = self.environment.step(state, action, auto_reset=False)
        if self.mode is AutoresetMode.DISABLED:
            return end
        return where_tree(state.done, self.environment.restart(state), end)

    def reset(self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None):
        """Start new episodes.

        Args:
            seed: seed of the first sample; the others have seed + 1, seed + 2, …; or a list of seeds.
            options: "reset_mask" (num_envs,) is True for the samples to reset, by default all.

        Returns:
            observations and info.

        Raises:
            ValueError: a list of seeds, or a mask, that does not fit the batch.
        """
        if seed is None or isinstance(seed, int | np.integer):
            seeds: list = [None if seed is None else int(seed) + k for k in range(self.num_envs)]
        else:
            seeds = list(seed)
        mask = (options or {}).get("reset_mask")
        mask = np.ones(self.num_envs, bool) if mask is None else np.asarray(mask)
        if len(seeds) != self.num_envs or mask.shape != (self.num_envs,) or mask.dtype != bool or not mask.any():
            raise ValueError(f"seed and reset_mask must have {self.num_envs} entries, and one of the mask must be True")
        old: list = self._generators or [None] * self.num_envs
        renewed = lambda k, seed: seeding.np_random(seed)[0] if seed is not None or old[k] is None else old[k]
        self._generators = [renewed(k, s) if mask[k] else old[k] for k, s in enumerate(seeds)]
        numbers = [g.integers(MAX_SEED) if m else 0 for g, m in zip(self._generators, mask, strict=True)]
        fresh = self._reset(jax.vmap(jax.random.key)(np.array(numbers)), self.params)
        self.state = fresh if self.state is None else jax.vmap(where_tree)(jnp.asarray(mask), fresh, self.state)
        return _clip_to_space(self.state.observation, self.observation_space), self._info(self.state)

    def step(self, actions):
        """Take one control step of all samples; return observations, rewards, `terminated`, `truncated` and `info`."""
        if self.state is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        if self.mode is AutoresetMode.DISABLED and np.any(self.state.done):
            raise gymnasium.error.ResetNeeded("some episodes are done: reset them with options={'reset_mask': …}")
        self.state = self._step(self.state, np.asarray(actions))
        terminated, truncated = np.array(self.state.terminated), np.array(self.state.truncated)
        info, over = self._info(self.state), terminated | truncated
        if self.mode is AutoresetMode.SAME_STEP and over.any():
            final = _clip_to_space(self.state.final_observation, self.observation_space)
            rows = np.empty(self.num_envs, object)
            for k in np.flatnonzero(over):
                rows[k] = final[k].copy()
            last = self._info(self.state)
            info |= {"final_obs": rows, "_final_obs": over.copy(), "final_info": last, "_final_info": over.copy()}
        observation = _clip_to_space(self.state.observation, self.observation_space)
        return observation, np.array(self.state.reward, np.float64), terminated, truncated, info

    def _info(self, state: State):
        """Return status and metrics of all samples, each with the mask that Gymnasium wants: True for every sample."""
        every = {"status": np.array(state.status), **{name: np.array(x) for name, x in state.metrics.items()}}
        return every | {f"_{name}": np.ones(self.num_envs, bool) for name in every}


def spaces(environment: Environment):
    """Return the spaces of observations and of actions of one sample: boxes around zero."""
    bounds = np.array(environment.observation_bounds, np.float32)
    limits = np.ones(environment.action_size, np.float32)
    return gymnasium.spaces.Box(-bounds, bounds), gymnasium.spaces.Box(-limits, limits)


def picture(environment: Environment, state: State) -> np.ndarray:
    """Draw the mechanism as an image (height, width, 3) of bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from jaxmbs import viz

    figure = Figure(figsize=(5, 4), layout="constrained")
    canvas, ax = FigureCanvasAgg(figure), figure.add_subplot()
    viz.draw(environment.build(state.params, jnp.zeros(environment.action_size)), state.q, ax=ax)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _environment(environment, settings) -> Environment:
    """Return the environment that is given, or that with the given name, made with the settings of its class."""
    if isinstance(environment, str):
        return make(environment, **settings)
    if settings:
        raise TypeError(f"give settings only with the name of an environment, got {', '.join(settings)}")
    return environment


def _clip_to_space(observations, space) -> np.ndarray:
    """Return a copy of observations in float32, clipped to their space."""
    return np.clip(np.asarray(observations, np.float32), space.low, space.high)


for _name in ENVIRONMENTS:
    gymnasium.register(
        f"jaxmbs/{_name}-v0",
        entry_point=f"{__name__}:GymnasiumEnv",
        vector_entry_point=f"{__name__}:GymnasiumVectorEnv",
        kwargs={"environment": _name},
    )
