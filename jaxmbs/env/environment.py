"""Base class of environments: a mechanism with an action held in every control step, and a task."""

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
from jaxmbs.programs import ProgramWithFallback
from jaxmbs.system.marks import elements_without_marks, with_marks
from jaxmbs.system.mechanism import Mechanism
from jaxmbs.system.trajectory import Trajectory


class FirstState(NamedTuple):
    """First state of an episode: q and v of the bodies, x and u of the formulation, and the status of the assembly."""

    q: Float[Array, " n"]
    v: Float[Array, " m"]
    x: Float[Array, " k"]
    u: Float[Array, " l"]
    status: Int[Array, ""]


class State(NamedTuple):
    """State of an environment at the end of a control step. A pytree; `vmap` gives it a leading axis.

    Attributes:
        q: coordinates of the mechanism, as in `mbs.simulate`.
        v: its velocities.
        x: coordinates of the formulation.
        u: its velocities.
        steps: control steps since the start of the episode.
        observation: observation at the end of this step; after an automatic reset the first one of the next episode.
        reward: reward of this step.
        terminated: True if the episode ended with this step by failure or by the rules of the task.
        truncated: True if the episode ended after `horizon` steps.
        status: `mbs.Status` of the simulation of this step; a status other than 0 ends the episode.
        final_observation: observation at the end of this step, before an automatic reset.
        metrics: other quantities of this step by name, see `Environment.metrics`.
        params: the design.
        task: the task of this episode, see `Environment.task`.
        key: random key of later tasks.
        first: first state of every episode.

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
    first: FirstState

    @property
    def done(self) -> Bool[Array, "*batch"]:
        """True if the episode ended with this step."""
        return self.terminated | self.truncated


class Environment(eqx.Module):
    """A mechanism with a task: `reset(key, params) → State`, `step(state, action) → State`, both pure.

    They work under `jit`, `vmap`, `grad` and `jacfwd`. Gradients flow from rewards to actions and, through the assembly
    at the start and every step, to the design `params`: any pytree of numbers. One environment is one sample; batches
    are made by `vmap`, if needed with a design for each sample.

    Your own environment defines the methods below in about thirty lines, see docs/learning.md. A step is compiled into
    one straight-line program, so the methods are written in jax.numpy, for one sample.

    Args:
        control_step: time for which an action is held (s).
        substeps: integration steps in a control step.
        horizon: control steps after which an episode is truncated.
        failure: reward of a step that could not be simulated, as after a lock-up or with a design that cannot be
            assembled.
        method, formulation: as in `mbs.simulate`; the method must have fixed steps.

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
    """Largest absolute values of the observations. Only the adapters clip to them."""

    def __check_init__(self):
        counts = all(isinstance(x, int) and x >= 1 for x in (self.substeps, self.horizon))
        real = all(isinstance(x, int | float) and math.isfinite(x) for x in (self.control_step, self.failure))
        if not (counts and real and self.control_step > 0):
            raise ValueError(
                "control_step must be positive, substeps and horizon positive whole numbers, failure a number, "
                f"got {self.control_step}, {self.substeps}, {self.horizon} and {self.failure}"
            )
        if not isinstance(self.method, AbstractFixedStep):
            raise ValueError(f"method must have fixed steps, such as RK4(), got {self.method!r}")
        if not isinstance(self.formulation, AbstractFormulation):
            raise ValueError(f"formulation must be a formulation such as JointCoordinates(), got {self.formulation!r}")

    @property
    @abc.abstractmethod
    def design(self) -> PyTree:
        """Default of the `params` of `reset`: any pytree of numbers."""

    @abc.abstractmethod
    def build(self, params, action: Float[Array, " actions"]) -> Mechanism:
        """Return the mechanism of a design with the forces of an action. Its time begins with the episode."""

    @abc.abstractmethod
    def start(self, params, task, key: PRNGKeyArray) -> tuple[Any, Any]:
        """Return a rough initial state of an episode.

        Name as many single coordinates, such as "crank.phi", as there are degrees of freedom: these keep their values,
        and the gradient with respect to the design includes that of all others. Otherwise see `mbs.assemble`.

        Args:
            params: the design.
            task: result of the method `task`.
            key: key of `jax.random`.

        Returns:
            q0 and v0, as `mbs.assemble` and `mbs.simulate` take them.
        """

    def task(self, key: PRNGKeyArray) -> PyTree:
        """Draw the task of an episode, such as a target: any pytree of numbers."""
        del key
        return ()

    @abc.abstractmethod
    def observe(self, params, task, now: Trajectory) -> Float[Array, " observations"]:
        """Return the observation of a policy.

        Args:
            params: the design.
            task: result of the method `task`.
            now: the motion at a single time, without an axis of time: `now.t` since the beginning of the episode,
                `now.point("rod", s)`, `now.velocity("crank.phi")`, `now.joint("pin").angle`, …

        Returns:
            (observations,), in the order of `observation_bounds`.
        """

    @abc.abstractmethod
    def reward(self, params, task, now: Trajectory, action: Float[Array, " actions"]) -> Float[Array, ""]:
        """Return the reward of a control step that ends with `now`."""

    def ends(self, params, task, now: Trajectory) -> Bool[Array, ""]:
        """Return True if the episode ends with `now` by the rules of the task."""
        del params, task, now
        return jnp.asarray(False)

    def metrics(self, params, task, now: Trajectory) -> dict[str, Array]:
        """Return other quantities by name, for logs."""
        del params, task, now
        return {}

    def __hash__(self):
        # `jax.jit(environment.step)` needs a hash; equal environments have the same class.
        return hash(type(self))

    def reset(self, key: PRNGKeyArray, params=None) -> State:
        """Start an episode with an assembly, which can be differentiated with respect to `params`.

        A design that cannot be assembled returns a state that is `terminated`, with a status, and finite numbers.

        Args:
            key: key of `jax.random`; the same key gives the same episode in any batch.
            params: the design, a pytree like `design`, which is the default.

        Returns:
            the first state.
        """
        # Bound methods that are jitted themselves have no hash, which `jax.jit(environment.reset)` needs.
        return self._reset(key, self.design if params is None else params)

    @eqx.filter_jit
    def _reset(self, key, params) -> State:
        """Return the first state of an episode; it has failed if numbers of `params` are not finite."""
        params = jax.tree.map(lambda x: jnp.asarray(x, _floating(x)), params)
        # Numbers that are not finite would spoil derivatives; the status reports them.
        params, all_finite = finite(params)
        key, of_task, of_start = jax.random.split(key, 3)
        task = self.task(of_task)
        first = self._assemble_first(params, *self.start(params, task, of_start), all_finite)
        observation, metrics = ProgramWithFallback(self._first_observation)(params, task, first.q, first.v)
        observation, metrics = jax.tree.map(finite_or_zero, (observation, metrics))
        no, failed = jnp.asarray(False), first.status != Status.CONVERGED
        steps, reward = jnp.zeros((), int), jnp.zeros((), observation.dtype)
        ends = (failed, no, first.status)
        return State(*first[:4], steps, observation, reward, *ends, observation, metrics, params, task, key, first)

    def step(self, state: State, action: ArrayLike, *, auto_reset: bool = True) -> State:
        """Advance by one control step with a constant action.

        A mechanism that locks up, or whose numbers are not finite, keeps its last good configuration: it has a `status`,
        the episode is `terminated`, and the reward is `failure`.

        Args:
            state: state returned by `reset` or `step`.
            action: (actions,), between −1 and 1. It is not clipped, so that the gradient stays correct.
            auto_reset: True to begin the next episode after an end, from the same first state with a new task.
                Otherwise a state that is done stays unchanged, with reward 0; a design that could not be assembled
                has the reward `failure` in every step, so that it never pays.

        Returns:
            the state at the end of the step.

        Raises:
            ValueError: an action of a wrong shape.
        """
        action = jnp.asarray(action, state.q.dtype)
        if action.shape != (self.action_size,):
            raise ValueError(
                f"an action must have shape ({self.action_size},), got {action.shape}; use vmap for batches"
            )
        return self._step(state, action, auto_reset)

    @eqx.filter_jit
    def _step(self, state: State, action, auto_reset: bool) -> State:
        """Return the state after a control step and, with `auto_reset`, after the reset at the end of an episode."""
        begin = (state.steps * self.control_step).astype(state.q.dtype)
        given = (state.params, state.task, state.x, state.u, state.first.status, begin, action)
        found = ProgramWithFallback(self._integrate)(*given)
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
        return where_tree(new.done, self._next_episode(new), new)

    def restart(self, state: State) -> State:
        """Begin the next episode from the same first state with a new task, without assembly."""
        following, no = self._next_episode(state), jnp.asarray(False)
        failed = state.first.status != Status.CONVERGED
        _, metrics = ProgramWithFallback(self._first_observation)(
            following.params, following.task, following.q, following.v
        )
        return following._replace(
            metrics=jax.tree.map(finite_or_zero, metrics),
            reward=jnp.zeros_like(state.reward),
            terminated=failed,
            truncated=no,
            status=state.first.status,
            final_observation=following.observation,
        )

    def _next_episode(self, state: State) -> State:
        """Return the first state of the next episode, with the reward and flags of the step that ended this one."""
        key, of_task = jax.random.split(state.key)
        task, (q, v, x, u, _) = self.task(of_task), state.first
        observation, _ = ProgramWithFallback(self._first_observation)(state.params, task, q, v)
        observation = finite_or_zero(observation)
        return state._replace(
            q=q, v=v, x=x, u=u, steps=jnp.zeros_like(state.steps), observation=observation, task=task, key=key
        )

    def _assemble_first(self, params, guess, velocities, all_finite) -> FirstState:
        """Return the first state of an episode, assembled from a guess and rough velocities, None for a start at rest.

        Its status is `NON_FINITE` unless `all_finite`, which says that the numbers of the design are.
        """
        mech = self.build(params, jnp.zeros(self.action_size, default_float()))
        # Named coordinates are held if they are as many as the degrees of freedom. The first state is then a smooth
        # function of the design.
        named = [name for name in guess if name in mech.layout.coordinates] if isinstance(guess, Mapping) else []
        hold = named if len(named) == mech.layout.m - len(mech.layout.row_owners) else ()
        assembly = assemble(mech, guess, hold=hold)
        q, status, zero = assembly.q, assembly.status, jnp.zeros((), assembly.q.dtype)
        v = jnp.zeros(mech.layout.m, q.dtype)
        if velocities is not None or mech.drivers:
            run = simulate(mech, jnp.zeros(1, q.dtype), q, velocities, formulation=self.formulation)
            q, v = run.q[0], run.v[0]
            status = jnp.where(status == Status.CONVERGED, run.status[0], status)
        x, u = ProgramWithFallback(self._formulation_coordinates, runs="once")(finite(mech)[0], q, v, zero)
        numbers = jnp.concatenate([q, v, x, u])
        all_finite = all_finite & jnp.all(jnp.isfinite(numbers))
        status = jnp.where(all_finite, status, int(Status.NON_FINITE))
        q, v, x, u = (finite_or_zero(part) for part in (q, v, x, u))
        return FirstState(q, v, x, u, status)

    def _formulation_coordinates(self, mech, q, v, t):
        """Return the coordinates x and velocities u of the formulation, from those of the bodies at the time t."""
        return equations_of(self.formulation, mech).from_bodies(q, v, t)

    def _first_observation(self, params, task, q, v):
        """Return observation and metrics at the start of an episode."""
        mech = self.build(params, jnp.zeros(self.action_size, q.dtype))
        t, still, good = jnp.zeros((), q.dtype), jnp.zeros_like(v), jnp.zeros((), int)
        states, names = start_states(mech, q, v, t), state_names(mech)
        now = Trajectory(t, q, v, still, good, mech.layout, states=states, state_names=names).of(mech)
        return self.observe(params, task, now), self.metrics(params, task, now)

    def _integrate(self, params, task, x, u, status, begin, action) -> dict[str, Any]:
        """Return the fields of `State`, by name, that a control step from time `begin` changes.

        x and u are coordinates and velocities of the formulation; `status` is that of the first state.
        """
        action, acts = where_finite(action)
        mech, usable = finite(self.build(params, action))
        equations, h = equations_of(self.formulation, mech), self.control_step / self.substeps
        if elements_without_marks(mech):
            q, *_ = equations.to_bodies(x, u, jnp.zeros_like(u), begin)
            equations = equations_of(self.formulation, with_marks(mech, q))
        scaled = ScaledEquations.of(equations, equations.scales(x, begin), DEFAULT_TOLERANCE)
        state = self.method.start(scaled, Motion.of(scaled.equations, x, u, begin), begin)
        status = jnp.where(acts & usable, status, int(Status.NON_FINITE))

        def substep(k, carry):
            """Take substep k; keep the last good state after a failure."""
            state, status = carry
            t = begin + k * h
            new, closed = self.method.step(scaled, state, t, jnp.asarray(h, x.dtype))
            now = step_status(scaled, self.method.motion(new), closed, t + h, h)
            status = jnp.where(status == Status.CONVERGED, now, status)
            return where_tree(status == Status.CONVERGED, new, state), status

        state, status = jax.lax.fori_loop(0, self.substeps, substep, (state, status))
        end, (x, u, rates, *_) = begin + self.control_step, self.method.motion(state)
        q, v, a = equations.to_bodies(x, u, rates, end)
        all_finite = jnp.all(jnp.isfinite(jnp.concatenate([x, u, q, v])))
        status = jnp.where(all_finite | (status != Status.CONVERGED), status, int(Status.NON_FINITE))
        q, v, x, u, a = (finite_or_zero(part) for part in (q, v, x, u, a))
        states, names = states_of(equations, u), state_names(mech)
        now = Trajectory(end, q, v, a, status, mech.layout, states=states, state_names=names).of(mech)
        seen, reward = self.observe(params, task, now), self.reward(params, task, now, action)
        seen, metrics = jax.tree.map(finite_or_zero, (seen, self.metrics(params, task, now)))
        found = {"q": q, "v": v, "x": x, "u": u, "status": status, "terminated": self.ends(params, task, now)}
        return found | {"observation": seen, "reward": reward, "metrics": metrics}


def where_finite(x):
    """Return x with 0 in place of numbers that are not finite, and True if all are finite."""
    good = jnp.isfinite(x)
    return jnp.where(good, x, jnp.zeros_like(x)), jnp.all(good)


def finite_or_zero(x):
    """Return x with 0 in place of numbers that are not finite."""
    return where_finite(x)[0]


def _floating(x):
    """Return the dtype of x if it is floating, else the default one of JAX."""
    dtype = jnp.result_type(x)
    return dtype if jnp.issubdtype(dtype, jnp.floating) and hasattr(x, "dtype") else default_float()
