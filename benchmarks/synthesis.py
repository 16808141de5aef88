"""Rows of synthesis: eighteen timed points beside pylinkage's particle swarm; poses of four-bars with their gradients.

The problem is that of Kunjur and Krishnamurty (1997): 18 points, 20° of the crank from each to the next, errors as the sum
of squared distances. Both sides have the same design: ground, crank, coupler, rocker, the coupler's point, the ground's
angle and pivot, and the crank's first angle; and the same bounds, either those of the literature, lengths to 50 and the
rest within ±50, or narrow ones, to 2 and within ±2. pylinkage gets the sense of rotation and the branch of the best known
solution as a present; `synthesis.path` has to find them. Bounds of the angles are a whole turn.

pylinkage's swarm is used in two ways: as its documentation has it, one call of Python for each linkage, with the compiled
solver `step_fast`; and its swarm over its batched solver, which is the fastest that it has, by functions inside the
package. Numba is warm in both. All that is measured here is measured on one core.
"""

import cmath
import math
import time
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import timing

import jaxmbs as mbs
from jaxmbs import synthesis
from jaxmbs.programs import ProgramWithFallback

TARGETS = np.column_stack([
    [0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.0, 0.0, 0.03, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.6],
    [1.1, 1.1, 1.1, 1.0, 0.9, 0.75, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0],
])  # fmt: skip
STEP = np.deg2rad(20)
TIMING = STEP * np.arange(len(TARGETS))
LENGTHS = ("ground", "crank", "coupler", "rocker")
MAX_LENGTH = {"published bounds": 50.0, "narrow bounds": 2.0}
# Of particles and iterations; runs of each, of which the medians of error and time count.
BUDGETS = ((100, 200), (200, 500), (400, 1000))
RUNS = 3
# Number of seeds; of `synthesis.path` the worst one counts.
SEEDS = 10
WAYS = ("batched", "documented")
STARTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
BATCH, TURN_BATCH = 4096, 512


class Answer(NamedTuple):
    """The error that a search has reached, and the seconds that it took."""

    error: float
    seconds: float


class Swarm:
    """The problem for pylinkage: ten numbers, of which its constraints and starting places follow."""

    def __init__(self, largest):
        import pylinkage

        best = reference()
        self.sense = 1.0 if best.crank_angles[-1] > best.crank_angles[0] else -1.0
        self.branch = float(np.ravel(best.branch)[0])
        low = [0.0] * 4 + [-largest] * 4 + [-np.pi] * 2
        self.bounds = np.array(low), np.array([largest] * 8 + [np.pi] * 2)
        first, second = pylinkage.Ground(0.0, 0.0), pylinkage.Ground(2.0, 0.0)
        crank = pylinkage.Crank(anchor=first, radius=0.5, angular_velocity=self.sense * STEP)
        rocker = pylinkage.RRRDyad(crank.output, second, 1.8, 1.7)
        point = pylinkage.FixedDyad(crank.output, rocker, 0.5, 0.5)
        self.linkage = pylinkage.simulation.Linkage([first, second, crank, rocker, point])

    def dimensions(self, x):
        """Constraints (N, 5) and places (N, 5, 2) one step before the first target, of designs (N, 10)."""
        ground, crank, coupler, rocker, *point = x[:, :6].T
        pivot, angle, start = x[:, 6] + 1j * x[:, 7], np.exp(1j * x[:, 8]), x[:, 9]
        far = pivot + ground * angle
        pin = pivot + crank * angle * np.exp(1j * (start - self.sense * STEP))
        away = far - pin
        with np.errstate(all="ignore"):
            cosine = (coupler**2 + np.abs(away) ** 2 - rocker**2) / (2 * coupler * np.abs(away))
            elbow = pin + coupler * away / np.abs(away) * np.exp(1j * self.branch * np.arccos(np.clip(cosine, -1, 1)))
        seen = point[0] + 1j * point[1]
        traced = pin + seen * (elbow - pin) / np.maximum(coupler, 1e-300)
        places = np.stack([pivot, far, pin, elbow, traced], axis=1)
        constraints = np.stack([crank, coupler, rocker, np.abs(seen), np.angle(seen)], axis=1)
        return constraints, np.stack([places.real, places.imag], axis=-1)

    def costs(self, x):
        """All linkages by the batched solver; what cannot be built costs infinitely much, as pylinkage has it."""
        ensemble = self.pylinkage_ensemble(*self.dimensions(x))
        paths = ensemble.simulate(iterations=len(TARGETS), store=False)
        return errors(paths[:, :, -1])

    def pylinkage_ensemble(self, constraints, places):
        from pylinkage.population import Ensemble

        return Ensemble(self.linkage, constraints, places)

    def cost(self, linkage, x, _places):
        """One linkage by the compiled solver."""
        linkage.set_completely(*self.dimensions_of_one(*x))
        return float(errors(linkage.step_fast(iterations=len(TARGETS))[None, :, -1])[0])

    def dimensions_of_one(self, ground, crank, coupler, rocker, x, y, pivot_x, pivot_y, angle, start):
        """`dimensions` without arrays, which would take longer than all the rest for a single linkage."""
        pivot, seen = complex(pivot_x, pivot_y), complex(x, y)
        far = pivot + cmath.rect(ground, angle)
        pin = pivot + cmath.rect(crank, angle + start - self.sense * STEP)
        away = far - pin
        scale = 2 * coupler * abs(away)
        cosine = (coupler**2 + abs(away) ** 2 - rocker**2) / scale if scale else 0.0
        opened = math.acos(min(max(cosine, -1.0), 1.0))
        along = cmath.rect(1.0, cmath.phase(away) + self.branch * opened)
        places = (pivot, far, pin, pin + coupler * along, pin + seen * along)
        return [crank, coupler, rocker, abs(seen), cmath.phase(seen)], [(z.real, z.imag) for z in places]

    def batched(self, particles, iterations):
        from pylinkage.optimization.particle_swarm import _local_best_pso

        return _local_best_pso(
            self.costs, 10, self.bounds, n_particles=particles, iterations=iterations, verbose=False
        )[0]

    def documented(self, particles, iterations):
        import pylinkage

        found = pylinkage.particle_swarm_optimization(
            self.cost,
            self.linkage,
            dimensions=10,
            bounds=self.bounds,
            n_particles=particles,
            iterations=iterations,
            order_relation=min,
            verbose=False,
        )
        return float(found.scores["score"][0])


