"""Learning environments: differentiable mechanisms with a task, in batches, also through Gymnasium.

Functional, in the style of Brax and Gymnax: `reset(key, params) → State`, `step(state, action) → State`. The adapters
`GymnasiumEnv` and `GymnasiumVectorEnv` need gymnasium, `pip install gymnasium`; nothing else here does.
"""

import contextlib
import importlib

from jaxmbs.env.double_pendulum import CartDoublePendulum as CartDoublePendulum
from jaxmbs.env.environment import Environment as Environment
from jaxmbs.env.environment import State as State
from jaxmbs.env.five_bar import FiveBar as FiveBar
from jaxmbs.env.jansen_leg import JansenLeg as JansenLeg
from jaxmbs.env.registry import ENVIRONMENTS as ENVIRONMENTS
from jaxmbs.env.registry import make as make
from jaxmbs.env.slider_crank import SliderCrank as SliderCrank

# Names imported on first use, because they need Gymnasium.
_ADAPTERS = ("GymnasiumEnv", "GymnasiumVectorEnv")

# If Gymnasium is installed, register the environments for `gymnasium.make("jaxmbs/five-bar-v0")`.
with contextlib.suppress(ImportError):
    importlib.import_module("jaxmbs.env.adapters")


def __getattr__(name: str):
    """Import an adapter, or raise `ImportError` without Gymnasium."""
    if name in _ADAPTERS:
        return getattr(importlib.import_module("jaxmbs.env.adapters"), name)
    raise AttributeError(f"module 'jaxmbs.env' has no attribute {name!r}")
