"""Other simulators on the same four-bars, where they are installed: `pip install mujoco mujoco-mjx pin`.

They have three joint angles, and a point constraint that closes the loop at B. Each function takes a `Problem` and
returns a row, or one with the reason why not.
"""

import multiprocessing
import time
from functools import wraps
from pathlib import Path

import numpy as np
import reference_kernel
import timing

MJX_LIMIT = 180.0  # seconds that MJX may take to compile and run
XML = """
<mujoco>
  <option timestep="{h}" integrator="RK4" gravity="0 -9.81 0"><flag contact="disable" refsafe="disable"/></option>
  <worldbody>
    <body name="crank">
      <joint axis="0 0 1"/> <inertial pos="{a2} 0 0" mass="{a}" diaginertia="{a_x} {a_j} {a_j}"/>
      <body name="coupler" pos="{a} 0 0">
        <joint axis="0 0 1"/> <inertial pos="{c2} 0 0" mass="{c}" diaginertia="{c_x} {c_j} {c_j}"/>
        <site name="coupler" pos="{c} 0 0"/>
      </body>
    </body>
    <body name="rocker" pos="{g} 0 0">
      <joint axis="0 0 1"/> <inertial pos="{r2} 0 0" mass="{r}" diaginertia="{r_x} {r_j} {r_j}"/>
      <site name="rocker" pos="{r} 0 0"/>
    </body>
  </worldbody>
  <equality><connect site1="coupler" site2="rocker" {stiffness}/></equality>
</mujoco>
"""
STIFFEST = 'solref="0.002 1" solimp="0.9999 0.9999 0.001"'  # two steps, as stiff as MuJoCo takes it


def opponent(name):
    """Make a row of the function's result; what it misses becomes the reason."""

    def decorate(function):
        @wraps(function)
        def measured(problem):
            try:
                return function(name, problem)
            except (ImportError, reference_kernel.NoCompiler, TimeoutError) as error:
                return timing.skipped(name, error)

        return measured

    return decorate


def mujoco_models(problem, stiffness=""):
    """One MuJoCo model for each design."""
    columns = (np.asarray(problem.designs[name]) for name in reference_kernel.LENGTHS)
    return [mujoco_model(lengths, problem.h, stiffness) for lengths in zip(*columns, strict=True)]


def mujoco_model(lengths, h, stiffness=""):
    """The model for (crank, coupler, rocker, ground)."""
    import mujoco

    numbers = dict(zip("acrg", (float(x) for x in lengths), strict=True))
    for name in "acr":
        inertia = numbers[name] ** 3 / 12
        numbers |= {f"{name}2": numbers[name] / 2, f"{name}_j": inertia, f"{name}_x": 1e-6 * inertia}
    return mujoco.MjModel.from_xml_string(XML.format(h=h, stiffness=stiffness, **numbers))


def mujoco_rollout(models, angles, steps):
    """A function that runs all from rest at their joint angles (batch, nq), in one thread, and gives those at the end."""
    import mujoco
    from mujoco import rollout

    data = mujoco.MjData(models[0])
    state = np.zeros((len(models), mujoco.mj_stateSize(models[0], mujoco.mjtState.mjSTATE_FULLPHYSICS)))
    positions = slice(1, 1 + models[0].nq)  # the state is time, positions, velocities
    state[:, positions] = angles
    return lambda: rollout.rollout(models, data, initial_state=state, nstep=steps)[0][:, -1, positions]


@opponent("MuJoCo (C)")
def mujoco_row(name, problem):
    """`mujoco.rollout` in one thread, one call for all: its default stiffness, and the gap of 16 at the stiffest."""
    angles, runs = _mujoco(problem)
    some = problem.first(16)
    stiffest, _ = _mujoco(some, STIFFEST)
    gaps = {"gap": problem.loop_gap(angles), "gap when stiffest": some.loop_gap(stiffest)}
    return timing.row(name, runs, problem.count, **gaps, note="RK4, connect, mujoco.rollout in one thread")


def _mujoco(problem, stiffness=""):
    """The joint angles at the end, and the `Runs`."""
    models = mujoco_models(problem, stiffness)
    return timing.measure(mujoco_rollout(models, problem.joint_angles(), problem.steps))


@opponent("MJX")
def mjx_row(name, problem):
    """The batch by `jax.vmap` in float64, the steps in a scan; all systems have the nominal lengths, cranks differ."""
    import mujoco.mjx  # noqa: F401

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        try:
            result = pool.apply_async(_mjx, (problem.q.shape[0], problem.h, problem.steps)).get(MJX_LIMIT)
        except multiprocessing.TimeoutError:
            raise TimeoutError(f"not done within {MJX_LIMIT:g} s") from None
    compile_seconds, runs, gap = result
    note = "RK4, connect, vmap and scan, float64, nominal lengths"
    return timing.row(name, runs, problem.count, gap=gap, **{"compile s": compile_seconds}, note=note)


