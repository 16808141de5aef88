"""Linkages of dyads: closed forms against Newton's method on the joints, a published leg, and random ones that turn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import synthesis
from jaxmbs.synthesis.linkages import linkage_of
from linkages import reference

MIXED = [
    synthesis.Dyadic([("crank", "ground"), ("crank", "rocker"), ("link", "arm")]),
    synthesis.Dyadic([("ground", "crank", "RPR"), ("coupler", "ground", "RRP")]),
    synthesis.Dyadic([("crank", "ground", "RRP"), ("slider", "coupler", "RPR")]),
    synthesis.Dyadic([("ground", "crank", "RRP"), ("coupler", "slider")]),
]
ANGLES = np.linspace(0, 2 * np.pi, 73)


def over_a_turn(linkage, u, signs):
    """Points (S, 73, 2) and cosines (S, 73, K) of linkages."""
    seen = lambda u, angle, s: linkage.point_and_cosines(linkage.design(u), angle, s)
    return jax.jit(jax.vmap(jax.vmap(seen, (None, 0, None)), (0, None, 0)))(u, ANGLES, signs)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("linkage", MIXED, ids=lambda x: x.name)
def test_random_ones_turn_and_closed_form_is_the_motion(linkage):
    """All random linkages turn all round but for what happens between samples; the one that is farthest from opening is
    followed by Newton's method on its joints."""
    u, signs = linkage.random(np.random.default_rng(1), 100)
    _, cosines = over_a_turn(linkage, u, signs)
    worst = np.abs(cosines).max(axis=(1, 2))
    assert np.mean(worst < 1) > 0.9
    k = int(worst.argmin())
    b = {name: np.asarray(x) for name, x in linkage.design(jnp.asarray(u[k])).items()}
    b |= {"angle": 0.4, "pivot": np.array([0.3, 0.2])}
    mech, guess = linkage.mechanism(b, 0.3, -1.0), linkage.guess(b, 0.3, tuple(signs[k]))
    times = np.linspace(0, 1, 49)
    motion = mbs.kinematics(mech, times, guess, throw=True)
    np.testing.assert_allclose(motion.q[0], mech.coordinates(guess), atol=1e-9)
    drawn = np.asarray(motion.point(linkage.output, b["point"]))
    closed = jax.vmap(lambda angle: linkage.point_and_cosines(b, angle, jnp.asarray(signs[k]))[0])(
        0.3 - 2 * np.pi * times
    )
    np.testing.assert_allclose(drawn, closed, atol=1e-10 * np.abs(drawn).max())
    grounded = [j.point_i for j in mech.constraints.values() if j.i == "ground" and isinstance(j, mbs.planar.Revolute)]
    place = lambda points: sorted(np.round(np.asarray(point), 9).tolist() for point in points)
    assert place(linkage.pivots(b)) == place(grounded)


def test_jansens_leg():
    """The published lengths: the foot of the closed form is that of circles intersected one after the other."""
    p = reference("classic_linkages")["jansen"]["lengths"]

    def meet(a, b, ra, rb, left):
        """Return the intersection of circles about a and b to the left of the way from a to b, or to the right."""
        d = b - a
        along = (ra**2 - rb**2 + abs(d) ** 2) / (2 * abs(d))
        return a + d / abs(d) * (along + (1j if left else -1j) * np.sqrt(ra**2 - along**2))

    t = ANGLES
    crank, pivot = p["m"] * np.exp(1j * t), complex(-p["a"], -p["l"])
    top = np.array([meet(pivot, m, p["b"], p["j"], True) for m in crank])
    outer = np.array([meet(pivot, x, p["d"], p["e"], True) for x in top])
    below = np.array([meet(pivot, m, p["c"], p["k"], False) for m in crank])
    knee = np.array([meet(x, y, p["f"], p["g"], False) for x, y in zip(outer, below, strict=True)])
    foot = np.array([meet(y, x, p["i"], p["h"], True) for x, y in zip(knee, below, strict=True)])

    def own(origin, end, place):
        """Coordinates in a frame at an origin with x to the end."""
        z = (place - origin) * np.conj(end - origin) / abs(end - origin)
        return np.array([z.real, z.imag])

    # The frames of the links where the crank is at 0; "first3" is on the arm of the second dyad, which begins at the pivot.
    angle = np.angle(pivot)
    local = lambda z: np.array([(z * np.exp(-1j * angle)).real, (z * np.exp(-1j * angle)).imag])
    b = {
        "ground": abs(pivot),
        "crank": p["m"],
        "coupler": p["j"],
        "rocker": p["b"],
        "angle": angle,
        "pivot": np.zeros(2),
    }
    b |= {"first": np.array([p["m"], 0.0]), "second": local(pivot), "link": p["k"], "arm": p["c"]}
    b |= {
        "first3": own(pivot, below[0], below[0]),
        "second3": own(pivot, top[0], outer[0]),
        "link3": p["g"],
        "arm3": p["f"],
    }
    b["point"] = own(below[0], knee[0], foot[0])
    jansen, best = linkage_of("Jansen"), np.inf
    for signs in np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T:
        seen = jax.vmap(lambda x: jansen.point_and_cosines(b, x, jnp.asarray(signs))[0])(t - angle)  # noqa: B023
        best = min(best, np.abs(np.asarray(seen) @ [1, 1j] - foot).max())
    assert best < 1e-10


@pytest.mark.parametrize(
    ("dyads", "message"),
    [
        ([], "empty"),
        ([("crank", "crank")], "both ends on 'crank'"),
        ([("crank", "rocker")], "which is not one of ground, crank"),
        ([("crank", "ground"), ("coupler", "piston")], "dyad 2 is on 'piston'"),
        ([("crank", "ground"), ("crank", "ground")], "dyad 1 does not move the point"),
        ([("crank", "ground", "PPP")], "must be one of RRR, RRP, RPR"),
        ([5], "pairs of bodies"),
    ],
)
def test_what_is_no_topology(dyads, message):
    with pytest.raises(ValueError, match=message):
        synthesis.Dyadic(dyads)


def test_named_linkages_are_instances():
    """Names that are known, with the entries that they always had."""
    assert linkage_of("Klann") is linkage_of("Stephenson III")
    for name in ("four-bar", "slider-crank", "Watt I", "Stephenson III"):
        linkage = linkage_of(name)
        assert {*linkage.entries} == {*synthesis.Dyadic(linkage.dyads).entries}


def test_a_dyadic_of_ones_own_passes_points():
    """An inverted slider-crank for four points, by its name nowhere."""
    whitworth = synthesis.Dyadic([("crank", "ground", "RPR")])
    targets = np.array([[0.0, 0], [1, 0.2], [1.2, 1], [0.3, 0.9]])
    best = synthesis.path(targets, mechanism=whitworth, starts=128, keep=1).best
    assert best.error < 1e-8
    assert best.checks["assembled"]
    assert best.checks["closed"]
