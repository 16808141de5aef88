"""Derivatives of all spatial elements by their own numbers, and total joints with every combination of driven turns."""

from functools import cache
from itertools import product

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
from jaxmbs import spatial
from jaxmbs.element import AbstractConstraint

SWING = mbs.motion.Harmonic(0.5, 2.0, 0.3, 0.2)
RNG = np.random.default_rng(19)
PLACES = [
    spatial.coordinates(RNG.normal(size=3), Rotation.from_rotvec(RNG.uniform(-1, 1, 3)).as_matrix()) for _ in range(2)
]
POINTS = ((0.1, -0.2, 0.3), (0.3, 0.2, -0.1))
AXES = {"axis_i": (0.3, 0.2, 0.9), "axis_j": (-0.2, 0.1, 1.1)}


def between(kind, **given):
    return kind("a", "b", *POINTS, **given)


LONG = mbs.motion.Harmonic(0.5, 2.0, 0.3, 2.0)
ELEMENTS = {
    **{
        name: between(getattr(spatial, name), **AXES)
        for name in (
            *("Revolute", "Prismatic", "Cylindrical", "Spherical", "Planar", "Rigid", "ConstantVelocity"),
            "Universal",
        )
    },
    "Free": between(spatial.Free),
    "Screw": between(spatial.Screw, **AXES, pitch=2.0),
    "Distance": between(spatial.Distance, distance=1.2),
    "AxisDistance": between(spatial.AxisDistance, **AXES, distance=1.2),
    "Thread": between(spatial.Thread, **AXES, pitch=2.0, angle_i=0.2, angle_j=-0.4),
    "RackPinion": between(spatial.RackPinion, **AXES, radius_j=0.7, angle_i=0.2, angle_j=-0.4),
    "Gear": between(spatial.Gear, **AXES, radius_i=0.5, radius_j=0.7, angle_i=0.2, angle_j=-0.4),
    "Gear, helical": between(
        spatial.Gear,
        **AXES,
        radius_i=0.5,
        radius_j=0.7,
        angle_i=0.2,
        angle_j=-0.4,
        pressure_angle=0.35,
        helix_angle=0.3,
    ),
    "RackPinion, helical": between(
        spatial.RackPinion, **AXES, radius_j=0.7, angle_i=0.2, angle_j=-0.4, pressure_angle=0.35, helix_angle=0.3
    ),
    "WormGear": between(
        spatial.WormGear,
        **AXES,
        radius_i=0.5,
        radius_j=0.7,
        pitch=0.4,
        angle_i=0.2,
        angle_j=-0.4,
        pressure_angle=0.35,
    ),
    "JointCoupling": spatial.JointCoupling(
        "a",
        "b",
        ("ground", "a"),
        ("angle", "slide"),
        ((0.1, 0.3, 0.2), (0.4, -0.5, 0.7)),
        *(np.stack([Rotation.from_rotvec(RNG.uniform(-1, 1, 3)).as_matrix() for _ in range(2)]) for _ in range(2)),
        *RNG.normal(size=(2, 2, 3)),
    ),
    "TotalJoint": between(spatial.TotalJoint, position=(SWING,) * 3, orientation=(SWING, "fixed", SWING), **AXES),
    "RelativeJoint": between(spatial.RelativeJoint, position=(SWING,) * 3, orientation=(SWING, "fixed", SWING), **AXES),
    "RevoluteDriver": between(spatial.RevoluteDriver, **AXES, motion=SWING),
    "TranslationalDriver": between(spatial.TranslationalDriver, **AXES, motion=SWING),
    "DistanceDriver": between(spatial.DistanceDriver, motion=LONG),
}


def everything(elements):
    return mbs.Mechanism(dict.fromkeys("ab", spatial.Body()), elements)


def test_no_element_is_forgotten():
    known = {name for name, x in vars(spatial).items() if isinstance(x, type) and issubclass(x, AbstractConstraint)}
    assert known == {name.split(",")[0] for name in ELEMENTS}


