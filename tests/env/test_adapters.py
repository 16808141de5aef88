"""Gymnasium's own checks, and what a vector environment promises beside them."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import env

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402
from gymnasium.vector.utils import batch_space  # noqa: E402

from jaxmbs.env import GymnasiumEnv, GymnasiumVectorEnv  # noqa: E402

LANES = 3


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", env.ENVIRONMENTS)
def test_gymnasium_has_no_complaint(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(f"jaxmbs/{name}-v0", render_mode="rgb_array").unwrapped)


def batch(mode=AutoresetMode.SAME_STEP, **settings):
    return GymnasiumVectorEnv("cart-double-pendulum", LANES, autoreset_mode=mode, **settings)


def rollout(envs, actions, seed=4):
    """Observations, rewards and flags of all steps."""
    first, _ = envs.reset(seed=seed)
    results = [envs.step(a)[:4] for a in actions]
    return [first, *(r[0] for r in results)], [np.array([r[k] for r in results]) for k in (1, 2, 3)]


@pytest.mark.parametrize("mode", AutoresetMode)
def test_batch_is_gymnasiums_own_batch_of_single_ones(mode):
    # Up to the first end: the next episodes are drawn otherwise.
    actions = np.random.default_rng(0).uniform(-0.2, 0.2, (9, LANES, 1)).astype(np.float32)
    own = SyncVectorEnv([lambda: GymnasiumEnv("cart-double-pendulum", horizon=9)] * LANES, autoreset_mode=mode)
    envs = batch(mode, horizon=9)
    for space in ("single_observation_space", "single_action_space", "observation_space", "action_space"):
        assert getattr(envs, space) == getattr(own, space)
    assert envs.metadata["autoreset_mode"] == own.metadata["autoreset_mode"]
    (seen, flags), (wanted, wanted_flags) = rollout(envs, actions), rollout(own, actions)
    np.testing.assert_allclose(seen[:9], wanted[:9], rtol=1e-6, atol=1e-6)
    for a, b in zip(flags, wanted_flags, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
        assert a.dtype == b.dtype
    assert flags[2][-1].all()


def test_types_are_those_that_gymnasium_asks_for():
    envs = batch()
    assert isinstance(envs, gymnasium.vector.VectorEnv)
    assert envs.observation_space == batch_space(envs.single_observation_space, LANES)
    first, info = envs.reset(seed=[1, None, 3])
    assert first in envs.observation_space
    assert info["status"].tolist() == [mbs.Status.CONVERGED] * LANES
    assert info["_status"].all()
    envs.action_space.seed(0)
    seen, rewards, terminated, truncated, info = envs.step(envs.action_space.sample())
    assert seen in envs.observation_space
    assert (seen.dtype, rewards.dtype) == (np.float32, np.float64)
    assert terminated.dtype == truncated.dtype == bool
    assert rewards.shape == terminated.shape == truncated.shape == (LANES,)
    assert not np.shares_memory(first, seen)
    seen[:] = 0
    assert np.any(envs.step(envs.action_space.sample())[0])


def test_seeds_repeat_episodes():
    envs = batch()
    one, two = envs.reset(seed=5)[0], envs.reset()[0]
    np.testing.assert_array_equal(one, envs.reset(seed=[5, 6, 7])[0])
    np.testing.assert_array_equal(two, envs.reset()[0])
    assert np.abs(one - two).max() > 1e-4
    single = GymnasiumEnv("cart-double-pendulum")
    np.testing.assert_allclose(single.reset(seed=6)[0], one[1], rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match="must have 3 entries"):
        envs.reset(seed=[1, 2])


def test_ends_in_the_same_step():
    envs = batch(horizon=3)
    first, _ = envs.reset(seed=0)
    for _ in range(2):
        *_, info = envs.step(np.zeros((LANES, 1)))
        assert "final_obs" not in info
    seen, _, terminated, truncated, info = envs.step(np.zeros((LANES, 1)))
    assert truncated.all()
    assert not terminated.any()
    assert info["_final_obs"].all()
    np.testing.assert_allclose(seen, first, atol=1e-6)
    assert all(np.abs(last - start).max() > 1e-4 for last, start in zip(info["final_obs"], first, strict=True))
    assert info["final_info"]["height"].shape == (LANES,)


def test_ends_in_the_next_step():
    envs = batch(AutoresetMode.NEXT_STEP, horizon=3)
    first, _ = envs.reset(seed=0)
    results = [envs.step(np.ones((LANES, 1))) for _ in range(4)]
    assert results[2][3].all()
    assert np.abs(results[2][0] - first).max() > 1e-3
    seen, rewards, terminated, truncated, _ = results[3]
    np.testing.assert_allclose(seen, first, atol=1e-6)
    for x in (rewards, terminated, truncated):
        assert not x.any()


def test_without_auto_reset_a_mask_says_which_begin_again():
    envs = batch(AutoresetMode.DISABLED, horizon=2)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.zeros((LANES, 1)))
    first, _ = envs.reset(seed=0)
    envs.step(np.ones((LANES, 1)))
    last, *_ = envs.step(np.ones((LANES, 1)))
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.ones((LANES, 1)))
    seen, _ = envs.reset(seed=[0, None, None], options={"reset_mask": np.array([True, False, False])})
    np.testing.assert_allclose(seen[0], first[0])
    np.testing.assert_allclose(seen[1:], last[1:])


def test_each_may_have_a_design_of_its_own():
    lengths = {"lower": np.array([0.4, 0.5, 0.6]), "upper": np.full(3, 0.5)}
    _, info = batch(params=lengths, batched=True, scatter=0.0).reset(seed=0)
    np.testing.assert_allclose(info["height"], [0.9, 1.0, 1.1])


def test_vector_environments_by_name():
    envs = gymnasium.make_vec("jaxmbs/cart-double-pendulum-v0", num_envs=2, vectorization_mode="vector_entry_point")
    assert isinstance(envs.unwrapped, GymnasiumVectorEnv)
    assert envs.reset(seed=0)[0].shape == (2, 8)


def test_environments_do_without_gymnasium():
    code = "import sys; sys.modules['gymnasium'] = None; import jaxmbs.env; assert jaxmbs.env.ENVIRONMENTS"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_gymnasium_knows_the_environments():
    code = "import jaxmbs.env, gymnasium; gymnasium.make('jaxmbs/slider-crank-v0')"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_seeds_masks_and_pictures_of_a_batch():
    batch = env.GymnasiumVectorEnv("slider-crank", 2, autoreset_mode="NextStep", horizon=2)
    first, _ = batch.reset(seed=np.int64(3), options={"reset_mask": None})
    again, _ = batch.reset(seed=3)
    np.testing.assert_array_equal(first, again)
    for _ in range(3):
        seen, _, _, _, info = batch.step(np.zeros((2, 1), np.float32))
    # The third step begins the next episode: its figures are those of what is seen, x − target over 0.1 m.
    np.testing.assert_allclose(info["distance"], 0.1 * np.abs(seen[:, 5]), rtol=1e-5)
    with pytest.raises(ValueError, match="render_mode"):
        env.GymnasiumVectorEnv("slider-crank", 2, render_mode="rgb_array")
    with pytest.raises(ValueError, match="num_envs"):
        env.GymnasiumVectorEnv("slider-crank", 0)
