"""Searches that tell what they have reached, and go on from a file."""

import numpy as np
import pytest

from jaxmbs import synthesis

TARGETS = [[0, 0], [1, 0.3], [2, 0.4], [3, 0.2], [2.4, 1.7], [1, 1.9]]


class Stopped(Exception):
    """Ways to end a search from outside."""


def stopping_at(steps):
    def report(done, total, best):
        if done >= steps:
            raise Stopped

    return report


@pytest.mark.parametrize("steps", [pytest.param(50, id="among all starts", marks=pytest.mark.slow), 300])
def test_resumed_searches_give_the_same(tmp_path, steps):
    """A search that was broken off goes on from its file, to the last bit as if nothing had been."""
    arguments = {"starts": 64, "keep": 2}
    whole = synthesis.path(TARGETS, **arguments).best
    file, reports = tmp_path / "search", []
    with pytest.raises(Stopped):
        synthesis.path(TARGETS, **arguments, resume=file, progress=stopping_at(steps))
    resumed = synthesis.path(TARGETS, **arguments, resume=file, progress=lambda *x: reports.append(x)).best
    assert reports[0][0] == steps + 25
    assert resumed.error == whole.error
    np.testing.assert_array_equal(resumed.points, whole.points)
    # Finished stages are not run again.
    assert synthesis.path(TARGETS, **arguments, resume=file, progress=stopping_at(0)).best.error == whole.error


def test_progress_is_told():
    reports = []
    best = synthesis.path(TARGETS, starts=64, progress=lambda *x: reports.append(x)).best
    done, totals, errors = np.array(reports).T
    assert np.all(np.diff(done) > 0)
    assert done[-1] == totals[0] == totals[-1]
    assert np.all(np.diff(errors) <= 1e-12)
    assert errors[-1] <= best.error + 1e-12


def test_a_file_of_another_search_is_refused(tmp_path):
    file = tmp_path / "search"
    with pytest.raises(Stopped):
        synthesis.path(TARGETS, starts=64, resume=file, progress=stopping_at(25))
    with pytest.raises(ValueError, match="other arguments"):
        synthesis.path(TARGETS, starts=64, resume=file, seed=1)
    file.write_bytes(b"PK no such thing")
    with pytest.raises(ValueError, match="no search"):
        synthesis.path(TARGETS, starts=64, resume=file)


@pytest.mark.parametrize(
    "search",
    [
        lambda **how: synthesis.function(np.square, (0, 1), input_span=1.5, output_span=1.0, starts=64, keep=1, **how),
        lambda **how: synthesis.motion([[0, 0, 0], [1, 0.3, 0.4], [2, 0.2, 1]], starts=64, keep=1, **how),
    ],
    ids=["function", "motion"],
)
def test_all_searches_can_be_broken_off(tmp_path, search):
    file = tmp_path / "search"
    with pytest.raises(Stopped):
        search(resume=file, progress=stopping_at(100))
    assert search(resume=file).best.error == search().best.error
