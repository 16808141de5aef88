"""The random mechanisms that other tests build on: assembled, with independent constraints, moving as these allow."""

from itertools import pairwise

import jax
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import jaxmbs as mbs
import random_mechanisms as mechanisms
from jaxmbs import planar, spatial

EACH_KIND = [(dimension, kind) for dimension, kinds in mechanisms.KINDS.items() for kind in kinds]


def check(mech, q, wrenches, residual, jacobian):
    """Φ = 0, and Φ_q has full row rank and the row space of the wrenches."""
    rows = mech.layout.kinematic_rows + mech.layout.driver_rows
    assert jacobian.shape == wrenches.shape == (rows, mech.layout.m)
    assert np.abs(residual).max(initial=0) < 1e-13
    if rows:
        assert np.linalg.svd(jacobian, compute_uv=False)[-1] > 1e-3
        basis = np.linalg.qr(wrenches.T)[0]
        np.testing.assert_allclose(jacobian @ basis @ basis.T, jacobian, rtol=0, atol=1e-12 * np.abs(jacobian).max())


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("dimension", "kind"), EACH_KIND)
def test_each_kind(dimension, kind):
    rng = np.random.default_rng(0)
    structure = mechanisms.tree_structure(rng, 2, [kind], dimension)
    for _ in range(10):
        mech, q, wrenches = mechanisms.draw_with_wrenches(rng, structure)
        assert {type(joint).__name__ for joint in mech.constraints.values()} == {kind}
        check(mech, q, wrenches, mbs.constraints(mech, q), np.asarray(mbs.constraint_jacobian(mech, q)))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("dimension", "bodies", "loops", "driver"), [(2, 4, 1, True), (2, 6, 3, False), (3, 3, 1, False), (3, 4, 2, True)]
)
def test_closed(dimension, bodies, loops, driver):
    rng = np.random.default_rng(10 * bodies + driver)
    structure = mechanisms.closed_structure(rng, bodies, dimension=dimension, loops=loops, driver=driver)
    samples = [mechanisms.draw_with_wrenches(rng, structure) for _ in range(10)]
    mechs, qs = mechanisms.stacked([(mech, q) for mech, q, _ in samples])
    residuals, jacobians, rights = (
        np.asarray(jax.vmap(function)(mechs, qs))
        for function in (mbs.constraints, mbs.constraint_jacobian, mbs.velocity_rhs)
    )
    for (mech, q, wrenches), residual, jacobian, right in zip(samples, residuals, jacobians, rights, strict=True):
        check(mech, q, wrenches, residual, jacobian)
        assert len(mech.constraints) == bodies + loops
        assert len(jacobian) < mech.layout.m
        v = mechanisms.random_velocity(rng, mech, q)
        np.testing.assert_allclose(jacobian @ v, right, rtol=0, atol=1e-12 * max(1, np.abs(jacobian).max()))
        assert np.linalg.norm(v) > 1e-2
        assert len(mech.drivers) == driver
        assert not driver or abs(right[-1]) > 0


def test_the_seed_of_the_structure_fixes_all_that_is_static():
    build = lambda seed, structure_seed, **options: mechanisms.random_closed(
        np.random.default_rng(seed), 4, shuffled=True, structure_seed=structure_seed, **options
    )
    (one, q), (other, p) = build(0, 5), build(1, 5)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert one.layout == other.layout
    assert np.abs(q - p).max() > 0.1
    assert jax.tree.structure(one) != jax.tree.structure(build(0, 6)[0])
    (again, same) = build(0, 5)
    assert_array_equal(same, q)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(again), strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize("dimension", [2, 3])
def test_trees(dimension):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        floating, branching = bool(seed % 2), (0.0, 1.0)[seed // 2 % 2]
        mech, q = mechanisms.random_tree(rng, 6, dimension=dimension, floating=floating, branching=branching)
        assert q.shape == (mech.layout.n,)
        assert len(mech.constraints) == 6 - floating
        ends = [{joint.i, joint.j} for joint in mech.constraints.values()]
        assert any("ground" in pair for pair in ends) != floating
        if branching == 0:
            names = [*mech.bodies] if floating else ["ground", *mech.bodies]
            assert ends == [{a, b} for a, b in pairwise(names)]
        kinds = {type(force) for force in mech.forces.values()}
        assert kinds == {mbs.Gravity, mbs.SpringDamper, mbs.PointForce, mbs.Torque}


@pytest.mark.parametrize("dimension", [2, 3])
def test_bodies(dimension):
    rng = np.random.default_rng(0)
    for _ in range(20):
        body = mechanisms.random_body(rng, dimension)
        body.check()
        assert isinstance(body, (planar.Body, spatial.Body))
        assert np.linalg.norm(body.com) > 1e-2
        inertia = np.asarray(body.inertia)
        assert np.all(np.linalg.eigvalsh(np.atleast_2d(inertia)) > 1e-3)
        assert dimension == 2 or np.abs(inertia - np.diag(np.diag(inertia))).max() > 1e-3


def test_what_cannot_be_found_is_told(monkeypatch):
    monkeypatch.setattr(mechanisms, "ATTEMPTS", 5)
    with pytest.raises(ValueError, match="no mechanism of 2 bodies with 1 loops"):
        mechanisms.random_closed(np.random.default_rng(0), 2, kinds=["Rigid"])
