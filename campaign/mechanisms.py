"""Random mechanisms with forces in very many variants, and their motions by programs that are compiled once."""

import dataclasses
from functools import cached_property, lru_cache

import equinox as eqx
import jax
import numpy as np

import jaxmbs as mbs
import random_mechanisms as mechanisms

# Steps of a motion, whatever its end: as many as `simulate` takes when it is given none.
STEPS = 4000
LANES = 24
# Rounds that share a structure, and so its programs.
ROUNDS = 8
FORMULATIONS = (mbs.JointCoordinates(), mbs.Natural(), mbs.Kane())
# Roundings of each step that a motion may have collected.
ROUNDINGS = 10
# With the usual 1.5 an error of h^2.5 comes and goes with the place within a step at which a stop is met: the difference of
# two lengths of steps does not bound it.
STOP_EXPONENT = 3.0
SPATIAL = ("Revolute", "Prismatic", "Cylindrical", "Universal", "Spherical", "Planar", "Screw", "ConstantVelocity")
ENDS = {"point_i": "i", "axis_i": "i", "frame_i": "i", "point_j": "j", "axis_j": "j", "frame_j": "j"}


@dataclasses.dataclass(frozen=True)
class State:
    """Of all samples: configuration, velocities, kinetic and potential energy, status; a row each. `start` is that from
    which the motion began, with the constraints closed."""

    q: np.ndarray
    v: np.ndarray
    kinetic: np.ndarray
    potential: np.ndarray
    status: np.ndarray
    start: "State | None" = None

    @property
    def x(self):
        """Configuration and velocities."""
        return np.concatenate([self.q, self.v], axis=1)


class Bench:
    """All mechanisms of one structure.

    Args:
        seed: of the structure.
        floating: no joint leads to the ground.
    """

    def __init__(self, seed: int, floating: bool = False):
        rng = np.random.default_rng((seed, int(floating)))
        dimension = int(rng.choice([2, 2, 3]))
        kinds = SPATIAL if dimension == 3 else None
        bodies = int(rng.integers(2, 4)) if dimension == 2 else 2
        if not floating and dimension == 2 and rng.random() < 0.7:
            self.structure = mechanisms.closed_structure(rng, bodies + 1, dimension=dimension, branching=0.5)
        else:
            self.structure = mechanisms.tree_structure(rng, bodies, kinds, dimension, floating=floating)
        self.extras = _extras(rng, self.structure)
        self._compiled, self._steps = {}, 0

    @lru_cache(maxsize=2)  # noqa: B019
    def sample(self, seed: int):
        """A batch (mech, q, v) and the time of its end."""
        rng = np.random.default_rng((seed, 7))
        drawn = [self._draw(rng) for _ in range(LANES)]
        mech, q = jax.tree.map(np.asarray, mechanisms.stacked(drawn))
        return mech, q, rng.normal(size=(LANES, mech.layout.m)), float(rng.uniform(0.2, 0.6))

    def _draw(self, rng):
        mech, q = mechanisms.draw(rng, self.structure)
        extras = {name: make(rng) for name, make in self.extras.items()}
        return mbs.Mechanism(mech.bodies, mech.constraints, mech.drivers, {**mech.forces, **extras}), q

    def run(self, batch, times, formulation=None, key=None, change=None) -> State:
        """The state at times[1], from that at times[0]; of mechanisms to which `change` does something that `key` names."""
        kind = (type(formulation).__name__, key)
        if kind not in self._compiled:
            self._compiled[kind] = jax.jit(jax.vmap(end(formulation, change), in_axes=(0, 0, 0, None)))
        found = jax.tree.map(np.asarray, self._compiled[kind](*batch, np.asarray(times, batch[1].dtype)))
        self._steps += STEPS * len(found[-1])
        start, last = (State(*(x[:, k] for x in found)) for k in (0, 1))
        return dataclasses.replace(last, start=start)

    def steps(self) -> int:
        """How many were taken since this was last asked."""
        taken, self._steps = self._steps, 0
        return taken

    @cached_property
    def mech(self):
        """One of them."""
        return self._draw(np.random.default_rng(0))[0]


def end(formulation=None, change=None):
    """q, v, energies and status at start and end of a motion, as a function of mechanism, q, v and times."""

    def run(mech, q, v, times):
        mech = mech if change is None else change(mech)
        motion = mbs.simulate(mech, times, q, v, formulation=formulation)
        energy = motion.energy
        return motion.q, motion.v, energy.kinetic, energy.potential, motion.status

    return run


