"""Synthesis by mechanisms of one's own: linkages built from joints, in the plane and in space."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial, synthesis

TURN = mbs.motion.Ramp(2 * jnp.pi)


def four_bar(b):
    """Bodies with their origins in the middle, as a user might have them."""
    half = lambda name: (b[name] / 2, 0.0)
    back = lambda name: (-b[name] / 2, 0.0)
    return mbs.Mechanism(
        bodies={name: planar.Body() for name in ("crank", "coupler", "rocker")},
        constraints={
            "O": planar.Revolute("ground", "crank", (0, 0), back("crank")),
            "A": planar.Revolute("crank", "coupler", half("crank"), back("coupler")),
            "B": planar.Revolute("coupler", "rocker", half("coupler"), half("rocker")),
            "C": planar.Revolute("ground", "rocker", (b["ground"], 0), back("rocker")),
        },
        drivers={"motor": planar.RevoluteDriver("ground", "crank", TURN)},
    )


TRUE = {"ground": 4.0, "crank": 1.0, "coupler": 3.0, "rocker": 3.5}
FIRST = {"ground": 3.5, "crank": 1.2, "coupler": 3.4, "rocker": 3.0}
GUESS = {"crank": (0.5, 0, 0), "coupler": (2.2, 1.2, 0.9), "rocker": (3.6, 1.4, 1.8)}
BOUNDS = {"lower": 0.3, "upper": 8.0}


def coupler_point(b, place, angles):
    """The point of the coupler in complex numbers, the branch with the coupler to the left; place from its middle."""
    pin = b["crank"] * np.exp(1j * np.asarray(angles))
    line = b["ground"] - pin
    cosine = (b["coupler"] ** 2 + np.abs(line) ** 2 - b["rocker"] ** 2) / (2 * b["coupler"] * np.abs(line))
    e = line / np.abs(line) * np.exp(1j * np.arccos(cosine))
    z = pin + e * (b["coupler"] / 2 + complex(*place))
    return np.column_stack([z.real, z.imag])


@pytest.fixture(scope="module")
def timed():
    """Twelve places that a known four-bar has at twelve crank angles."""
    targets = coupler_point(TRUE, (0.5, 0.8), 2 * np.pi * np.arange(12) / 12)
    design = {**FIRST, "point": jnp.array([0.0, 0.5])}
    bounds = {
        side: {**dict.fromkeys(FIRST, x), "point": sign} for side, x, sign in (("lower", 0.3, -3), ("upper", 8, 3))
    }
    found = synthesis.fit(
        *(four_bar, design, targets, synthesis.point("coupler", "point")),
        times=np.arange(12) / 12,
        floating=True,
        guess=GUESS,
        starts=512,
        keep=3,
        **bounds,
    )
    return targets, found


def test_a_known_design_is_found_again(timed):
    """Targets that can be met exactly are, by the lengths from which they were made; an independent closed form agrees."""
    targets, found = timed
    best = found.best
    assert best.error < 1e-20
    for name, length in TRUE.items():
        np.testing.assert_allclose(best.design[name], length, rtol=1e-8)
    np.testing.assert_allclose(best.values, targets, atol=1e-9)
    drawn = coupler_point(best.design, best.design["point"], 2 * np.pi * best.times)
    np.testing.assert_allclose(drawn, best.values, atol=1e-9)
    assert best.checks["assembled"]
    assert best.checks["closed"]
    assert best.point[0] == "coupler"


def test_the_mechanism_that_comes_with_it_does_it(timed):
    _, found = timed
    best = found.best
    times = np.mod(best.times, 1)
    order = np.argsort(times)
    motion = mbs.kinematics(best.mechanism, np.append(0, times[order]), best.guess, throw=True)
    np.testing.assert_allclose(np.asarray(motion.point(*best.point))[1:], best.values[order], atol=1e-8)
    assert best.checks["ordered"]


@pytest.mark.slow
def test_designs_that_fall_apart_are_pulled_together():
    """From a design that cannot turn all round to one that does."""
    stuck = {"ground": 4.0, "crank": 2.6, "coupler": 3.0, "rocker": 3.5}
    lengths = sorted(stuck.values())
    assert lengths[0] + lengths[3] > lengths[1] + lengths[2]
    targets = coupler_point(TRUE, (0.0, 0.0), 2 * np.pi * np.arange(8) / 8)
    measure, times = synthesis.point("coupler", (0, 0)), np.arange(8) / 8
    best = synthesis.fit(four_bar, stuck, targets, measure, times=times, guess=GUESS, **BOUNDS, starts=1).best
    assert best.checks["assembled"]
    assert best.checks["closed"]
    assert best.error < 1e-3
    lengths = sorted(best.design.values())
    assert lengths[0] + lengths[3] <= lengths[1] + lengths[2]


@pytest.mark.slow
def test_what_is_required_is_kept():
    """A ground that is no longer than three cranks; the known design's is four."""
    targets = coupler_point(TRUE, (0.0, 0.0), 2 * np.pi * np.arange(8) / 8)
    measure = lambda b, mech, q: mech.point(q, "coupler", jnp.zeros(2))
    require = lambda b: 3 * b["crank"] - b["ground"]
    best = synthesis.fit(
        *(four_bar, FIRST, targets, measure),
        times=np.arange(8) / 8,
        guess=GUESS,
        **BOUNDS,
        require=require,
        starts=32,
    ).best
    assert 3 * best.design["crank"] >= best.design["ground"]
    assert best.error > 1e-3


