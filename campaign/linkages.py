"""Four-bar, slider-crank, inverted slider-crank, slotted wheel, RSSR: closed forms of their configurations."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from campaign.closed_forms import MARGIN_TOLERANCE, ClosedForm, extremes_of_cosine
from jaxmbs import planar, spatial
from linkages import four_bar, slider_crank


def _root(x, floor):
    """Return √max(x, floor), so that the root of a negative radicand is that of `floor`."""
    return jnp.sqrt(jnp.maximum(x, floor) if floor else x)


def _unit(angle):
    """Return the unit vector (2,) at an angle."""
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def _pose(r, angle):
    """Return the planar pose of a place r (2,) and an angle as an array (3,)."""
    return jnp.append(r, angle)


class FourBar(ClosedForm):
    """A four-bar: coupler and rocker are sides of a triangle, two circles meet."""

    name = "four-bar"
    about = "closed form: intersection of two circles"

    def designs(self, rng, count):
        """Return random lengths of the four bars."""
        return dict(zip(("crank", "coupler", "rocker", "ground"), rng.uniform(0.2, 3.0, (4, count)), strict=True))

    def mechanism(self, b):
        """Return the mechanism of a design."""
        return four_bar(b)

    def formula(self, b, angle, floor):
        """Return q by the intersection of two circles."""
        a, c = b["crank"] * _unit(angle), jnp.stack([b["ground"], 0 * b["ground"]])
        d = c - a
        length = jnp.sqrt(d @ d)
        along = (b["coupler"] ** 2 - b["rocker"] ** 2 + length**2) / (2 * length)
        across = b["branch"] * _root(b["coupler"] ** 2 - along**2, floor)
        arm = (along * d + across * jnp.stack([-d[1], d[0]])) / length
        tip = a + arm
        out = tip - c
        bars = [(a / 2, angle), (a + arm / 2, jnp.arctan2(arm[1], arm[0])), (c + out / 2, jnp.arctan2(out[1], out[0]))]
        return jnp.concatenate([_pose(*bar) for bar in bars])

    def margin(self, b, low, high):
        """Return the margin of assembly between angles `low` and `high`, in sizes squared, and its rounding bound."""
        a, rod, c, d = (b[name][:, None] for name in ("crank", "coupler", "rocker", "ground"))
        smallest, largest = extremes_of_cosine(low, high)
        closest, widest = (a**2 + d**2 - 2 * a * d * x for x in (largest, smallest))
        margin = np.minimum(closest - (rod - c) ** 2, (rod + c) ** 2 - widest)
        return margin / self.size(b)[:, None] ** 2, MARGIN_TOLERANCE


class SliderCrank(ClosedForm):
    """A slider-crank: the rod reaches from a circle to a line."""

    name = "slider-crank"
    about = "closed form: rod between a circle and a line"

    def designs(self, rng, count):
        """Return random lengths of crank and rod, and offsets of the line."""
        crank, rod = rng.uniform(0.2, 3.0, (2, count))
        return {"crank": crank, "rod": rod, "offset": rng.uniform(-1.0, 1.0, count)}

    def mechanism(self, b):
        """Return the mechanism of a design."""
        return slider_crank(b)

    def formula(self, b, angle, floor):
        """Return q by the intersection of a circle and a line."""
        a = b["crank"] * _unit(angle)
        up = b["offset"] - a[1]
        along = b["branch"] * _root(b["rod"] ** 2 - up**2, floor)
        slider = jnp.stack([a[0] + along, b["offset"]])
        poses = _pose(0 * a, angle), _pose(a, jnp.arctan2(up, along)), _pose(slider, jnp.zeros_like(angle))
        return jnp.concatenate(poses)

    def margin(self, b, low, high):
        """Return the margin of assembly between angles `low` and `high`, in sizes squared, and its rounding bound."""
        smallest, largest = extremes_of_cosine(low - np.pi / 2, high - np.pi / 2)
        ends = [b["offset"][:, None] - b["crank"][:, None] * x for x in (smallest, largest)]
        farthest = np.maximum(*map(np.abs, ends))
        return (b["rod"][:, None] ** 2 - farthest**2) / self.size(b)[:, None] ** 2, MARGIN_TOLERANCE


def _slotted_mechanism(b, offset):
    """Return a crank whose pin runs in the slot of a rocker, which misses the rocker's pivot by `offset`."""
    return mbs.Mechanism(
        {"crank": planar.Body(), "rocker": planar.Body()},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
            "C": planar.Revolute("ground", "rocker", (b["ground"], 0), (0, 0)),
            "slot": planar.RevoluteTranslational("rocker", "crank", (0, 0), (b["crank"], 0), (1, 0), offset),
        },
        {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))},
    )


