"""Models as files: what is read is what was written, number for number."""

import json
import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.io.models.json_format.expressions import Expression
from random_mechanisms import random_closed, random_tree

ROOT = Path(__file__).parent.parent.parent
DESIGN = {"ground": 4.0, "crank": 1.0, "coupler": 3.0, "rocker": 3.5}
FREUDENSTEIN = {"pivot": np.array([0.1, 0.2]), "angle": 0.3, "turn": 1.0, "start": 0.4, "side": 1.0, **DESIGN}


def last(x):
    """The mechanism of an example that returns its start with it."""
    return x[0] if isinstance(x, tuple) else x


def of_environment(name):
    """The mechanism of an environment with an action."""
    environment = mbs.env.make(name)
    action = jnp.linspace(0.2, 0.5, environment.action_size)
    return environment.build(jax.tree.map(jnp.asarray, environment.design), action)


# Builders of the mechanisms of the examples, by name of the file.
EXAMPLES = {
    "01_path_synthesis": lambda e: [e["four_bar"](FREUDENSTEIN)],
    "02_engine": lambda e: [e["engine"]()],
    "03_double_pendulums": lambda e: [e["double_pendulum"]()],
    "04_andrews": lambda e: [e["andrews"]()],
    "05_balancing": lambda e: [e["four_bar"]({}), e["four_bar"]({"crank": (1.0, np.array([0.01, 0.02]))})],
    "06_bricard": lambda e: [e["bricard"]()],
    "07_shafts": lambda e: [e["shafts"](joint(), 0.3) for joint in e["JOINTS"].values()],
    "08_velocity_transformation": lambda e: [e["grounded_system"](), e["floating_system"]()],
    "09_arms": lambda e: [e["arm"](jax.tree.map(lambda x: x[0], e["random_arms"](2)))],
    "10_six_bar": lambda e: [e["six_bar"]()],
    "11_excavator": lambda e: [e["excavator"](500.0)],
    **dict.fromkeys(
        ("13_five_bar_policy", "14_five_bar_ppo", "15_five_bar_codesign"), lambda e: [of_environment("five-bar")]
    ),
    "12_published_paths": lambda e: [
        mbs.synthesis.path(e["LINE"], starts=64, lower=0.0, upper=60.0).best.mechanism,
    ],
    "16_tolerances": lambda e: [e["four_bar"](e["NOMINAL"])],
    "17_two_processes": lambda e: [e["four_bar"](e["START"])],
    "20_identification": lambda e: [e["double_pendulum"](e["PENDULUM"])],
    "21_worn_pin": lambda e: [e["four_bar"](True)],
    "24_geneva": lambda e: [e["drive"](e["DESIGN"])],
    "25_cam": lambda e: [e["valve"](e["FIRST"], free) for free in (False, True)],
}


def there_and_back(mech, path, validator=None, **start):
    """Write, read and return a mechanism; written again, the file is the same to the letter."""
    mbs.save(mech, path, **start)
    text = path.read_text()
    if validator is not None:
        validator.validate(json.loads(text))
    model = mbs.load(path)
    assert mbs.save(model, path).read_text() == text
    return model


def assert_same(a, b):
    """Two mechanisms have the same structure and numbers, bit for bit; functions are compared elsewhere."""
    is_function = lambda x: isinstance(x, Expression) or type(x).__name__ in ("Closure", "Partial")
    for kind in ("bodies", "constraints", "drivers", "forces"):
        ours, theirs = getattr(a, kind), getattr(b, kind)
        assert list(ours) == list(theirs)
        for name in ours:
            leaves = [jax.tree.flatten(x[name], is_leaf=is_function) for x in (ours, theirs)]
            assert type(ours[name]) is type(theirs[name])
            if not any(map(is_function, leaves[0][0])):
                assert leaves[0][1] == leaves[1][1], name
            for x, y in zip(leaves[0][0], leaves[1][0], strict=True):
                if not is_function(x):
                    np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
                    assert np.asarray(x).dtype == np.asarray(y).dtype


