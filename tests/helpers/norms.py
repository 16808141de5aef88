"""Norms."""

import numpy as np


def size(x):
    """The largest absolute value."""
    return np.abs(np.asarray(x)).max(initial=0.0)