@pytest.mark.slow
def test_functions():
    """A rocker that follows the sine over 60°, as the crank turns by 60°: the closed form says how well."""

    def build(b):
        mech = four_bar(b)
        motor = planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(jnp.pi / 3, b["start"]))
        return mbs.Mechanism(bodies=mech.bodies, constraints=mech.constraints, drivers={"motor": motor})

    design = {**FIRST, "start": 1.0}
    limits = {
        "lower": {**dict.fromkeys(FIRST, 0.2), "start": -3.0},
        "upper": {**dict.fromkeys(FIRST, 10.0), "start": 3.0},
    }
    limits["lower"]["ground"] = limits["upper"]["ground"] = 3.5
    x = np.linspace(0, np.pi / 3, 30)
    wanted = np.sin(x) / np.sin(np.pi / 3) * np.pi / 3
    options = {"times": x / x[-1], "offset": True, "cyclic": False, "guess": GUESS, "starts": 512, **limits}
    best = synthesis.fit(build, design, wanted, "rocker.phi", **options).best
    assert best.checks["assembled"]
    angles = best.design["start"] + x
    pin = best.design["crank"] * np.exp(1j * angles)
    elbow = coupler_point(best.design, (best.design["coupler"] / 2, 0), angles) @ [1, 1j]
    np.testing.assert_allclose(np.abs(elbow - pin), best.design["coupler"])
    rocker = np.unwrap(np.angle(elbow - best.design["ground"]))
    missed = rocker - wanted - (rocker - wanted).mean()
    np.testing.assert_allclose((missed**2).sum(), best.error, rtol=1e-6, atol=1e-14)
    assert np.rad2deg(np.abs(missed).max()) < 0.1


@pytest.mark.slow
def test_poses():
    """Poses of a known coupler, at times of their own."""
    angles = np.array([0.3, 0.9, 1.7, 2.4])
    ends = [coupler_point(TRUE, (x, 0.0), angles) @ [1, 1j] for x in (-1.0, 1.0)]
    middle, turned = (ends[0] + ends[1]) / 2, np.angle(ends[1] - ends[0])
    poses = np.column_stack([middle.real, middle.imag, turned])
    options = {"guess": GUESS, **BOUNDS, "starts": 128, "keep": 3, "ordered": True}
    best = synthesis.fit(four_bar, FIRST, poses, synthesis.pose("coupler"), **options).best
    assert best.error < 1e-12
    np.testing.assert_allclose(best.values[:, :2], poses[:, :2], atol=1e-6)
    assert best.checks["assembled"]


def spatial_linkage(b):
    """A crank about z, a rod between two balls, and a rocker about y: RSSR; the rod is a distance."""
    return mbs.Mechanism(
        bodies={"crank": spatial.Body(), "rocker": spatial.Body()},
        constraints={
            "O": spatial.Revolute("ground", "crank", (0, 0, 0), (0, 0, 0), axis_i=(0, 0, 1)),
            "C": spatial.Revolute("ground", "rocker", jnp.stack([b["ground"], 0.0, 0.0]), (0, 0, 0), axis_i=(0, 1, 0)),
            "rod": spatial.Distance(
                *("crank", "rocker", jnp.stack([b["crank"], 0.0, 0.0]), jnp.stack([0.0, 0.0, b["rocker"]])),
                distance=b["rod"],
            ),
        },
        drivers={"motor": spatial.RevoluteDriver("ground", "crank", TURN, axis_i=(0, 0, 1))},
    )


def test_the_measure_of_a_pose():
    """That of a body at a pose is what its target is; an angle φ counts as the length 2 L sin(φ/2), in plane and space."""
    half, axis = 0.4, np.array([2, -1, 2]) / 3
    turned = [0.3, -0.2, 1.0, np.cos(half), *(np.sin(half) * axis)]
    measure, (wanted, still) = synthesis.pose("rocker", 2.0).with_targets([turned, [0.3, -0.2, 1.0, 1, 0, 0, 0]])
    mech = spatial_linkage({"ground": 2.0, "crank": 0.6, "rocker": 1.5, "rod": 2.4})
    np.testing.assert_allclose(measure(None, mech, mech.coordinates({"rocker": turned})), wanted, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(wanted - still), 2 * 2.0 * np.sin(half))
    measure, (wanted, still) = synthesis.pose("rocker", 2.0).with_targets([[1.0, 2.0, 0.8], [1.0, 2.0, 0.0]])
    mech = four_bar(TRUE)
    np.testing.assert_allclose(measure(None, mech, mech.coordinates({"rocker": (1.0, 2.0, 0.8)})), wanted, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(wanted - still), 2 * 2.0 * np.sin(0.4))


