"""Kane's equations with joint coordinates eliminated: the same motion as with multipliers, loops, Euler parameters."""

import jax
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.motion import Harmonic, Polynomial
from kane_problems import (
    CONVERGED,
    GROUND,
    KANE,
    OBLIQUE,
    SWING,
    TIMES,
    WEIGHT,
    X,
    Y,
    check_driven,
    close,
    hinge,
    links,
)
from norms import size
from random_mechanisms import random_body

PUSH = Polynomial((0.1, -0.4, 0.8))


def driven_hinge():
    return mbs.Mechanism(
        links(2, 31),
        {
            "hinge": spatial.Revolute(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), Y),
            "cross": spatial.Universal("a", "b", (0.3, 0.1, 0.0), (-0.2, 0.0, 0.2)),
        },
        {"motor": spatial.RevoluteDriver(GROUND, "a", axis_i=Y, motion=SWING)},
        WEIGHT | {"load": mbs.Torque("b", (0.3, Harmonic(1.0, 4.0), 0.0), "a")},
    )


def driven_slide():
    return mbs.Mechanism(
        links(3, 32),
        {
            "gantry": spatial.TotalJoint(
                GROUND, "a", (0.1, 0, 0), (0.1, 0.2, 0), (PUSH, "free", "fixed"), ("fixed", "fixed", "free")
            ),
            "rail": spatial.Prismatic("a", "b", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), -X),
            "ball": spatial.Spherical("b", "c", (0.2, 0.1, 0.1), (0.1, -0.3, 0.0)),
        },
        {"jack": spatial.TranslationalDriver("b", "a", (-0.2, 0.1, 0.1), (0.1, 0.2, 0.3), -X, motion=SWING)},
        WEIGHT,
    )


def driven_planar():
    a, b = (random_body(np.random.default_rng(k), 2) for k in (33, 34))
    return mbs.Mechanism(
        {"b": b, "a": a},
        {
            "pin": planar.Revolute(GROUND, "a", (0.1, 0.2), (-0.3, 0.1)),
            "slide": planar.Translational("a", "b", (0.1, 0.2), (0.1, 0.1), (0, 2)),
        },
        {"motor": planar.RevoluteDriver(GROUND, "a", SWING, angle_i=0.5, angle_j=-0.2)},
        {"gravity": mbs.Gravity((1.0, -9.0))},
    )


# Names of unknown coordinates, and known ones that move: value, rate and second rate are sign · C + offset.
ELIMINATIONS = {
    "hinge in space": (driven_hinge, {"b.theta_1", "b.theta_2"}, {"a.theta_2": (SWING, 1, 0)}),
    # Advance of a's end from b's along −x of b is that of b's end from a's along +x of a.
    "slide and total joint": (
        driven_slide,
        {"a.y", "a.theta_3", "c.theta_1", "c.theta_2", "c.theta_3"},
        {"a.x": (PUSH, 1, 0), "b.x": (SWING, 1, 0)},
    ),
    "hinge in the plane": (driven_planar, {"b.y"}, {"a.phi": (SWING, 1, 0.7)}),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * ("slide" in name)) for name in ELIMINATIONS]
)
def test_elimination(name):
    """Rows and columns of known coordinates taken out of [A]{ẏ} = {f} by hand, (9) to (12): accelerations of `simulate` and
    multipliers of `kane_multipliers`, with coordinates known in time."""
    build, unknown, moving = ELIMINATIONS[name]
    mech, rng, t = build(), np.random.default_rng(6), 0.3
    names = mbs.kane_names(mech)
    x, y, rates = np.zeros((3, len(names)))
    for k, key in enumerate(names):
        if key in unknown:
            x[k], y[k] = rng.uniform(-1, 1, 2)
        if key in moving:
            motion, sign, offset = moving[key]
            rate = jax.grad(motion)
            x[k], y[k], rates[k] = sign * motion(t) + offset, sign * rate(t), sign * jax.grad(rate)(t)
    free = np.array([key in unknown for key in names])
    mass, force = (np.asarray(m) for m in mbs.kane_matrices(mech, x, y, t))
    rates[free] = np.linalg.solve(mass[np.ix_(free, free)], force[free] - mass[np.ix_(free, ~free)] @ rates[~free])
    multipliers = mass @ rates - force
    (q, v), (_, a) = jax.jvp(lambda x, y: mbs.kane_configuration(mech, x, y), (x, y), (y, rates))
    assert size(mbs.constraints(mech, q, t)) < 1e-13
    run = mbs.simulate(mech, [t], q, v, formulation=KANE)
    assert not run.status.any()
    close(run.q[0], q, 1e-12)
    close(run.v[0], v, 1e-11)
    close(run.a[0], a, 1e-9)
    close(mbs.kane_multipliers(mech, run)[0], multipliers, 1e-9)
    assert KANE.equations(mech).space.m == free.sum()


def four_bar(drivers):
    rod = lambda length, k: planar.Body(1.0 + k, 0.1, (length / 2, 0.05))
    return mbs.Mechanism(
        {"crank": rod(0.4, 0), "coupler": rod(1.0, 1), "rocker": rod(0.8, 2)},
        {
            "O": planar.Revolute(GROUND, "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "coupler", (0.4, 0), (0, 0)),
            "B": planar.Revolute("coupler", "rocker", (1.0, 0), (0.8, 0)),
            "C": planar.Revolute(GROUND, "rocker", (1.1, 0), (0, 0)),
        },
        drivers,
        {"gravity": mbs.Gravity((0.5, -9.81))},
    ), {"crank": (0, 0, 0.6), "coupler": (0.33, 0.23, 0.5), "rocker": (1.1, 0, 1.8)}


@pytest.mark.parametrize("name", [pytest.param("open", marks=pytest.mark.slow), "driven"])
def test_loop(name):
    """A four-bar, its crank free or driven: accelerations, and all reactions, as in `Augmented`; (6) and (7)."""
    mech, guess = four_bar({"motor": planar.RevoluteDriver(GROUND, "crank", SWING)} if name == "driven" else {})
    start = mbs.assemble(mech, guess)
    assert start.status == CONVERGED
    v0 = None if name == "driven" else {"crank.phi": 3.0}
    runs = [
        mbs.simulate(mech, TIMES[:2] - TIMES[0], start, v0, step=0.01, formulation=f) for f in (KANE, mbs.Augmented())
    ]
    for part in ("q", "v", "a"):
        close(getattr(runs[0], part)[0], getattr(runs[1], part)[0], 1e-10)
        close(getattr(runs[0], part)[1], getattr(runs[1], part)[1], 1e-5)
    check_driven(mech, runs[0])


@pytest.mark.slow
def test_hinge_by_euler_parameters():
    """A hinge named in `euler_parameters` has six coordinates and five constraint rows: the same motion and reactions."""
    mech = mbs.Mechanism(links(1, 71), {"O": hinge(axis_i=OBLIQUE)}, forces=WEIGHT)
    other = mbs.Kane(euler_parameters="O")
    assert other.equations(mech).space.m == 6
    runs = [mbs.simulate(mech, [0, 0.1], v0={"a.wx": 1.0}, step=0.005, formulation=f) for f in (KANE, other)]
    again = mbs.simulate(mech, [0, 0.1], runs[0].q[0], runs[0].v[0], step=0.005, formulation=other)
    for part in ("q", "v", "a"):
        close(getattr(again, part), getattr(runs[0], part), 1e-8)
    found, expected = (mbs.reactions(mech, runs[0], formulation=f)["O"] for f in (other, None))
    close(found.force, expected.force, 1e-9)
    close(found.torque, expected.torque, 1e-9)
