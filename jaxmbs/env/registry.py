"""Environments by name."""

from __future__ import annotations

from typing import Any

from jaxmbs.env.double_pendulum import CartDoublePendulum
from jaxmbs.env.environment import Environment
from jaxmbs.env.five_bar import FiveBar
from jaxmbs.env.jansen_leg import JansenLeg
from jaxmbs.env.slider_crank import SliderCrank

# Class of each environment by the name that `make` takes.
ENVIRONMENTS: dict[str, type[Environment]] = {
    "slider-crank": SliderCrank,
    "cart-double-pendulum": CartDoublePendulum,
    "five-bar": FiveBar,
    "jansen-leg": JansenLeg,
}


def make(name: str, **settings: Any) -> Environment:
    """Make an environment by its name.

    Args:
        name: "five-bar", "jansen-leg", "slider-crank", …; all are in `ENVIRONMENTS`.
        settings: arguments of its class.

    Returns:
        the environment.

    Raises:
        ValueError: no environment has this name.

    Examples:
        >>> environment = mbs.env.make("five-bar", horizon=100)
        >>> type(environment).__name__, environment.action_size, environment.horizon
        ('FiveBar', 2, 100)
    """
    if name not in ENVIRONMENTS:
        raise ValueError(f"no environment is called {name!r}; the environments are {', '.join(ENVIRONMENTS)}")
    return ENVIRONMENTS[name](**settings)