def _mjx(batch, h, steps):
    """In a process of its own, so that it can be given up: compile seconds, `Runs`, gap."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from mujoco import mjx
    from problem import four_bars

    problem = four_bars(batch, h, steps, jnp.linspace(0.9, 1.1, batch), spread=0.0)
    model = mjx.put_model(mujoco_models(problem.first(1))[0], impl="jax")
    blank = mjx.make_data(model)

    def run(angles):
        step = lambda data, _: (mjx.step(model, data), None)
        return jax.lax.scan(step, blank.replace(qpos=angles), length=steps)[0].qpos

    run, compile_seconds = timing.compiled(jax.vmap(run), jnp.asarray(problem.joint_angles()))
    angles, runs = timing.measure(run, jnp.asarray(problem.joint_angles()), repeats=1)
    return compile_seconds, runs, problem.loop_gap(angles)


def pinocchio_model(lengths):
    """The model and the constraint that closes the loop, for (crank, coupler, rocker, ground)."""
    import pinocchio as pin

    crank, coupler, rocker, ground = (float(x) for x in lengths)
    at = lambda x: pin.SE3(np.eye(3), np.array([x, 0.0, 0.0]))
    model = pin.Model()
    model.gravity.linear = np.array([0.0, -9.81, 0.0])

    def add_bar(parent, x, length, name):
        joint = model.addJoint(parent, pin.JointModelRZ(), at(x), name)
        inertia = length**3 / 12 * np.diag([1e-6, 1.0, 1.0])
        model.appendBodyToJoint(joint, pin.Inertia(length, np.array([length / 2, 0, 0]), inertia), pin.SE3.Identity())
        return joint

    middle = add_bar(add_bar(0, 0.0, crank, "crank"), crank, coupler, "coupler")
    last = add_bar(0, ground, rocker, "rocker")
    ends = middle, at(coupler), last, at(rocker)
    return model, pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, model, *ends, pin.ReferenceFrame.LOCAL)


@opponent("Pinocchio (Python)")
def pinocchio_row(name, problem):
    """Four calls of `constraintDynamics` for each step, from a Python loop; their overhead counts. 16 systems."""
    import pinocchio as pin

    some = problem.first(16)
    settings = pin.ProximalSettings(1e-12, 1e-12, 10)
    torque = np.zeros(3)

    def prepared(lengths):
        model, constraint = pinocchio_model(lengths)
        models, data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        models.append(constraint)
        data.append(constraint.createData())
        state = model.createData()
        pin.initConstraintDynamics(model, state, models, data)
        return lambda q, v: pin.constraintDynamics(model, state, q, v, torque, models, data, settings).copy()

    lengths = np.stack([some.designs[key] for key in reference_kernel.LENGTHS], axis=1)
    systems = [prepared(numbers) for numbers in lengths]
    starts = some.joint_angles()
    run = lambda: np.stack([rk4(*pair, some.h, some.steps) for pair in zip(systems, starts, strict=True)])
    angles, runs = timing.measure(run, repeats=3)
    note = "four calls of constraintDynamics from Python for each step, with their overhead"
    return timing.row(name, runs, some.count, gap=some.loop_gap(angles), note=note)


def rk4(acceleration, q, h, steps):
    """q after a number of steps from rest."""
    v = np.zeros_like(q)
    for _ in range(steps):
        a_1 = acceleration(q, v)
        v_2 = v + h / 2 * a_1
        a_2 = acceleration(q + h / 2 * v, v_2)
        v_3 = v + h / 2 * a_2
        a_3 = acceleration(q + h / 2 * v_2, v_3)
        v_4 = v + h * a_3
        a_4 = acceleration(q + h * v_3, v_4)
        q, v = q + h / 6 * (v + 2 * v_2 + 2 * v_3 + v_4), v + h / 6 * (a_1 + 2 * a_2 + 2 * a_3 + a_4)
    return q


@opponent("Pinocchio (C++)")
def pinocchio_cpp_row(name, problem):
    """The same with all loops in C++: `pinocchio_four_bar.cpp` against the headers of the wheel `pin`; minutes to compile.

    It needs Eigen's headers beside them: `pip install cmeel-eigen`. The time of a call with no steps, which builds the
    models, is taken off.
    """
    begin = time.perf_counter()
    call = reference_kernel.rollout_of(pinocchio_library("pinocchio_four_bar.cpp"))
    compile_seconds = time.perf_counter() - begin
    angles = problem.joint_angles()
    arguments = problem.designs, angles, np.zeros_like(angles), problem.h
    _, setup = timing.measure(call, *arguments, 0, repeats=5)
    (angles, _), runs = timing.measure(call, *arguments, problem.steps, repeats=5)
    runs = timing.Runs(runs.median - setup.median, runs.best - setup.best)
    more = {"compile s": compile_seconds, "gap": problem.loop_gap(angles)}
    note = "four calls of constraintDynamics for each step, all in C++"
    return timing.row(name, runs, problem.count, **more, note=note)


def pinocchio_library(source):
    """A file of this folder compiled against Pinocchio."""
    import cmeel

    root = Path(next(iter(cmeel.__path__))).parent / "cmeel.prefix"
    # Boost's lists are too short for Pinocchio's joints unless told otherwise; asserts of Eigen cost a third.
    macros = ("-DNDEBUG", "-DBOOST_MPL_LIMIT_LIST_SIZE=30", "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS")
    include = (f"-I{root / 'include'}", f"-I{root / 'include' / 'eigen3'}")
    after = (f"-L{root / 'lib'}", "-lpinocchio_default", f"-Wl,-rpath,{root / 'lib'}")
    source = Path(__file__).with_name(source)
    return reference_kernel.shared_library(source, ("-O3", "-march=native", "-w", *macros, *include), after)


ROWS = (mujoco_row, mjx_row, pinocchio_row, pinocchio_cpp_row)
