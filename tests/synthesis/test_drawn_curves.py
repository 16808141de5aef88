"""Curves as shapes: the measures by hand, what is found checked by Newton's method, bounds, and the letters of LINK-ABC."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import synthesis
from jaxmbs.synthesis.curve_search import compare_curves
from jaxmbs.synthesis.shapes import (
    COMPARED_POINTS,
    RESAMPLING_STARTS,
    chamfer_distance,
    curve_distances,
    curve_points,
    ordered_distance,
    resample,
)
from linkages import reference

TURN = np.linspace(0, 2 * np.pi, 400, endpoint=False)
CIRCLE = np.column_stack([np.cos(TURN), np.sin(TURN)])
LETTER = np.array([[0.0, 200.0], [0.0, 0.0], [100.0, 0.0]])


def test_measures_of_circles():
    """A circle of radius 1 + e: each point is e away, so the Chamfer distance is 2 e and the ordered one 2π e²."""
    e = 0.05
    near, in_order = curve_distances((1 + e) * np.roll(CIRCLE, 37, axis=0)[::-1], True, CIRCLE, True)
    np.testing.assert_allclose(near, 2 * e, rtol=1e-3)
    np.testing.assert_allclose(in_order, 2 * np.pi * e**2, rtol=1e-3)
    # Neither depends on units or place.
    moved = lambda x: 30 * x + [5, -2]
    again = curve_distances(moved((1 + e) * CIRCLE), True, moved(CIRCLE), True)
    np.testing.assert_allclose(again, (near, in_order), rtol=1e-6)


def test_measures_of_closed_curves_do_not_depend_on_the_first_point():
    """The samples of an exact curve are at most half their spacing away, in both directions; no first point gives more."""
    spacing = 2 * np.pi / COMPARED_POINTS
    near, in_order = curve_distances(CIRCLE, True, CIRCLE, True)
    np.testing.assert_allclose(near, spacing, rtol=1e-3)
    np.testing.assert_allclose(in_order, 2 * np.pi * (spacing / 2) ** 2, rtol=1e-3)
    between = np.linspace(0, 1, 7)[:, None]
    begins_between = [
        np.concatenate([[p], CIRCLE[1:], CIRCLE[:1]]) for p in CIRCLE[0] + between * (CIRCLE[1] - CIRCLE[0])
    ]
    for again in begins_between:
        np.testing.assert_allclose(curve_distances(again, True, CIRCLE, True)[0], near, rtol=1 / RESAMPLING_STARTS)
        one_way = chamfer_distance(*(resample(x, COMPARED_POINTS, True) for x in (again, CIRCLE)))
        assert one_way < near * (1 + 1 / RESAMPLING_STARTS)


def test_measures_by_hand():
    """Both measures by all pairs of points, and by all shifts and directions."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 40, 2))
    pairs = np.linalg.norm(a[:, None] - b[None], axis=2)
    np.testing.assert_allclose(chamfer_distance(a, b), pairs.min(axis=1).mean() + pairs.min(axis=0).mean())
    shifts = [np.mean(np.sum((np.roll(way, k, axis=0) - b) ** 2, axis=1)) for way in (a, a[::-1]) for k in range(40)]
    np.testing.assert_allclose(ordered_distance(a, b), 2 * np.pi * min(shifts))


def test_points_at_equal_distances():
    square = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
    np.testing.assert_allclose(np.diff(resample(square, 9, False), axis=0)[0], [0.375, 0])
    around = resample(square, 8, True)
    np.testing.assert_allclose(around[[0, 2, 4, 6]], square, atol=1e-12)


def test_random_curves_are_compared_after_a_similarity():
    """A curve that is the wanted one turned, scaled, shifted, drawn backwards from another point: nothing is left, and the
    similarity is found; and a part of it that is an arc of the wanted one."""
    wave = np.exp(1j * TURN) + 0.3 * np.exp(-2j * TURN)
    wanted = np.column_stack([wave.real, wave.imag])
    drawn = (2 - 1j) * np.roll(wave[::-1], 33)[::4] + 5
    misfit, factor, shift, _, turned = (x[0] for x in compare_curves(drawn[None], wanted, True))
    assert misfit < 5e-3  # of 48 points
    np.testing.assert_allclose(turned, 2 * np.pi)
    # Three turns of the wave are alike.
    np.testing.assert_allclose((factor * (2 - 1j)) ** 3, 1, atol=0.02)
    np.testing.assert_allclose(shift, -5 * factor, atol=0.02)
    misfit, factor, shift, begin, turned = (x[0] for x in compare_curves(drawn[None], wanted[:200], False))
    assert misfit < 2e-2
    part = np.interp(np.mod(begin + turned * np.array([0, 0.5, 1]), 2 * np.pi), TURN[::4], np.arange(100))
    ends = factor * drawn[np.rint(part).astype(int) % 100] + shift
    np.testing.assert_allclose(np.abs(ends[1] - wave[100]), 0, atol=0.3)
    np.testing.assert_allclose(np.sort(np.abs(ends[[0, 2], None] - wave[[0, 199]]).min(axis=1)), 0, atol=0.3)