class InvertedSliderCrank(ClosedForm):
    """An inverted slider-crank: the slot of the rocker is a tangent from the crank pin to a circle."""

    name = "inverted slider-crank"
    about = "closed form: tangent from a point to a circle"

    def designs(self, rng, count):
        """Return random lengths of crank and ground, and offsets of the slot from the rocker's pivot."""
        crank, ground = rng.uniform(0.2, 3.0, (2, count))
        return {"crank": crank, "ground": ground, "offset": rng.uniform(-0.8, 0.8, count)}

    def mechanism(self, b):
        """Return the mechanism of a design."""
        return _slotted_mechanism(b, b["offset"])

    def formula(self, b, angle, floor):
        """Return q by the tangent."""
        c = jnp.stack([b["ground"], 0 * b["ground"]])
        w = b["crank"] * _unit(angle) - c
        along = b["branch"] * _root(w @ w - b["offset"] ** 2, floor)
        turned = jnp.arctan2(w[1] * along - w[0] * b["offset"], w[0] * along + w[1] * b["offset"])
        return jnp.concatenate([_pose(0 * c, angle), _pose(c, turned)])

    def margin(self, b, low, high):
        """Return the margin of assembly between angles `low` and `high`, in sizes squared, and its rounding bound."""
        _, largest = extremes_of_cosine(low, high)
        a, d, e = (b[name][:, None] for name in ("crank", "ground", "offset"))
        return (a**2 + d**2 - 2 * a * d * largest - e**2) / self.size(b)[:, None] ** 2, MARGIN_TOLERANCE


class SlottedWheel(ClosedForm):
    """A Geneva mechanism while the pin is in the slot: tan β = a sin θ / (d − a cos θ)."""

    name = "slotted wheel"
    about = "closed form: direction from a point to a pin on a circle"

    def designs(self, rng, count):
        """Return random distances of the shafts, and cranks for wheels with 2.5 to 12 slots."""
        slots = rng.uniform(2.5, 12.0, count)
        ground = rng.uniform(0.5, 3.0, count)
        return {"ground": ground, "crank": ground * np.sin(np.pi / slots)}

    def mechanism(self, b):
        """Return the mechanism of a design while its pin is in a slot."""
        return mbs.Mechanism(
            {"crank": planar.Body(), "wheel": planar.Body(), "block": planar.Body()},
            {
                "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
                "C": planar.Revolute("ground", "wheel", (b["ground"], 0), (0, 0)),
                "pin": planar.Revolute("crank", "block", (b["crank"], 0), (0, 0)),
                "slot": planar.Translational("wheel", "block", (0, 0), (0, 0), (-1, 0), (1, 0)),
            },
            {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))},
        )

    def formula(self, b, angle, floor):
        """Return q by the angle under which the wheel's shaft sees the pin."""
        a = b["crank"] * _unit(angle)
        wheel = jnp.arctan2(-a[1], b["ground"] - a[0])
        c = jnp.stack([b["ground"], 0 * b["ground"]])
        return jnp.concatenate([_pose(0 * a, angle), _pose(c, wheel), _pose(a, wheel)])

    def question(self, seed):
        """Return designs, and for each the angles of the crank from entering the slot to leaving it."""
        b, angles = super().question(seed)
        # Into the slot and out on the other side. The shaft of the crank is on the left of that of the wheel.
        widest = np.arccos(b["crank"] / b["ground"])[:, None]
        return b, np.sign(angles[:, -1:] - angles[:, :1]) * widest * np.linspace(-1, 1, angles.shape[1])


