"""Linkages of the page "Drag a linkage": a turn of each as a function of the dragged points, and their JavaScript."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar

# Steps of the crank in the turn that a page computes after dragging.
STEPS = 120
# Times of these steps; the crank turns at 1 rad per unit of time.
TIMES = np.linspace(0.0, 2 * np.pi, STEPS + 1)


def four_bar(ground, lengths, point, angle, rate, near):
    """Compute a turn of the crank of a four-bar.

    Args:
        ground: (2, 2), pivots of crank and rocker.
        lengths: (3,), of crank, coupler, rocker.
        point: (2,), a point of the coupler, in a frame at its pin on the crank, with x towards the other pin.
        angle, rate: of the crank at the beginning; 1 or -1, which way it turns.
        near: (2,), roughly where coupler and rocker meet at the beginning.

    Returns:
        Positions (T, 2) of both pins of the coupler and of its point; angular speed of the rocker by that of the crank;
        angle between coupler and rocker, 0 to π/2; status; each (T,).
    """
    crank, coupler, rocker = lengths
    mech = mbs.Mechanism(
        bodies={"crank": planar.Body(), "coupler": planar.Body(), "rocker": planar.Body()},
        constraints={
            "O": planar.Revolute("ground", "crank", ground[0], (0, 0)),
            "A": planar.Revolute("crank", "coupler", jnp.stack([crank, 0.0]), (0, 0)),
            "B": planar.Revolute("coupler", "rocker", jnp.stack([coupler, 0.0]), jnp.stack([rocker, 0.0])),
            "C": planar.Revolute("ground", "rocker", ground[1], (0, 0)),
        },
        drivers={"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(rate, angle))},
    )
    pin = _crank_pin(ground[0], crank, angle)
    guess = {
        "crank": jnp.append(ground[0], angle),
        "coupler": jnp.append(pin, _direction(near - pin)),
        "rocker": jnp.append(ground[1], _direction(near - ground[1])),
    }

    def quantities(motion):
        """Return the quantities that the page of the four-bar draws."""
        apart = motion.position("coupler.phi") - motion.position("rocker.phi")
        return *_points(motion, "coupler", coupler, point), motion.velocity("rocker.phi") / rate, _acute(apart)

    return _turn(mech, guess, quantities)


def slider_crank(ground, lengths, point, angle, rate, near):
    """Compute a turn of a slider-crank, as `four_bar` does.

    The second row of `ground` is a point of the slide, which runs along x; `lengths` (2,) are crank and rod; the speed
    is that of the slider divided by the angular speed of the crank; the transmission angle is that between the rod and
    the normal of the slide.
    """
    crank, rod = lengths
    mech = mbs.Mechanism(
        bodies={"crank": planar.Body(), "rod": planar.Body(), "slider": planar.Body()},
        constraints={
            "O": planar.Revolute("ground", "crank", ground[0], (0, 0)),
            "A": planar.Revolute("crank", "rod", jnp.stack([crank, 0.0]), (0, 0)),
            "B": planar.Revolute("rod", "slider", jnp.stack([rod, 0.0]), (0, 0)),
            "guide": planar.Translational("ground", "slider", ground[1], (0, 0), (1, 0)),
        },
        drivers={"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(rate, angle))},
    )
    pin = _crank_pin(ground[0], crank, angle)
    guess = {
        "crank": jnp.append(ground[0], angle),
        "rod": jnp.append(pin, _direction(near - pin)),
        "slider": jnp.stack([near[0], ground[1, 1], 0.0]),
    }

    def quantities(motion):
        """Return the quantities that the page of the slider-crank draws."""
        across = motion.position("rod.phi") - np.pi / 2
        return *_points(motion, "rod", rod, point), motion.velocity("slider.x") / rate, _acute(across)

    return _turn(mech, guess, quantities)


def javascript(linkage) -> str:
    """Return one of the linkages as a JavaScript module."""
    lengths = np.ones(3 if linkage is four_bar else 2)
    arguments = np.ones((2, 2)), lengths, np.ones(2), 0.0, 1.0, np.ones(2)
    return mbs.program(linkage).javascript(*arguments, name=linkage.__name__)


def _turn(mech, guess, quantities):
    """Return `quantities(motion)` at each of `TIMES` of the kinematic motion, and its statuses."""
    motion = mbs.kinematics(mech, TIMES, guess)
    # A loop over times in the program keeps the JavaScript short.
    return *jax.lax.map(quantities, dataclasses.replace(motion, mechanism=None)), motion.status


def _crank_pin(pivot, crank, angle):
    """Return the place of the pin of the crank."""
    return pivot + crank * jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def _direction(d):
    """Return the angle of a vector."""
    return jnp.arctan2(d[1], d[0])


def _acute(angle):
    """Return the acute angle between two lines whose directions differ by `angle`."""
    return jnp.arctan2(jnp.abs(jnp.sin(angle)), jnp.abs(jnp.cos(angle)))


def _points(motion, body, length, point):
    """Return both pins of a body, and its point, over time."""
    return [motion.point(body, s) for s in (jnp.zeros(2), jnp.stack([length, 0.0]), point)]
