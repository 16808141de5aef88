"""Motion generation: poses of known four-bars in complex numbers, circles of Burmester's points, counts of exact poses."""

import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import synthesis

KNOWN = {"ground": 3.0, "crank": 1.0, "coupler": 2.7, "rocker": 2.4}
POSES = np.array(
    [[0, 0, 0], [1, 0.3, 0.4], [2, 0.2, 1.0], [2.6, -0.5, 1.5], [3, -1.2, 1.9], [3.2, -2, 2.2], [3.1, -2.7, 2.5]]
)


def body_poses(design, angles, branch=1):
    """x, y, φ of the body on the coupler, (K, 3), by the law of cosines."""
    pin = design["crank"] * np.exp(1j * np.asarray(angles))
    line = design["ground"] - pin
    b, c = design["coupler"], design["rocker"]
    elbow = branch * np.arccos((b**2 + np.abs(line) ** 2 - c**2) / (2 * b * np.abs(line)))
    along = line / np.abs(line) * np.exp(1j * elbow)
    turn = np.exp(1j * design["angle"])
    z = complex(*design["pivot"]) + turn * (pin + along * complex(*design["point"]))
    return np.column_stack([z.real, z.imag, np.unwrap(np.angle(turn * along)) + design["frame"]])


def known_poses(count):
    place = {"point": (1.2, 0.8), "angle": 0.3, "pivot": (0.5, -0.2), "frame": 0.3}
    return body_poses({**KNOWN, **place}, np.linspace(0.2, 4.0, count))


def miss(found, wanted):
    """Largest distance, largest angle."""
    turn = found[:, 2] - wanted[:, 2]
    return np.hypot(*(found - wanted)[:, :2].T).max(), np.abs(np.arctan2(np.sin(turn), np.cos(turn))).max()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("count", [3, 4, 5])
def test_up_to_five_poses_are_exact(count):
    best = synthesis.motion(POSES[:count]).best
    assert max(miss(body_poses(best.design, best.crank_angles, best.branch), POSES[:count])) < 1e-10
    assert best.checks["assembled"]
    assert best.checks["ordered"]
    assert max(best.checks["position_error"], best.checks["angle_error"]) < 1e-10


def test_the_mechanism_carries_the_body_through_the_poses():
    best = synthesis.motion(POSES[:4]).best
    start, end = best.crank_angles[[0, -1]]
    run = mbs.kinematics(best.mechanism, (best.crank_angles - start) / (end - start), best.guess, throw=True)
    found = np.column_stack(
        [run.point("coupler", best.design["point"]), np.asarray(run.q)[:, 5] + best.design["frame"]]
    )
    assert max(miss(found, POSES[:4])) < 1e-9


def test_pins_of_an_exact_solution_keep_their_distance():
    """Burmester's points: both pins of the coupler, carried with the given poses, stay on circles about the pivots."""
    poses = POSES[:5]
    d = synthesis.motion(poses).best.design
    pivot, turn = complex(*d["pivot"]), np.exp(1j * d["angle"])
    origin, body = poses[:, 0] + 1j * poses[:, 1], np.exp(1j * (poses[:, 2] - d["frame"]))
    first, second = (origin + body * (x - complex(*d["point"])) for x in (0, d["coupler"]))
    np.testing.assert_allclose(np.abs(first - pivot), d["crank"], rtol=1e-9)
    np.testing.assert_allclose(np.abs(second - pivot - turn * d["ground"]), d["rocker"], rtol=1e-9)


def the_known_one(found, size=1.0):
    """Of the exact solutions, of which five poses may have others, the one that the poses were made with."""
    for x in found.all:
        if x.error < 1e-20 and all(
            np.isclose(x.design[name], size * length, rtol=1e-6) for name, length in KNOWN.items()
        ):
            return x
    raise AssertionError([x.design for x in found.all if x.error < 1e-20])


@pytest.mark.parametrize("count", [5, 7])
def test_a_four_bar_is_found_back_from_its_poses(count):
    same = the_known_one(synthesis.motion(known_poses(count)))
    assert same.checks["assembled"]
    assert same.design["frame"] == pytest.approx(0.3, abs=1e-6)
    np.testing.assert_allclose(np.diff(same.crank_angles), 3.8 / (count - 1), rtol=1e-6)


def test_seven_poses_by_least_squares():
    found = synthesis.motion(POSES, angle_length=2.0)
    best = found.best
    seen = body_poses(best.design, best.crank_angles, best.branch)
    np.testing.assert_allclose(
        miss(seen, POSES), [best.checks["position_error"], best.checks["angle_error"]], atol=1e-9
    )
    error = ((seen - POSES) ** 2 @ [1, 1, 4]).sum()
    assert best.error == pytest.approx(error, rel=1e-6)
    assert error < 5e-3
    assert [x.error for x in found.all if x.checks["assembled"]] == sorted(
        x.error for x in found.all if x.checks["assembled"]
    )


def test_a_similar_task_has_a_similar_solution():
    """Larger, turned and shifted poses."""
    poses, size, turn = known_poses(5), 7.0, 0.8
    z = size * np.exp(1j * turn) * (poses[:, 0] + 1j * poses[:, 1]) + 3 - 20j
    same = the_known_one(synthesis.motion(np.column_stack([z.real, z.imag, poses[:, 2] + turn])), size)
    assert same.design["angle"] == pytest.approx(0.3 + turn, rel=1e-6)


def test_exact_solutions_are_ranked_by_their_transmission_angle():
    found = synthesis.motion(POSES[:3], transmission_angle=40.0)
    angles = [x.checks["transmission_angle"] for x in found.all]
    assert angles == sorted(angles, reverse=True)
    assert angles[0] > 40


def test_bounds_are_kept():
    bounds = {"lower": {"ground": 2.0, "pivot": (-10, -4)}, "upper": {"ground": 4.0, "crank": 3.0, "pivot": (10, 0)}}
    best = synthesis.motion(POSES[:3], **bounds).best
    assert best.error < 1e-18
    assert 2 <= best.design["ground"] <= 4
    assert best.design["crank"] <= 3
    assert -4 <= best.design["pivot"][1] <= 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"poses": np.zeros((3, 2))}, "poses must be"),
        ({"poses": [[0, 0, 0], [1, np.inf, 0]]}, "poses must be finite"),
        ({"mechanism": "slider-crank"}, "mechanism"),
        ({"angle_length": 0.0}, "angle_length"),
        ({"transmission_angle": -1}, "transmission_angle"),
        ({"lower": {"length": 1}}, "lower bounds 'length', which is not one of"),
        ({"upper": {"pivot": (1, 2, 3)}}, "upper: a bound of 'pivot'"),
        ({"lower": {"crank": 2}, "upper": {"crank": 1}}, "a lower bound"),
        ({"starts": 0}, "starts"),
        ({"keep": 0}, "keep"),
    ],
)
def test_what_is_wrong_is_named(change, named):
    with pytest.raises(ValueError, match=named):
        synthesis.motion(**{"poses": POSES[:3], **change})
