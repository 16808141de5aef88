"""A crank, and what the message of a refusal must say."""

import pytest

import jaxmbs as mbs
from jaxmbs import planar

BODY = planar.Body()
PIN = planar.Revolute("ground", "crank", (0, 0), (0, 0))
MOTOR = planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))


def assert_refused(make, parts):
    with pytest.raises(ValueError, match=r"\w") as caught:
        make()
    message = str(caught.value)
    assert [part for part in parts if part not in message] == [], message


def crank(**motors):
    return mbs.Mechanism({"crank": BODY}, {"pin": PIN}, motors)