QUICK = ("01_path_synthesis", "02_engine", "03_double_pendulums", "04_andrews", "05_balancing", "10_six_bar")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "example", [pytest.param(x, marks=[pytest.mark.slow] * (x not in QUICK)) for x in sorted(EXAMPLES)]
)
def test_every_example_comes_back(example, tmp_path, validator):
    rng = np.random.default_rng(0)
    functions = (
        lambda m, q, v, t: mbs.constraints(m, q, t),
        lambda m, q, v, t: mbs.acceleration_rhs(m, q, v, t),
        lambda m, q, v, t: mbs.generalized_force(m, q, v, t),
    )
    for mech in map(last, EXAMPLES[example](runpy.run_path(str(ROOT / "examples" / f"{example}.py")))):
        model = there_and_back(mech, tmp_path / "model.json", validator)
        assert_same(mech, model)
        q, v, t = rng.normal(size=mech.layout.n), rng.normal(size=mech.layout.m), 0.7
        q = np.asarray(mech.coordinates(q))
        # Functions come back as scalar operations: the same up to rounding.
        for function in functions:
            ours, theirs = (np.asarray(function(m, q, v, t)) for m in (mech, model))
            np.testing.assert_allclose(theirs, ours, rtol=1e-13, atol=1e-13 * max(1, np.abs(ours).max(initial=0)))


def test_the_leg_of_an_environment_comes_back(tmp_path):
    # Its load is a function that closes over the foot and the lengths.
    mech = of_environment("jansen-leg")
    model = there_and_back(mech, tmp_path / "leg.json")
    assert_same(mech, model)
    q, v = np.random.default_rng(0).normal(size=(2, 9))
    for height in (-0.95, -0.5):
        q[7] = height
        ours, theirs = (mbs.generalized_force(m, q, v, 0.0) for m in (mech, model))
        np.testing.assert_allclose(theirs, ours, rtol=1e-12, atol=1e-12)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dimension", [2, 3])
def test_random_mechanisms_come_back(dimension, tmp_path, validator):
    rng = np.random.default_rng(dimension)
    for k in range(6):
        build = random_tree if k % 2 else random_closed
        mech, q = build(rng, 3 + k % 3, dimension=dimension)
        v = rng.normal(size=mech.layout.m)
        model = there_and_back(mech, tmp_path / "model.json", validator, guess=q, velocities=v, name="random")
        assert_same(mech, model)
        np.testing.assert_array_equal(model.guess, q)
        np.testing.assert_array_equal(model.velocity, v)
        assert model.name == "random"


def of_space(dimension):
    """One of each element that the random mechanisms and the examples do not have."""
    if dimension == 3:
        ramp = mbs.motion.Ramp(2.0, 0.5)
        return {
            "total": spatial.TotalJoint(
                "a", "b", (1, 0, 0), (0, 1, 0), ("free", "fixed", ramp), ("fixed", 0.3, "free")
            ),
            "relative": spatial.RelativeJoint("a", "b", (1, 0, 0), (0, 1, 0), ("free", ramp, "fixed"), ("free",) * 3),
            "screw": spatial.Screw("a", "b", (0, 0, 0), (0, 0, 0), (0, 0, 1), pitch=0.01),
            "thread": spatial.Thread("a", "b", pitch=0.01),
            "rack": spatial.RackPinion("a", "b", radius_j=0.2, angle_i=0.1),
            "tube": spatial.AxisDistance("a", "b", axis_i=(0, 1, 0), distance=0.2),
            "gear": spatial.Gear("a", "b", (0, 0, 0), (1, 0, 0), (0, 0, 1), (0, 0, 1), radius_i=0.4, radius_j=0.6),
            "helix": spatial.Gear(
                "a", "b", radius_i=0.4, radius_j=0.6, axis_i=(0, 0, 1), pressure_angle=0.35, helix_angle=0.2
            ),
            "teeth": spatial.RackPinion("a", "b", radius_j=0.2, pressure_angle=0.35, helix_angle=0.2),
            "worm": spatial.WormGear("a", "b", radius_i=0.1, radius_j=0.6, pitch=0.1, pressure_angle=0.35),
            "frames": spatial.Rigid("a", "b", spatial.Frame((1, 2, 3)), spatial.Frame((0, 0, 1))),
            "distance": spatial.DistanceDriver("a", "b", (0, 0, 0), (1, 0, 0), mbs.motion.Polynomial((1.0, 0.1))),
            "slide": spatial.TranslationalDriver(
                "a", "b", (0, 0, 0), (1, 0, 0), mbs.motion.Harmonic(1.0, 2.0, 3.0, 4.0)
            ),
        }
    circle, oval = planar.FunctionOutline(0.3), planar.FunctionOutline(lambda alpha: 1 + 0.1 * jnp.cos(2 * alpha))
    spline = planar.SplineOutline(np.linspace(1, 1.1, 7))
    return {
        "x": planar.AbsoluteX("a", (1, 0), 0.3),
        "angle": planar.AbsoluteAngle("a", 0.3),
        "place": planar.AbsoluteDistance("a", (1, 0), (0.5, 0.6), 2.0),
        "relative": planar.RelativeAngle("a", "b", 0.2),
        "slot": planar.RevoluteTranslational("a", "b", (1, 0), (0, 1), (1, 1), 0.3),
        "gear": planar.Gear("a", "b", (0, 0), (0, 0), 1.0, 2.0),
        "rack": planar.RackPinion("a", "b", (0, 0), (0, 1), (1, 0), 1.0),
        "teeth": planar.Gear("a", "b", (0, 0), (0, 0), 1.0, 2.0, pressure_angle=0.35),
        "teeth of rack": planar.RackPinion("a", "b", (0, 0), (0, 1), (1, 0), 1.0, pressure_angle=0.35),
        "belt": planar.Belt(("a", "b", "ground"), ((0, 0), (0, 0), (2, 2)), (0.5, 0.3, -0.2), length=8.0),
        "cable": planar.Belt(("a", "b"), ((0, 0), (0, 0)), (0.5, 0), ends=True),
        "rope": planar.Rope(("a", "ground", "b"), ((0, 0), (2, 2), (0, 0)), (0, 0.2, 0), 5.0),
        "cam": planar.CamFollower("a", "b", (0, 0), (0, 0), circle, oval),
        "groove": planar.CamFlatFollower("a", "b", (0, 0), (0, 0), spline, one_sided=False),
        "point": planar.PointFollower("a", "b", (0, 0), (0, 0), spline, one_sided=True),
        "geneva": planar.GenevaDrive("a", "b", (0, 0), (2, 0), 4, 0.5, angle_j=0.1),
        "turn": planar.RevoluteDriver("a", "b", mbs.motion.Ramp(1.0), angle_i=0.2),
        "slide": planar.TranslationalDriver("a", "b", (0, 0), (0, 0), (0, 1), mbs.motion.Spline((0, 1, 2), (0, 1, 3))),
        "far": planar.DistanceDriver("a", "b", (0, 0), (1, 1), lambda t: 1 + jnp.sin(t) ** 2),
    }