class SpatialFourBar(ClosedForm):
    """Revolute, spherical, spherical, revolute: a rod joins two circles in space."""

    name = "RSSR"
    about = "closed form: rod between two circles in space"
    seconds = 45.0
    NUMBERS = ("crank", "rocker", "rod", "x", "y", "z", "tilt", "swing")

    def designs(self, rng, count):
        """Return eight random lengths, places and angles of each linkage, named by `NUMBERS`."""
        low, high = (0.2, 0.5, 1.0, 0.5, -1.0, -1.0, 0.3, 0.2), (1.5, 2.0, 3.0, 2.0, 1.0, 1.0, 2.8, 2.8)
        return dict(zip(self.NUMBERS, rng.uniform(low, high, (count, 8)).T, strict=True))

    def _rocker(self, b):
        """Return the pivot of the rocker, and the axes of its joint as columns; z is the axis of rotation."""
        ct, st, cs, ss = (f(b[name]) for name in ("tilt", "swing") for f in (jnp.cos, jnp.sin))
        zero = jnp.zeros_like(ct)
        axes = [cs * ct, ss * ct, -st], [-ss, cs, zero], [cs * st, ss * st, ct]
        return jnp.stack([b["x"], b["y"], b["z"]]), jnp.stack([jnp.stack(axis) for axis in axes]).T

    def mechanism(self, b):
        """Return the mechanism of a design."""
        pivot, axes = self._rocker(b)
        zero, same = jnp.zeros(3), {"frame_i": jnp.eye(3), "frame_j": jnp.eye(3)}
        tip = lambda length: jnp.stack([length, 0 * length, 0 * length])
        return mbs.Mechanism(
            {"crank": spatial.Body(), "rocker": spatial.Body()},
            {
                "O": spatial.Revolute("ground", "crank", zero, zero, (0, 0, 1), (0, 0, 1)),
                "C": spatial.Revolute("ground", "rocker", pivot, zero, frame_i=axes, frame_j=jnp.eye(3)),
                "rod": spatial.Distance("crank", "rocker", tip(b["crank"]), tip(b["rocker"]), distance=b["rod"]),
            },
            {"motor": spatial.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0), **same)},
        )

    def _equation(self, b, angle):
        """Return A, B and K of the equation A cos ψ + B sin ψ = K for the angle ψ of the rocker."""
        pivot, axes = self._rocker(b)
        a = b["crank"] * jnp.append(_unit(angle), 0.0)
        w = a - pivot
        k = (w @ w + b["rocker"] ** 2 - b["rod"] ** 2) / (2 * b["rocker"])
        return w @ axes[:, 0], w @ axes[:, 1], k

    def _rocker_angle(self, b, angle, floor):
        """Return the angle ψ of the rocker."""
        x, y, k = self._equation(b, angle)
        across = b["branch"] * _root(x**2 + y**2 - k**2, floor)
        return jnp.arctan2(y * k + x * across, x * k - y * across)

    def formula(self, b, angle, floor):
        """Return q by the angle of the rocker."""
        pivot, axes = self._rocker(b)
        turned = mbs.rotation.product(mbs.rotation.from_matrix(axes), _about_z(self._rocker_angle(b, angle, floor)))
        return jnp.concatenate([jnp.zeros(3), _about_z(angle), pivot, turned])

    def values(self, b, angle):
        """Return the angles of crank and rocker by the closed form."""
        return jnp.stack([angle, self._rocker_angle(b, angle, 0.0)])

    def quantities(self, b, q, v, a):
        """Return the angles of crank and rocker in a motion, their rates and accelerations."""
        own = mbs.rotation.from_matrix(self._rocker(b)[1])
        turns = q[3:7], mbs.rotation.product(mbs.rotation.inverse(own), q[10:14])
        angles = jnp.stack([2 * jnp.arctan2(p[3], p[0]) for p in turns])
        return angles, v[jnp.array([5, 11])], a[jnp.array([5, 11])]

    def names(self):
        """Return the names of the compared quantities: two angles."""
        return "crank", "rocker"

    def margin(self, b, low, high):
        """Return the least A² + B² − K² between angles `low` and `high` in units of the size, and its rounding bound."""
        ends = np.where(low[:, -1:] < low[:, :1], low, high)
        fine = np.linspace(ends[:, 0], ends[:, -1], (ends.shape[1] - 1) * SUBDIVISIONS + 1, axis=1)
        x, y, k = (np.asarray(part) for part in _equations(self, b, fine))
        inside = x**2 + y**2 - k**2
        # Between two angles the margin may be smaller than at both, at most by its curvature.
        dip = np.abs(np.diff(inside, 2, axis=1)).max(axis=1, keepdims=True) / 4
        size = self.size(b)[:, None] ** 2
        return np.minimum.accumulate(inside, axis=1)[:, ::SUBDIVISIONS] / size, dip / size + MARGIN_TOLERANCE

    def size(self, b):
        """Return the sum of the lengths of crank, rocker and rod."""
        return b["crank"] + b["rocker"] + b["rod"]


# Parts of the step between two angles of the crank at whose ends the margin of assembly is evaluated.
SUBDIVISIONS = 8


@partial(jax.jit, static_argnums=0)
def _equations(oracle, b, angles):
    """Return A, B and K of all designs at all angles."""
    return jax.vmap(lambda b, row: jax.vmap(lambda angle: oracle._equation(b, angle))(row))(b, angles)


def _about_z(angle):
    """Return the Euler parameters of a rotation about z."""
    return jnp.stack([jnp.cos(angle / 2), 0 * angle, 0 * angle, jnp.sin(angle / 2)])
