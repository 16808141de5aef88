"""Rows of spatial mechanisms beside MuJoCo, one second of motion: the spatial slider-crank, and Bricard's mechanism.

Both tools are measured with the same step, and jaxmbs again with the longest step that is as accurate as MuJoCo. The
settings of MuJoCo were found by `python benchmarks/spatial.py`, which takes minutes.
"""

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import timing
from peers import mjcf_inertial, mjcf_numbers

if __name__ == "__main__":
    timing.use_one_core()

import jax
import jax.numpy as jnp
import models
import numpy as np
import peers

import jaxmbs as mbs

# Number of steps in the simulated second of a spatial case.
STEPS = 1000


class Case(NamedTuple):
    """A mechanism with the place of a point after one second, and its MuJoCo model.

    Attributes:
        name: name of the rows.
        build: function that returns the mechanism.
        start: function that returns q0 and v0.
        speeds: factors of the velocities of the first and the last sample; errors are those of the first.
        point: a body and a point in its frame.
        wanted: converged place of the point (m).
        fewest: smallest number of steps of jaxmbs that is as accurate as MuJoCo with `STEPS`.
        bodies: function that returns the bodies of the MuJoCo model; sites "a…" and "b…" are the ends of the loop, and
            the site "point" is the point.
        gravity: gravity of the MuJoCo model.
        rates: joint velocities of the MuJoCo model at the start.
    """

    name: str
    build: Callable
    start: Callable
    speeds: tuple[float, float]
    point: tuple[str, tuple[float, float, float]]
    wanted: tuple[float, float, float]
    fewest: int
    bodies: Callable
    gravity: tuple[float, float, float]
    rates: tuple[float, ...]

    def factors(self, batch):
        """Return the factors of the velocities of the samples, (batch, 1)."""
        return np.linspace(*self.speeds, batch)[:, None]


def spatial_row(case, batch):
    """`mbs.simulate` as a user calls it, with RK4 and projection, and the step of MuJoCo."""
    return _jaxmbs_row(case, case.name, batch, STEPS, count_operations=True)


def spatial_equal_accuracy_row(case, batch):
    """`mbs.simulate` with the longest step that is as accurate as MuJoCo."""
    return _jaxmbs_row(case, f"{case.name}, equal accuracy", batch, case.fewest)


def spatial_joint_row(case, batch):
    """`mbs.simulate` in joint coordinates, with the step of MuJoCo."""
    return _jaxmbs_row(case, f"{case.name}, joint coordinates", batch, STEPS, formulation=mbs.JointCoordinates())


def _jaxmbs_row(case, name, batch, steps, *, formulation=None, count_operations=False):
    """Return the row of a spatial case by `mbs.simulate` with RK4 and `steps` steps in its second."""
    mech = case.build()
    q, v = (part(x) for part, x in zip((mech.coordinates, mech.velocities), case.start(), strict=True))
    body, s = case.point
    times = np.array([0.0, 1.0])

    def run(v):
        """Return final q, place of the point, change of energy and statuses of a motion that starts with v."""
        motion = mbs.simulate(mech, times, q, v, step=1 / steps, formulation=formulation)
        return motion.q[-1], motion.point(body, s)[-1], jnp.diff(motion.energy.total)[0], motion.status

    speeds = v * case.factors(batch)
    function, compile_seconds = timing.compile_function(jax.vmap(run), speeds)
    (ends, point, energy, status), runs = timing.measure(function, speeds, repeats=3)
    gaps = jax.jit(jax.vmap(lambda q: mbs.constraints(mech, q)))(ends)
    more = _columns(case, runs, batch, steps, point, energy, gaps)
    more |= {"failed": int((status != 0).any(axis=1).sum()), "compile s": compile_seconds}
    if count_operations:
        more["operations per step"] = round(mbs.program(run, limit=None).trace(v).work / steps)
    return timing.row(name, runs, batch * steps, kind="jaxmbs", **more, note="RK4, projection")


def _columns(case, runs, batch, steps, point, energy, gaps):
    """Return the columns of all rows: the error of the point of the first sample, otherwise the largest values."""
    return {
        "ms per simulated second": 1e3 * runs.median / batch,
        "steps": steps,
        "error m": float(np.max(np.abs(point[0] - np.array(case.wanted)))),
        "energy J": float(np.max(np.abs(energy))),
        "gap": float(np.max(np.abs(gaps))),
    }


