"""Code that runs before the code of each page of the documentation, and checks that run after it."""

# The four-bar of "Getting started", whose first block runs before this.
FOUR_BAR = """
import numpy as np
times = np.linspace(0, 0.02, 3)
free = mbs.Mechanism(mech.bodies, mech.constraints, forces=mech.forces)
build = lambda b: mbs.Mechanism(four_bar(b).bodies, four_bar(b).constraints, forces=four_bar(b).forces)
start = lambda b: guess
q0, v0 = guess, {"crank.phi": 1.0}
"""
# A slider-crank whose joints have the names that the pages on forces use.
PISTON = """
from jaxmbs import planar
bodies = {name: planar.Body(1.0, 0.1) for name in ("crank", "rod", "piston", "slider")}
engine = lambda forces: mbs.Mechanism(
    bodies,
    {
        "main bearing": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
        "A": planar.Revolute("crank", "rod", (0.1, 0), (0, 0)),
        "B": planar.Revolute("rod", "piston", (0.3, 0), (0, 0)),
        "cylinder": planar.Translational("ground", "piston", (0, 0), (0, 0)),
        "guide": planar.Translational("ground", "slider", (0, 0), (0, 0)),
    },
    forces=forces,
)
at = {"crank": (0, 0, 0.3), "rod": (0.1, 0.03, -0.1), "piston": (0.39, 0, 0), "slider": (1, 0, 0)}
"""
# Code after blocks that add forces to `engine`: their generalized force is finite.
PUSHED = "\nassert np.all(np.isfinite(mbs.generalized_force(engine(forces), at, jnp.zeros(12))))\n"
# Code after blocks that add forces to `engine`: a short simulation succeeds.
SIMULATED = "\nassert not mbs.simulate(engine(forces), jnp.array([0, 2e-3]), at, step=1e-3).status.any()\n"
# Code that defines a four-bar on a floating hull, with its state.
HULL = """
bodies = {name: planar.Body(1.0, 0.1) for name in ("hull", "crank", "coupler", "rocker")}
joints = {
    "O": planar.Revolute("hull", "crank", (0, 0), (0, 0)),
    "A": planar.Revolute("crank", "coupler", (1, 0), (0, 0)),
    "B": planar.Revolute("coupler", "rocker", (3, 0), (2.5, 0)),
    "C": planar.Revolute("hull", "rocker", (3.5, 0), (0, 0)),
}
mech = mbs.Mechanism(bodies, joints)
q = mbs.assemble(mech, {"coupler": (1, 0, 0.9), "rocker": (3.5, 0, 1.8)}).q
v, t = jnp.zeros(12), 0.0
q0, v0 = q, v
"""
# Code that defines the state of the mechanism `free`.
FREE = """
mech, t, v, u_dot = free, 0.0, jnp.zeros(9), jnp.zeros(3)
q = mbs.assemble(mech, guess).q
"""
# Code that defines the joint coordinates θ.
THETA = "\ntheta = mbs.JointCoordinates().of(mech).coordinates(q)\n"
# Code before the blocks of the page on the velocity transformation: the rates θ̇.
THETA_DOT = "theta_dot = mbs.JointCoordinates().of(mech).velocities(q, v)"
# Code that defines a boom in space, with its state.
BOOM = """
from jaxmbs import spatial
mech = mbs.Mechanism(
    {"boom": spatial.Body(1.0, (0.1, 0.1, 0.1))},
    {"pin": spatial.Revolute("ground", "boom", (0, 0, 0), (-1, 0, 0), (0, 0, 1))},
    forces={"gravity": mbs.Gravity((0, -9.81, 0))},
)
q0 = q = mbs.assemble(mech, {"boom": spatial.coordinates((1, 0, 0), (0, 0, 0))}).q
v0 = v = jnp.zeros(6)
"""
# Code before the blocks of the page on files.
FILES = """
import dataclasses, shutil
from pathlib import Path
shutil.copy(MODELS / "slider_crank.json", "slider_crank.json")
inertia = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
link = f'<link name="{{0}}">{inertia}</link>'
ends = '<parent link="{1}"/><child link="{2}"/><origin xyz="{3} 0 0"/><axis xyz="0 0 1"/>'
joint = f'<joint name="{{0}}" type="continuous">{ends}</joint>'
pins = ("O", "base", "crank", 0), ("A", "crank", "coupler", 1), ("C", "base", "rocker", 2)
links = "".join(map(link.format, ("base", "crank", "coupler", "rocker")))
tree = "".join(joint.format(*pin) for pin in pins)
fixed = joint.replace("continuous", "fixed")
ends = [fixed.format("end", "coupler", "rod_end", 1), fixed.format("top", "rocker", "crank_pin", 1)]
frames = '<link name="rod_end"/><link name="crank_pin"/>' + "".join(ends)
Path("four_bar.urdf").write_text(f'<robot name="four_bar">{links}{frames}{tree}</robot>')
arm = link.format("trunk") + link.format("upper") + '<link name="gripper"/>'
arm += joint.format("hip", "trunk", "upper", 1) + fixed.format("wrist", "upper", "gripper", 1)
Path("arm.urdf").write_text(f'<robot name="arm">{arm}</robot>')
Path("scene.xml").write_text('''<mujoco><worldbody><body name="arm"><joint name="pin" axis="0 0 1"/>
<inertial pos="1 0 0" mass="1" diaginertia="1 1 1"/></body><body name="hand" mocap="true"/></worldbody>
<actuator><motor name="push" joint="pin"/></actuator></mujoco>''')
"""
# Code before the blocks of the page on identification.
BENCH = """
import numpy as np
bodies = {name: planar.Body(1.0, 0.1) for name in ("crank", "coupler", "rocker")}
joints = {
    "crank bearing": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
    "A": planar.Revolute("crank", "coupler", (1, 0), (0, 0)),
    "B": planar.Revolute("coupler", "rocker", (3, 0), (2.5, 0)),
    "C": planar.Revolute("ground", "rocker", (3.5, 0), (0, 0)),
}
times, guess = np.linspace(0, 0.1, 6), {"coupler": (1, 0, 0.9), "rocker": (3.5, 0, 1.8)}
angles, rates = np.linspace(0, -0.05, 6), np.linspace(0, -0.5, 6)
"""
# Code before the blocks of the page on programs.
PROGRAM = """
from pathlib import Path
my_acceleration = lambda mech, q, v: mbs.Augmented().of(mech).mass_matrix(q) @ v
turn = lambda lengths, q: (lengths.sum() * q, lengths > 1)
lengths, mech = jnp.ones(4), free
q = guess = mbs.assemble(mech, guess).q
v = jnp.ones(9)
designs, b = jax.tree.map(lambda x: jnp.stack([x, x]), b), jax.tree.map(jnp.asarray, b)
"""
# Code before the blocks of the page on synthesis.
SYNTHESIS = """
import numpy as np
angles = np.linspace(0, 2 * np.pi, 9)[:-1]
targets = points = np.stack([2 + 0.5 * np.cos(angles), 1 + 0.3 * np.sin(angles)], axis=1)
times = np.linspace(0, 1, 5)
design = {"crank": 1.0, "coupler": 3.0, "rocker": 2.5, "ground": 3.5, "point": jnp.array([0.1, 0.4])}
lower, upper = (jax.tree.map(lambda x: x * factor, design) for factor in (0.9, 1.1))
guess = {"foot": (1, 0, 0.9), "rocker": (3.5, 0, 1.8)}
stroke = lambda motion: jnp.ptp(motion.position("rocker.phi"))


def build(b):
    return mbs.Mechanism(
        {name: planar.Body(1.0, 0.1) for name in ("crank", "foot", "rocker")},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "foot", (b["crank"], 0), (0, 0)),
            "B": planar.Revolute("foot", "rocker", (b["coupler"], 0), (b["rocker"], 0)),
            "C": planar.Revolute("ground", "rocker", (b["ground"], 0), (0, 0)),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(2 * np.pi))},
    )
"""
# Code after the blocks of the page on space.
SPATIAL = """
assert not motion.status.any()
found = mbs.diagnose(slider_crank({"crank": 0.08, "rod": 0.3}), motion.q[0])
assert (found.dof, found.redundant) == (1, ()), found
"""