def rocker_end(b, theta):
    """Angle ψ of the rocker: (d + l sin ψ)² + a² sin² θ + l² cos² ψ = r² with d = c − a cos θ, solved for ψ."""
    crank, rocker, rod = b["crank"], b["rocker"], b["rod"]
    d = b["ground"] - crank * np.cos(theta)
    sine = (rod**2 - d**2 - rocker**2 - (crank * np.sin(theta)) ** 2) / (2 * d * rocker)
    return np.column_stack([b["ground"] + rocker * sine, 0 * sine, rocker * np.sqrt(1 - sine**2)])


@pytest.mark.slow
def test_a_spatial_mechanism():
    """The places of a rocker's end over the turn of a crank, made by the closed form of a known RSSR."""
    true = {"ground": 2.0, "crank": 0.6, "rocker": 1.5, "rod": 2.4}
    first = {"ground": 2.2, "crank": 0.5, "rocker": 1.3, "rod": 2.5}
    guess = {"rocker": (2.2, 0, 0, 1, 0, 0, 0)}
    measure = lambda b, mech, q: mech.point(q, "rocker", jnp.stack([0.0, 0.0, b["rocker"]]))
    times = np.linspace(0, 1, 12, endpoint=False)
    targets = rocker_end(true, 2 * np.pi * times)
    best = synthesis.fit(
        *(spatial_linkage, first, targets, measure), times=times, guess=guess, lower=0.2, upper=5.0, starts=16
    ).best
    assert best.error < 1e-16
    assert best.checks["assembled"]
    np.testing.assert_allclose([best.design[k] for k in true], [*true.values()], rtol=1e-6)
    np.testing.assert_allclose(best.values, rocker_end(best.design, 2 * np.pi * times), atol=1e-8)


@pytest.mark.slow
def test_a_curve_in_space():
    """The curve of a rocker's end as a shape, by its points in other numbers than the search takes: RSSR."""
    true = {"ground": 2.0, "crank": 0.6, "rocker": 1.5, "rod": 2.4}
    first = {"ground": 2.2, "crank": 0.5, "rocker": 1.3, "rod": 2.5}
    bounds = {"guess": {"rocker": (2.2, 0, 0, 1, 0, 0, 0)}, "lower": 0.2, "upper": 5.0}
    curve = rocker_end(true, np.linspace(0, 2 * np.pi, 90, endpoint=False))
    point = "rocker", lambda b: jnp.stack([0.0, 0.0, b["rocker"]])
    found = synthesis.curve(curve, True, build=spatial_linkage, design=first, point=point, starts=32, keep=1, **bounds)
    best = found.best
    assert best.checks["assembled"]
    assert best.error < 0.01
    drawn = rocker_end(best.design, np.linspace(0, 2 * np.pi, 721))
    np.testing.assert_allclose(best.points, drawn, atol=1e-8)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"design": None}, "design"),
        ({"measure": synthesis.point("coupler", "pin")}, "no such entry"),
        ({"measure": "coupler.psi"}, "coupler.psi"),
        ({"measure": 3}, "measure must be a function"),
        ({"measure": "coupler.phi"}, r"measure must have shape \(2,\)"),
        ({"measure": synthesis.pose("coupler")}, "targets must be at least two poses"),
        ({"build": lambda b: 3}, "returns int"),
        ({"build": lambda b: mbs.Mechanism({"a": planar.Body()})}, r"driver\(s\) missing"),
        ({"lower": {"crnk": 1.0}}, "crnk"),
        ({"times": [0.0]}, "times"),
        ({"targets": [[0, 0], [np.nan, 1]]}, "targets must be finite"),
        ({"starts": 0}, "starts"),
    ],
)
def test_bad_input(changed, message):
    given = {"build": four_bar, "design": FIRST, "targets": [[0, 0], [1, 1], [2, 0]], "guess": GUESS, **changed}
    with pytest.raises(ValueError, match=message):
        synthesis.fit(**{"measure": synthesis.point("coupler", (0, 0)), **given})


OLD = {"design": FIRST, "guess": GUESS, **BOUNDS, "starts": 4, "keep": 1}


