"""Haug 3.7, singular configurations: Examples 3.7.1 to 3.7.7, Problems 3.7.3 and 3.7.4."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from haug_singular import one_coordinate
from jaxmbs import planar


def test_lock_ups_in_single_precision():
    """Over an interval of two turns, where a march comes to a fold in steps that are soon the shortest: each of 500
    four-bars, all of which lock up before the crank points away from the rocker, ends with the right name."""
    jax.config.update("jax_enable_x64", False)

    def last(coupler):
        constraints = {
            "O": planar.Revolute("ground", "crank", (0, 0), (-0.5, 0)),
            "A": planar.Revolute("crank", "coupler", (0.5, 0), (-coupler / 2, 0)),
            "B": planar.Revolute("coupler", "rocker", (coupler / 2, 0), (1.25, 0)),
            "C": planar.Revolute("ground", "rocker", (3.5, 0), (-1.25, 0)),
        }
        motor = {"motor": planar.AbsoluteAngleDriver("crank", mbs.motion.Ramp(1.0))}
        mech = mbs.Mechanism(dict.fromkeys(("crank", "coupler", "rocker"), planar.Body()), constraints, motor)
        # The triangle of coupler, rocker and the 2.5 between their far ends.
        angle, zero = jnp.arccos(coupler / 5), jnp.zeros_like(coupler)
        x, y = coupler * jnp.cos(angle) / 2, coupler * jnp.sin(angle) / 2
        guess = {"crank": (0.5, 0, 0), "coupler": (1 + x, y, angle), "rocker": (2.25 + x, y, 2 * angle)}
        guess = {name: jnp.stack([x + zero for x in values]) for name, values in guess.items()}
        return mbs.kinematics(mech, jnp.array([0.0, 12.0]), guess).status[-1]

    found = np.asarray(jax.jit(jax.vmap(last))(jnp.linspace(1.2, 1.95, 500)))
    assert np.mean(found == mbs.Status.LOCKED_UP) > 0.99, np.bincount(found)


def test_gradient_stays_finite_next_to_and_past_lock_up():
    """The sample that locks up has zero gradient from then on; before it the derivative is the closed form's."""
    times = jnp.array([0.2, 0.4, 0.5, 0.6, 0.8])

    def positions(rod):
        guess = {"crank": (0, 0, 0.2), "slider": (1.4, 0, 0)}
        return mbs.kinematics(one_coordinate(rod), times, guess).position("slider.x")

    of_rod = jax.jit(jax.jacfwd(positions))(0.5)
    expected = 0.5 / np.sqrt(np.cos(times[:3]) ** 2 - 0.75)
    np.testing.assert_allclose(of_rod[:3], expected, rtol=1e-8)
    assert np.all(of_rod[3:] == 0)