# For each page: code before its blocks, after "Getting started", and code after them.
BEFORE_AND_AFTER: dict[str, tuple[str, str]] = {
    "README.md": ("", ""),
    "extending/joint.md": (
        "",
        'assert jnp.allclose(mbs.assemble(mech, {"a": (1.5, 1.5, 0)}).q[:2], 2**0.5)\n'
        'slot = mbs.Mechanism({"a": planar.Body()}, {"slot": CircularSlot("ground", "a", (0, 0), (0, 0), radius=2)})\n'
        'assert mbs.constraints(slot, {"a": (3, 4, 0)}) == 10.5',
    ),
    "extending/force.md": (
        "",
        'found = mbs.generalized_force(mech, {"a": (0, 0, 0)}, jnp.array([1.0, 0.0, 0.0]))\n'
        "assert jnp.allclose(found, jnp.array([-4.0, 0, 0]), atol=1e-5)",
    ),
    "extending/verification_case.md": ("", ""),
    "cad.md": ("", "assert not motion.status.any() and len(assembly.children) == 12"),
    "caching.md": ("", "mbs.disable_cache()"),
    "at_rest.md": (
        "",
        "assert (rest.status, turning.status, path.status, modes.status) == (0, 0, 0, 0) and len(path.folds) == 2\n"
        "assert linear.state_names == ('pin.phi', 'velocity.pin.phi')",
    ),
    "dynamics.md": (
        FOUR_BAR + "bodies, constraints, driven = mech.bodies, mech.constraints, mech",
        PISTON + PUSHED + "forces = {'tendon': tendon, 'drag': drag}" + PUSHED,
    ),
    "files.md": (FILES, "assert scene.forces['push'] is push"),
    "formulations.md": (FOUR_BAR + FREE, ""),
    "freecad.md": (
        'from freecad_files import pendulum_document, write_fcstd\nwrite_fcstd("excavator.FCStd", pendulum_document())\n'
        "import warnings, numpy as np\nwarnings.simplefilter('ignore')\ntimes = np.linspace(0, 1, 11)\n",
        "assert not run.status.any()",
    ),
    "belts.md": ("", "assert not run.status.any() and jnp.all(jnp.stack(tensions) > 0)"),
    "gpus.md": (FOUR_BAR, ""),
    "gradients.md": (FOUR_BAR + "build = four_bar", ""),
    "identification.md": (BENCH, ""),
    "index.md": ("", "assert not motion.status.any() and not run.status.any()"),
    "jax_rules.md": ("", "assert slopes['crank'] != 0 and not motion.status.any()"),
    "joint_coordinates.md": (FOUR_BAR + HULL + THETA, ""),
    "joint_coordinates/loops.md": (FOUR_BAR + HULL, "assert not run.status.any()"),
    "joint_coordinates/natural.md": (FOUR_BAR + HULL + THETA, ""),
    "joint_coordinates/velocity_transformation.md": (FOUR_BAR + HULL + THETA + THETA_DOT, ""),
    "joint_forces.md": (
        "",
        PISTON + "assert abs(leaves - 0.0787) < 1e-3\n"
        "assert not mbs.simulate(engine(forces), jnp.array([0, 2e-3]), at, step=1e-3).status.any()",
    ),
    "kane.md": (FOUR_BAR + BOOM, ""),
    "interactive.md": ("", "from pathlib import Path\nassert Path('four_bar.html').exists()"),
    "c_code.md": ("", "from pathlib import Path\nassert Path('robot/tip/tip_kinematics.c').exists()"),
    "fmu.md": (
        "",
        "run = mbs.simulate(press({'crank': 0.1, 'rod': 0.35}), [0.0, 1e-2], at, step=1e-3)\n"
        "assert abs(found['slider.x'][0] - run.position('slider.x')[0]) < 1e-12 and found['crank.phi'][-1] > 1",
    ),
    "planar_kinematics.md": (FOUR_BAR, "assert assembly.status == 0 and not motion.status.any()"),
    "programs.md": (FOUR_BAR + PROGRAM, 'assert "export function turn(" in text'),
    "limitations.md": (
        "",
        "assert not fall.status.any() and jnp.abs(fall.position('ball.y')[-1] - 0.1) < 0.1, fall.position('ball.y')",
    ),
    "results.md": (
        "",
        "assert not run.status.any() and again.layout == run.layout and failed\n"
        "assert found.converged and study.statuses() == {'CONVERGED': 64} and ends.kinds == ('lock-up',)",
    ),
    "spatial.md": ("", SPATIAL),
    "speed.md": (FOUR_BAR, ""),
    "sweeps.md": (FOUR_BAR, 'assert found.statuses() == {"CONVERGED": 64}'),
    "synthesis.md": (SYNTHESIS, "assert found.best.error >= 0"),
    "synthesis/balancing.md": (SYNTHESIS, "assert abs(found.best.design['x'] - 3) < 1e-3"),
    "synthesis/curves.md": (SYNTHESIS, "assert found.front[0].error >= best.error"),
    "synthesis/functions_and_poses.md": (SYNTHESIS, "assert exact.best.checks['precision_error'] < 1e-9"),
    "synthesis/own_mechanism.md": (SYNTHESIS, "assert found.best.error >= 0"),
    "synthesis/paths.md": (SYNTHESIS, "assert cognate.design['crank'] > 0"),
    "synthesis/searches_and_files.md": (SYNTHESIS, ""),
}
# Pages with code that other tests run.
ELSEWHERE = {"learning.md", "troubleshooting.md", "from_your_tool.md"}
# Texts in blocks that need more than a computer has; such blocks are only compiled.
ONLY_COMPILED = ("import pylinkage", "pylinkage.", "submitit", "dask.distributed", "jax.distributed", '@case("IFToMM"')
# Numbers of samples that take long, and what the tests take in place of them.
SMALLER = {"2**20": "64", "jnp.linspace(0.9, 1.1, 1000)": "jnp.linspace(0.9, 1.1, 3)"}
# Options by which the tests shorten each kind of search.
SEARCHES = {
    "path": {"starts": 64},
    "curve": {"starts": 32, "links": 4},
    "function": {"starts": 64},
    "motion": {"starts": 64},
    "fit": {"starts": 2},
    "balance": {"starts": 2, "steps": (4, 2), "samples": 12},
}
