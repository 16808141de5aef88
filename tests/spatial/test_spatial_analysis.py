"""Kinematic analysis, diagnosis and sensitivities of spatial mechanisms with closed loops, gears and screws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
from campaign.linkages import SpatialFourBar
from jaxmbs import spatial

DESIGN = {"crank": 0.08, "rod": 0.3, "height": 0.12, "aside": 0.1}


def slider_crank(b):
    """R-S-U-P: the crank turns about x at (0, aside, height), the slider moves on the x axis; the bodies' axes are
    parallel to those of the ground at the start."""
    b = {key: jnp.asarray(x) for key, x in b.items()}
    zero = jnp.zeros_like(b["crank"])
    along = np.array([2, -1, -2]) / 3
    arm = np.cross(along, [1, 0, 0])
    tip = jnp.stack([zero, zero, b["crank"]])
    return mbs.Mechanism(
        {
            "crank": spatial.Body(0.12, (1e-4, 1e-4, 1e-5)),
            "rod": spatial.Body(0.5, np.diag([4e-3] * 3) - 3.6e-3 * np.outer(along, along)),
            "slider": spatial.Body(2.0, 1e-4),
        },
        {
            "A": spatial.Revolute("ground", "crank", jnp.stack([zero, b["aside"], b["height"]]), (0, 0, 0), (1, 0, 0)),
            "B": spatial.Spherical("crank", "rod", tip, -b["rod"] / 2 * along),
            "C": spatial.Universal("rod", "slider", b["rod"] / 2 * along, (0, 0, 0), arm, (1, 0, 0)),
            "guide": spatial.Prismatic("ground", "slider", (0, 0, 0), (0, 0, 0), (1, 0, 0)),
        },
        {"motor": spatial.RevoluteDriver("ground", "crank", mbs.motion.Ramp(6.0), axis_i=(1, 0, 0))},
        {"weight": mbs.Gravity((0, 0, -9.81))},
    )


GUESS = {
    "crank": (0, 0.1, 0.12, 1, 0, 0, 0),
    "rod": (0.1, 0.05, 0.1, 1, 0, 0, 0),
    "slider": (0.2, 0, 0, 1, 0, 0, 0),
}


@pytest.mark.slow
def test_positions_by_closed_form():
    """The slider from the rod's length, through three turns; one turn past 4π of the Euler parameters."""
    times = np.linspace(0, np.pi, 40)
    mech = slider_crank(DESIGN)
    run = mbs.kinematics(mech, times, GUESS, throw=True)
    pin = np.stack([0 * times, 0.1 - 0.08 * np.sin(6 * times), 0.12 + 0.08 * np.cos(6 * times)], axis=1)
    np.testing.assert_allclose(run.point("crank", (0, 0, 0.08)), pin, rtol=0, atol=1e-12)
    x = np.sqrt(0.3**2 - pin[:, 1] ** 2 - pin[:, 2] ** 2)
    np.testing.assert_allclose(run.position("slider.x"), x, rtol=0, atol=1e-12)
    # Power: the motor's torque times its speed is the change of energy.
    found = mbs.reactions(mech, run)
    energy = lambda q, v: mbs.energy(mech, q, v).total
    change = jax.vmap(lambda q, v, a: jax.jvp(energy, (q, v), (mech.layout.rate(q, v), a))[1])(run.q, run.v, run.a)
    np.testing.assert_allclose(6 * found["motor"].effort, change, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found["motor"].torque[:, 0], found["motor"].effort, rtol=0, atol=1e-12)
    # Velocities and accelerations are the time derivatives of positions.
    h = 1e-3
    near = mbs.kinematics(mech, times[7] + h * np.arange(-2, 3), run.q[7], throw=True)
    weights = np.array([1, -8, 0, 8, -1]) / (12 * h)
    s = (0, 0.1, 0)
    np.testing.assert_allclose(weights @ near.point("rod", s), run.point_velocity("rod", s)[7], rtol=0, atol=1e-9)
    np.testing.assert_allclose(weights @ near.v, run.a[7], rtol=0, atol=1e-7)


@pytest.mark.slow
def test_derivatives_through_the_closed_loop():
    """By every dimension: forward = reverse to 1e-12, against differences of re-assembled mechanisms to 1e-8."""
    times = np.linspace(0, 1, 6)

    def loss(b):
        run = mbs.kinematics(slider_crank(b), times, GUESS)
        return jnp.sum(run.point("rod", (0.05, 0.02, 0.03)) ** 2) + jnp.sum(run.v**2) / 1e3 + jnp.sum(run.a**2) / 1e6

    b = {key: jnp.asarray(x) for key, x in DESIGN.items()}
    forward, reverse, value = jax.jit(jax.jacfwd(loss))(b), jax.jit(jax.grad(loss))(b), jax.jit(loss)
    for key in b:
        np.testing.assert_allclose(forward[key], reverse[key], rtol=1e-12)
        h = 1e-4 * b[key]
        at = lambda k, key=key, h=h: value({**b, key: b[key] + k * h})
        np.testing.assert_allclose((8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h), reverse[key], rtol=1e-8)


