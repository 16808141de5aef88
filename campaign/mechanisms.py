"""Random mechanisms with forces in many variants, and their motions by programs that are compiled once."""

import dataclasses
from functools import cached_property, lru_cache

import equinox as eqx
import jax
import numpy as np

import jaxmbs as mbs
import random_mechanisms as mechanisms

# Steps of a motion, whatever its length: the default of `simulate`.
STEPS = 4000
# Samples in a batch of random mechanisms.
LANES = 24
# Successive rounds that share a structure, so that its programs are compiled once.
ROUNDS = 8
# Formulations whose motions are compared with those in body poses.
FORMULATIONS = (mbs.JointCoordinates(), mbs.Natural(), mbs.Kane())
# Rounding errors that a step is assumed to make, for the bound on a motion.
ROUNDINGS = 10
# Exponent of joint stops. With the usual 1.5 the error is of order h^2.5 and depends on the place within a step at which
# the stop is met, so the difference between two steps is no bound.
STOP_EXPONENT = 3.0
# Joints of the random mechanisms in space.
SPATIAL = ("Revolute", "Prismatic", "Cylindrical", "Universal", "Spherical", "Planar", "Screw", "ConstantVelocity")
# For each field with a point, axis or frame of an element, the field with the name of its body.
ENDS = {"point_i": "i", "axis_i": "i", "frame_i": "i", "point_j": "j", "axis_j": "j", "frame_j": "j"}


@dataclasses.dataclass(frozen=True)
class BatchState:
    """States of all samples with energies and statuses, a row for each sample.

    `start` is the state at the beginning of the motion, with the constraints closed.
    """

    q: np.ndarray
    v: np.ndarray
    kinetic: np.ndarray
    potential: np.ndarray
    status: np.ndarray
    start: "BatchState | None" = None

    @property
    def x(self):
        """q and v of all samples side by side, (samples, n + m)."""
        return np.concatenate([self.q, self.v], axis=1)