def spatial_mujoco_row(case, batch):
    """MuJoCo: joint coordinates, the loop closed by `connect`; `mujoco.rollout` in one thread."""
    name = f"{case.name}, MuJoCo"
    try:
        import mujoco  # noqa: F401
    except ImportError as error:
        return timing.skipped_row(name, error)
    more, runs = _mujoco_measures(case, batch, STEPS)
    softness = f"time constant of {peers.CONNECT_TIME_CONSTANT:g} steps, impedance 0.9999"
    note = f"RK4, connect, {softness}, mujoco.rollout in one thread"
    return timing.row(name, runs, batch * STEPS, **more, note=note)


def _mujoco_measures(case, batch, steps, *, repeats=5, **settings):
    """Return the columns of MuJoCo's row, and the `Runs`."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(xml_of(case, 1 / steps, **settings))
    data, kind = mujoco.MjData(model), mujoco.mjtState.mjSTATE_FULLPHYSICS
    starts = peers.mujoco_states(model, batch, velocities=case.factors(batch) * case.rates)
    run = peers.mujoco_rollout([model] * batch, starts, steps)
    ends, runs = timing.measure(run, repeats=repeats)

    def measures(state):
        """Return the place of the point, the energy and the gaps of the loop in a state."""
        mujoco.mj_setState(model, data, state, kind)
        mujoco.mj_forward(model, data)
        mujoco.mj_energyPos(model, data)
        mujoco.mj_energyVel(model, data)
        gaps = [data.site_xpos[i] - data.site_xpos[j] for i, j in zip(model.eq_obj1id, model.eq_obj2id, strict=True)]
        return data.site("point").xpos.copy(), data.energy.sum(), np.linalg.norm(gaps, axis=1)

    _, before, _ = zip(*(measures(state) for state in starts), strict=True)
    point, after, gaps = zip(*(measures(state) for state in ends), strict=True)
    return _columns(case, runs, batch, steps, point, np.subtract(after, before), gaps), runs


def xml_of(case, step, integrator="RK4", **softness):
    """Return the MJCF of a case; `softness` are arguments of `peers.mjcf_softness`."""
    bodies = case.bodies()
    soft = peers.mjcf_softness(step, **softness)
    ties = (f'<connect site1="a{k}" site2="b{k}" {soft}/>' for k in range(bodies.count('name="a')))
    return (
        f'<mujoco><option timestep="{step}" integrator="{integrator}" gravity="{mjcf_numbers(case.gravity)}">'
        f'<flag contact="disable" refsafe="disable"/></option><worldbody>{bodies}</worldbody>'
        f"<equality>{''.join(ties)}</equality></mujoco>"
    )


def _slider_crank_bodies():
    """Return the bodies of the slider-crank: the slider carries the rod by two hinges; its end is tied to the crank."""
    axes, length = models.rod_axes(), np.linalg.norm(models.SLIDER_START - models.CRANK_PIN)
    return (
        f'<body pos="{mjcf_numbers(models.SLIDER_START)}"><joint type="slide" axis="1 0 0"/><site name="point"/>'
        f"{mjcf_inertial((0, 0, 0), models.SLIDER_MASS, models.SLIDER_INERTIA)}"
        f'<body xyaxes="{mjcf_numbers(axes.T[:2].ravel())}"><joint axis="{mjcf_numbers(axes[0])}"/><joint axis="0 1 0"/>'
        f"{mjcf_inertial((-length / 2, 0, 0), models.ROD_MASS, models.ROD_INERTIA)}"
        f'<site name="a0" pos="{-length} 0 0"/></body></body>'
        f'<body pos="{mjcf_numbers(models.CRANK_PIVOT)}"><joint axis="1 0 0"/>'
        f"{mjcf_inertial((0, 0, 0), models.CRANK_MASS, models.CRANK_INERTIA)}"
        f'<site name="b0" pos="{mjcf_numbers(models.CRANK_PIN - models.CRANK_PIVOT)}"/></body>'
    )


def _slider_crank_rates():
    """Return the rates of the slider, of the rod about x and about the arm of the cross, and of the crank."""
    return (models.SLIDER_SPEED, models.ROD_SPIN[0], models.ROD_SPIN @ models.rod_axes()[:, 1], models.CRANK_SPEED)


def _bricard_bodies():
    """Return the bodies of Bricard's mechanism: a chain of hinges; two points on the last axis are tied to ground."""
    axis, end = models.BRICARD_AXES[-1] / 2, models.BRICARD_POINTS[-1]
    text = "".join(f'<site name="b{k}" pos="{mjcf_numbers(end + side * axis)}"/>' for k, side in enumerate((-1, 1)))
    turn, origin = np.eye(3), np.zeros(3)
    for at, (name, (_, mine)) in zip(models.BRICARD_POINTS, models.bricard_placed().items(), strict=False):
        relative = turn.T @ mine
        place, axes = mjcf_numbers(turn.T @ (at - origin)), mjcf_numbers(relative.T[:2].ravel())
        text += (
            f'<body name="{name}" pos="{place}" xyaxes="{axes}">'
            f'<joint axis="0 1 0"/>{mjcf_inertial((0.5, 0, 0), models.BRICARD_MASS, models.BRICARD_INERTIA)}'
        )
        text += '<site name="point" pos="1 0 0"/>' if name == "rod2" else ""
        turn, origin = mine, at
    sites = ((1, 0, 0) + side * turn.T @ axis for side in (-1, 1))
    text += "".join(f'<site name="a{k}" pos="{mjcf_numbers(at)}"/>' for k, at in enumerate(sites))
    return text + "</body>" * len(models.BRICARD_RODS)