@pytest.mark.parametrize(
    ("points", "closed"),
    [
        (CIRCLE, True),
        (CIRCLE[::10], True),
        (LETTER, False),
        (CIRCLE[:300], False),
        ([[0, 0], [1, 0], [2, 0]], False),
        (np.concatenate([CIRCLE, CIRCLE[:1]]), True),
    ],
)
def test_which_curves_are_closed(points, closed):
    """By their ends, which are as near as neighbours; the first point is not there twice."""
    found, is_closed = curve_points(points, None)
    assert is_closed == closed
    assert len(np.unique(found, axis=0)) == len(found)


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        ([[0, 0], [1, 1], [0, 0]], {}, "three different points"),
        ([[0, 0], [1, np.nan], [2, 0]], {}, "finite, got .* in row 1"),
        ([[0, 0, 1], [1, 2, 3], [2, 0, 1]], {}, "shape"),
        ([[0, 0.2], [1, 0], [1, 1], [-1, 1], [-1, -1], [2, -1], [2, 2]], {"closed": True}, "cannot be closed"),
        (LETTER, {"links": 2}, "links"),
        (LETTER, {"free": "size"}, "free must be names from"),
        (LETTER, {"ratio": 0.5}, "ratio"),
        (LETTER, {"pivots": ((0, 0), (0, 1))}, "pivots"),
        (LETTER, {"workspace": 3}, "workspace"),
        (LETTER, {"transmission_angle": 95}, "transmission_angle"),
        (LETTER, {"mechanism": "geared five-bar"}, "crank and dyads"),
        (LETTER, {"mechanism": []}, "name at least one linkage"),
        ([[0, 0], [1], [2, 2]], {}, "equally many for each point"),
        (LETTER, {"guess": {}}, "mechanism of your own"),
        (LETTER, {"linkz": 5}, "no argument 'linkz'"),
        (LETTER, {"seed": -1}, "seed"),
        (LETTER, {"free": None}, "free"),
        (LETTER, {"build": dict, "starts": 64, "period": 2.0}, "period cannot be given"),
        (LETTER, {"build": dict, "ratio": 3.0}, "dyadic linkages"),
        (LETTER, {"build": dict}, "needs a design"),
        (LETTER, {"starts": 0}, "starts"),
    ],
)
def test_bad_input(targets, options, message):
    with pytest.raises(ValueError, match=message):
        synthesis.curve(targets, **options)


def assert_proven(one, closed):
    """By Newton's method at every half degree: on one circuit, all round or over its part, with the error as claimed."""
    motion = mbs.kinematics(one.mechanism, np.linspace(0, 1, 721), one.guess, throw=True)
    drawn = np.asarray(motion.point(*one.point))
    size = np.abs(drawn - drawn.mean(axis=0)).max()
    np.testing.assert_allclose(drawn, one.points, atol=1e-9 * size)
    b, signs = one.design, jnp.asarray(one.branch, float)
    form = jax.vmap(lambda angle: one.linkage.point_and_cosines(b, angle, signs))(one.crank_angles)
    np.testing.assert_allclose(form[0], drawn, atol=1e-9 * size)
    assert np.abs(form[1]).max() < 1
    np.testing.assert_allclose(np.cos(np.deg2rad(one.checks["transmission_angle"])), np.abs(form[1]).max(), rtol=1e-6)
    error, in_order = curve_distances(drawn[: -1 if closed else None], closed, one.targets, closed)
    np.testing.assert_allclose((error, in_order), (one.error, one.ordered_error), atol=1e-9)
    assert one.checks["assembled"]
    assert one.checks["closed"] == closed


@pytest.fixture(scope="module")
def letter():
    """An L by four- and six-bars."""
    return synthesis.curve(LETTER, links=5, starts=256, keep=3)


@pytest.mark.variant
def test_an_open_curve(letter):
    """A corner of two straight lines, over a part of the turn; more links draw it better."""
    assert [one.links for one in letter.front] == [3, 5]
    assert letter.front[0].error > letter.best.error == letter.front[1].error
    assert letter.best.error < 0.01
    assert [one.error for one in letter.all] == sorted(one.error for one in letter.all)
    assert_proven(letter.best, False)
    # Nothing strays: neither curve has a point that is far from the other one.
    assert letter.best.checks["farthest"] < 0.05
    np.testing.assert_array_equal(letter.best.targets, LETTER)