@pytest.mark.parametrize("dimension", [2, 3])
def test_every_kind_of_element_comes_back(dimension, tmp_path, validator):
    body = (
        planar.Body(1.0, 0.0, (0.1, 0.2)) if dimension == 2 else spatial.Body(1.0, (1, 2, 2.5), inertia_frame=np.eye(3))
    )
    point = (0.3, 0.1) if dimension == 2 else (0.3, 0.1, 0.2)
    turning = 2.0 if dimension == 2 else (lambda t, q, v: jnp.stack([t, q[0], v[1]]))
    forces = {
        "weight": mbs.Gravity((0, -9.81, 0)[:dimension]),
        "spring": mbs.SpringDamper("a", "b", point, None, 10.0, 0.1, 0.5, actuator=mbs.motion.Harmonic(1.0, 2.0)),
        "only": mbs.Spring("a", "b", stiffness=3.0),
        "slow": mbs.Damper("a", "ground", damping=3.0),
        "twist": mbs.TorsionSpring("a", "b", 2.0, 0.1, 0.3),
        "brake": mbs.TorsionDamper("a", "b", 0.3),
        "hard": mbs.Spring("a", "b", force=lambda length, rate: 2.5 * length**3 + jnp.tanh(rate)),
        "oil": mbs.Damper("b", "ground", point, force=lambda length, rate: rate * jnp.abs(rate)),
        "stop": mbs.TorsionSpring("a", "b", 1.5, torque=lambda angle, rate: -jnp.maximum(angle - 0.2, 0.0)),
        "torque": mbs.Torque("a", turning, reaction="b"),
        "push": mbs.PointForce(
            "b", point, lambda t, q, v: jnp.ones(dimension) * jnp.where(v[0] > 0, -t, q[1]), follower=True
        ),
        "user": mbs.UserForce(lambda state: -0.1 * state.v * jnp.abs(state.v), lambda q: q[0] ** 2),
    }
    if dimension == 3:
        forces["along"] = mbs.AxialSpring("a", "b", axis_i=(0, 0, 1), force=lambda s, rate: -(s**3) - rate)
    elements = of_space(dimension)
    drivers = [name for name, element in elements.items() if "Driver" in type(element).__name__]
    rotor = planar.Rotor(0.3) if dimension == 2 else spatial.Rotor(0.3, (1, 2, 0), 0.5)
    mech = mbs.Mechanism(
        {"a": body, "b": body, "rotor": rotor},
        {name: x for name, x in elements.items() if name not in drivers},
        {name: elements[name] for name in drivers},
        forces,
    )
    model = there_and_back(mech, tmp_path / "model.json", validator)
    assert_same(mech, model)
    rng = np.random.default_rng(1)
    for _ in range(3):
        q, v = np.asarray(mech.coordinates(rng.normal(size=mech.layout.n))), rng.normal(size=mech.layout.m)
        for t in (-0.4, 1.3):
            ours, theirs = (mbs.generalized_force(m, q, v, t) for m in (mech, model))
            np.testing.assert_allclose(theirs, ours, rtol=1e-14, atol=1e-13)
            ours, theirs = (mbs.acceleration_rhs(m, q, v, t) for m in (mech, model))
            np.testing.assert_allclose(theirs, ours, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("dimension", [2, 3])
def test_forces_in_joints_come_back(dimension, tmp_path, validator):
    """Each with every number that it can have; of a motor also without what is not given."""
    space = {2: planar, 3: spatial}[dimension]
    size = {2: 3, 3: 6}[dimension]
    of_pin = {"axis_i": (0, 1, 1)} if dimension == 3 else {"point_i": (0, 0), "point_j": (0, 0)}
    forces = {
        "dry": mbs.JointFriction("pin", 0.2, 0.3, velocity=1e-3, viscous=0.1, radius=0.02),
        "preloaded": mbs.JointFriction("pin", 1.0, velocity=0.1, radius=1.0, preload=2.0),
        "bristles": mbs.BristleFriction("pin", 0.2, 0.3, velocity=1e-3, stiffness=1e4, damping=10.0, viscous=0.1),
        "stop": mbs.JointStop("pin", -0.5, 1.5, stiffness=1e4, damping=0.2, exponent=2.0, viscous=3.0),
        "upper": mbs.JointStop("pin", upper=1.0, stiffness=1e4),
        "spring": mbs.JointSpring("pin", 30.0, 0.2, 0.1, effort_law=lambda angle, rate: -(angle**3) - jnp.tanh(rate)),
        "inertia": mbs.JointInertia("pin", 0.2),
        "clutch": mbs.OneWayClutch("pin", 50.0, 2.0, reverse=True),
        "motor": mbs.Motor(
            "pin", 0.05, 2.0, mbs.motion.Ramp(1.0), ratio=10.0, inertia=1e-3, inductance=0.1, efficiency=0.9,
            current_limit=3.0, voltage_limit=12.0,
        ),
        "gearbox": mbs.Motor(
            "pin", 0.05, 2.0, 12.0, inertia=1e-3, backlash=0.01, tooth_stiffness=1e3, tooth_damping=0.1
        ),
        "servo": mbs.Servo("pin", lambda t, q, v: 0.1 * t + q[0], 30.0, 2.0, 5.0),
        "actuator": mbs.Actuator(
            "pin", 0.3, gain=(2.0, 0, -1), bias=(1, -1, 0), control_range=(-1, 1), activation_range=(-2, 2),
            effort_range=(-3, 3), time_constant=0.1, initial=0.2,
        ),
        "mount": mbs.Bushing("a", "b", (0.1, 0.2, 0)[:dimension], None, np.arange(1.0, size + 1), np.ones(size)),
        "teeth": mbs.GearMesh(
            "a", "b", radius_i=0.3, radius_j=0.5, teeth_i=30, pressure_angle=0.35, backlash=1e-3, stiffness=1e6,
            **({"helix_angle": 0.2, "axis_i": (0, 1, 0)} if dimension == 3 else {}),
        ),
        "worn": mbs.ClearanceRevolute(
            "a", "b", clearance=1e-3, stiffness=1e6, restitution=0.8, impact_velocity=0.1, law="flores", friction=0.1,
            velocity=1e-2, radius=0.01, **({"length": 0.05} if dimension == 3 else {}),
        ),
    }  # fmt: skip
    if dimension == 2:
        half, spline = planar.FunctionOutline(0.3, part=(-1.0, 1.5)), planar.SplineOutline(np.linspace(1, 1.1, 7))
        law = {"stiffness": 1e6, "exponent": 1.2, "restitution": 0.8, "friction": 0.1, "velocity": 1e-2}
        forces["cam"] = planar.OutlineContact("a", "b", (0.1, 0), None, spline, half, **law)
        forces["ring"] = planar.OutlineContact("a", "b", None, None, spline, half, stiffness=1e5, inside=True)
        forces["belt"] = planar.ElasticBelt(
            *(("a", "b"), ((0, 0), (0.1, 0)), (0.5, 0), (1e4,), 2.0, 50.0),
            ends=True,
            directions=(0.1,),
            advances=(1.0,),
        )
        forces["face"] = planar.FlatContact("a", "b", None, (0.1, 0.2), spline, axis_j=(1.0, 2.0), **law)
        tooth = planar.RoundedPolyline([(0, 0), (1, 0), (0, 1)], 0.1, closed=True)
        forces["teeth"] = planar.OutlineContact("a", "b", None, None, tooth, half, **law)
    mech = mbs.Mechanism(
        {"a": space.Body(), "b": space.Body()}, {"pin": space.Revolute("a", "b", **of_pin)}, forces=forces
    )
    assert_same(mech, there_and_back(mech, tmp_path / "model.json", validator))


def test_the_published_schema_is_that_of_the_elements():
    published = json.loads((ROOT / "docs" / "model.schema.json").read_text())
    assert published == mbs.io.schema(), "run: jaxmbs schema > docs/model.schema.json"


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    "f",
    [
        lambda t: jnp.sin(t) ** 3 + jnp.exp(-t) / (1 + t**2),
        lambda t: jnp.where((t > 0.5) & ~(t > 1), jnp.sqrt(t), jnp.minimum(t, -t)),
        lambda t: jnp.mod(t, 0.7) + jnp.floor(3 * t) - jnp.round(2.5 * t) + jnp.sign(t - 1) * jnp.abs(t),
        lambda t: jnp.arctan2(t, 1 + t) * jnp.hypot(t, 2.0) + jnp.tanh(t) + jnp.clip(t, 0.3, 0.8),
        lambda t: (
            jax.nn.softplus(t) + jax.nn.sigmoid(3 * t) + jnp.log1p(t * t) + jnp.polyval(jnp.array([1.0, 2, 3]), t)
        ),
    ],
)
def test_functions_come_back_with_their_derivatives(f, tmp_path):
    driver = planar.AbsoluteAngleDriver("a", mbs.motion.Function(f))
    mech = mbs.Mechanism({"a": planar.Body()}, {}, {"turn": driver})
    mbs.save(mech, tmp_path / "f.json")
    g = mbs.load(tmp_path / "f.json").drivers["turn"].motion
    for t in (0.13, 0.61, 1.27):
        for ours, theirs in ((f, g), (jax.grad(f), jax.grad(g)), (jax.grad(jax.grad(f)), jax.grad(jax.grad(g)))):
            np.testing.assert_allclose(theirs(t), ours(t), rtol=1e-13, atol=1e-13)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("held", [2.5, np.float64(2.5), jnp.asarray(2.5)])