def _extras(rng, structure) -> dict:
    """Forces in joints: names, and what makes them of a generator's numbers."""
    hinges = [joint for joint in structure.joints if joint.kind in ("Revolute", "Translational", "Prismatic")]
    if not hinges:
        return {}
    joint = hinges[int(rng.integers(len(hinges)))]
    makers = {
        "friction": lambda rng: mbs.JointFriction(
            joint.name, rng.uniform(0.05, 0.3), velocity=rng.uniform(0.1, 0.5), viscous=rng.uniform(0, 0.2),
            radius=rng.uniform(0.02, 0.1) if joint.kind == "Revolute" else None,
        ),
    }  # fmt: skip
    # Angles against the ground are not those against a turned ground.
    if joint.kind != "Revolute" or mechanisms.GROUND not in (joint.i, joint.j):
        makers["spring"] = lambda rng: mbs.JointSpring(joint.name, rng.uniform(1, 20), 0.3, rng.uniform(0.1, 1))
        makers["stop"] = lambda rng: mbs.JointStop(
            joint.name, -0.2, 0.2, stiffness=rng.uniform(5, 50), damping=0.1, exponent=STOP_EXPONENT
        )
        makers["motor"] = lambda rng: mbs.Motor(joint.name, rng.uniform(0.05, 0.2), 2.0, rng.uniform(-9, 9), ratio=5.0)
    chosen = [name for name in makers if rng.random() < 0.5]
    return {f"joint {name}": makers[name] for name in chosen}


@lru_cache(maxsize=3)
def bench(seed: int, floating: bool = False) -> Bench:
    """The bench of a round."""
    return Bench(seed // ROUNDS, floating)


def changed(mech, change):
    """A mechanism with other numbers: change(element, field's name, value) gives them."""

    def of_element(element):
        fields = [f for f in element.__dataclass_fields__ if eqx.is_inexact_array(getattr(element, f, None))]
        fresh = [change(element, name.lstrip("_"), getattr(element, name)) for name in fields]
        return eqx.tree_at(lambda e: [getattr(e, name) for name in fields], element, fresh) if fields else element

    is_element = lambda x: isinstance(x, eqx.Module) and not isinstance(x, mbs.Mechanism)
    return jax.tree.map(lambda x: of_element(x) if is_element(x) else x, mech, is_leaf=is_element)


# Of these forces, what makes energy or takes it.
LOSING = {
    "PointForce": ("value",),
    "Torque": ("value",),
    "JointFriction": ("dynamic", "viscous"),
    "Motor": ("voltage", "torque_constant"),
}


def conserving(mech):
    """The same without what makes energy or takes it."""

    def quiet(element, name, value):
        loses = name == "damping" or name in LOSING.get(type(element).__name__, ())
        return np.zeros_like(value) if loses else value

    return changed(mech, quiet)


@dataclasses.dataclass(frozen=True)
class Reference:
    """A batch, its motion, and what is known of the errors in it.

    Attributes:
        state: at the end.
        growth: how many times a small change at the start is larger at the end; per sample.
        truncation: of each number of `state.x`, four times its difference from steps of half the length.
        rounding: what roundings may have done to them, per sample.
    """

    batch: tuple
    end: float
    state: State
    halved: State
    growth: np.ndarray
    truncation: np.ndarray
    rounding: np.ndarray

    @property
    def scale(self):
        """The size of the state of each sample."""
        return np.maximum(np.abs(self.state.x).max(axis=1, keepdims=True), 1)

    @property
    def bound(self):
        """On the difference from what is computed in another way with errors of the same size."""
        return 2 * (self.truncation.max(axis=1, keepdims=True) + self.rounding)

    @property
    def good(self):
        """Where the motion did not end early, and is not too sensitive to be compared."""
        return (self.state.status == 0)[:, None] & (self.bound < 1e-4 * self.scale)


SHIFT = 1e-7


def reference(bench: Bench, batch, end: float, formulation=None) -> Reference:
    """A motion with its errors."""
    mech, q, v = batch
    run = lambda batch, *times: bench.run(batch, times, formulation)
    whole, first = run(batch, 0.0, end), run(batch, 0.0, end / 2)
    halved = run((mech, first.q, first.v), end / 2, end)
    rng = np.random.default_rng(0)
    nearby = run((mech, q, v + SHIFT * rng.choice([-1.0, 1.0], v.shape)), 0.0, end)
    growth = 1 + np.abs(nearby.x - whole.x).max(axis=1, keepdims=True) / SHIFT
    eps = np.finfo(q.dtype).eps
    scale = np.maximum(np.abs(whole.x).max(axis=1, keepdims=True), 1)
    rounding = ROUNDINGS * STEPS * eps * growth * scale
    return Reference(batch, end, whole, halved, growth, 4 * np.abs(whole.x - halved.x), rounding)


@lru_cache(maxsize=4)
def plain(seed: int) -> tuple[Bench, Reference]:
    """The bench of a round, and the motion that several oracles look at."""
    made = bench(seed)
    *batch, end = made.sample(seed)
    return made, reference(made, tuple(batch), end)


@lru_cache(maxsize=4)
def quiet(seed: int) -> tuple[Bench, Reference]:
    """The same without what makes energy or takes it."""
    made = bench(seed)
    mech, q, v, end = made.sample(seed)
    return made, reference(made, (conserving(mech), q, v), end)
