"""Motions with published numbers, by the default method unless a test says otherwise."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from dynamic_problems import (
    andrews,
    andrews_angles,
    andrews_start,
    four_bar,
    four_bar_design,
    four_bar_start,
    pendulum,
    pendulum_start,
    slider_crank,
    slider_crank_start,
    windows,
    windows_start,
)
from jaxmbs import planar
from linkages import reference


def from_zero(times):
    """The times with a zero in front."""
    return np.append(0.0, times)


def gap(mech, run):
    """The largest |Φ| of a motion."""
    return max(float(jnp.max(jnp.abs(mbs.constraints(mech, q, t)))) for q, t in zip(run.q, run.t, strict=True))


def test_simple_pendulum():
    """IFToMM A01, positions and velocities over 10 s to 1e-8."""
    problem = reference("simple_pendulum")
    p = problem["parameters"]
    b = {"mass": p["mass"], "length": p["length_L"], "g": p["gravity_g"]}
    mech = pendulum(b)
    run = mbs.simulate(mech, from_zero(problem["time"]), pendulum_start(b, np.pi / 2), step=1e-3)
    assert not run.status.any()
    np.testing.assert_allclose(run.point("bob")[1:], problem["position_xy"], rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.point_velocity("bob")[1:], problem["velocity_xy"], rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.energy.total, run.energy.total[0], rtol=0, atol=1e-9)


def test_two_windows_through_their_singular_positions():
    """IFToMM A02 with N = 2, which lies flat several times, to 1e-7."""
    problem = reference("n_four_bar")["reference_N_2"]
    mech, (q, v) = windows(2), windows_start(2, reference("n_four_bar")["parameters"]["speed_of_B0_initial_v0"])
    rows, rates = np.array(problem["B0"]), np.array(problem["B0_velocity"])
    run = mbs.simulate(mech, from_zero(rows[:, 0]), q, v, step=1e-3)
    assert not run.status.any()
    np.testing.assert_allclose(run.point("C0", (0.5, 0))[1:], rows[:, 1:], rtol=0, atol=1e-7)
    np.testing.assert_allclose(run.point_velocity("C0", (0.5, 0))[1:], rates[:, 1:], rtol=0, atol=1e-7)
    assert np.ptp(np.stack([run.position(f"C{k}.phi") for k in range(3)]), axis=0).max() < 1e-10


def test_andrews():
    """The squeezing mechanism at 0.03 s: q to 1e-8, velocities, accelerations and multipliers as good as the print."""
    problem = reference("andrews")
    length = problem["parameters"]["lengths_m"]
    mech = andrews(length)
    rows = np.array(problem["trajectory"]["rows"])
    start = andrews_start(length, andrews_angles(problem["q_initial"]))
    run = mbs.simulate(mech, from_zero(rows[:, 0]), start, step=1e-5)
    assert not run.status.any()
    assert gap(mech, run) < 1e-15
    wanted = np.array([list(andrews_angles(row[1:8]).values()) for row in rows])
    np.testing.assert_allclose(run.q[1:, 2::3], wanted, rtol=0, atol=1e-8)
    printed = problem["reference_at_t_0.03"]
    for found, name, tolerance in ((run.q, "q", 1e-8), (run.v, "qd", 2e-7), (run.a, "qdd", 5e-6)):
        angles = np.array(list(andrews_angles(printed[name]).values()))
        np.testing.assert_allclose(found[-1, 2::3], angles, rtol=0 if name == "q" else tolerance, atol=1e-8)


def test_andrews_multipliers():
    """The printed multipliers belong to loop equations in seven angles; here they are the forces in the joints at E.

    The loops close through FE's end E: chain minus B-, AG- and AH-chains, −Gᵀλ on the left side, so the force of FE on the
    other bodies at E is +λ.
    """
    problem = reference("andrews")
    length = problem["parameters"]["lengths_m"]
    mech = andrews(length)
    start = andrews_start(length, andrews_angles(problem["q_initial"]))
    run = mbs.simulate(mech, np.array([0, 0.03]), start, step=1e-5)
    found = mbs.reactions(mech, run)
    forces = np.concatenate([found[f"E {body}"].force[-1] for body in ("BDE", "EG", "EH")])
    np.testing.assert_allclose(forces, problem["reference_at_t_0.03"]["multipliers"], rtol=5e-6)


def test_slider_crank_released_under_gravity():
    """Case A, a point mass for a slider: positions and velocities to 1e-8, accelerations to 1e-7, energy to 1e-9."""
    problem = reference("slider_crank_dynamics")
    p = problem["parameters"]
    rows = dict(zip(problem["columns"], np.array(problem["rows"]).T, strict=True))
    start = slider_crank_start(p, np.deg2rad(p["theta_initial_deg"]))
    run = mbs.simulate(slider_crank(p), from_zero(rows["time"]), start, step=5e-4)
    assert not run.status.any()
    found = {
        "theta": run.position("crank.phi"),
        "omega": run.velocity("crank.phi"),
        "slider_position": run.position("slider.x"),
        "slider_velocity": run.velocity("slider.x"),
    }
    for name, values in found.items():
        np.testing.assert_allclose(values[1:], rows[name], rtol=0, atol=1e-8, err_msg=name)
    np.testing.assert_allclose(run.acceleration("crank.phi")[1:], rows["alpha"], rtol=0, atol=1e-7)
    np.testing.assert_allclose(run.acceleration("slider.x")[1:], rows["slider_acceleration"], rtol=0, atol=1e-7)
    np.testing.assert_allclose(run.energy.total[1:], rows["total_energy"], rtol=0, atol=1e-9)


def test_four_bar_under_a_constant_torque():
    """Crank angle to 1e-8 until 0.5 s, to 1e-7 until 1 s; energy less the torque's work is constant."""
    problem = reference("planar_four_bar_dynamics")
    start, b = problem["initial_state"], four_bar_design()
    angles = np.array([np.deg2rad(start["theta2_deg"]), start["theta3"], start["theta4"]])
    rows = dict(zip(problem["columns"], np.array(problem["rows"]).T, strict=True))
    mech = four_bar(b)
    times = from_zero(rows["time"])
    run = mbs.simulate(mech, times, four_bar_start(b, angles), {"crank.phi": start["omega2"]}, step=5e-5)
    assert not run.status.any()
    np.testing.assert_allclose(run.v[0, 2::3], [start[f"omega{k}"] for k in (2, 3, 4)], rtol=0, atol=1e-12)
    early = rows["time"] <= 0.5
    for name, body in (("2", "crank"), ("3", "coupler"), ("4", "rocker")):
        error = np.abs(run.position(f"{body}.phi")[1:] - rows[f"theta{name}"])
        assert error[early].max() < 1e-8
        assert error.max() < 1e-7
        np.testing.assert_allclose(run.velocity(f"{body}.phi")[1:], rows[f"omega{name}"], rtol=1e-7)
    np.testing.assert_allclose(run.acceleration("crank.phi")[1:], rows["alpha2"], rtol=1e-6)
    balance = run.energy.total - b["torque"] * run.position("crank.phi")
    np.testing.assert_allclose(balance[1:], rows["energy_minus_torque_times_theta2"], rtol=0, atol=1e-8)


