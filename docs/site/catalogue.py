# ruff: noqa: E501 (tables of code that pages show as it is)
"""One small mechanism for the page of each joint, constraint and driver."""

from typing import NamedTuple


class Entry(NamedTuple):
    """The mechanism of an element.

    Attributes:
        code: Python that makes the element, between bodies "a" and "b" and the ground.
        guess: rough configuration.
        reaction: description of its reaction.
        points: points that give the bodies their shape.
        context: Python that makes other constraints of the picture.
    """

    code: str
    guess: dict
    reaction: str
    points: tuple = ()
    context: str = "{}"


def bar(body="a", reach=1.0):
    """Return a bar of an example as the points (body, point) drawn on it: its frame and its end at x = `reach`."""
    return ((body, (0.0, 0.0)), (body, (reach, 0.0)))


# Words for the reaction of drivers; the braces hold the kind of force or torque.
EFFORT = "Its multiplier is the driving {}, `reactions[…].effort`."
# Points drawn on the two planar bars "a" and "b" of most examples.
PLANAR_PAIR = bar("a") + bar("b")

# Examples of the planar elements, by kind and class.
PLANAR = {
    "Joints": {
        "Revolute": Entry(
            'planar.Revolute("a", "b", (1.0, 0.0), (0.0, 0.0))', {"a": (0, 0, 0.4), "b": (0.9, 0.4, -0.6)},
            "A force through the pin with two components; no torque about it.", PLANAR_PAIR,
        ),
        "Translational": Entry(
            'planar.Translational("a", "b", (0.0, 0.0), (0.0, 0.0), (1.0, 0.0))',
            {"a": (0, 0, 0.3), "b": (0.7, 0.2, 0.3)}, "A force across the slide and a torque; nothing along it.",
            bar("a", 1.4) + bar("b", 0.2),
        ),
        "RevoluteTranslational": Entry(
            'planar.RevoluteTranslational("a", "b", (0.0, 0.0), (0.0, 0.0), (1.0, 0.0))',
            {"a": (0, 0, 0.3), "b": (0.7, 0.2, -0.7)}, "A force across the slot.", bar("a", 1.4) + bar("b", 0.8),
        ),
        "Distance": Entry(
            'planar.Distance("a", "b", (0.8, 0.0), (0.0, 0.0), 1.0)', {"a": (0, 0, 0.9), "b": (1.4, 0.9, -0.8)},
            "A force along the line of the two points: a massless rod.", bar("a", 0.8) + bar("b", 0.8),
        ),
    },
    "Absolute and relative constraints": {
        "AbsoluteX": Entry(
            'planar.AbsoluteX("a", (0.5, 0.0), 0.6)', {"a": (0.2, 0.3, 0.6)}, "It is a force along the x axis of the ground.", bar(),
        ),
        "AbsoluteY": Entry(
            'planar.AbsoluteY("a", (0.5, 0.0), 0.6)', {"a": (0.2, 0.3, 0.6)}, "It is a force along the y axis of the ground.", bar(),
        ),
        "AbsoluteAngle": Entry(
            'planar.AbsoluteAngle("a", 0.5)', {"a": (0, 0, 0.5)}, "It is a torque from the ground.", bar(),
        ),
        "AbsoluteDistance": Entry(
            'planar.AbsoluteDistance("a", (0.0, 0.0), (0.0, 0.0), 0.8)', {"a": (0.6, 0.5, 0.2)},
            "A force along the line from the fixed point.", bar("a", 0.7),
        ),
        "RelativeX": Entry(
            'planar.RelativeX("a", "b", (0.5, 0.0), (0.0, 0.0), 0.8)', {"a": (0, 0, 0.3), "b": (1.2, 0.6, 0.9)},
            "A force along the x axis of the ground between the two points.", PLANAR_PAIR,
        ),
        "RelativeY": Entry(
            'planar.RelativeY("a", "b", (0.5, 0.0), (0.0, 0.0), 0.6)', {"a": (0, 0, 0.3), "b": (1.2, 0.6, 0.9)},
            "A force along the y axis of the ground between the two points.", PLANAR_PAIR,
        ),
        "RelativeAngle": Entry(
            'planar.RelativeAngle("a", "b", 0.6)', {"a": (0, 0, 0.3), "b": (1.1, 0.2, 0.9)},
            "A torque between the bodies.", PLANAR_PAIR,
        ),
    },
    "Gears, belts and cams": {
        "Gear": Entry(
            'planar.Gear("a", "b", (0.0, 0.0), (0.0, 0.0), 0.6, 0.4)', {"a": (0, 0, 0.2), "b": (1.0, 0, 0.1)},
            "The force of the teeth along the common tangent of the pitch circles.",
            context='{"A": planar.Revolute("ground", "a", (0, 0), (0, 0)), "B": planar.Revolute("ground", "b", (1, 0), (0, 0))}',
        ),
        "RackPinion": Entry(
            'planar.RackPinion("a", "b", (0.0, 0.0), (0.0, 0.0), (1.0, 0.0), 0.4)',
            {"a": (0, 0, 0), "b": (0.8, 0.4, 0)},
            "The force of the teeth along the rack, and the force that keeps the pinion at its distance.",
            context='{"rail": planar.Translational("ground", "a", (0, 0), (0, 0), (1, 0))}', points=bar("a", 1.6),
        ),
        "Belt": Entry(
            'planar.Belt(("a", "b"), ((0.0, 0.0), (0.0, 0.0)), (0.5, 0.3))', {"a": (0, 0, 0.2), "b": (1.5, 0, 0.6)},
            "The tensions of its spans.",
            context='{"A": planar.Revolute("ground", "a", (0, 0), (0, 0)), "B": planar.Revolute("ground", "b", (1.5, 0), (0, 0))}',
        ),
        "Rope": Entry(
            'planar.Rope(("ground", "a", "ground", "b"), ((-0.3, 1.5), (0.0, 0.0), (0.6, 1.5), (0.0, 0.0)), (0, 0.3, -0.3, 0))',
            {"a": (0, 0, 0), "b": (0.9, 0.2, 0)}, "The tension of the rope.",
            context='{"A": planar.Translational("ground", "a", (0, 0), (0, 0), (0, 1)), "B": planar.Translational("ground", "b", (0.9, 0), (0, 0), (0, 1))}',
        ),
        "CamFollower": Entry(
            'planar.CamFollower("a", "b", (0.0, 0.0), (0.0, 0.0),\n    planar.FunctionOutline(lambda alpha: 0.5 + 0.12 * jnp.cos(alpha)), planar.FunctionOutline(0.2))',
            {"a": (0, 0, 0.4), "b": (0, 0.8, 0), "cam": (1.2, -1.57)},
            "A force along the common normal at the contact.",
            context='{"A": planar.Revolute("ground", "a", (0, 0), (0, 0)), "slide": planar.Translational("ground", "b", (0, 0), (0, 0), (0, 1))}',
        ),
        "CamFlatFollower": Entry(
            'planar.CamFlatFollower("a", "b", (0.0, 0.0), (0.0, 0.0),\n    planar.FunctionOutline(lambda alpha: 0.5 + 0.12 * jnp.cos(alpha)))',
            {"a": (0, 0, 0.4), "b": (0, 0.6, 0), "cam": (1.2,)}, "A force across the face at the contact.",
            (("b", (-0.5, 0.0)), ("b", (0.5, 0.0))),
            '{"A": planar.Revolute("ground", "a", (0, 0), (0, 0)), "slide": planar.Translational("ground", "b", (0, 0), (0, 0), (0, 1))}',
        ),
        "PointFollower": Entry(
            'planar.PointFollower("a", "b", (0.0, 0.0), (0.0, 0.0),\n    planar.FunctionOutline(lambda alpha: 0.8 + 0.2 * jnp.cos(2 * alpha)))',
            {"a": (0.6, 0.6, -0.9), "b": (0, 0, 0.0), "cam": (0.7,)}, "A force across the outline at the point.",
            bar("a", 0.8), '{"B": planar.Revolute("ground", "b", (0, 0), (0, 0))}',
        ),
        "GenevaDrive": Entry(
            'planar.GenevaDrive("a", "b", (0.0, 0.0), (0.0, 0.0), slots=4, crank=0.6)',
            {"a": (0, 0, -0.4), "b": (0.6 * 2**0.5, 0, 3.81)}, "The force of the pin across its slot, or that of the locking disc.",
            context='{"A": planar.Revolute("ground", "a", (0, 0), (0, 0)), "B": planar.Revolute("ground", "b", (0.6 * 2**0.5, 0), (0, 0))}',
        ),
    },
    "Drivers": {
        "AbsoluteXDriver": Entry(
            'planar.AbsoluteXDriver("a", (0.5, 0.0), mbs.motion.Ramp(1.0, 0.6))', {"a": (0.2, 0.3, 0.6)},
            EFFORT.format("force along x"), bar(),
        ),
        "AbsoluteYDriver": Entry(
            'planar.AbsoluteYDriver("a", (0.5, 0.0), mbs.motion.Ramp(1.0, 0.6))', {"a": (0.2, 0.3, 0.6)},
            EFFORT.format("force along y"), bar(),
        ),
        "AbsoluteAngleDriver": Entry(
            'planar.AbsoluteAngleDriver("a", mbs.motion.Ramp(1.0, 0.5))', {"a": (0, 0, 0.5)}, EFFORT.format("torque"),
            bar(), '{"A": planar.Revolute("ground", "a", (0, 0), (0, 0))}',
        ),
        "RelativeXDriver": Entry(
            'planar.RelativeXDriver("a", "b", (0.5, 0.0), (0.0, 0.0), mbs.motion.Ramp(1.0, 0.8))',
            {"a": (0, 0, 0.3), "b": (1.2, 0.6, 0.9)}, EFFORT.format("force along x"), PLANAR_PAIR,
        ),
        "RelativeYDriver": Entry(
            'planar.RelativeYDriver("a", "b", (0.5, 0.0), (0.0, 0.0), mbs.motion.Ramp(1.0, 0.6))',
            {"a": (0, 0, 0.3), "b": (1.2, 0.6, 0.9)}, EFFORT.format("force along y"), PLANAR_PAIR,
        ),
        "RelativeAngleDriver": Entry(
            'planar.RelativeAngleDriver("a", "b", mbs.motion.Ramp(1.0, 0.6))', {"a": (0, 0, 0.3), "b": (1.1, 0.2, 0.9)},
            EFFORT.format("torque"), PLANAR_PAIR,
        ),
        "DistanceDriver": Entry(
            'planar.DistanceDriver("a", "b", (0.8, 0.0), (0.0, 0.0), mbs.motion.Ramp(0.2, 1.0))',
            {"a": (0, 0, 0.9), "b": (1.4, 0.9, -0.8)}, EFFORT.format("force along the line (times twice the distance)"),
            bar("a", 0.8) + bar("b", 0.8),
        ),
        "RevoluteDriver": Entry(
            'planar.RevoluteDriver("a", "b", mbs.motion.Ramp(6.28, -1.0))', {"a": (0, 0, 0.4), "b": (0.9, 0.4, -0.6)},
            EFFORT.format("torque"), PLANAR_PAIR, '{"pin": planar.Revolute("a", "b", (1.0, 0.0), (0.0, 0.0))}',
        ),
        "TranslationalDriver": Entry(
            'planar.TranslationalDriver("a", "b", (0.0, 0.0), (0.0, 0.0), (1.0, 0.0), mbs.motion.Ramp(0.3, 0.7))',
            {"a": (0, 0, 0.3), "b": (0.7, 0.2, 0.3)}, EFFORT.format("force along the slide"),
            bar("a", 1.4) + bar("b", 0.2),
            '{"slide": planar.Translational("a", "b", (0.0, 0.0), (0.0, 0.0), (1.0, 0.0))}',
        ),
    },
}  # fmt: skip

