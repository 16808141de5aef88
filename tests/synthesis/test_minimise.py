"""The search for a minimum: valleys, bounds, starts that break, what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbs import synthesis


def valley(x):
    """Rosenbrock's function."""
    x = jnp.concatenate([x["a"], x["b"][None]])
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), {"sum": x.sum()}


START = {"a": np.array([-0.5, 0.4]), "b": 0.4}


def test_minimum_of_a_valley():
    found = synthesis.minimise(valley, START, lower=-2, upper=2, starts=8, steps=(100, 60))
    np.testing.assert_allclose(found.best.design["a"], 1, atol=1e-9)
    assert isinstance(found.best.design["b"], float)
    assert found.best.value < 1e-20
    np.testing.assert_allclose(found.best.checks["sum"], 3, atol=1e-9)
    assert found.best.checks["slope"] < 1e-9
    assert [x.value for x in found.all] == sorted(x.value for x in found.all)


def test_bounds_are_kept_and_reached():
    design = {"between": np.array([0.3, 2.0]), "above": 3.0, "below": (-4.0, 1.0), "free": 0.0, "fixed": 7.0}
    lower = {"between": [0.1, -1.0], "above": 2.0, "fixed": 7.0}
    upper = {"between": 5.0, "below": (-3.5, None), "fixed": 7.0}

    def downhill(x):
        value = x["between"][0] - x["between"][1] + x["above"] ** 2 - x["below"][0] + (x["below"][1] - 2) ** 2
        return value + (x["free"] + 1.5) ** 2 + x["fixed"] ** 2

    found = synthesis.minimise(downhill, design, lower=lower, upper=upper, starts=8, steps=(100, 60))
    expected = {"between": np.array([0.1, 5.0]), "above": 2.0, "below": (-3.5, 2.0), "free": -1.5, "fixed": 7.0}
    assert jax.tree.structure(found.best.design) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(found.best.design), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)
    for other in found.all:
        assert np.all(other.design["between"] >= [0.1, -1])
        assert np.all(other.design["between"] <= 5)
        assert other.design["above"] >= 2
        assert other.design["below"][0] <= -3.5
        assert other.design["fixed"] == 7


def same(one, other):
    assert len(one.all) == len(other.all)
    for x, y in zip(one.all, other.all, strict=True):
        for a, b in zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True):
            np.testing.assert_array_equal(a, b)


class Broken(Exception):
    pass


@pytest.mark.one_in(3)
@pytest.mark.parametrize("after", [1, 3, 5], ids=["in the first stage", "at the end of Adam", "in BFGS"])
def test_search_goes_on_where_it_broke(tmp_path, after):
    task = {"lower": -2, "upper": 2, "starts": 4, "steps": (60, 30), "seed": 3}
    whole, file, told = synthesis.minimise(valley, START, **task), tmp_path / "search.npz", []

    def breaks(*stage):
        told.append(stage)
        if len(told) == after:
            raise Broken

    with pytest.raises(Broken):
        synthesis.minimise(valley, START, **task, progress=breaks, resume=file)
    resumed = synthesis.minimise(valley, START, **task, progress=lambda *stage: told.append(stage), resume=file)
    same(resumed, whole)
    assert [done for done, *_ in told] == [25, 50, 60, 70, 80, 90]
    assert {of for _, of, _ in told} == {90}
    with pytest.raises(ValueError, match="other arguments"):
        synthesis.minimise(valley, START, **{**task, "upper": 3}, resume=file)
    with pytest.raises(ValueError, match="other arguments"):
        synthesis.minimise(lambda x: 2 * valley(x)[0], START, **task, resume=file)


def test_seed_says_what_is_found():
    task = {"lower": -2, "upper": 2, "starts": 4, "steps": (10, 0)}
    one, again, other = (synthesis.minimise(valley, START, **task, seed=seed) for seed in (0, 0, 1))
    same(one, again)
    assert one.best.value != other.best.value


def test_start_without_a_value_leaves_the_others_alone():
    """Bit for bit: the starts that are lost lie beyond a wall that the others never meet."""
    bowl = lambda x: jnp.sum((x["a"] + 1) ** 2)
    walled = lambda x: jnp.where(x["a"][0] > 0.5, jnp.nan, 1.0) * bowl(x)
    task = {"lower": -2, "upper": 2, "starts": 16, "steps": (40, 20)}
    same(*(synthesis.minimise(f, {"a": np.zeros(2)}, **task, keep=1) for f in (bowl, walled)))
    with pytest.raises(ValueError, match="none of the starts"):
        synthesis.minimise(lambda x: jnp.log(x["a"][0]), {"a": np.array([-1.0])}, starts=3)


BAD_SEARCHES = {
    "design holds no numbers": {"design": {}},
    r"design\['a'\] must be real numbers": {"design": {"a": "long"}},
    r"design\['a'\]\[1\] must be finite": {"design": {"a": (1.0, np.nan)}},
    r"lower\['b'\] bounds nothing": {"lower": {"b": 1.0}},
    r"upper\['a'\] must be numbers of shape \(2,\)": {"upper": {"a": [1.0, 2.0, 3.0]}},
    r"lower\['a'\] must be numbers, got": {"lower": np.nan},
    r"lower\['a'\] is above upper": {"lower": 2.0, "upper": 1.0},
    r"design\['a'\] is not within its bounds": {"lower": 3.0},
    "starts must be a positive integer": {"starts": 0},
    "keep must be a positive integer": {"keep": 1.5},
    "steps must be two numbers": {"steps": 300},
    "steps must be two numbers of": {"steps": (1, -1)},
    "objective must be a function": {"objective": 3.0},
    r"objective must return a real number, got shape \(2,\)": {"objective": lambda x: x["a"]},
    r"or \(number, dict\)": {"objective": lambda x: (x["a"][0], 2.0)},
}


@pytest.mark.parametrize("message", BAD_SEARCHES)
def test_bad_searches(message):
    given = {"objective": lambda x: jnp.sum(x["a"]), "design": {"a": np.ones(2)}, "starts": 2, "steps": (1, 1)}
    with pytest.raises(ValueError, match=message):
        synthesis.minimise(**{**given, **BAD_SEARCHES[message]})
