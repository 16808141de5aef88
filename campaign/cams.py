"""Cams that are eccentric circles, given by their polar outlines: the lift of each follower is elementary."""

import jax.numpy as jnp

import jaxmbs as mbs
from campaign.closed_forms import ClosedForm
from jaxmbs import planar


def _eccentric(b):
    """Return the polar outline ρ(α) of the circle of a design, whose centre is at (eccentricity, 0) on the cam."""
    e, r = b["eccentricity"], b["radius"]
    return planar.FunctionOutline(lambda alpha: e * jnp.cos(alpha) + jnp.sqrt(r**2 - (e * jnp.sin(alpha)) ** 2))


def _machine(touch, guide):
    """Return a cam that turns about the origin with a follower that slides along y at x = guide."""
    return mbs.Mechanism(
        {"cam": planar.Body(), "follower": planar.Body()},
        {
            "shaft": planar.Revolute("ground", "cam", (0, 0), (0, 0)),
            "guide": planar.Translational("ground", "follower", (guide, 0), (0, 0), (0, 1), (0, 1)),
            "touch": touch,
        },
        {"motor": planar.RevoluteDriver("ground", "cam", mbs.motion.Ramp(1.0))},
    )


def _coordinates(angle, guide, lift, *contacts):
    """Return q: the poses of cam and follower, then the contact parameters."""
    return jnp.stack([0 * angle, 0 * angle, angle, guide + 0 * angle, lift, 0 * angle, *contacts])


def _contact_angle(centre, normal, r, angle):
    """Return the polar angle, on a body turned by `angle`, of the point of a circle with outer normal `normal`."""
    point = centre + r * jnp.stack([jnp.cos(normal - angle), jnp.sin(normal - angle)])
    return jnp.arctan2(point[1], point[0])


class Cam(ClosedForm):
    """Designs of both followers, which can always be assembled."""

    seconds = 30.0

    def designs(self, rng, count):
        """Return random radii and eccentricities of cams, radii of rollers, and places of the guide."""
        radius = rng.uniform(0.5, 2.0, count)
        return {
            "radius": radius,
            "eccentricity": radius * rng.uniform(0.02, 0.8, count),
            "roller": rng.uniform(0.1, 1.0, count),
            "guide": rng.uniform(-0.15, 0.15, count),
        }


class FlatFollower(Cam):
    """A cam with a flat follower, whose lift is R + e sin θ."""

    name = "cam with a flat follower"
    about = "closed form: lift R + e sin θ"

    def mechanism(self, b):
        """Return the mechanism of a design, driven by the angle of the cam."""
        return _machine(planar.CamFlatFollower("cam", "follower", (0, 0), (0, 0), _eccentric(b)), b["guide"])

    def formula(self, b, angle, floor):
        """Return q by the closed form."""
        centre = jnp.stack([b["eccentricity"], 0 * angle])
        lift = b["radius"] + b["eccentricity"] * jnp.sin(angle)
        return _coordinates(angle, b["guide"], lift, _contact_angle(centre, jnp.pi / 2, b["radius"], angle))


class RollerFollower(Cam):
    """A cam with a roller, whose lift is e sin θ + √((R + r)² − (e cos θ − x)²)."""

    name = "cam with a roller"
    about = "closed form: lift e sin θ + √((R + r)² − (e cos θ − x)²)"

    def mechanism(self, b):
        """Return the mechanism of a design, driven by the angle of the cam."""
        roller = planar.FunctionOutline(b["roller"])
        touch = planar.CamFollower("cam", "follower", (0, 0), (0, 0), _eccentric(b), roller)
        return _machine(touch, b["guide"])

    def formula(self, b, angle, floor):
        """Return q by the closed form."""
        centre = jnp.stack([b["eccentricity"], 0 * angle])
        beside = b["eccentricity"] * jnp.cos(angle) - b["guide"]
        up = jnp.sqrt((b["radius"] + b["roller"]) ** 2 - beside**2)
        normal = jnp.arctan2(up, -beside)
        on_cam = _contact_angle(centre, normal, b["radius"], angle)
        return _coordinates(angle, b["guide"], b["eccentricity"] * jnp.sin(angle) + up, on_cam, normal - jnp.pi)
