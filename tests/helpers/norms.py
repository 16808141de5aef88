"""Norms."""

import numpy as np


def size(x):
    """Return the largest absolute value, 0 for an empty array."""
    return np.abs(np.asarray(x)).max(initial=0.0)
