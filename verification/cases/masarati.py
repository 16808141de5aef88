"""Masarati: the total joint."""

import jax
import numpy as np
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
from jaxmbs import motion, spatial
from jaxmbs.spatial.total import euler_vector
from total_joint_problems import (
    COM,
    FRAME_I,
    FRAME_J,
    HELIX,
    INERTIA,
    MASS,
    ORIENTATIONS,
    PAIRS,
    POINT_I,
    POINT_J,
    TIMES,
    G,
    expected_pose,
    newton_euler,
)
from verification.case import EQUATIONS, KINEMATICS, Simulation, case, close, same
from verification.cases.common import FORMULATIONS


def on_a_helix(name):
    """Register a motion of all six components, with angles far beyond π."""
    orientation = ORIENTATIONS[name]

    ways = (KINEMATICS, *(Simulation(1e-2, formulation=f) for f in (FORMULATIONS[0], FORMULATIONS[1], FORMULATIONS[3])))

    @case("Masarati", f"total joint with six prescribed components, {name}", *ways)
    def helix(by):
        """Compare motion and reactions of a body that is led along a helix with Newton and Euler."""
        joint = spatial.TotalJoint(
            "ground", "b", POINT_I, POINT_J, HELIX, orientation, frame_i=FRAME_I, frame_j=FRAME_J
        )
        mech = mbs.Mechanism({"b": spatial.Body(MASS, INERTIA, COM)}, {"J": joint}, forces={"weight": mbs.Gravity(G)})
        origin, turn = jax.vmap(lambda t: expected_pose(orientation, t))(TIMES)
        force, torque = jax.vmap(lambda t: newton_euler(orientation, t))(TIMES)
        guess = {"b": spatial.coordinates((1, 0, 0))}
        if by is KINEMATICS:
            run = mbs.kinematics(mech, TIMES, guess, throw=True)
            found = mbs.reactions(mech, run)["J"]
        else:
            run = by.run(mech, TIMES, mbs.assemble(mech, guess, TIMES[0], throw=True).q)
            found = by.reactions(mech, run)["J"]
        yield close("position", run.point("b"), origin, 1e-12, "m")
        yield close("rotation matrix", run.rotation("b"), turn, 1e-12)
        yield close("force, by Newton", found.force, force, 1e-9, "N")
        yield close("torque, by Euler", found.torque, torque, 1e-9, "N m")
        components = np.concatenate([force @ FRAME_I, torque @ FRAME_I], axis=1)
        yield close("components in the joint's frame", found.components, components, 1e-9, "N, N m")
        # The efforts do the work: Σ effort · Ċ = power that changes the energy.
        rates = np.stack([jax.vmap(jax.grad(m))(TIMES) for m in joint.motions], axis=1)
        energy = lambda q, v: mbs.energy(mech, q, v).total
        change = lambda q, v, a: jax.jvp(energy, (q, v), (mech.layout.rate(q, v), a))[1]
        power = jax.vmap(change)(run.q, run.v, run.a)
        yield close("power of the efforts", np.sum(found.effort * rates, axis=1), power, 1e-9, "W")


for _name in ORIENTATIONS:
    on_a_helix(_name)


@case("Masarati", "lower pairs as total joints", EQUATIONS, quick=True)
def lower_pairs(by):
    """Compare total joints with the lower pairs that hold the same components."""
    for name, words in PAIRS.items():
        position, orientation = (part.split() for part in words)
        total = spatial.TotalJoint("a", "b", POINT_I, POINT_J, position, orientation, frame_i=FRAME_I, frame_j=FRAME_J)
        pair = getattr(spatial, name)("a", "b", POINT_I, POINT_J, frame_i=FRAME_I, frame_j=FRAME_J)
        bodies = {"a": spatial.Body(), "b": spatial.Body()}
        one, two = (mbs.Mechanism(bodies, {"J": joint}) for joint in (total, pair))
        q = mbs.assemble(one, np.random.default_rng(0).normal(size=14), throw=True).q
        yield close(f"Φ of {name} where the total joint is assembled", mbs.constraints(two, q), 0, 1e-12)
        both = np.concatenate([mbs.constraint_jacobian(mech, q) for mech in (one, two)])
        rank = int(np.linalg.matrix_rank(both, tol=1e-9)) if pair.rows else 0
        yield same(f"rows of {name}, rank of both Φ_q together", (total.rows, rank), (pair.rows, pair.rows))


@case("Masarati", "Euler vector of a total joint", EQUATIONS, quick=True)
def components(by):
    """Compare the Euler vector of a total joint with the rotation given."""
    joint = spatial.TotalJoint("ground", "b", frame_i=FRAME_I, frame_j=FRAME_J)
    mech = mbs.Mechanism({"b": spatial.Body()}, {"J": joint})
    theta = np.array([0.3, -1.2, 2.0])
    turned = FRAME_I @ Rotation.from_rotvec(theta).as_matrix() @ FRAME_J.T
    poses = mech.poses(mech.coordinates({"b": spatial.coordinates((0, 0, 0), turned)}))
    yield close("orientation as prescribed", euler_vector(joint, poses["ground"], poses["b"]), theta, 1e-14, "rad")


@case("Masarati", "slider-crank of total joints", KINEMATICS)
def slider_crank_of_total_joints(by):
    """Compare a slider-crank of total joints with one of usual joints."""
    crank, rod = 0.3, 0.8
    hinge, z = ("fixed",) * 3, ("fixed", "fixed", "free")
    origin = (0, 0, 0)
    mech = mbs.Mechanism(
        {name: spatial.Body() for name in ("crank", "rod", "slider")},
        {
            "O": spatial.TotalJoint("ground", "crank", origin, origin, hinge, ("fixed", "fixed", motion.Ramp(2.0))),
            "A": spatial.TotalJoint("crank", "rod", (crank, 0, 0), origin, hinge, z),
            "B": spatial.TotalJoint("rod", "slider", (rod, 0, 0), origin, hinge, ("free",) * 3),
            "guide": spatial.TotalJoint("ground", "slider", position=("free", "fixed", "fixed"), orientation=hinge),
        },
    )
    guess, times = {"rod": (crank, 0, 0, 1, 0, 0, 0), "slider": (1.1, 0, 0, 1, 0, 0, 0)}, np.linspace(0, np.pi, 20)
    # A planar loop in space: the rows out of the plane are redundant.
    report = mbs.diagnose(mech, mbs.assemble(mech, guess, throw=True).q)
    yield same("degrees of freedom, consistency", (report.dof, report.free, report.consistent), (0, 0, True))
    run = mbs.kinematics(mech, times, guess, throw=True)
    x = crank * np.cos(2 * times) + np.sqrt(rod**2 - (crank * np.sin(2 * times)) ** 2)
    yield close("slider, closed form", run.position("slider.x"), x, 1e-12, "m")
