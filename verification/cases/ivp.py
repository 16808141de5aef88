"""The Test Set for IVP solvers: Andrews' squeezing mechanism and the car axis."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from dynamic_problems import andrews, andrews_angles, andrews_start
from jaxmbs import planar
from verification.case import Simulation, case, close, near
from verification.cases.common import FORMULATIONS, from_zero, gap


@case(
    "IVP Test Set",
    "Andrews' squeezing mechanism, 0.03 s",
    *(Simulation(1e-5, formulation=f) for f in FORMULATIONS),
    Simulation(None, mbs.Adaptive(1e-10, 1e-12)),
    references=("andrews",),
    quick=True,
)
def andrews_mechanism(by, problem):
    """Compare the motion of Andrews' mechanism with the printed reference solution."""
    length, printed = problem["parameters"]["lengths_m"], problem["reference_at_t_0.03"]
    mech, rows = andrews(length), np.array(problem["trajectory"]["rows"])
    absolute = lambda q: np.array(list(andrews_angles(q).values()))
    start = andrews_start(length, andrews_angles(problem["q_initial"]))
    run = by.run(mech, from_zero(rows[:, 0]), start)
    yield close("angles at six times", run.q[1:, 2::3], [absolute(row[1:8]) for row in rows], 1e-8, "rad")
    yield close("angles as printed", run.q[-1, 2::3], absolute(printed["q"]), 1e-8, "rad")
    yield near("angular velocities as printed", run.v[-1, 2::3], absolute(printed["qd"]), 2e-7)
    yield near("angular accelerations as printed", run.a[-1, 2::3], absolute(printed["qdd"]), 5e-6)
    # The printed multipliers close the loops through FE's end E: they are the forces of FE on the other bodies there.
    found = by.reactions(mech, run)
    forces = np.concatenate([found[f"E {body}"].force[-1] for body in ("BDE", "EG", "EH")])
    yield near("multipliers as printed", forces, printed["multipliers"], 5e-6)
    yield gap(mech, run)


def car_axis_model(p):
    """Return the car axis: two point masses, a distance, a driven support and stiff springs.

    The driven condition xl·xb + yl·yb = 0 is not an element of the package, so its class is defined here.
    """
    mass = p["M"] * p["eps"] ** 2 / 2

    def support(t):
        """Return the coordinates x and y of the driven support at time t."""
        y = p["r"] * jnp.sin(p["omega"] * t)
        return jnp.sqrt(p["L"] ** 2 - y**2), y

    class Perpendicular(planar.element.AbsoluteConstraint):
        """The origin of the body is perpendicular to the support."""

        body: str = eqx.field(static=True)
        rows = 1

        def residual(self, i, j, t):
            """Return the scalar product of the body's origin and the support's place."""
            x, y = support(t)
            return (j.r[0] * x + j.r[1] * y)[None]

    def springs(state):
        """Return the generalized force of both springs."""
        xb, yb = support(state.t)
        left, right = state.q[:2], state.q[3:5]
        pull = lambda d: (p["L0"] - jnp.sqrt(d @ d)) / jnp.sqrt(d @ d) * d
        zero = jnp.zeros(1)
        return jnp.concatenate([pull(left), zero, pull(right - jnp.stack([xb, yb])), zero])

    return mbs.Mechanism(
        {"left": planar.Body(mass, 1.0), "right": planar.Body(mass, 1.0)},
        {
            "support": Perpendicular("left"),
            "axis": planar.Distance("left", "right", (0, 0), (0, 0), p["L"]),
            "no turn left": planar.AbsoluteAngle("left", (0, 0), 0.0),
            "no turn right": planar.AbsoluteAngle("right", (0, 0), 0.0),
        },
        forces={"springs": mbs.UserForce(springs), "gravity": mbs.Gravity((0, -p["g"]))},
    )


@case(
    "IVP Test Set",
    "car axis, 3 s",
    Simulation(1e-4),
    Simulation(None, mbs.Adaptive(1e-11, 1e-13)),
    references=("car_axis",),
    quick=True,
)
def car_axis(by, problem):
    """Compare the motion of the car axis with the reference solution."""
    x, rows = problem["state_initial"], np.array(problem["trajectory"]["rows"])
    mech = car_axis_model(problem["parameters"])
    start, rates = ({"left": (*x[k : k + 2], 0), "right": (*x[k + 2 : k + 4], 0)} for k in (0, 4))
    run = by.run(mech, from_zero(rows[:, 0]), start, rates)
    state = np.concatenate([run.q[:, [0, 1, 3, 4]], run.v[:, [0, 1, 3, 4]]], axis=1)[1:]
    # The Test Set writes +lam1 (xb, yb) and +2 lam2 (xl − xr): Φ_qᵀλ of these residuals, with the same signs.
    found = by.reactions(mech, run)
    multipliers = np.concatenate([found["support"].multipliers, found["axis"].multipliers], axis=1)[1:]
    printed = np.array(problem["reference_at_t_3"]["values"])
    yield close("positions and velocities at six times", state, rows[:, 1:9], 1e-8)
    yield close("multipliers at six times", multipliers, rows[:, 9:11], 1e-8)
    yield close("all components as printed", np.append(state[-1], multipliers[-1]), printed, 1e-8)
