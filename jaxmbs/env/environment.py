"""What an environment is: a mechanism with efforts that are chosen anew in every control step, and a task for it."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray, PyTree

from jaxmbs.analyses.assembly import assemble
from jaxmbs.dynamics.closure import Projection
from jaxmbs.dynamics.methods.explicit import SemiImplicitEuler
from jaxmbs.dynamics.methods.method import AbstractFixedStep, Motion, ScaledEquations, step_status
from jaxmbs.dynamics.simulate import simulate
from jaxmbs.formulations.augmented import AbstractFormulation
from jaxmbs.formulations.joint.joint_coordinates import JointCoordinates
from jaxmbs.formulations.stateful import equations_of, start_states, state_names, states_of
from jaxmbs.numerics.arrays import default_float, finite, where_tree
from jaxmbs.numerics.results import Status
from jaxmbs.numerics.scaling import DEFAULT_TOLERANCE
from jaxmbs.programs.function import Straight
from jaxmbs.system.marks import gears_without_marks, with_marks
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory


class Start(NamedTuple):
    """An assembled state of motion, and how its assembly ended."""

    q: Float[Array, " n"]
    v: Float[Array, " m"]
    x: Float[Array, " k"]
    u: Float[Array, " l"]
    status: Int[Array, ""]


class State(NamedTuple):
    """An environment at the end of a control step, a pytree. `vmap` gives all of it a leading axis.

    Attributes:
        q: coordinates of the mechanism, as in `mbs.simulate`.
        v: its velocities.
        x: coordinates of the formulation.
        u: its velocities.
        steps: control steps since the start of the episode.
        observation: of this step. Where an episode has begun by auto-reset, it is the first one of that.
        reward: of this step.
        terminated: whether the episode ended with this step by failure or by the rules of the task.
        truncated: whether it ended because its time was over.
        status: how the simulation of this step ended, see `mbs.Status`; not 0 ends the episode.
        final_observation: that of the step's end, before any auto-reset.
        metrics: other figures of this step by name, see `Environment.metrics`.
        params: the design.
        task: what is drawn for each episode.
        key: of the tasks to come.
        first: what auto-reset goes back to.

    Examples:
        >>> state = mbs.env.make("slider-crank").reset(jax.random.key(0))
        >>> int(state.status), int(state.steps), bool(state.done)
        (0, 0, False)
    """

    q: Float[Array, " n"]
    v: Float[Array, " m"]
    x: Float[Array, " k"]
    u: Float[Array, " l"]
    steps: Int[Array, ""]
    observation: Float[Array, " observations"]
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    status: Int[Array, ""]
    final_observation: Float[Array, " observations"]
    metrics: dict[str, Array]
    params: PyTree[Array]
    task: PyTree[Array]
    key: PRNGKeyArray
    first: Start

    @property
    def done(self) -> Bool[Array, "*batch"]:
        """Whether the episode ended with this step."""
        return self.terminated | self.truncated


class Environment(eqx.Module):
    """A mechanism to be controlled: `reset(key, params) → State`, `step(state, action) → State`, both pure.

    They work under `jit`, `vmap`, `grad` and `jacfwd`. Gradients flow from rewards to actions and, through the assembly
    at the start and every step, to the design `params`: any pytree of numbers. One environment is one sample; batches
    are made by `vmap`, with a design of its own for each sample where wanted.

    An environment of one's own defines the methods below in about thirty lines, see docs/learning.md. A step is
    compiled into a straight-line program as a whole, so all of it is written in jax.numpy, for one sample.

    Args:
        control_step: seconds for which an action is held.
        substeps: equal steps of the integration in that time.
        horizon: control steps after which an episode is truncated.
        failure: reward of a step that could not be simulated, as after a lock-up or with a design that cannot be
            assembled.
        method, formulation: as in `mbs.simulate`; a method with fixed steps.

    Examples:
        >>> environment = mbs.env.make("slider-crank")
        >>> state = environment.reset(jax.random.key(0))
        >>> state.observation.shape, environment.action_size
        ((6,), 1)
    """

    control_step: float = 0.02
    substeps: int = 4
    horizon: int = 200
    failure: float = -10.0
    method: AbstractFixedStep = SemiImplicitEuler(Projection(iterations=8))
    formulation: AbstractFormulation = JointCoordinates()

    action_size: ClassVar[int]
    """Number of entries of an action, each between −1 and 1."""
    observation_bounds: ClassVar[tuple[float, ...]]
    """Largest sizes of the observations. Adapters cut off what is beyond; here nothing is."""

    def __check_init__(self):
        counts = all(isinstance(x, int) and x >= 1 for x in (self.substeps, self.horizon))
        real = all(isinstance(x, int | float) and math.isfinite(x) for x in (self.control_step, self.failure))
        if not (counts and real and self.control_step > 0):
            raise ValueError(
                "control_step must be positive, substeps and horizon whole numbers from 1 on, failure a number, "
                f"got {self.control_step}, {self.substeps}, {self.horizon} and {self.failure}"
            )
        if not isinstance(self.method, AbstractFixedStep):
            raise ValueError(f"method must be one with fixed steps, such as RK4(), got {self.method!r}")
        if not isinstance(self.formulation, AbstractFormulation):
            raise ValueError(f"formulation must be one such as JointCoordinates(), got {self.formulation!r}")

    @property
    @abc.abstractmethod
    def design(self) -> PyTree:
        """The params of `reset` unless others are given: any pytree of numbers."""

    @abc.abstractmethod
    def build(self, params, action: Float[Array, " actions"]) -> Mechanism:
        """The mechanism of a design, with the forces of an action that is held. Its time is that since the beginning of
        the episode."""

    @abc.abstractmethod
    def start(self, params, task, key: PRNGKeyArray) -> tuple[Any, Any]:
        """q0 and v0 of an episode, as `mbs.assemble` and `mbs.simulate` take them: rough is enough.

        Name as many single coordinates, "crank.phi", as there are degrees of freedom: they stay what they are, and the
        gradient by the design knows how all others follow. Where other coordinates are free, see `mbs.assemble`."""

    def task(self, key: PRNGKeyArray) -> PyTree:
        """What is drawn for each episode, such as a target: any pytree of numbers."""
        del key
        return ()

    @abc.abstractmethod
    def observe(self, params, task, now: Trajectory) -> Float[Array, " observations"]:
        """What a policy sees. `now` is a `Trajectory` at a single time: `now.t`, that since the beginning of the episode,
        `now.point("rod", s)`, `now.velocity("crank.phi")`, `now.joint("pin").angle`, …, without any axis of time."""

    @abc.abstractmethod
    def reward(self, params, task, now: Trajectory, action: Float[Array, " actions"]) -> Float[Array, ""]:
        """The reward of a control step that ends `now`."""

    def ends(self, params, task, now: Trajectory) -> Bool[Array, ""]:
        """Whether the episode ends `now` by the rules of the task."""
        del params, task, now
        return jnp.asarray(False)

    def metrics(self, params, task, now: Trajectory) -> dict[str, Array]:
        """Other figures by name, for those who watch."""
        del params, task, now
        return {}

    def __hash__(self):
        # Equal ones, whatever they hold, have the same; `jax.jit(environment.step)` needs one.
        return hash(type(self))

    def reset(self, key: PRNGKeyArray, params=None) -> State:
        """The start of an episode: the mechanism is assembled, by derivatives through which `params` can be learned.

        A design that cannot be assembled gives a state that is `terminated`, with a status, and finite numbers.

        Args:
            key: of `jax.random`; the same key gives the same episode, whatever is batched beside it.
            params: the design, a pytree like `design`, which stands in for it.
        """
        # Bound methods that are compiled themselves have no hash, and `jax.jit(environment.reset)` wants one.
        return self._reset(key, self.design if params is None else params)

    @eqx.filter_jit
    def _reset(self, key, params) -> State:
        params = jax.tree.map(lambda x: jnp.asarray(x, _floating(x)), params)
        whole = jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(params)] or [jnp.asarray(True)]))
        # Numbers that are not finite spoil neither observations nor derivatives; the status says that they were there.
        params = jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), x, 1), params)
        key, of_task, of_start = jax.random.split(key, 3)
        task = self.task(of_task)
        first = self._first(params, *self.start(params, task, of_start), whole)
        observation, metrics = Straight(self._look)(params, task, first.q, first.v)
        observation, metrics = jax.tree.map(finite_or_zero, (observation, metrics))
        no, failed = jnp.asarray(False), first.status != Status.CONVERGED
        steps, reward = jnp.zeros((), int), jnp.zeros((), observation.dtype)
        ends = (failed, no, first.status)
        return State(*first[:4], steps, observation, reward, *ends, observation, metrics, params, task, key, first)

    def step(self, state: State, action: ArrayLike, *, auto_reset: bool = True) -> State:
        """The state after a control step with an action that is held.

        A mechanism that locks up, or whose numbers are not finite, keeps its last good configuration: its `status` says so,
        the episode is `terminated`, and the reward is `failure`.

        Args:
            state: of `reset` or `step`.
            action: (actions,), between −1 and 1. It is not cut off, for the sake of the gradient.
            auto_reset: an episode that ends is followed by the next: from the same first state, with a task drawn anew.
                Otherwise a state that is done stays as it is, with no more rewards; but a design that could not be
                assembled has `failure` in every step, so that it never pays.

        Raises:
            ValueError: an action of a wrong shape.
        """
        action = jnp.asarray(action, state.q.dtype)
        if action.shape != (self.action_size,):
            raise ValueError(f"an action has shape ({self.action_size},), got {action.shape}; batches are made by vmap")
        return self._step(state, action, auto_reset)

    @eqx.filter_jit
    def _step(self, state: State, action, auto_reset: bool) -> State:
        begin = (state.steps * self.control_step).astype(state.q.dtype)
        given = (state.params, state.task, state.x, state.u, state.first.status, begin, action)
        found = Straight(self._advance)(*given)
        failed, steps = found["status"] != Status.CONVERGED, state.steps + 1
        terminated = failed | found["terminated"]
        reward = jnp.where(failed, self.failure, found["reward"])
        ends = {"terminated": terminated, "truncated": (steps >= self.horizon) & ~terminated}
        new = state._replace(
            **found | ends | {"steps": steps, "reward": reward, "final_observation": found["observation"]}
        )
        if not auto_reset:
            hopeless = state.first.status != Status.CONVERGED
            waiting = jnp.where(hopeless, self.failure, jnp.zeros_like(reward))
            return where_tree(state.done, state._replace(reward=waiting), new)
        return where_tree(new.done, self._begun(new), new)

    def restart(self, state: State) -> State:
        """The next episode: from the same first state, with a task drawn anew; nothing is assembled again."""
        begun, no = self._begun(state), jnp.asarray(False)
        failed = state.first.status != Status.CONVERGED
        _, metrics = Straight(self._look)(begun.params, begun.task, begun.q, begun.v)
        return begun._replace(
            metrics=jax.tree.map(finite_or_zero, metrics),
            reward=jnp.zeros_like(state.reward),
            terminated=failed,
            truncated=no,
            status=state.first.status,
            final_observation=begun.observation,
        )

    def _begun(self, state: State) -> State:
        """The first state of the next episode, with reward and flags of the step that ended this one."""
        key, of_task = jax.random.split(state.key)
        task, (q, v, x, u, _) = self.task(of_task), state.first
        observation, _ = Straight(self._look)(state.params, task, q, v)
        observation = finite_or_zero(observation)
        return state._replace(
            q=q, v=v, x=x, u=u, steps=jnp.zeros_like(state.steps), observation=observation, task=task, key=key
        )

    def _first(self, params, guess, velocities, whole) -> Start:
        """The assembled start."""
        mech = self.build(params, jnp.zeros(self.action_size, default_float()))
        # Coordinates by name stay what they are, if they are all that is free: the start is then a smooth function of
        # the design.
        named = [name for name in guess if name in mech.layout.coordinates] if isinstance(guess, Mapping) else []
        hold = named if len(named) == mech.layout.m - len(mech.layout.row_owners) else ()
        assembly = assemble(mech, guess, hold=hold)
        q, status, zero = assembly.q, assembly.status, jnp.zeros((), assembly.q.dtype)
        v = jnp.zeros(mech.layout.m, q.dtype)
        if velocities is not None or mech.drivers:
            run = simulate(mech, jnp.zeros(1, q.dtype), q, velocities, formulation=self.formulation)
            q, v = run.q[0], run.v[0]
            status = jnp.where(status == Status.CONVERGED, run.status[0], status)
        x, u = Straight(self._own, few=math.inf)(finite(mech)[0], q, v, zero)
        numbers = jnp.concatenate([q, v, x, u])
        whole = whole & jnp.all(jnp.isfinite(numbers))
        status = jnp.where(whole, status, int(Status.NON_FINITE))
        q, v, x, u = (finite_or_zero(part) for part in (q, v, x, u))
        return Start(q, v, x, u, status)

    def _own(self, mech, q, v, t):
        """Coordinates and velocities of the formulation."""
        return equations_of(self.formulation, mech).from_bodies(q, v, t)

    def _look(self, params, task, q, v):
        """Observation and metrics at the start of an episode."""
        mech = self.build(params, jnp.zeros(self.action_size, q.dtype))
        t, still, good = jnp.zeros((), q.dtype), jnp.zeros_like(v), jnp.zeros((), int)
        states, names = start_states(mech, q, v, t), state_names(mech)
        now = Trajectory(t, q, v, still, good, mech.layout, states=states, state_names=names).of(mech)
        return self.observe(params, task, now), self.metrics(params, task, now)

    def _advance(self, params, task, x, u, status, begin, action) -> dict[str, Any]:
        """What a control step from time `begin` on leads to: fields of the `State`."""
        action, acts = where_finite(action)
        mech, usable = finite(self.build(params, action))
        equations, h = equations_of(self.formulation, mech), self.control_step / self.substeps
        if gears_without_marks(mech):
            q, *_ = equations.to_bodies(x, u, jnp.zeros_like(u), begin)
            equations = equations_of(self.formulation, with_marks(mech, q))
        scaled = ScaledEquations.of(equations, equations.scales(x, begin), DEFAULT_TOLERANCE)
        state = self.method.start(scaled, Motion.of(scaled.equations, x, u, begin), begin)
        status = jnp.where(acts & usable, status, int(Status.NON_FINITE))

        def substep(k, carry):
            state, status = carry
            t = begin + k * h
            new, closed = self.method.step(scaled, state, t, jnp.asarray(h, x.dtype))
            now = step_status(scaled, self.method.motion(new), closed, t + h, h)
            status = jnp.where(status == Status.CONVERGED, now, status)
            return where_tree(status == Status.CONVERGED, new, state), status

        state, status = jax.lax.fori_loop(0, self.substeps, substep, (state, status))
        end, (x, u, rates, *_) = begin + self.control_step, self.method.motion(state)
        q, v, a = equations.to_bodies(x, u, rates, end)
        whole = jnp.all(jnp.isfinite(jnp.concatenate([x, u, q, v])))
        status = jnp.where(whole | (status != Status.CONVERGED), status, int(Status.NON_FINITE))
        q, v, x, u, a = (finite_or_zero(part) for part in (q, v, x, u, a))
        states, names = states_of(equations, u), state_names(mech)
        now = Trajectory(end, q, v, a, status, mech.layout, states=states, state_names=names).of(mech)
        seen, reward = self.observe(params, task, now), self.reward(params, task, now, action)
        seen, metrics = jax.tree.map(finite_or_zero, (seen, self.metrics(params, task, now)))
        found = {"q": q, "v": v, "x": x, "u": u, "status": status, "terminated": self.ends(params, task, now)}
        return found | {"observation": seen, "reward": reward, "metrics": metrics}


def where_finite(x):
    """x with 0 in place of numbers that are not finite, and whether there are none of those."""
    good = jnp.isfinite(x)
    return jnp.where(good, x, jnp.zeros_like(x)), jnp.all(good)


def finite_or_zero(x):
    """x with 0 in place of numbers that are not finite."""
    return where_finite(x)[0]


def _floating(x):
    """The type of x if it is floating, else that of JAX."""
    dtype = jnp.result_type(x)
    return dtype if jnp.issubdtype(dtype, jnp.floating) and hasattr(x, "dtype") else default_float()