@cache
def by_numbers():
    """Φ_b for all numbers b of all elements at once, and the same by central differences."""
    numbers, rest = eqx.partition(everything(ELEMENTS), eqx.is_inexact_array)
    b, unravel = jax.flatten_util.ravel_pytree(jax.tree.map(jnp.asarray, numbers))
    q = jnp.concatenate([*PLACES, jnp.array([0.4, -0.8, 0.5, 0.7, -0.2, 0.6, 0.3])])
    build = lambda b: eqx.combine(unravel(b), rest)
    phi = jax.jit(jax.vmap(lambda b: mbs.constraints(build(b), q, 0.4)))
    h = 1e-5
    steps = h * np.eye(b.size)
    b = np.asarray(b)
    numeric = (phi(b + steps) - phi(b - steps)).T / (2 * h)
    return jax.jit(lambda b: mbs.design_jacobian(build, b, q, 0.4))(b), numeric, build(b).layout.row_slices


@pytest.mark.parametrize("name", [name for name in ELEMENTS if name != "Free"])
def test_design_jacobian(name):
    exact, numeric, rows = by_numbers()
    np.testing.assert_allclose(exact[rows[name]], numeric[rows[name]], rtol=1e-7, atol=1e-8)
    assert np.any(np.asarray(exact[rows[name]]) != 0)


COMPONENTS = ("free", "fixed", "driven")
TURNS = {"".join(word[:2] for word in words): words for words in product(COMPONENTS, repeat=3) if "driven" in words}
DRIVEN = [mbs.motion.Harmonic(0.4 + 0.1 * k, 1.5, 0.3 * k, 0.1) for k in range(3)]


@cache
def turns():
    """Φ, its derivatives by displacements, by time along a motion and once more, of total joints with all combinations of
    orientation; (rows, …), and the rows of each."""
    joints = {
        name: between(
            spatial.TotalJoint,
            position=("free",) * 3,
            orientation=[DRIVEN[k] if word == "driven" else word for k, word in enumerate(words)],
            **AXES,
        )
        for name, words in TURNS.items()
    }
    mech = everything(joints)
    q, v, h = jnp.concatenate(PLACES), jnp.asarray(np.random.default_rng(7).normal(size=12)), 1e-4
    layout, t = mech.layout, 0.4
    phi = jax.jit(jax.vmap(lambda d, s: mbs.constraints(mech, layout.retract(q, d), t + s)))
    still = jnp.zeros(12)
    value = phi(still[None], jnp.zeros(1))[0]
    along = lambda d, s: (phi(d, s) - phi(-d, -s)) / (2 * h)
    by_place = along(h * jnp.eye(12), jnp.zeros(12)).T
    by_time = along(jnp.zeros((1, 12)), jnp.full(1, h))[0]
    found = mbs.constraint_jacobian(mech, q, t), mbs.velocity_rhs(mech, q, t), mbs.acceleration_rhs(mech, q, v, t)
    # A path with constant velocities: each body turns about an axis that is fixed in it.
    forth, back = (phi((s * v)[None], jnp.full(1, s))[0] for s in (h, -h))
    twice = (forth - 2 * value + back) / h**2
    return value, (by_place, -by_time, -twice), found, layout.row_slices


@pytest.mark.parametrize("name", TURNS)
def test_total_joint_with_driven_turns(name):
    """The held components of 2 sin(‖ε‖/2) ε/‖ε‖, ε the Euler vector of R R₀ᵀ, by SciPy; Φ_q, ν and γ by differences."""
    value, numeric, exact, slices = turns()
    rows, words = slices[name], TURNS[name]
    frames = [Rotation.from_quat(np.asarray(p)[[4, 5, 6, 3]]) for p in PLACES]
    axes = [Rotation.from_matrix(np.asarray(x)) for x in (ELEMENTS["TotalJoint"].axes_i, ELEMENTS["TotalJoint"].axes_j)]
    relative = (frames[0] * axes[0]).inv() * frames[1] * axes[1]
    theta = [float(DRIVEN[k](0.4)) if word == "driven" else 0.0 for k, word in enumerate(words)]
    error = (relative * Rotation.from_rotvec(theta).inv()).as_rotvec()
    size = np.linalg.norm(error)
    held = [k for k, word in enumerate(words) if word != "free"]
    np.testing.assert_allclose(value[rows], (2 * np.sin(size / 2) * error / size)[held], atol=1e-14)
    for found, expected, tolerance in zip(exact, numeric, (1e-7, 1e-7, 1e-6), strict=True):
        np.testing.assert_allclose(found[rows], expected[rows], atol=tolerance)