@pytest.mark.slow
def test_design_sensitivity():
    """dq/db as differences of assembled configurations; Φ_b as differences of Φ."""
    start = mbs.assemble(slider_crank(DESIGN), GUESS, 0.2, throw=True).q
    sensitivity = mbs.design_sensitivity(slider_crank, DESIGN, start, 0.2)
    by_design = mbs.design_jacobian(slider_crank, DESIGN, start, 0.2)
    for key in DESIGN:
        moved = lambda k, key=key: {**DESIGN, key: DESIGN[key] + k * 1e-5}
        q = lambda k, moved=moved: mbs.assemble(slider_crank(moved(k)), start, 0.2, throw=True).q
        phi = lambda k, moved=moved: mbs.constraints(slider_crank(moved(k)), start, 0.2)
        np.testing.assert_allclose(sensitivity[key], (q(1) - q(-1)) / 2e-5, rtol=0, atol=2e-8)
        np.testing.assert_allclose(by_design[key], (phi(1) - phi(-1)) / 2e-5, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_lock_up_is_found():
    """A rod that is too short for the whole turn: the motion ends where it stands across the slider's axis."""
    b = {**DESIGN, "rod": 0.2}
    off_axis = lambda t: np.hypot(0.1 - 0.08 * np.sin(6 * t), 0.12 + 0.08 * np.cos(6 * t))
    times = np.linspace(0.41, 1.0, 30)
    turned = spatial.coordinates((0, 0.1, 0.12), (6 * times[0], 0, 0))
    found = mbs.find_singularities(slider_crank(b), times, {**GUESS, "crank": turned})
    assert found.kinds == ("lock-up",)
    lock = brentq(lambda t: off_axis(t) - b["rod"], times[0], times[-1], xtol=1e-15)
    np.testing.assert_allclose(found.times[0], lock, rtol=0, atol=1e-9)


def test_no_jump_from_next_to_a_fold():
    """An RSSR linkage 0.7° before its lock-up. A step of 10°, whose other end can be reached again on the other side of the
    gap, predicts to be turns away: no place is far from that on a circle."""
    oracle = SpatialFourBar()
    numbers = (1.1859244146, 1.6868714410, 1.9531655504, 1.7725764019, -0.4639453269, -0.2818531363, 1.1175369453)
    b = dict(zip(oracle.NUMBERS, (*numbers, 2.4580506627), strict=True)) | {"branch": -1.0}
    angles = 6.156605743 + np.deg2rad([0.0, 10.0, 20.0])
    run = mbs.kinematics(oracle.mechanism(b), angles, oracle.formula(b, angles[0], 0.0))
    assert run.status.tolist() == [mbs.Status.CONVERGED, mbs.Status.LOCKED_UP, mbs.Status.LOCKED_UP]


def test_redundant_rows_by_name():
    """Two hinges on one line hold more than one: 10 rows of rank 5, consistent or not."""
    hinges = lambda offset: {
        "one": spatial.Revolute("ground", "door", (0, 0, 0), (0, 0, 0)),
        "two": spatial.Revolute("ground", "door", (0, 0, 1), (0, 0, 1 + offset)),
    }
    for offset, consistent in ((0.0, True), (0.1, False)):
        mech = mbs.Mechanism({"door": spatial.Body()}, hinges(offset))
        report = mbs.diagnose(mech, mech.coordinates())
        assert (report.dof, report.rank, report.redundant, report.consistent) == (1, 5, ("two",), consistent)


def bevel(ratio, slope):
    """Two bevel gears with axes from the apex at the origin, `slope` between them."""
    u = np.array([np.sin(slope), 0, np.cos(slope)])
    return mbs.Mechanism(
        {"one": spatial.Body(), "two": spatial.Body()},
        {
            "bearing one": spatial.Revolute("ground", "one", (0, 0, 1), (0, 0, 0)),
            "bearing two": spatial.Revolute("ground", "two", 2 * u, (0, 0, 0), u, (0, 0, 1)),
            "teeth": spatial.Gear("one", "two", radius_i=1.0, radius_j=ratio, axis_i=(0, 0, 1), axis_j=(0, 0, 1)),
        },
        {"motor": spatial.RevoluteDriver("ground", "one", mbs.motion.Ramp(3.0))},
    )


@pytest.mark.slow
@pytest.mark.parametrize("slope", [np.pi / 2, 1.0])
def test_bevel_gears(slope):
    """ω₂ = −ω₁ R₁/R₂ about the outward axes, turn after turn; the torque at the motor is that of Newton–Euler."""
    mech = bevel(2.5, slope)
    times = np.linspace(0, 20, 60)
    run = mbs.kinematics(mech, times, {"one": (0, 0, 1, 1, 0, 0, 0)}, throw=True)
    np.testing.assert_allclose(run.velocity("one.wz"), 3, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.velocity("two.wz"), -3 / 2.5, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.position("teeth.alpha_i") - run.position("teeth.alpha_i")[0], -3 * times, atol=1e-11)


def test_planet_on_a_moving_arm():
    """Sun fixed, planet carried round: ω_planet = ω_arm (1 + R_s/R_p); internal ring: ω_arm (1 − R_r/R_p)."""
    for radius, expected in ((2.0, 1 + 2.0), (-3.0, 1 - 3.0)):
        mech = mbs.Mechanism(
            {"arm": spatial.Body(), "planet": spatial.Body()},
            {
                "centre": spatial.Revolute("ground", "arm"),
                "pin": spatial.Revolute("arm", "planet", (radius + 1, 0, 0), (0, 0, 0)),
                "teeth": spatial.Gear("ground", "planet", radius_i=radius, radius_j=1.0),
            },
            {"motor": spatial.RevoluteDriver("ground", "arm", mbs.motion.Ramp(1.0))},
        )
        times = np.linspace(0, 9, 30)
        run = mbs.kinematics(mech, times, {"planet": (radius + 1, 0, 0, 1, 0, 0, 0)}, throw=True)
        np.testing.assert_allclose(run.velocity("planet.wz"), expected, rtol=0, atol=1e-11)


@pytest.mark.slow
def test_gears_in_motion_share_torque():
    """A torque on one gear: (J₁ + J₂ R₁²/R₂²) θ̈₁ = T; contact angles have no inertia."""
    mech = bevel(2.5, np.pi / 2)
    free = mbs.Mechanism(mech.bodies, mech.constraints, forces={"torque": mbs.Torque("one", (0, 0, 2.0))})
    start = mbs.assemble(mech, {"one": (0, 0, 1, 1, 0, 0, 0)}, throw=True).q
    times = np.linspace(0, 3, 4)
    run = mbs.simulate(free, times, start, step=1e-2)
    assert not run.status.any()
    np.testing.assert_allclose(run.velocity("one.wz"), 2.0 / (1 + 1 / 2.5**2) * times, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_screw():
    """Driven through many turns; and sliding down by its own weight: (m + J (2π/p)²) s̈ = −m g."""
    pitch, axis = 0.05, np.array([1.0, 2, 2]) / 3
    screw = spatial.Screw("ground", "nut", (1, 2, 3), (0, 0, 0), axis, axis, pitch)
    motor = spatial.RevoluteDriver("ground", "nut", mbs.motion.Ramp(4.0), axis_i=axis)
    times = np.linspace(0, 10, 40)
    bodies = {"nut": spatial.Body(2.0, 0.3)}
    driven = mbs.Mechanism(bodies, {"screw": screw}, {"motor": motor})
    run = mbs.kinematics(driven, times, {"nut": (1, 2, 3, 1, 0, 0, 0)}, throw=True)
    expected = np.array([1, 2, 3]) + np.outer(pitch * 4 * times / (2 * np.pi), axis)
    np.testing.assert_allclose(run.point("nut"), expected, rtol=0, atol=1e-12)
    turned = Rotation.from_rotvec(np.outer(4 * times, axis)).as_matrix()
    np.testing.assert_allclose(run.rotation("nut"), turned, rtol=0, atol=1e-12)
    falling = mbs.Mechanism(bodies, {"screw": screw}, forces={"weight": mbs.Gravity(-9.81 * axis)})
    run = mbs.simulate(falling, times, {"nut": (1, 2, 3, 1, 0, 0, 0)}, step=5e-3)
    advance = -9.81 * 2.0 / (2.0 + 0.3 * (2 * np.pi / pitch) ** 2) * times**2 / 2
    np.testing.assert_allclose((run.point("nut") - np.array([1, 2, 3])) @ axis, advance, rtol=0, atol=1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_orientation_that_is_no_number_is_a_status(bad):
    """It is not taken for an orientation; found by the campaign."""
    mech = mbs.Mechanism({"a": spatial.Body()}, {"pin": spatial.Spherical("ground", "a", (0, 0, 0), (0, 0, 0))})
    for k in range(7):
        q = np.array([0, 0, 0, 1.0, 0, 0, 0])
        q[k] = bad
        assert mbs.assemble(mech, q).status == mbs.Status.NON_FINITE