@pytest.mark.variant
def test_the_same_seed_gives_the_same_answer(letter, tmp_path):
    """Also after a break, from the file of the search."""
    again = lambda **more: synthesis.curve(LETTER, links=5, starts=256, keep=3, resume=tmp_path / "search.npz", **more)

    def stop(done, total, least):
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        again(progress=stop)
    assert again().best.error == letter.best.error
    with pytest.raises(ValueError, match="other arguments"):
        again(seed=1)


@pytest.mark.variant
def test_a_curve_of_a_linkage_is_found_again():
    """A curve that a random four-bar draws in a turn, moved: another four-bar can draw it nearly exactly."""
    four_bar = synthesis.Dyadic()
    u, signs = four_bar.random(np.random.default_rng(3), 1)
    b = four_bar.design(jnp.asarray(u[0])) | {"pivot": jnp.array([20.0, 5.0]), "angle": 1.0}
    wanted = jax.vmap(lambda angle: four_bar.point_and_cosines(b, angle, jnp.asarray(signs[0]))[0])(TURN)
    found = synthesis.curve(wanted, links=3, starts=256, keep=1)
    assert found.best.error < 5e-3
    assert found.best.checks["farthest"] < 2e-3
    assert found.best.checks["turns"]
    assert_proven(found.best, True)


@pytest.mark.variant
def test_bounds_and_a_curve_that_may_be_moved():
    """Pivots and all pins in boxes of other size and place, into which the letter is moved, turned, scaled, mirrored."""
    box, room = np.array([(0.0, 0.0), (1.0, 1.0)]), np.array([(-1.0, -1.0), (2.0, 2.0)])
    limits = {"pivots": box, "workspace": room, "ratio": 4.0, "transmission_angle": 15.0}
    free = ("scale", "rotation", "translation", "reflection")
    best = synthesis.curve(LETTER, links=5, starts=256, free=free, **limits).best
    assert best.checks["misses"] == ()
    assert best.checks["ratio"] <= 4 * (1 + 1e-6)
    assert best.checks["transmission_angle"] >= 15 - 1e-6
    assert_proven(best, False)
    motion = mbs.kinematics(best.mechanism, np.linspace(0, 1, 721), best.guess)
    for joint in best.mechanism.constraints.values():
        at = np.asarray(motion.point(joint.j, joint.point_j))
        inside = box if joint.i == "ground" else room
        assert np.all(at >= inside[0] - 1e-5)
        assert np.all(at <= inside[1] + 1e-5)
    # The displacement of the curve, in complex numbers.
    z, moved = LETTER @ [1, 1j], best.moved
    z = moved["scale"] * np.exp(1j * moved["rotation"]) * (z.conj() if moved["reflection"] else z)
    np.testing.assert_allclose(z + moved["translation"] @ [1, 1j], best.targets @ [1, 1j], atol=1e-9)


@pytest.mark.variant
def test_what_cannot_be_kept_is_named():
    """Pivots far away, and lengths that are all nearly the same: the best that misses, and what."""
    with pytest.warns(UserWarning, match="misses ratio, pivots"):
        best = synthesis.curve(LETTER, links=3, starts=64, pivots=((1e6, 1e6), (1e6 + 1, 1e6 + 1)), ratio=1.01).best
    assert "pivots" in best.checks["misses"]


@pytest.mark.slow
def test_sliders():
    """With sliders and blocks as well; the best one, whatever it is, and one of a kind that has them."""
    found = synthesis.curve(LETTER, links=5, sliders=True, starts=512)
    assert found.best.error < 0.01
    assert_proven(found.best, False)
    inverted = synthesis.Dyadic([("crank", "ground", "RPR"), ("coupler", "ground")])
    assert_proven(synthesis.curve(LETTER, mechanism=inverted, starts=256).best, False)


@pytest.mark.slow
def test_ten_bars():
    """More links than can be listed: random topologies, and dyads added to smaller linkages."""
    found = synthesis.curve(CIRCLE * [2, 1], links=9, starts=256, keep=1)
    assert found.best.error < 0.01
    assert_proven(found.best, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["G", "M"])
def test_letters(name):
    """LINK-ABC by eight-bars, one call each without tuning: better than LInK, whose linkages have 15 to 20 joints."""
    table = reference("link_abc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = synthesis.curve(table["letters"][name], keep=1)
    assert found.best.error < table["link_chamfer"][name]
    assert found.best.links <= 7
    assert_proven(found.best, name in table["closed_letters"])
