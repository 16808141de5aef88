"""Public parts of the equations of motion M u̇ = Q + Φ_xᵀλ, in the coordinates of each formulation, against `simulate`."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
import random_mechanisms as mechanisms
from issa_arczewski_systems import SYSTEMS, natural_rows, symbols
from jaxmbs import planar, spatial
from norms import size

PARTS = ("mass", "force", "constraints", "jacobian", "nu", "gamma")
# Forces that act on the systems of the paper, in the plane and in space.
WEIGHT = {2: mbs.Gravity((3.0, -9.81)), 3: mbs.Gravity((1.0, 2.0, -9.81))}


def equations(view, q, v, t):
    """All members of a view for a state of the bodies."""
    x, u = view.coordinates(q, t), view.velocities(q, v, t)
    return {
        "x": x,
        "u": u,
        "bodies": view.to_bodies(x, u, None, t, near=q),
        "configuration": view.configuration(x, t, near=q),
        "mass": view.mass_matrix(x, t, near=q),
        "force": view.force(x, u, t, near=q),
        "constraints": view.constraints(x, t, near=q),
        "jacobian": view.constraint_jacobian(x, t, near=q),
        "nu": view.velocity_rhs(x, t, near=q),
        "gamma": view.acceleration_rhs(x, u, t, near=q),
    }


def accelerations(parts):
    """u̇ and λ of M u̇ − Φ_xᵀλ = f and Φ_x u̇ = γ, by numpy."""
    mass, force, _, jacobian, _, gamma = (np.asarray(parts[name]) for name in PARTS)
    rows, columns = jacobian.shape
    matrix = np.block([[mass, -jacobian.T], [jacobian, np.zeros((rows, rows))]])
    # Rows may depend on others.
    found = np.linalg.lstsq(matrix, np.concatenate([force, gamma]), rcond=1e-13)[0]
    return found[:columns], found[columns:]


FORMULATIONS = {
    "Augmented": mbs.Augmented(),
    "Natural": mbs.Natural(),
    "JointCoordinates": mbs.JointCoordinates(),
    "Kane": mbs.Kane(),
}
# Dimension, kinds of joints in the tree, and the seed of the connectivity.
LOOPS = {"plane": (2, ("Revolute", "Translational"), 5), "space": (3, ("Revolute", "Spherical"), 3)}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", LOOPS)
def test_all_formulations_of_a_driven_loop(name):
    """Offset centres of mass, full inertia tensors, a driver, springs with dampers: Φ = 0, Φ_x u = ν, and the accelerations
    and multipliers of `simulate` to 1e-10."""
    dimension, kinds, seed = LOOPS[name]
    rng = np.random.default_rng(4)
    mech, q = mechanisms.draw(
        rng,
        mechanisms.closed_structure(np.random.default_rng(seed), 3, driver=True, dimension=dimension, kinds=kinds),
    )
    assert {type(joint).__name__ for joint in mech.constraints.values()} >= set(kinds)
    v = mechanisms.random_velocity(rng, mech, q)
    run = mbs.simulate(mech, [0.0], q, v)
    assert run.status[0] == 0
    for formulation, parts in of_all(mech, q, v, 0.0).items():
        view = FORMULATIONS[formulation].of(mech)
        assert (len(view.names), len(view.velocity_names)) == (parts["x"].size, parts["u"].size)
        assert size(parts["constraints"]) < 1e-12
        assert size(parts["jacobian"] @ parts["u"] - parts["nu"]) < 1e-11 * size(v)
        at, speeds, _ = parts["bodies"]
        assert size(mech.layout.difference(at, q)) < 1e-12
        assert size(mech.layout.difference(parts["configuration"], q)) < 1e-12
        assert size(speeds - v) < 1e-11 * size(v)
        rates, multipliers = accelerations(parts)
        found = view.to_bodies(parts["x"], parts["u"], rates, near=q)[2]
        assert size(found - run.a[0]) < 1e-10 * size(run.a)
        if formulation in ("Augmented", "Kane"):
            assert size(multipliers - run.multipliers[0]) < 1e-10 * size(run.multipliers)


@mbs.program
def of_all(mech, q, v, t):
    return {name: equations(formulation.of(mech), q, v, t) for name, formulation in FORMULATIONS.items()}


@pytest.mark.variant
def test_friction_by_reactions():
    """It depends on the reaction of its joint, which is no unknown of every formulation: all give the accelerations of
    `simulate`."""
    mech = mbs.Mechanism(
        {"bob": planar.Body(2.0, 0.1, (0.1, 0.2))},
        {"pin": planar.Revolute("ground", "bob", (0, 0), (0, 1))},
        forces={
            "weight": WEIGHT[2],
            "rub": mbs.JointFriction("pin", dynamic=0.3, velocity=1e-3, radius=0.2),
        },
    )
    q, v = mech.coordinates({"bob": (0, -1, 0)}), mech.velocities({"bob": (3, 0, 3)})
    wanted = mbs.simulate(mech, [0.0], q, v).a[0]
    for name, parts in of_all(mech, q, v, 0.0).items():
        found = FORMULATIONS[name].of(mech).to_bodies(parts["x"], parts["u"], accelerations(parts)[0])[2]
        assert size(found - wanted) < 1e-10 * size(wanted)
    frictionless = mbs.Mechanism(mech.bodies, mech.constraints, forces={"weight": WEIGHT[2]})
    assert size(wanted - mbs.simulate(frictionless, [0.0], q, v).a[0]) > 0.1


def with_weight(mech):
    body = next(iter(mech.bodies.values()))
    return mbs.Mechanism(mech.bodies, mech.constraints, forces={"weight": WEIGHT[body.dimension]})


PAPER = [
    pytest.param(name, marks=[pytest.mark.slow] * ("plane" not in name))
    for name in ("(4.9)", "(4.13)", "(4.9) in the plane", "(4.13) in the plane")
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PAPER)
def test_the_paper_row_by_row(name):
    """All rows of (4.9) and (4.13) by the choice of basic points; Ψ_x R = 0; (3.3), and (3.7) in natural coordinates and in
    those of the bodies: the accelerations of `simulate` to 1e-10."""
    build, table, dimension, shared = SYSTEMS[name]
    rng = np.random.default_rng(1)
    mech, places = build(rng)
    mech = with_weight(mech)
    chosen = {
        symbol: (body, tuple(at.tolist()))
        for symbol, (body, at) in places.items()
        if body != "ground" and symbol not in shared.values()
    }
    natural = mbs.Natural(
        points={symbol: place for symbol, place in chosen.items() if symbol[0] == "r"},
        vectors={symbol: place for symbol, place in chosen.items() if symbol[0] == "u"},
    )
    joints, points, bodies = mbs.JointCoordinates().of(mech), natural.of(mech), mbs.Augmented().of(mech)
    theta, rate = rng.uniform(-1, 1, len(joints.names)), rng.uniform(-2, 2, len(joints.velocity_names))
    if len(theta) > len(rate):
        theta[3:7] /= np.linalg.norm(theta[3:7])

    @mbs.program
    def everything(theta, rate):
        q, v, _ = joints.to_bodies(theta, rate)
        transformations = [
            (
                mbs.velocity_transformation(mech, theta, coordinates=rows),
                mbs.velocity_transformation_rate(mech, theta, rate, coordinates=rows),
            )
            for rows in ("bodies", natural)
        ]
        plain = {"mass": bodies.mass_matrix(q), "force": bodies.force(q, v)}
        return q, v, transformations, (plain, equations(points, q, v, 0.0))

    q, v, transformations, parts = everything(jnp.asarray(theta), jnp.asarray(rate))
    own, own_rate = (natural_rows(points.names, x) for x in transformations[1])
    names = {symbol: symbol for symbol in chosen} | {symbol: joint for joint, symbol in shared.items()}
    for symbol, (row, row_rate) in symbols(mech, places, table, dimension, q, rate).items():
        assert size(own[names[symbol]] - row) < 1e-12
        assert size(own_rate[names[symbol]] - row_rate) < 1e-11
    assert size(parts[1]["jacobian"] @ transformations[1][0]) < 1e-12

    wanted = mbs.simulate(mech, [0.0], q, v).a[0]
    a = accelerations(parts[1])[0]
    assert size(points.to_bodies(parts[1]["x"], parts[1]["u"], a)[2] - wanted) < 1e-10 * size(wanted)
    for part, transformation in zip(parts, transformations, strict=True):
        found = joints.to_bodies(theta, rate, reduced(part, *transformation, rate))[2]
        assert size(found - wanted) < 1e-10 * size(wanted)


def reduced(part, r, r_dot, rate):
    """θ̈ of (3.7): RᵀMR θ̈ = Rᵀ(Q − MṘθ̇)."""
    return np.linalg.solve(r.T @ part["mass"] @ r, r.T @ (part["force"] - part["mass"] @ r_dot @ rate))


@pytest.mark.variant
def test_reduced_equations_in_space():
    """(3.7) for a floating base with a hinge and a ball, in natural coordinates and in those of the bodies."""
    rng = np.random.default_rng(2)
    mech, q = mechanisms.random_tree(rng, 3, kinds=("Revolute", "Spherical"), floating=True, structure_seed=2)
    assert {type(joint).__name__ for joint in mech.constraints.values()} == {"Revolute", "Spherical"}
    v, joints = mechanisms.random_velocity(rng, mech, q), mbs.JointCoordinates().of(mech)

    @mbs.program
    def everything(mech, q, v):
        joints, found = mbs.JointCoordinates().of(mech), {}
        theta, rate = joints.coordinates(q), joints.velocities(q, v)
        for rows, formulation in (("bodies", mbs.Augmented()), ("natural", mbs.Natural())):
            view = formulation.of(mech)
            x, u = view.coordinates(q), view.velocities(q, v)
            found[rows] = (
                {"mass": view.mass_matrix(x), "force": view.force(x, u)},
                mbs.velocity_transformation(mech, theta, coordinates=rows),
                mbs.velocity_transformation_rate(mech, theta, rate, coordinates=rows),
            )
        return theta, rate, found

    theta, rate, found = everything(mech, q, v)
    wanted = mbs.simulate(mech, [0.0], q, v).a[0]
    for parts in found.values():
        accelerations = joints.to_bodies(theta, rate, reduced(*parts, rate))[2]
        assert size(accelerations - wanted) < 1e-10 * size(wanted)


def test_centrifugal_and_gyroscopic_terms():
    """`force` less the applied forces, by hand: a body with an offset centre of mass that turns."""
    mech = mbs.Mechanism({"a": planar.Body(2.0, 0.5, (0.3, 0.1))}, forces={"torque": mbs.Torque("a", 7.0)})
    q, v = jnp.zeros(3), jnp.array([0.0, 0.0, 3.0])
    force = mbs.Augmented().of(mech).force(q, v)
    np.testing.assert_allclose(force - mbs.generalized_force(mech, q, v), [2 * 9 * 0.3, 2 * 9 * 0.1, 0], atol=1e-14)
    inertia, w = np.diag([0.3, 0.4, 0.5]) + 0.05, np.array([1.0, 2.0, 3.0])
    mech = mbs.Mechanism({"a": spatial.Body(2.0, inertia)})
    force = mbs.Augmented().of(mech).force(mech.coordinates(), np.append([0, 0, 0], w))
    np.testing.assert_allclose(force, np.append([0, 0, 0], -np.cross(w, inertia @ w)), atol=1e-14)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"points": {"tip": ("nobody", (0, 0))}}, "point 'tip': unknown body 'nobody'"),
        ({"points": {"tip": ("ground", (0, 0))}}, "unknown body 'ground'"),
        ({"points": {"tip": ("a", (0, 0, 0))}}, "point 'tip' must have 2 finite numbers, got"),
        ({"points": {"tip": ("a", (0, np.nan))}}, "2 finite numbers, got"),
        ({"vectors": {"u": ("a", (0, 0))}}, "vector 'u' must have 2 finite numbers, not all zero, got"),
        ({"points": {"pin": ("a", (0, 0))}}, "two basic points or vectors are called 'pin'"),
        ({"points": {"a.origin": ("b", (0, 0))}}, "two basic points or vectors are called 'a.origin'"),
    ],
    ids=str,
)
def test_choices_that_cannot_be(options, message):
    body = planar.Body(1.0, 0.1)
    mech = mbs.Mechanism({"a": body, "b": body, "c": body}, {"pin": planar.Revolute("b", "c", (0, 0), (0, 0))})
    with pytest.raises(ValueError, match=message):
        mbs.Natural(**options).of(mech).names


def test_a_point_that_is_no_numbers():
    with pytest.raises(ValueError, match=r"'tip' must be a body and numbers .* such as \('rod', \(1.0, 0.0\)\), got"):
        mbs.Natural(points={"tip": "a"})