def errors(paths):
    """Sums of squared distances (N,) of paths (N, 18, 2), infinite where one could not be built."""
    sums = ((paths - TARGETS) ** 2).sum(axis=(1, 2))
    return np.where(np.isfinite(sums), sums, np.inf)


@lru_cache(maxsize=64)
def swarm_answer(bounds, way, particles, iterations):
    """The medians of error and time of the runs."""
    run = getattr(Swarm(MAX_LENGTH[bounds]), way)
    run(20, 2)  # compiles
    found, seconds = [], []
    for _ in range(RUNS):
        begin = time.perf_counter()
        found.append(run(particles, iterations))
        seconds.append(time.perf_counter() - begin)
    return Answer(float(np.median(found)), float(np.median(seconds)))


def swarm_row(bounds, way, particles, iterations):
    name = f"pylinkage {way}, {bounds}"
    try:
        answer = swarm_answer(bounds, way, particles, iterations)
    except ImportError as error:
        return timing.skipped(name, error)
    return row(name, answer, particles=particles, iterations=iterations)


def limits(largest):
    lower = {**dict.fromkeys(LENGTHS, 0.0), "point": -largest, "pivot": -largest}
    return {"lower": lower, "upper": dict.fromkeys(lower, largest)}


def searched(bounds, starts, seed=0):
    limited = limits(MAX_LENGTH[bounds])
    return synthesis.path(TARGETS, crank_angles=TIMING, starts=starts, seed=seed, keep=1, **limited).best


@lru_cache(maxsize=1)
def reference():
    return searched("published bounds", 1024)


@lru_cache(maxsize=64)
def path_answer(bounds, starts):
    """The largest error over some seeds, the median of the seconds when compiled, and the seconds of the first call."""
    found, seconds = [], []
    for seed in (0, *range(SEEDS)):
        begin = time.perf_counter()
        try:
            found.append(searched(bounds, starts, seed).error)
        except ValueError:  # so few starts may find nothing within the bounds
            found.append(float("inf"))
        seconds.append(time.perf_counter() - begin)
    return Answer(max(found), float(np.median(seconds[1:]))), seconds[0]


def path_row(bounds, starts):
    answer, cold = path_answer(bounds, starts)
    return row(f"jaxmbs, {bounds}", answer, kind="jaxmbs", starts=starts, **{"seconds of the first call": cold})


def same_error_row(bounds, way):
    """How much sooner `synthesis.path`, whatever the seed, has an error no larger than the best swarm's of one way."""
    name = f"jaxmbs, as good as {way}, {bounds}"
    try:
        best = min(swarm_answer(bounds, way, *budget) for budget in budgets(way))
    except ImportError as error:
        return timing.skipped(name, error)
    for starts in STARTS:
        answer, cold = path_answer(bounds, starts)
        if answer.error <= best.error:
            more = {"starts": starts, "seconds of the first call": cold, "swarm error": best.error}
            more |= {"swarm seconds": best.seconds, "times faster": best.seconds / answer.seconds}
            return row(name, answer, kind="jaxmbs", **more)
    return timing.skipped(name, f"{STARTS[-1]} starts are not enough")


