"""Forces of joints from the multipliers of Kane's equations: boxed results of the notes, balances along a motion.

Kamman, Multibody Dynamics: Equations of Motion for Multibody Systems with Inter-Body Joint Constraints; numbers (…) below
are those of its equations.
"""

import jax
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
from jaxmbs import spatial
from kane_problems import (
    CONVERGED,
    GROUND,
    KANE,
    SINGULAR,
    WEIGHT,
    X,
    close,
    in_motion,
    links,
    named,
    needed,
    turning_joints,
)
from norms import size


def test_joint_moment_where_angles_are_singular():
    """cos θ₂ = 0: the status says so, numbers are finite; derivatives and other samples of a batch do not suffer."""
    angles = np.array([[0.3, np.pi / 2, 0.4], [0.3, -np.pi / 2, 0.4], [0.3, 3 * np.pi / 2, 0.0], [0.3, 1.5, 0.4]])
    multipliers = np.arange(1.0, 7)
    found = jax.vmap(lambda a: mbs.joint_moment(a, multipliers))(angles)
    assert list(found.status) == [SINGULAR] * 3 + [CONVERGED]
    assert all(np.isfinite(part).all() for part in found[:3])
    close(found.moment[3], mbs.joint_moment(angles[3], multipliers).moment, 1e-15)
    slopes = jax.vmap(jax.jacfwd(lambda a: mbs.joint_moment(a, multipliers).moment))(angles)
    assert np.isfinite(slopes).all()


def check_joints(mech, run, joints, unknown, tolerance=1e-9):
    """Multipliers of a chain as forces of joints: against `reactions`, and the balance of the bodies beyond.

    joints: of each body (joint, lower body, bodies beyond). unknown: names of coordinates whose multipliers vanish.
    """
    multipliers = mbs.kane_multipliers(mech, run)
    x = jax.vmap(mbs.Kane().of(mech).coordinates)(run.q)
    by_name, largest = named(mech, multipliers), size(multipliers)
    for name, row in by_name.items():
        assert (size(row) < tolerance * largest) == (name in unknown), name
    found, angles = mbs.reactions(mech, run), named(mech, x)
    for body, (joint, lower, outboard) in joints.items():
        element, moving = mech.constraints[joint], in_motion(mech, run, body)
        keys = [f"{body}.{c}" for c in ("theta_1", "theta_2", "theta_3", "x", "y", "z")]
        six = lambda values, keys=keys: np.stack([values[key] for key in keys], axis=-1)
        moment = jax.vmap(mbs.joint_moment)(six(angles)[:, :3], six(by_name))
        assert not np.any(moment.status)
        backwards = element.j != body
        own, other = (element.point_i, element.point_j) if backwards else (element.point_j, element.point_i)
        of_lower = np.eye(3)[None] if lower == GROUND else in_motion(mech, run, lower).turn
        frames = [getattr(element, f"frame_{k}", None) for k in ("ji" if backwards else "ij")]
        seen_lower, seen_own = (
            turn if frame is None else turn @ np.asarray(frame)
            for turn, frame in zip((of_lower, moving.turn), frames, strict=True)
        )
        to_ground = lambda turn, vector: np.einsum("tij,tj->ti", np.broadcast_to(turn, (len(run.t), 3, 3)), vector)
        end = moving.origin + moving.turn @ np.asarray(own)
        force, torque = needed(mech, run, outboard, end)
        close(to_ground(seen_lower, moment.force), force, tolerance)
        close(to_ground(seen_lower, moment.moment_lower), torque, tolerance)
        close(to_ground(seen_own, moment.moment), torque, tolerance)
        # Reactions act on body j, at point_j.
        reaction, torque_found = np.asarray(found[joint].force), np.asarray(found[joint].torque)
        if backwards:
            carrier = in_motion(mech, run, lower)
            there = carrier.origin + carrier.turn @ np.asarray(other)
            reaction, torque_found = -reaction, -torque_found - np.cross(there - end, reaction)
        close(to_ground(seen_lower, moment.force), reaction, tolerance)
        close(to_ground(seen_lower, moment.moment_lower), torque_found, tolerance)


def sliding_joints():
    """Prismatic joint along z, cylindrical joint along x that counts from the outer body, hinge about y of given frames."""
    frames = {f"frame_{k}": Rotation.random(random_state=n).as_matrix()[:, [2, 0, 1]] for k, n in (("i", 4), ("j", 5))}
    return mbs.Mechanism(
        links(3, 22),
        {
            "rail": spatial.Prismatic(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1)),
            "sleeve": spatial.Cylindrical("b", "a", (0.3, 0.1, 0.0), (-0.2, 0.0, 0.2), X),
            "hinge": spatial.Revolute("b", "c", (0.2, 0.1, 0.1), (0.1, -0.3, 0.0), **frames),
        },
        forces=WEIGHT,
    )


MOVING = {
    "hinge, universal, spherical": (
        turning_joints,
        {"a": ("hinge", GROUND, "abc"), "b": ("cross", "a", "bc"), "c": ("ball", "b", "c")},
        {"a.theta_1", "b.theta_1", "b.theta_2", "c.theta_1", "c.theta_2", "c.theta_3"},
    ),
    "prismatic, cylindrical, hinge": (
        sliding_joints,
        {"a": ("rail", GROUND, "abc"), "b": ("sleeve", "a", "bc"), "c": ("hinge", "b", "c")},
        {"a.z", "b.theta_1", "b.x", "c.theta_3"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MOVING)
def test_forces_of_joints(name):
    """Multipliers of the known coordinates of chains of five kinds of joints in motion, made moments by `joint_moment`:
    the same as `reactions`, and as the balance of the bodies beyond; those of unknown coordinates vanish."""
    build, joints, unknown = MOVING[name]
    mech, rng = build(), np.random.default_rng(3)
    x, y = (
        np.where([key in unknown for key in mbs.Kane().of(mech).names], rng.uniform(-1, 1, 18), 0) for _ in range(2)
    )
    q, v, _ = mbs.Kane().of(mech).to_bodies(x, y)
    assert size(mbs.constraints(mech, q)) < 1e-14
    run = mbs.simulate(mech, np.linspace(0, 0.1, 3), q, v, step=0.01, formulation=KANE)
    assert not run.status.any()
    close(run.q[0], q, 1e-13)
    close(run.v[0], v, 1e-12)
    check_joints(mech, run, joints, unknown)
