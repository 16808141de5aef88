"""Coupler curves of four-bars in complex numbers, which know nothing of the package."""

import numpy as np


def coupler_point(b, angle, branch):
    """Return the coupler point as a complex number, by the law of cosines; `branch` is the side of the coupler, ±1."""
    pin = b["crank"] * np.exp(1j * np.asarray(angle))
    line = b["ground"] - pin
    cosine = (b["coupler"] ** 2 + np.abs(line) ** 2 - b["rocker"] ** 2) / (2 * b["coupler"] * np.abs(line))
    along = line / np.abs(line) * np.exp(1j * branch * np.arccos(cosine))
    z = pin + along * complex(*b["point"])
    return complex(*b["pivot"]) + np.exp(1j * b["angle"]) * z