# The spatial cases: slider-crank and Bricard's mechanism.
CASES = (
    Case(
        name="spatial slider-crank",
        build=models.spatial_slider_crank,
        start=models.spatial_slider_crank_start,
        speeds=(1.0, 1.1),
        point=("slider", (0.0, 0.0, 0.0)),
        wanted=(0.23376475033594868, 0.0, 0.0),
        fewest=655,
        bodies=_slider_crank_bodies,
        gravity=(0.0, 0.0, -models.GRAVITY),
        rates=_slider_crank_rates(),
    ),
    Case(
        name="Bricard",
        build=models.bricard,
        start=models.bricard_start,
        speeds=(1.0, 1.0),  # at rest
        point=("rod2", (0.5, 0.0, 0.0)),
        # By a model with the one coordinate of its motion in closed form, integrated to 1e-13.
        wanted=(0.27448131926463537, -0.8867079387346738, -0.4623300026873722),
        fewest=81,
        bodies=_bricard_bodies,
        gravity=(0.0, -models.GRAVITY, 0.0),
        rates=(0.0,) * 5,
    ),
)


def print_settings():
    """Print the best settings of MuJoCo for some steps, and jaxmbs with steps of similar accuracy."""
    import mujoco

    mujoco.set_mju_user_warning(lambda _: None)  # some settings are not stable
    for case in CASES:
        for steps in (STEPS // 2, STEPS, 2 * STEPS):
            rows = [(_mujoco_measures(case, 1, steps, repeats=1, **some)[0], some) for some in _settings()]
            for columns, some in sorted(rows, key=lambda row: row[0]["error m"])[:5]:
                numbers = ", ".join(f"{name} {columns[name]:.4g}" for name in ("error m", "energy J", "gap"))
                print(f"{case.name}, MuJoCo, {steps} steps: {numbers}; {some}")
        for part in (0.5, 0.98, 1.0, 2.0):
            steps = round(part * case.fewest)
            print(timing.line_of(_jaxmbs_row(case, f"{case.name}, {steps} steps", 1, steps)), flush=True)


def _settings():
    """Return combinations of MuJoCo's settings."""
    names = "integrator", "time_constant", "damping", "impedance"
    choices = (
        ("RK4", "Euler", "implicitfast"),
        (1, 1.5, 2, 2.25, 2.5, 3, 4, 10),
        (0.5, 0.7, 1.0, 1.5, 2.0),
        (0.95, 0.9999),
    )
    return [dict(zip(names, some, strict=True)) for some in product(*choices)]


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    print_settings()
