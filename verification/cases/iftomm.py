"""IFToMM's library of benchmark problems: A01 pendulum, A02 windows, A04 Bricard, A05 governor; A03 is in `ivp`."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
import spatial_problems as problems
from dynamic_problems import pendulum, pendulum_start, windows, windows_start
from verification.case import DIAGNOSIS, Analysis, Simulation, below, case, close, near, same
from verification.cases.common import FORMULATIONS, angular_momentum, compare_with_start, from_zero, gap


@case(
    "IFToMM",
    "A01: simple pendulum, 10 s",
    *(Simulation(1e-3, formulation=f) for f in FORMULATIONS),
    Simulation(None, mbs.Adaptive(1e-11, 1e-12)),
    references=("simple_pendulum",),
    quick=True,
)
def simple_pendulum(by, problem):
    """Compare the swing of a pendulum, and its energy, with the reference."""
    p = problem["parameters"]
    mech = pendulum({"mass": p["mass"], "length": p["length_L"], "g": p["gravity_g"]})
    start = pendulum_start({"length": p["length_L"]}, np.pi / 2)
    run = by.run(mech, from_zero(problem["time"]), start)
    yield close("position", run.point("bob")[1:], problem["position_xy"], 1e-8, "m")
    yield close("velocity", run.point_velocity("bob")[1:], problem["velocity_xy"], 1e-8, "m/s")
    yield compare_with_start("energy", run.energy.total, 1e-8)


@case(
    "IFToMM",
    "A01: derivatives of the pendulum's angle by length and start, 10 s",
    Analysis("gradient of simulate, RK4, 1 ms", "Augmented"),
    references=("simple_pendulum",),
    quick=True,
)
def pendulum_sensitivities(by, problem):
    """Compare derivatives of the pendulum's angle by length and start with the reference."""
    p, rows = problem["parameters"], problem["sensitivities"]
    times = from_zero([row[0] for row in rows["dtheta_dL"]])

    def angle(x):
        """Return the angle (rad) of the pendulum over time, for its length and first angle."""
        b = {"mass": p["mass"], "length": x[0], "g": p["gravity_g"]}
        # The reference counts θ towards −x, the side where the bob starts; φ counts the other way.
        run = mbs.simulate(pendulum(b), times, pendulum_start(b, x[1]), step=1e-3)
        return -run.position("bob.phi")[1:]

    wanted = np.stack([np.array(rows[key])[:, 1] for key in ("dtheta_dL", "dtheta_dtheta0")], axis=1)
    x = jnp.array([p["length_L"], jnp.pi / 2])
    for name, gradient in (("forward", jax.jacfwd), ("reverse", jax.jacrev)):
        yield near(f"dθ/dL and dθ/dθ₀, {name} mode", gradient(angle)(x), wanted, 1e-9)


@case(
    "IFToMM",
    "A02: two windows, through their singular positions",
    *(Simulation(1e-3, formulation=f) for f in FORMULATIONS[:2]),
    references=("n_four_bar",),
    quick=True,
)
def two_windows(by, problem):
    """Compare the motion of two four-bar windows with the reference table."""
    rows, rates = (np.array(problem["reference_N_2"][key]) for key in ("B0", "B0_velocity"))
    start = windows_start(2, problem["parameters"]["speed_of_B0_initial_v0"])
    run = by.run(windows(2), from_zero(rows[:, 0]), *start)
    yield close("position of B₀", run.point("C0", (0.5, 0))[1:], rows[:, 1:], 1e-7, "m")
    yield close("velocity of B₀", run.point_velocity("C0", (0.5, 0))[1:], rates[:, 1:], 1e-7, "m/s")
    yield below(
        "largest difference of two crank angles",
        np.ptp(np.stack([run.position(f"C{k}.phi") for k in range(3)]), axis=0),
        1e-9,
        "rad",
    )


