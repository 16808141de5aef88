"""A mechanism in the coordinates of a formulation, `formulation.of(mech)`: identities that hold for all formulations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from linkages import four_bar, four_bar_guess

B = {"crank": 1.0, "coupler": 3.0, "rocker": 2.5, "ground": 3.5}


@pytest.fixture(scope="module")
def state():
    """A four-bar, a closed configuration and velocities that its joints allow."""
    mech = four_bar(B, rate=2.0)
    q = mbs.assemble(mech, four_bar_guess(B, 0.4)).q
    v = jnp.linalg.solve(mbs.constraint_jacobian(mech, q), mbs.velocity_rhs(mech, q))
    return mech, q, v


def test_joint_coordinates(state):
    """q(θ(q)) = q, v = R θ̇, and Ṙ is the derivative of R."""
    mech, q, v = state
    view = mbs.JointCoordinates(cut="C").of(mech)
    transformation = lambda theta: mbs.velocity_transformation(mech, theta, cut="C")
    theta, rate = view.coordinates(q), view.velocities(q, v)
    assert view.names == ("O.phi", "A.phi", "B.phi") == view.velocity_names
    assert theta.shape == rate.shape == (3,)
    np.testing.assert_allclose(view.configuration(theta), q, atol=1e-12)
    np.testing.assert_allclose(transformation(theta) @ rate, v, atol=1e-12)
    later, earlier = (transformation(theta + h * rate) for h in (1e-5, -1e-5))
    found = mbs.velocity_transformation_rate(mech, theta, rate, cut="C")
    np.testing.assert_allclose(found, (later - earlier) / 2e-5, atol=1e-9)


@pytest.mark.parametrize("own_vectors", [(), ("coupler",)])
def test_natural_coordinates(state, own_vectors):
    """Ψ = 0 in a closed configuration, and Ψ_x ẋ = −Ψ_t with ẋ of velocities that the joints allow."""
    mech, q, v = state
    view = mbs.Natural(own_vectors=own_vectors).of(mech)
    x, rates = view.coordinates(q), view.velocities(q, v)
    assert x.shape == (len(view.names),)
    assert any(name.startswith("coupler.") for name in view.names) == bool(own_vectors)
    assert jnp.abs(view.constraints(x, near=q)).max() < 1e-12
    by_time = jax.jacfwd(lambda t: view.constraints(x, t, near=q))(0.0)
    np.testing.assert_allclose(view.constraint_jacobian(x, near=q) @ rates, -by_time, atol=1e-12)


def test_relative_coordinates(state):
    """q(x(q)) = q, v(y(v)) = v, and the kinetic energy is yᵀ[A]y/2."""
    mech, q, v = state
    view = mbs.Kane(cut="C").of(mech)
    x, y = view.coordinates(q), view.velocities(q, v)
    assert view.names[:3] == ("crank.phi", "coupler.phi", "rocker.phi")
    for found, expected in zip(view.to_bodies(x, y)[:2], (q, v), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)
    a, f = mbs.kane_matrices(mech, x, y, cut="C")
    np.testing.assert_allclose(view.mass_matrix(x), a, atol=1e-14)
    np.testing.assert_allclose(view.force(x, y), f, atol=1e-14)
    assert a.shape == (9, 9)
    assert f.shape == (9,)
    np.testing.assert_allclose(y @ a @ y / 2, mbs.energy(mech, q, v).kinetic, rtol=1e-12)


def test_a_wrong_shape_is_named_with_the_entries(state):
    mech = state[0]
    with pytest.raises(ValueError, match=r"theta must have shape \(3,\), got \(2,\); its entries are \('O.phi'"):
        mbs.velocity_transformation(mech, jnp.zeros(2))
    with pytest.raises(ValueError, match=r"x must have shape \(9,\), got \(3,\)"):
        mbs.Kane().of(mech).force(jnp.zeros(3), jnp.zeros(9))