def test_car_axis():
    """Car axis of the IVP Test Set: point masses with no inertia, a distance, a driven support, stiff springs; 1e-8.

    The wheels' point masses are two bodies; the driven condition xl·xb + yl·yb = 0, no element of the library, is a force
    along its own gradient here, in an element written for it.
    """
    problem = reference("car_axis")
    p = problem["parameters"]
    mass = p["M"] * p["eps"] ** 2 / 2
    support = lambda t: (
        jnp.sqrt(p["L"] ** 2 - (p["r"] * jnp.sin(p["omega"] * t)) ** 2),
        p["r"] * jnp.sin(p["omega"] * t),
    )

    class Perpendicular(planar.element.AbsoluteConstraint):
        """The body's origin is at right angles to the support."""

        body: str = eqx.field(static=True)
        rows = 1

        def residual(self, i, j, t):
            x, y = support(t)
            return (j.r[0] * x + j.r[1] * y)[None]

    def springs(q, v, t):
        xb, yb = support(t)
        left, right = q[:2], q[3:5]
        pull = lambda d: (p["L0"] - jnp.sqrt(d @ d)) / jnp.sqrt(d @ d) * d
        zero = jnp.zeros(1)
        return jnp.concatenate([pull(left), zero, pull(right - jnp.stack([xb, yb])), zero])

    mech = mbs.Mechanism(
        {"left": planar.Body(mass, 1.0), "right": planar.Body(mass, 1.0)},
        {
            "support": Perpendicular("left"),
            "axis": planar.Distance("left", "right", (0, 0), (0, 0), p["L"]),
            "no turn left": planar.AbsoluteAngle("left", (0, 0), 0.0),
            "no turn right": planar.AbsoluteAngle("right", (0, 0), 0.0),
        },
        forces={"springs": mbs.UserForce(springs), "gravity": mbs.Gravity((0, -p["g"]))},
    )
    x = problem["state_initial"]
    rows = np.array(problem["trajectory"]["rows"])
    start, rates = ({"left": (*x[k : k + 2], 0), "right": (*x[k + 2 : k + 4], 0)} for k in (0, 4))
    run = mbs.simulate(mech, from_zero(rows[:, 0]), start, rates, step=1e-4)
    assert not run.status.any()
    found = np.concatenate([run.q[:, [0, 1, 3, 4]], run.v[:, [0, 1, 3, 4]]], axis=1)[1:]
    np.testing.assert_allclose(found, rows[:, 1:9], rtol=0, atol=1e-8)
    # The Test Set writes +lam1 (xb, yb) and +2 lam2 (xl − xr): Φ_qᵀλ of these residuals, with the same signs.
    found = mbs.reactions(mech, run)
    lam = np.concatenate([found["support"].multipliers, found["axis"].multipliers], axis=1)[1:]
    np.testing.assert_allclose(lam, rows[:, 9:11], rtol=0, atol=1e-8)


@pytest.mark.slow
def test_forty_windows():
    """IFToMM A02 as it stands, N = 40: energy within 0.1 J over 10 s, all cranks parallel."""
    mech, (q, v) = windows(40), windows_start(40, 1.0)
    run = mbs.simulate(mech, np.linspace(0, 10, 11), q, v, step=4e-3)
    assert not run.status.any()
    assert np.ptp(run.energy.total) < 0.1
    assert np.ptp(np.stack([run.position(f"C{k}.phi") for k in range(41)]), axis=0).max() < 1e-6