def test_the_old_call_of_a_path():
    targets, angles = coupler_point(TRUE, (0.0, 0.0), np.arange(6.0)), np.arange(6.0)
    with pytest.warns(DeprecationWarning, match=r"write synthesis\.fit\(build, design, targets, synthesis\.point"):
        old = synthesis.path(targets, mechanism=four_bar, crank_angles=angles, point=("coupler", (0, 0)), **OLD).best
    timing = {"times": angles / (2 * np.pi), "floating": True, "ordered": True}
    new = synthesis.fit(four_bar, targets=targets, measure=synthesis.point("coupler", (0, 0)), **timing, **OLD).best
    assert old.design == new.design
    assert old.error == new.error
    np.testing.assert_array_equal(old.points, new.values)
    np.testing.assert_allclose(old.crank_angles, 2 * np.pi * new.times)
    assert old.point[0] == new.point[0] == "coupler"


def test_the_old_call_of_a_function():
    x, given = np.linspace(1, 2, 8), {"output_span": (0.5, 1.0), "samples": 8}
    with pytest.warns(DeprecationWarning, match=r"write synthesis\.fit\(build, design, f\(x\), output"):
        old = synthesis.function(np.square, (1, 2), mechanism=four_bar, output="rocker.phi", **given, **OLD).best
    wanted = 0.5 + (x**2 - 1) / 3 * 0.5
    new = synthesis.fit(four_bar, targets=wanted, measure="rocker.phi", times=x - 1, cyclic=False, **OLD).best
    assert old.design == pytest.approx(new.design)
    assert old.error == pytest.approx(new.error)


def test_the_old_call_of_a_motion():
    poses = [[0.5, 1.0, 0.2], [0.2, 1.4, 0.4], [-0.3, 1.2, 0.5]]
    with pytest.warns(DeprecationWarning, match=r"write synthesis\.fit\(build, design, poses, synthesis\.pose"):
        old = synthesis.motion(poses, mechanism=four_bar, body="coupler", **OLD).best
    new = synthesis.fit(four_bar, targets=poses, measure=synthesis.pose("coupler"), ordered=True, **OLD).best
    assert old.design == new.design
    assert old.error == new.error


@pytest.mark.slow
def test_the_slope_of_a_closed_loop():
    """The derivatives that `fit` uses: the exact dq/db where loops close; elsewhere those of the gap."""
    from jaxmbs.synthesis.closing import close_loops

    motion = mbs.kinematics(four_bar(TRUE), np.array([0.2]), GUESS, throw=True)
    q = motion.q[0]

    def moved(crank):
        return close_loops(four_bar({**TRUE, "crank": crank}), q, 0.2, 4.0, 0.01)

    slope = jax.jacfwd(lambda crank: moved(crank)[0])(1.0)
    exact = mbs.design_sensitivity(lambda crank: four_bar({**TRUE, "crank": crank}), jnp.asarray(1.0), q, 0.2)
    np.testing.assert_allclose(slope, exact, atol=1e-7)
    _, gap, _ = moved(1.0)
    np.testing.assert_allclose(gap, 0, atol=1e-12)
    # A coupler and a rocker that are both too short by far.
    short = lambda x: close_loops(four_bar({**TRUE, "coupler": x, "rocker": 0.5}), q, 0.2, 4.0, 0.01)[1]
    gaps = [float(jnp.sum(short(x) ** 2)) for x in (1.0, 1.01)]
    assert gaps[0] > gaps[1] > 1e-2


def test_order_of_times():
    from jaxmbs.synthesis.builders import passes_in_order

    for times in ([0, 0.1, 0.7, 0.8], [0.9, 0.1, 0.5], [0.5, 0.2, 0.8], [-0.2, 0.3]):
        assert passes_in_order(times)
    for times in ([0, 0.5, 0.2, 0.8], [0, 0.5, 0.5], [0, 0.6, 0.2, 0.7, 0.3]):
        assert not passes_in_order(times)
    # Without a cycle nothing comes round again.
    assert passes_in_order([0.9, 0.5, 0.1], cyclic=False)
    assert not passes_in_order([0.5, 0.2, 0.4], cyclic=False)


@pytest.mark.slow
def test_a_file_of_another_mechanism_is_refused(tmp_path):
    """A search for one point does not go on with another one."""
    targets = coupler_point(TRUE, (0.5, 0.8), np.arange(6.0))
    given = {"measure": synthesis.point("coupler", (0, 0)), "times": np.arange(6) / 6, "floating": True}
    given |= {"guess": GUESS, "starts": 4, "resume": tmp_path / "search"}
    synthesis.fit(four_bar, FIRST, targets, **given)
    for changed in ({"measure": synthesis.point("coupler", (0, 1))}, {"require": lambda b: b["crank"]}):
        with pytest.raises(ValueError, match="other arguments"):
            synthesis.fit(four_bar, FIRST, targets, **{**given, **changed})
