"""Files: models of mechanisms that are read and written (`models`), results that are written (`results`), curves that are
read (`outlines`)."""

import importlib

from jaxmbs.io.models import Model as Model
from jaxmbs.io.models import ModelError as ModelError
from jaxmbs.io.models import load as load
from jaxmbs.io.models import save as save
from jaxmbs.io.models import schema as schema
from jaxmbs.io.outlines import read_curve as read_curve
from jaxmbs.io.trajectories import load_trajectory as load_trajectory

_RESULTS = ("export", "read_solution")


def __getattr__(name: str):
    """What writes results is imported when it is first asked for: it needs matplotlib."""
    if name in _RESULTS:
        return getattr(importlib.import_module("jaxmbs.io.results"), name)
    raise AttributeError(f"module 'jaxmbs.io' has no attribute {name!r}")