@case("IFToMM", "A02: forty windows, 10 s", Simulation(4e-3), references=("n_four_bar",))
def forty_windows(by, problem):
    """Check energy and equality of the cranks of forty windows over ten seconds."""
    start = windows_start(40, problem["parameters"]["speed_of_B0_initial_v0"])
    run = by.run(windows(40), np.linspace(0, 10, 11), *start)
    yield below("range of the energy", np.ptp(run.energy.total), 0.1, "J")
    yield below(
        "largest difference of two crank angles",
        np.ptp(np.stack([run.position(f"C{k}.phi") for k in range(41)]), axis=0),
        1e-6,
        "rad",
    )


@case(
    "IFToMM",
    "A04: Bricard's mechanism, 10 s",
    *(Simulation(2e-3, formulation=f) for f in FORMULATIONS[:2]),
    references=("bricard",),
)
def bricard(by, problem):
    """Compare the motion of Bricard's mechanism with Lagrange's equation in one coordinate."""
    mech, start = problems.bricard()
    times = np.linspace(0, problem["duration_s"], 101)
    run = by.run(mech, times, start)
    psi, _ = problems.bricard_model().motion(times, [3 * np.pi], [0.0])
    points = jax.vmap(lambda x: problems.bricard_hexagon(x[0]))(psi)
    yield close("points at the start", points[0], problem["points_P1_to_P6_initial"], 1e-12, "m")
    for k, name in ((1, "rod2"), (2, "rod3"), (4, "rod5")):
        found = run.point(name, (0.5, 0, 0))
        yield close(f"P{k + 2}, against its closed form in one angle", found, points[:, k + 1], 1e-9, "m")
    yield compare_with_start("energy", run.energy.total, 1e-9)
    yield gap(mech, run)


@case("IFToMM", "A04: redundant constraints of Bricard's mechanism", DIAGNOSIS, references=("bricard",))
def bricard_rank(by, problem):
    """Compare rank and redundancy of Bricard's mechanism with the known ones."""
    mech, start = problems.bricard()
    report = mbs.diagnose(mech, start)
    found = len(mech.layout.row_owners), report.rank, report.dof, report.redundant, report.consistent
    yield same("30 equations of rank 29, 1 degree of freedom, P6 redundant", found, (30, 29, 1, ("P6",), True))
    moved = mbs.simulate(mech, np.array([0.0, 1.0]), start, step=2e-3)
    report = mbs.diagnose(mech, moved.q[-1])
    yield same("rank 29, 1 degree of freedom after 1 s", (report.rank, report.dof, report.consistent), (29, 1, True))


@case(
    "IFToMM",
    "A05: stiff flyball governor, 10 s",
    *(Simulation(1e-4, mbs.GeneralizedAlpha(0.8), f) for f in FORMULATIONS[:2]),
    references=("flyball_governor",),
)
def governor(by, problem):
    """Compare the motion of the flyball governor with Lagrange's equations."""
    times = np.linspace(0, problem["duration_s"], 101)
    model, x, v = problems.governor_model()
    wanted, rates = model.motion(times, x, v, "Radau", rtol=1e-9, atol=1e-11)
    mech, start, spinning = problems.governor()
    run = by.run(mech, times, start, spinning)
    yield close("s(t), against three coordinates", run.position("slider.z"), wanted[:, 2], 1e-6, "m")
    yield near("speed of the shaft", run.velocity("shaft.wz"), rates[:, 0], 1e-6)
    momentum = angular_momentum(mech, run)[:, 2]
    yield below("angular momentum about z", momentum / momentum[0] - 1, 1e-8, "relative")
    yield same("sign of each change of the energy", bool(np.all(np.diff(run.energy.total) < 0)), True)
    lost = model.energy(wanted, rates) - model.energy(wanted, rates)[0]
    yield close("loss of energy", run.energy.total - run.energy.total[0], lost, 2e-6, "J")
    yield gap(mech, run)