def test_what_functions_close_over_comes_back(held, tmp_path):
    push = lambda t, q, v: held * t * jnp.array([q[0], 1.0])
    user = lambda state: -held * state.v
    forces = {"push": mbs.PointForce("a", (0, 0), push), "user": mbs.UserForce(user, lambda q: held * q[0])}
    model = there_and_back(mbs.Mechanism({"a": planar.Body()}, forces=forces), tmp_path / "held.json")
    q, v = jnp.array([0.1, 0.2, 0.3]), jnp.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(model.forces["push"].value(0.7, q, v), [0.175, 1.75], rtol=1e-14)
    user = mbs.Mechanism({"a": planar.Body()}, forces={"user": model.forces["user"]})
    np.testing.assert_allclose(mbs.generalized_force(user, q, v), -2.5 * v, rtol=1e-14)
    np.testing.assert_allclose(model.forces["user"].potential_energy(q), 0.25, rtol=1e-14)


def test_single_precision_comes_back_exactly(tmp_path):
    jax.config.update("jax_enable_x64", False)
    body = planar.Body(0.1, 0.3, (0.7, 1 / 3))
    mech = mbs.Mechanism({"a": body}, {"O": planar.Revolute("ground", "a", (0.1, 0.2), (0, 0))})
    model = there_and_back(mech, tmp_path / "single.json")
    assert model.dtype == np.float32
    assert_same(mech, model)


def test_euler_parameters_come_back_exactly(tmp_path):
    rng = np.random.default_rng(0)
    mech = mbs.Mechanism({name: spatial.Body() for name in "abcdefgh"})
    q = mech.coordinates(rng.normal(size=mech.layout.n))
    first = there_and_back(mech, tmp_path / "a.json", guess=q)
    np.testing.assert_array_equal(first.guess, q)
