"""Forces in joints of redundant constraints: which are unique, and the smallest that balance."""

import numpy as np
import pytest

import jaxmbs as mbs
from balances import DOWN, G, close, unbalanced
from jaxmbs import planar

FEET = {"1": 0.0, "2": 0.7, "3": 2.0}
LENGTH = 0.5
CRANK_MASS = 0.6
COUPLER_MASS = 2.0


@pytest.fixture(scope="module")
def parallel():
    """Three parallel cranks under one coupler, and a pendulum of its own."""
    crank = planar.Body(CRANK_MASS, CRANK_MASS * LENGTH**2 / 12, (LENGTH / 2, 0))
    bodies = {f"C{k}": crank for k in FEET} | {"coupler": planar.Body(COUPLER_MASS, 0.3, (0.9, 0.1))}
    joints = {f"O{k}": planar.Revolute("ground", f"C{k}", (x, 0), (0, 0)) for k, x in FEET.items()}
    joints |= {f"A{k}": planar.Revolute(f"C{k}", "coupler", (LENGTH, 0), (x, 0)) for k, x in FEET.items()}
    mech = mbs.Mechanism(
        bodies | {"bob": planar.Body(1.0, 0.1)},
        joints | {"hook": planar.Revolute("ground", "bob", (5, 0), (0, 0.4))},
        forces={"gravity": DOWN},
    )
    angle = 1.1
    start = {f"C{k}": (x, 0, angle) for k, x in FEET.items()}
    start |= {"coupler": (LENGTH * np.cos(angle), LENGTH * np.sin(angle), 0), "bob": (5, -0.4, 0)}
    run = mbs.simulate(mech, np.linspace(0, 0.3, 4), start, {"C1.phi": 2.0, "bob.phi": 1.0}, step=0.005, throw=True)
    return mech, run, mbs.reactions(mech, run)


def test_only_what_is_redundant_is_not_unique(parallel):
    mech, _, found = parallel
    for name in mech.constraints:
        np.testing.assert_array_equal(found[name].unique, name == "hook", err_msg=name)


def test_redundant_reactions_balance_and_are_smallest(parallel):
    mech, run, found = parallel
    assert np.all(unbalanced(mech, run, found) < 1e-9)
    for k, q in enumerate(np.asarray(run.q)):
        left, sizes, _ = np.linalg.svd(np.asarray(mbs.constraint_jacobian(mech, q)))
        assert np.sum(sizes < 1e-9 * sizes.max()) == 1
        null = left[:, -1]
        for own in (np.concatenate([found[name].multipliers[k] for name in mech.constraints]), run.multipliers[k]):
            assert np.abs(null @ own) < 1e-6 * np.linalg.norm(own)


def test_redundant_cranks_move_as_they_should(parallel):
    _, run, _ = parallel
    # Lagrange's equation of one angle: the cranks turn about their feet, the coupler only shifts.
    inertia = (CRANK_MASS + COUPLER_MASS) * LENGTH**2
    weight = (1.5 * CRANK_MASS + COUPLER_MASS) * LENGTH * G
    for k in FEET:
        close(run.acceleration(f"C{k}.phi"), -weight * np.cos(run.position("C1.phi")) / inertia, 1e-9)
    energy = inertia * run.velocity("C1.phi") ** 2 / 2 + weight * np.sin(run.position("C1.phi"))
    np.testing.assert_allclose(energy, energy[0], rtol=1e-7)
    hung = -1.0 * G * 0.4 * np.sin(run.position("bob.phi")) / (0.1 + 0.4**2)
    close(run.acceleration("bob.phi"), hung, 1e-9)


def in_units(unit, twice=False):
    """A crank that moves a block by a bar, all lengths in some unit; twice: with a second guide that is redundant."""
    body = planar.Body(1.0, unit**2 / 12)
    guides = {"guide": 0.0, "again": 0.2} if twice else {"guide": 0.0}
    mech = mbs.Mechanism(
        {"crank": body, "block": body},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "bar": planar.Distance("crank", "block", (0.3 * unit, 0), (0, 0), unit),
        }
        | {k: planar.Translational("ground", "block", (0, 0.1 * unit), (x * unit, 0)) for k, x in guides.items()},
        forces={"gravity": mbs.Gravity((unit, -G * unit))},
    )
    end = 0.3 * np.cos(0.4) + np.sqrt(1 - (0.3 * np.sin(0.4) - 0.1) ** 2)
    run = mbs.simulate(mech, np.array([0.0]), {"crank.phi": 0.4, "block": (end * unit, 0.1 * unit, 0)}, throw=True)
    return mech, run, mbs.reactions(mech, run)


UNITS = [1.0, 1e-2, 1e3]


@pytest.mark.parametrize("unit", UNITS)
def test_the_unit_of_length_does_not_change_what_is_unique(unit):
    _, _, found = in_units(unit)
    assert [name for name in found if not np.all(found[name].unique)] == []


@pytest.mark.parametrize("unit", UNITS)
def test_redundant_reactions_are_in_balance_in_every_unit_of_length(unit):
    mech, run, found = in_units(unit, twice=True)
    assert {name for name in found if not np.all(found[name].unique)} >= {"guide", "again"}
    assert np.all(unbalanced(mech, run, found) < 1e-9)