class Bench:
    """All mechanisms of one structure, with their compiled motions.

    Args:
        seed: seed of the structure.
        floating: True if no joint is fixed to the ground.
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
        self.extras = _joint_forces(rng, self.structure)
        self._compiled, self._steps = {}, 0

    @lru_cache(maxsize=2)  # noqa: B019
    def sample(self, seed: int):
        """Return a batch (mech, q, v) and the end of its motion (s)."""
        rng = np.random.default_rng((seed, 7))
        drawn = [self._draw(rng) for _ in range(LANES)]
        mech, q = jax.tree.map(np.asarray, mechanisms.stacked(drawn))
        return mech, q, rng.normal(size=(LANES, mech.layout.m)), float(rng.uniform(0.2, 0.6))

    def _draw(self, rng):
        """Return a random mechanism of the structure, and its assembled q."""
        mech, q = mechanisms.draw(rng, self.structure)
        extras = {name: make(rng) for name, make in self.extras.items()}
        return mbs.Mechanism(mech.bodies, mech.constraints, mech.drivers, {**mech.forces, **extras}), q

    def run(self, batch, times, formulation=None, key=None, change=None) -> BatchState:
        """Return the states at times[1] of a batch that starts at times[0]. `key` names the `change` of mechanisms."""
        kind = (type(formulation).__name__, key)
        if kind not in self._compiled:
            self._compiled[kind] = jax.jit(jax.vmap(end(formulation, change), in_axes=(0, 0, 0, None)))
        found = jax.tree.map(np.asarray, self._compiled[kind](*batch, np.asarray(times, batch[1].dtype)))
        self._steps += STEPS * len(found[-1])
        start, last = (BatchState(*(x[:, k] for x in found)) for k in (0, 1))
        return dataclasses.replace(last, start=start)

    def steps(self) -> int:
        """Return the number of steps simulated since the last call, and count from 0 again."""
        taken, self._steps = self._steps, 0
        return taken

    @cached_property
    def mech(self):
        """A mechanism of the structure, for its layout."""
        return self._draw(np.random.default_rng(0))[0]


def end(formulation=None, change=None):
    """Return the function (mech, q, v, times) ↦ q, v, energies and status of a motion at all times."""

    def run(mech, q, v, times):
        """Return q, v, kinetic and potential energy, and status of a motion at all times."""
        mech = mech if change is None else change(mech)
        motion = mbs.simulate(mech, times, q, v, formulation=formulation)
        energy = motion.energy
        return motion.q, motion.v, energy.kinetic, energy.potential, motion.status

    return run


def _joint_forces(rng, structure) -> dict:
    """Return random forces in a joint: for each name a function from a generator to the force."""
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
    # Skipped at the ground: `Moved` turns it, which changes angles relative to it.
    if joint.kind != "Revolute" or mechanisms.GROUND not in (joint.i, joint.j):
        makers["spring"] = lambda rng: mbs.JointSpring(joint.name, rng.uniform(1, 20), 0.3, rng.uniform(0.1, 1))
        makers["stop"] = lambda rng: mbs.JointStop(
            joint.name, -0.2, 0.2, stiffness=rng.uniform(5, 50), damping=0.1, exponent=STOP_EXPONENT
        )
        has_rotor, has_inductance = rng.random(2) < 0.5
        makers["motor"] = lambda rng: mbs.Motor(
            joint.name, rng.uniform(0.05, 0.2), 2.0, rng.uniform(-9, 9), ratio=5.0,
            inertia=rng.uniform(1e-3, 1e-2) if has_rotor else None,
            inductance=rng.uniform(0.1, 1.0) if has_inductance else None,
        )  # fmt: skip
    chosen = [name for name in makers if rng.random() < 0.5]
    return {f"joint {name}": makers[name] for name in chosen}


@lru_cache(maxsize=3)
def bench_of(seed: int, floating: bool = False) -> Bench:
    """Return the bench of the structure of a round; `floating` for a structure without joints to the ground."""
    return Bench(seed // ROUNDS, floating)


def map_numbers(mech, change):
    """Return a mechanism in which every number is replaced by change(element, name of the field, value)."""

    def of_element(element):
        """Return an element with the changed numbers."""
        fields = [f for f in element.__dataclass_fields__ if eqx.is_inexact_array(getattr(element, f, None))]
        fresh = [change(element, name.lstrip("_"), getattr(element, name)) for name in fields]
        return eqx.tree_at(lambda e: [getattr(e, name) for name in fields], element, fresh) if fields else element

    is_element = lambda x: isinstance(x, eqx.Module) and not isinstance(x, mbs.Mechanism)
    return jax.tree.map(lambda x: of_element(x) if is_element(x) else x, mech, is_leaf=is_element)


# Fields that add or dissipate energy, by class of force.
DISSIPATIVE_FIELDS = {
    "PointForce": ("value",),
    "Torque": ("value",),
    "JointFriction": ("dynamic", "viscous"),
    "Motor": ("voltage", "torque_constant"),
}


def without_dissipation(mech):
    """Return a mechanism whose forces neither add nor dissipate energy."""

    def quiet(element, name, value):
        """Return 0 for a field that adds or dissipates energy, else its value."""
        loses = name == "damping" or name in DISSIPATIVE_FIELDS.get(type(element).__name__, ())
        return np.zeros_like(value) if loses else value

    return map_numbers(mech, quiet)


@dataclasses.dataclass(frozen=True)
class Reference:
    """A batch, its motion, and bounds on its errors.

    Attributes:
        batch: mechanisms, q and v at the start.
        end: final time (s).
        state: final states.
        halved: final states with steps of half the length.
        growth: growth of a small change at the start until the end, for each sample.
        truncation: four times the difference of `state.x` from `halved.x`.
        rounding: bound on the effect of rounding errors, for each sample.
    """

    batch: tuple
    end: float
    state: BatchState
    halved: BatchState
    growth: np.ndarray
    truncation: np.ndarray
    rounding: np.ndarray

    @property
    def scale(self):
        """Largest absolute value of q and v of each sample at the end, at least 1."""
        return np.maximum(np.abs(self.state.x).max(axis=1, keepdims=True), 1)

    @property
    def bound(self):
        """Bound on the difference from another computation with errors of the same size."""
        return 2 * (self.truncation.max(axis=1, keepdims=True) + self.rounding)

    @property
    def good(self):
        """True for samples that did not end early and are not too sensitive to be compared."""
        return (self.state.status == 0)[:, None] & (self.bound < 1e-4 * self.scale)


# Change of the velocities at the start by which the growth of errors is measured.
VELOCITY_SHIFT = 1e-7


def reference(bench: Bench, batch, end: float, formulation=None) -> Reference:
    """Return the motion of a batch with bounds on its errors."""
    mech, q, v = batch
    run = lambda batch, *times: bench.run(batch, times, formulation)
    whole, first = run(batch, 0.0, end), run(batch, 0.0, end / 2)
    halved = run((mech, first.q, first.v), end / 2, end)
    rng = np.random.default_rng(0)
    nearby = run((mech, q, v + VELOCITY_SHIFT * rng.choice([-1.0, 1.0], v.shape)), 0.0, end)
    growth = 1 + np.abs(nearby.x - whole.x).max(axis=1, keepdims=True) / VELOCITY_SHIFT
    eps = np.finfo(q.dtype).eps
    scale = np.maximum(np.abs(whole.x).max(axis=1, keepdims=True), 1)
    rounding = ROUNDINGS * STEPS * eps * growth * scale
    return Reference(batch, end, whole, halved, growth, 4 * np.abs(whole.x - halved.x), rounding)


@lru_cache(maxsize=4)
def reference_of(seed: int) -> tuple[Bench, Reference]:
    """Return the bench of a round, and the motion that several oracles compare."""
    made = bench_of(seed)
    *batch, end = made.sample(seed)
    return made, reference(made, tuple(batch), end)


@lru_cache(maxsize=4)
def conservative_reference_of(seed: int) -> tuple[Bench, Reference]:
    """Return the bench of a round, and its motion without forces that add or dissipate energy."""
    made = bench_of(seed)
    mech, q, v, end = made.sample(seed)
    return made, reference(made, (without_dissipation(mech), q, v), end)
