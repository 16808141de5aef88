"""Files: models of mechanisms (`models`), results of synthesis (`results`), curves (`outlines`), and trajectories."""

import importlib

from jaxmbs.io.models import Model as Model
from jaxmbs.io.models import ModelError as ModelError
from jaxmbs.io.models import load as load
from jaxmbs.io.models import save as save
from jaxmbs.io.models import schema as schema
from jaxmbs.io.outlines import read_curve as read_curve
from jaxmbs.io.trajectories import load_trajectory as load_trajectory

# Names that are imported when they are first used: drawings need matplotlib.
_RESULTS = ("export", "read_solution")


def __getattr__(name: str):
    """Import the functions for results when they are first used."""
    if name in _RESULTS:
        return getattr(importlib.import_module("jaxmbs.io.results"), name)
    raise AttributeError(f"module 'jaxmbs.io' has no attribute {name!r}")
