"""A crank, and what the message of a refusal must say."""

import pytest

import jaxmbs as mbs
from jaxmbs import planar

# Body of the mechanisms that are refused.
BODY = planar.Body()
# Pin of the crank on the ground.
PIN = planar.Revolute("ground", "crank", (0, 0), (0, 0))
# Driver of the crank.
MOTOR = planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))


def assert_refused(make, parts):
    """Fail unless `make` raises a `ValueError` whose message has all these parts."""
    with pytest.raises(ValueError, match=r"\w") as caught:
        make()
    message = str(caught.value)
    assert [part for part in parts if part not in message] == [], message


def crank(**motors):
    """Return a crank on the ground with these drivers."""
    return mbs.Mechanism({"crank": BODY}, {"pin": PIN}, motors)
