"""Motions at many times: what is compiled does not depend on how many they are."""

import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar
from ptxas import programs_of


def crank(driven):
    """A bar on a pin, turned by a motor or left to its weight."""
    motor = {"motor": planar.RevoluteDriver("ground", "bar", mbs.motion.Ramp(1.0))}
    return mbs.Mechanism(
        bodies={"bar": planar.Body(mass=1.0, inertia=0.1)},
        constraints={"pin": planar.Revolute("ground", "bar", (0, 0), (-1, 0))},
        drivers=motor if driven else {},
        forces={"gravity": mbs.Gravity((0, -9.81))},
    )


START = {"bar": (1, 0, 0)}
MOTIONS = {
    "kinematics": lambda times: mbs.kinematics(crank(True), times, START).status,
    "simulate": lambda times: mbs.simulate(crank(False), times, START, step=0.01).status,
    "reactions": lambda times: mbs.reactions(crank(True), mbs.kinematics(crank(True), times, START))["pin"].force,
}


@pytest.mark.parametrize("motion", MOTIONS)
def test_programs_do_not_grow_with_the_times(motion):
    """Operations on rows of all times were once written out within the program, each with its own line of machine code."""

    def sizes_for(count):
        times = np.arange(count) * 0.01
        return [program.size for program in programs_of(lambda: MOTIONS[motion](times))]

    sizes = [sizes_for(count) for count in (12, 120)]
    assert sizes[0] == sizes[1]
    assert sum(sizes[0]) > 100