# Points drawn on the two spatial rods "a" and "b" of most examples, both along x.
PAIR = (("a", (-0.9, 0.0, 0.0)), ("b", (0.9, 0.0, 0.0)))
# Guess for two bodies with a distance of 1 along x.
APART = {"a": (0, 0, 0, 1, 0, 0, 0), "b": (1.0, 0, 0, 1, 0, 0, 0)}
# Guess for a body 0.8 above the other, turned a little about z.
ABOVE = {"a": (0, 0, 0, 1, 0, 0, 0), "b": (0, 0, 0.8, 0.95, 0, 0, 0.3)}
# Code of the points of two rods that meet in a joint: the end of "a" and the start of "b".
ENDS = "(0.5, 0.0, 0.0), (-0.5, 0.0, 0.0)"

# Examples of the spatial elements, by kind and class.
SPATIAL = {
    "Joints": {
        "Revolute": Entry(
            f'spatial.Revolute("a", "b", {ENDS}, (0.0, 1.0, 0.0))', {"a": APART["a"], "b": (0.9, 0, 0.3, 0.95, 0, 0.3, 0)},
            "Three forces, and torques about the two axes across the hinge.", PAIR,
        ),
        "Prismatic": Entry(
            'spatial.Prismatic("a", "b", axis_i=(1.0, 0.0, 0.0))', APART,
            "Two forces across the slide and three torques; nothing along it.", PAIR,
        ),
        "Cylindrical": Entry(
            'spatial.Cylindrical("a", "b")', ABOVE, "Forces and torques across the axis: two of each.", PAIR,
        ),
        "Spherical": Entry(
            f'spatial.Spherical("a", "b", {ENDS})', {"a": APART["a"], "b": (0.9, 0.2, 0.3, 0.9, 0.2, 0.3, 0.2)},
            "Three forces, no torque.", PAIR,
        ),
        "Planar": Entry(
            'spatial.Planar("a", "b", (0.0, 0.0, 0.3), (0.0, 0.0, -0.3))',
            {"a": APART["a"], "b": (0.3, 0.1, 0.6, 0.95, 0, 0, 0.3)},
            "A force across the plane, and torques about the two axes in it.", PAIR,
        ),
        "Universal": Entry(
            f'spatial.Universal("a", "b", {ENDS}, (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))',
            {"a": APART["a"], "b": (0.9, 0.2, 0.3, 0.95, 0, 0.2, 0.2)},
            "Three forces, and a torque about the normal of the cross.", PAIR,
        ),
        "ConstantVelocity": Entry(
            f'spatial.ConstantVelocity("a", "b", {ENDS}, (1.0, 0.0, 0.0))',
            {"a": APART["a"], "b": (0.9, 0.1, 0.3, 0.95, 0, -0.3, 0)},
            "Three forces, and a torque about the axis halfway between those of the shafts.", PAIR,
        ),
        "Screw": Entry(
            'spatial.Screw("a", "b", pitch=0.2)', ABOVE,
            "As of `Cylindrical`, and a force along the axis with its torque, in proportion of the pitch.", PAIR,
        ),
        "Distance": Entry(
            'spatial.Distance("a", "b", (0.35, 0.0, 0.0), (-0.35, 0.0, 0.0), 0.6)',
            {"a": APART["a"], "b": (1.3, 0.2, 0.3, 0.95, 0, 0.2, 0)}, "A force along the line of the two points.", PAIR,
        ),
        "Rigid": Entry(
            f'spatial.Rigid("a", "b", {ENDS})', APART, "Three forces and three torques.", PAIR,
        ),
        "Free": Entry(
            'spatial.Free("a", "b")', {"a": APART["a"], "b": (1.0, 0.3, 0.3, 0.9, 0.2, 0.3, 0.2)},
            "None: it holds nothing. It names the relative coordinates of a floating body.", PAIR,
        ),
        "TotalJoint": Entry(
            f'spatial.TotalJoint("a", "b", {ENDS},\n    position=("fixed", "fixed", mbs.motion.Harmonic(0.1, 6.0)), orientation=("fixed", "free", "fixed"))',
            APART, "One force or torque for each component that is not free; `effort` of those that move in time.", PAIR,
        ),
        "RelativeJoint": Entry(
            f'spatial.RelativeJoint("a", "b", {ENDS},\n    position=("fixed",) * 3, orientation=("free", "free", "fixed"))',
            {"a": APART["a"], "b": (0.9, 0.2, 0.3, 0.95, 0.2, 0.2, 0)},
            "One force or torque for each coordinate that is not free; generalized torques about the axes of the angles.", PAIR,
        ),
        "AxisDistance": Entry(
            'spatial.AxisDistance("a", "b", distance=0.5)', {"a": APART["a"], "b": (0.4, 0.3, 0.5, 0.95, 0, 0.2, 0)},
            "A force along the line from the point to the axis, across the axis.", PAIR,
        ),
        "Thread": Entry(
            'spatial.Thread("a", "b", pitch=0.2)', ABOVE,
            "A force along the axis with its torque, in proportion of the pitch.", PAIR,
        ),
        "RackPinion": Entry(
            'spatial.RackPinion("a", "b", radius_j=0.4)', {"a": APART["a"], "b": (0.3, 0.4, 0, 1, 0, 0, 0)},
            "The force of the teeth at the pitch line.", (),
            '{"A": spatial.Prismatic("ground", "a", axis_i=(1, 0, 0)), "B": spatial.Revolute("ground", "b", (0.3, 0.4, 0), (0, 0, 0))}',
        ),
        "Gear": Entry(
            'spatial.Gear("a", "b", radius_i=0.6, radius_j=0.4)', {"a": APART["a"], "b": (1.0, 0, 0, 1, 0, 0, 0)},
            "The force of the teeth at the pitch circles.", (),
            '{"A": spatial.Revolute("ground", "a"), "B": spatial.Revolute("ground", "b", (1, 0, 0), (0, 0, 0))}',
        ),
        "WormGear": Entry(
            'spatial.WormGear("a", "b", axis_i=(0.0, 0.0, 1.0), axis_j=(0.0, 1.0, 0.0),\n    radius_i=0.2, radius_j=0.6, pitch=0.2)',
            {"a": APART["a"], "b": (0.8, 0, 0, 1, 0, 0, 0)},
            "The force of the thread at the pitch point: thrust and torque on the worm.", (),
            '{"A": spatial.Revolute("ground", "a"), "B": spatial.Revolute("ground", "b", (0.8, 0, 0), (0, 0, 0), (0, 1, 0))}',
        ),
        "JointCoupling": Entry(
            'spatial.JointCoupling("ground", "a", ("ground", "b"), ("angle", "angle"), ((0, 1), (0, -2)))',
            {"a": APART["a"], "b": (1.0, 0, 0, 1, 0, 0, 0)},
            "Efforts along the coordinates that it couples.", (),
            '{"A": spatial.Revolute("ground", "a"), "B": spatial.Revolute("ground", "b", (1, 0, 0), (0, 0, 0))}',
        ),
    },
    "Drivers": {
        "RevoluteDriver": Entry(
            'spatial.RevoluteDriver("a", "b", mbs.motion.Ramp(6.28, 0.3), axis_i=(0.0, 1.0, 0.0))',
            {"a": APART["a"], "b": (0.9, 0, 0.3, 0.95, 0, 0.3, 0)}, EFFORT.format("torque"), PAIR,
            f'{{"hinge": spatial.Revolute("a", "b", {ENDS}, (0.0, 1.0, 0.0))}}',
        ),
        "TranslationalDriver": Entry(
            'spatial.TranslationalDriver("a", "b", (0, 0, 0), (0, 0, 0), mbs.motion.Ramp(0.2, 1.0), axis_i=(1.0, 0.0, 0.0))',
            APART, EFFORT.format("force along the axis"), PAIR,
            '{"slide": spatial.Prismatic("a", "b", axis_i=(1.0, 0.0, 0.0))}',
        ),
        "DistanceDriver": Entry(
            'spatial.DistanceDriver("a", "b", (0.35, 0.0, 0.0), (-0.35, 0.0, 0.0), mbs.motion.Ramp(0.2, 0.6))',
            {"a": APART["a"], "b": (1.3, 0.2, 0.3, 0.95, 0, 0.2, 0)}, EFFORT.format("force along the line"), PAIR,
        ),
    },
}  # fmt: skip