def budgets(way):
    """The largest one would take the documented way minutes."""
    return BUDGETS if way == "batched" else BUDGETS[:2]


def row(name, answer, *, kind="other", **more):
    runs = timing.Runs(answer.seconds, answer.seconds)
    return timing.row(name, runs, 1, kind=kind, error=answer.error, seconds=answer.seconds, **more)


def poses_row():
    """Error and gradient by all nine free numbers of a batch of four-bars, 18 poses each, as the search has them."""
    four_bar = synthesis.FourBar

    def error(u, branch, goal):
        design = four_bar.design(u)
        points = jax.vmap(lambda angle: four_bar.point(design, angle, branch))(jnp.asarray(TIMING))
        return jnp.sum((points - goal) ** 2)

    rng = np.random.default_rng(0)
    u, branch = four_bar.sample(rng, BATCH), rng.choice([-1.0, 1.0], BATCH)
    return throughput(
        "poses with gradient", ProgramWithFallback(jax.value_and_grad(error)), (0, 0, None), u, branch, TARGETS
    )


def kinematics_poses_row():
    """The same through `mbs.kinematics` of a mechanism that is built from the design: the loop closed by Newton's method,
    velocities and accelerations too, a status for each pose."""
    four_bar = synthesis.FourBar
    times = jnp.asarray(TIMING / (2 * np.pi))

    def error(u, guess, goal):
        design = four_bar.design(u)
        motion = mbs.kinematics(four_bar.mechanism(design), times, guess)
        return jnp.sum((motion.point("coupler", design["point"]) - goal) ** 2)

    rng = np.random.default_rng(0)
    u, branch = four_bar.sample(rng, TURN_BATCH), rng.choice([-1, 1], TURN_BATCH)
    design = jax.vmap(four_bar.design)(u)
    one = lambda k: jax.tree.map(lambda x: x[k], design)
    guesses = [four_bar.guess(one(k), 0.0, branch[k]) for k in range(TURN_BATCH)]
    q = np.array([np.concatenate([pose[body] for body in ("crank", "coupler", "rocker")]) for pose in guesses])
    return throughput("poses with gradient, kinematics", jax.value_and_grad(error), (0, 0, None), u, q, TARGETS)


def curves_row(gradient: bool):
    """Curves of 200 places that eight-bars draw, and their squared distances from given ones with the gradient."""
    eight_bar = synthesis.Dyadic([("crank", "ground"), ("coupler", "rocker"), ("link", "crank")])
    angles, rng = np.linspace(0, 2 * np.pi, 200, endpoint=False), np.random.default_rng(0)
    u, signs = eight_bar.random(rng, BATCH)
    goal = rng.normal(size=(200, 2))
    seen = lambda u, signs, angle: eight_bar.point_and_cosines(eight_bar.design(u), angle, signs)[0]

    def error(u, signs):
        add = lambda total, x: (total + jnp.sum((seen(u, signs, x[0]) - x[1]) ** 2), None)
        return jax.lax.scan(add, jnp.zeros(()), (jnp.asarray(angles), jnp.asarray(goal)))[0]

    drawn = lambda u, signs: jax.lax.map(lambda angle: seen(u, signs, angle), jnp.asarray(angles))
    function = ProgramWithFallback(jax.value_and_grad(error)) if gradient else ProgramWithFallback(drawn)
    run, compile_seconds = timing.compiled(jax.vmap(function), u, signs)
    _, runs = timing.measure(run, u, signs, repeats=9)
    name = "curves of eight-bars" + ", gradient" * gradient
    more = {"curves per minute": 60 * BATCH / runs.median, "compile s": compile_seconds}
    return timing.row(name, runs, BATCH, kind="jaxmbs", **more)


def throughput(name, function, axes, *args):
    """A row for a function of one linkage that gives error and gradient of its 18 poses."""
    run, compile_seconds = timing.compiled(jax.vmap(function, axes), *args)
    (_, gradient), runs = timing.measure(run, *args, repeats=9)
    poses = len(args[0]) * len(TARGETS)
    more = {"poses per second": poses / runs.median, "compile s": compile_seconds}
    more["gradients that are finite"] = float(np.isfinite(np.asarray(gradient)).all(axis=1).mean())
    return timing.row(name, runs, poses, kind="jaxmbs", **more)


CALLS = [
    (poses_row,),
    (kinematics_poses_row,),
    (curves_row, False),
    (curves_row, True),
    *(
        (swarm_row, bounds, way, *budget)
        for bounds in MAX_LENGTH
        for way in ("batched", "documented")
        for budget in budgets(way)
    ),
    *((path_row, bounds, starts) for bounds in MAX_LENGTH for starts in (256, 4096)),
    *((same_error_row, bounds, way) for bounds in MAX_LENGTH for way in WAYS),
]
