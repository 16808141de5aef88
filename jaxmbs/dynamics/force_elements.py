"""Forces, lengths, rates and powers of springs, dampers, torques and other forces along a motion."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax.numpy as jnp

from jaxmbs.forces import ForceElement
from jaxmbs.formulations.augmented import CartesianEquations
from jaxmbs.formulations.reactive import with_reactive_forces
from jaxmbs.formulations.stateful import states_along, with_states
from jaxmbs.numerics.repeated import vmap_axes
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.equations import map_forces, state_of
from jaxmbs.system.marks import measure_marks
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.named import AbstractNamed
from jaxmbs.system.trajectory import Trajectory


class ForceElements(AbstractNamed):
    """A mapping of the names of forces to `ForceElement`.

    Args:
        by_name: name → `ForceElement`.

    Examples:
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.1]), {"bob": (1, 0, jnp.pi / 2)}, step=0.02)
        >>> list(mbs.force_elements(pendulum, run))
        ['gravity']
    """

    kind = "force"

    def __getitem__(self, name: str) -> ForceElement:
        """Return the `ForceElement` of a force; an unknown name raises `KeyError`."""
        return self.named(name)


def force_elements(mech: Mechanism, run: Trajectory) -> ForceElements:
    """Return force, length, rate, power, … of every spring, damper, torque and other force along a motion, by name.

    The values are differentiable.

    Args:
        mech: the mechanism.
        run: a motion by `simulate` or `kinematics`; a batch of them under `jax.vmap`, or along leading axes.

    Returns:
        A mapping of names to `ForceElement`: `force_elements(mech, run)["spring"].force` is (T,),
        positive where it pulls.

    Raises:
        ValueError: forces have states, such as the current of a motor, and `run` is not a motion by `simulate`.

    Examples:
        >>> run = mbs.simulate(pendulum, jnp.array([0.0, 0.1]), {"bob": (1, 0, jnp.pi / 2)}, step=0.02)
        >>> print(mbs.force_elements(pendulum, run)["gravity"].power.round(3))
        [ 0.    19.219]
    """
    found = _force_elements(mech, run.t, run.q, run.v, states_along(mech, run))
    return ForceElements({name: found[name] for name in mech.forces})


@eqx.filter_jit
def _force_elements(mech: Mechanism, t, q, v, states) -> dict[str, ForceElement]:
    """Return the `ForceElement` of each force, by name, at times with any leading axes."""
    return vmap_axes(partial(ProgramWithFallback(_force_elements_at), mech), jnp.ndim(t))(t, q, v, states)


def _force_elements_at(mech: Mechanism, t, q, v, states) -> dict[str, ForceElement]:
    """Return the `ForceElement` of each force, by name, at one time."""
    mech = measure_marks(with_states(mech, states), q)[0]
    # The forces do not depend on the formulation.
    mech = with_reactive_forces(CartesianEquations(mech), q, v, t)[0].mech
    state = state_of(mech, q, v, t)
    return map_forces(lambda force: force.report(state), mech.forces)
