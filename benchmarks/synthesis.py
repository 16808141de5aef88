"""Rows of synthesis: eighteen timed points beside pylinkage's particle swarm; poses of four-bars with their gradients.

The problem is that of Kunjur and Krishnamurty (1997): 18 points, 20° of the crank from each to the next; the error is the
sum of squared distances. Both tools have the same design: ground, crank, coupler, rocker, the coupler's point, the ground's
angle and pivot, and the crank's first angle; and the same bounds, either those of the literature, lengths up to 50 and the
rest within ±50, or narrow ones, up to 2 and within ±2. Bounds of the angles are a whole turn. pylinkage is given the sense
of rotation and the branch of the best known solution, which `synthesis.path` must find.

pylinkage's swarm is used in two ways: as documented, one Python call for each linkage, with the compiled solver
`step_fast`; and over its batched solver, the fastest that it has, by internal functions. Numba is warm in both. All
measurements use one core.
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

# Targets (18, 2) of the coupler point, a published problem of path synthesis.
TARGETS = np.column_stack([
    [0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.0, 0.0, 0.03, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.6],
    [1.1, 1.1, 1.1, 1.0, 0.9, 0.75, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0],
])  # fmt: skip
# Angle of the crank between two targets (rad).
STEP = np.deg2rad(20)
# Angles of the crank at the targets (rad).
TIMING = STEP * np.arange(len(TARGETS))
# Names of the lengths of a four-bar.
LENGTHS = ("ground", "crank", "coupler", "rocker")
# Upper bounds on the lengths of the four-bar, and on the absolute values of its coordinates, by name of the set.
MAX_LENGTH = {"published bounds": 50.0, "narrow bounds": 2.0}
# Numbers of particles and iterations of pylinkage's particle swarms.
BUDGETS = ((100, 200), (200, 500), (400, 1000))
# Runs of a swarm with each budget, of which the medians of error and time are reported.
RUNS = 3
# Number of seeds with which `synthesis.path` is run; the worst error is reported.
SEEDS = 10
# Ways to use pylinkage, names of methods of `Swarm`.
WAYS = ("batched", "documented")
# Numbers of starts of `synthesis.path` tried until its error is as small as that of pylinkage.
STARTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# Linkages in a batch of the throughput rows, which time error and gradient.
BATCH = 4096
# Linkages in a batch of the throughput row by `mbs.kinematics`.
KINEMATICS_BATCH = 512


class Answer(NamedTuple):
    """Error of a search for a four-bar (sum of squared distances), and its seconds."""

    error: float
    seconds: float


class Swarm:
    """The problem for pylinkage: ten numbers that give its constraints and starting places."""

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
        """Return constraints (N, 5) and places (N, 5, 2) one step before the first target, for designs (N, 10)."""
        ground, crank, coupler, rocker, *point = x[:, :6].T
        pivot, angle, start = x[:, 6] + 1j * x[:, 7], np.exp(1j * x[:, 8]), x[:, 9]
        far = pivot + ground * angle
        pin = pivot + crank * angle * np.exp(1j * (start - self.sense * STEP))
        away = far - pin
        with np.errstate(all="ignore"):
            cosine = (coupler**2 + np.abs(away) ** 2 - rocker**2) / (2 * coupler * np.abs(away))
            elbow = pin + coupler * away / np.abs(away) * np.exp(1j * self.branch * np.arccos(np.clip(cosine, -1, 1)))
        arm = point[0] + 1j * point[1]
        traced = pin + arm * (elbow - pin) / np.maximum(coupler, 1e-300)
        places = np.stack([pivot, far, pin, elbow, traced], axis=1)
        constraints = np.stack([crank, coupler, rocker, np.abs(arm), np.angle(arm)], axis=1)
        return constraints, np.stack([places.real, places.imag], axis=-1)

    def costs(self, x):
        """Return sums of squared distances (N,) from the targets, for designs (N, 10); infinite if not buildable."""
        ensemble = self.pylinkage_ensemble(*self.dimensions(x))
        paths = ensemble.simulate(iterations=len(TARGETS), store=False)
        return errors(paths[:, :, -1])

    def pylinkage_ensemble(self, constraints, places):
        """Return an ensemble of pylinkage with constraints (N, 5) and places (N, 5, 2), see `dimensions`."""
        from pylinkage.population import Ensemble

        return Ensemble(self.linkage, constraints, places)

    def cost(self, linkage, x, _places):
        """Return the sum of squared distances of one linkage, design x (10 numbers), by the compiled solver."""
        linkage.set_completely(*self.dimensions_of_one(*x))
        return float(errors(linkage.step_fast(iterations=len(TARGETS))[None, :, -1])[0])

    def dimensions_of_one(self, ground, crank, coupler, rocker, x, y, pivot_x, pivot_y, angle, start):
        """Return lists of the `dimensions` of one linkage, without arrays, which would take most of the time."""
        pivot, arm = complex(pivot_x, pivot_y), complex(x, y)
        far = pivot + cmath.rect(ground, angle)
        pin = pivot + cmath.rect(crank, angle + start - self.sense * STEP)
        away = far - pin
        scale = 2 * coupler * abs(away)
        cosine = (coupler**2 + abs(away) ** 2 - rocker**2) / scale if scale else 0.0
        opened = math.acos(min(max(cosine, -1.0), 1.0))
        along = cmath.rect(1.0, cmath.phase(away) + self.branch * opened)
        places = (pivot, far, pin, pin + coupler * along, pin + arm * along)
        return [crank, coupler, rocker, abs(arm), cmath.phase(arm)], [(z.real, z.imag) for z in places]

    def batched(self, particles, iterations):
        """Return the best error of a swarm over the batched solver."""
        from pylinkage.optimization.particle_swarm import _local_best_pso

        size = {"n_particles": particles, "iterations": iterations}
        return _local_best_pso(self.costs, 10, self.bounds, **size, verbose=False)[0]

    def documented(self, particles, iterations):
        """Return the best error of a swarm as documented."""
        import pylinkage

        size = {"dimensions": 10, "n_particles": particles, "iterations": iterations}
        options = {"bounds": self.bounds, "order_relation": min, "verbose": False}
        found = pylinkage.particle_swarm_optimization(self.cost, self.linkage, **size, **options)
        return float(found.scores["score"][0])


def errors(paths):
    """Return the sums of squared distances (N,) of paths (N, 18, 2), infinite for paths that could not be built."""
    sums = ((paths - TARGETS) ** 2).sum(axis=(1, 2))
    return np.where(np.isfinite(sums), sums, np.inf)


@lru_cache(maxsize=64)
def swarm_answer(bounds, way, particles, iterations):
    """Return the medians of error and time over `RUNS` runs of a swarm."""
    run = getattr(Swarm(MAX_LENGTH[bounds]), way)
    run(20, 2)  # compiles
    found, seconds = [], []
    for _ in range(RUNS):
        begin = time.perf_counter()
        found.append(run(particles, iterations))
        seconds.append(time.perf_counter() - begin)
    return Answer(float(np.median(found)), float(np.median(seconds)))


def swarm_row(bounds, way, particles, iterations):
    """pylinkage by one of its ways, with numbers of particles and iterations."""
    name = f"pylinkage {way}, {bounds}"
    try:
        answer = swarm_answer(bounds, way, particles, iterations)
    except ImportError as error:
        return timing.skipped_row(name, error)
    return row(name, answer, particles=particles, iterations=iterations)


def limits(largest):
    """Return the bounds of `synthesis.path` that allow lengths up to `largest` and the rest within ±`largest`."""
    lower = {**dict.fromkeys(LENGTHS, 0.0), "point": -largest, "pivot": -largest}
    return {"lower": lower, "upper": dict.fromkeys(lower, largest)}


def best_linkage(bounds, starts, seed=0):
    """Return the best linkage of `synthesis.path` within the bounds of this name, from a number of starts."""
    limited = limits(MAX_LENGTH[bounds])
    return synthesis.path(TARGETS, crank_angles=TIMING, starts=starts, seed=seed, keep=1, **limited).best


@lru_cache(maxsize=1)
def reference():
    """Return the best four-bar known for the targets."""
    return best_linkage("published bounds", 1024)


@lru_cache(maxsize=64)
def path_answer(bounds, starts):
    """Return the largest error over the seeds with the median of the seconds, and the seconds of the first call."""
    found, seconds = [], []
    for seed in (0, *range(SEEDS)):
        begin = time.perf_counter()
        try:
            found.append(best_linkage(bounds, starts, seed).error)
        except ValueError:  # few starts may find no linkage within the bounds
            found.append(float("inf"))
        seconds.append(time.perf_counter() - begin)
    return Answer(max(found), float(np.median(seconds[1:]))), seconds[0]


def path_row(bounds, starts):
    """`synthesis.path` with a number of starts."""
    answer, cold = path_answer(bounds, starts)
    return row(f"jaxmbs, {bounds}", answer, kind="jaxmbs", starts=starts, **{"seconds of the first call": cold})


def same_error_row(bounds, way):
    """`synthesis.path` with the fewest starts whose error is, for all seeds, at most that of the best swarm."""
    name = f"jaxmbs, as good as {way}, {bounds}"
    try:
        best = min(swarm_answer(bounds, way, *budget) for budget in budgets(way))
    except ImportError as error:
        return timing.skipped_row(name, error)
    for starts in STARTS:
        answer, cold = path_answer(bounds, starts)
        if answer.error <= best.error:
            more = {"starts": starts, "seconds of the first call": cold, "swarm error": best.error}
            more |= {"swarm seconds": best.seconds, "times faster": best.seconds / answer.seconds}
            return row(name, answer, kind="jaxmbs", **more)
    return timing.skipped_row(name, f"{STARTS[-1]} starts are not enough")


def budgets(way):
    """Return the budgets of a way; the largest one would take minutes as documented."""
    return BUDGETS if way == "batched" else BUDGETS[:2]


def row(name, answer, *, kind="other", **more):
    """Return the row of an `Answer`."""
    runs = timing.Runs(answer.seconds, answer.seconds)
    return timing.row(name, runs, 1, kind=kind, error=answer.error, seconds=answer.seconds, **more)


def poses_row():
    """Error and gradient by all nine free numbers of a batch of four-bars, 18 poses each, as in the search."""
    four_bar = synthesis.FourBar

    def error(u, branch, goal):
        """Return the sum of squared distances of the coupler point from the targets, from free numbers u."""
        design = four_bar.design(u)
        points = jax.vmap(lambda angle: four_bar.point(design, angle, branch))(jnp.asarray(TIMING))
        return jnp.sum((points - goal) ** 2)

    rng = np.random.default_rng(0)
    u, branch = four_bar.sample(rng, BATCH), rng.choice([-1.0, 1.0], BATCH)
    function = ProgramWithFallback(jax.value_and_grad(error))
    return throughput("poses with gradient", function, (0, 0, None), u, branch, TARGETS)


def kinematics_poses_row():
    """Error and gradient by `mbs.kinematics`: the loop closed by Newton's method, with velocities and statuses."""
    four_bar = synthesis.FourBar
    times = jnp.asarray(TIMING / (2 * np.pi))

    def error(u, guess, goal):
        """Return the sum of squared distances of the coupler point from the targets, from free numbers u."""
        design = four_bar.design(u)
        motion = mbs.kinematics(four_bar.mechanism(design), times, guess)
        return jnp.sum((motion.point("coupler", design["point"]) - goal) ** 2)

    rng = np.random.default_rng(0)
    u, branch = four_bar.sample(rng, KINEMATICS_BATCH), rng.choice([-1, 1], KINEMATICS_BATCH)
    design = jax.vmap(four_bar.design)(u)
    one = lambda k: jax.tree.map(lambda x: x[k], design)
    guesses = [four_bar.guess(one(k), 0.0, branch[k]) for k in range(KINEMATICS_BATCH)]
    q = np.array([np.concatenate([pose[body] for body in ("crank", "coupler", "rocker")]) for pose in guesses])
    return throughput("poses with gradient, kinematics", jax.value_and_grad(error), (0, 0, None), u, q, TARGETS)


def curves_row(gradient: bool):
    """Curves of eight-bars with 200 points; with `gradient` their squared distances from given points too."""
    eight_bar = synthesis.Dyadic([("crank", "ground"), ("coupler", "rocker"), ("link", "crank")])
    angles, rng = np.linspace(0, 2 * np.pi, 200, endpoint=False), np.random.default_rng(0)
    u, signs = eight_bar.random(rng, BATCH)
    goal = rng.normal(size=(200, 2))
    point_of = lambda u, signs, angle: eight_bar.point_and_cosines(eight_bar.design(u), angle, signs)[0]

    def error(u, signs):
        """Return the sum of squared distances of a curve from its goal, from free numbers u and signs of the loops."""
        add = lambda total, x: (total + jnp.sum((point_of(u, signs, x[0]) - x[1]) ** 2), None)
        return jax.lax.scan(add, jnp.zeros(()), (jnp.asarray(angles), jnp.asarray(goal)))[0]

    drawn = lambda u, signs: jax.lax.map(lambda angle: point_of(u, signs, angle), jnp.asarray(angles))
    function = ProgramWithFallback(jax.value_and_grad(error)) if gradient else ProgramWithFallback(drawn)
    run, compile_seconds = timing.compile_function(jax.vmap(function), u, signs)
    _, runs = timing.measure(run, u, signs, repeats=9)
    name = "curves of eight-bars" + ", gradient" * gradient
    more = {"curves per minute": 60 * BATCH / runs.median, "compile s": compile_seconds}
    return timing.row(name, runs, BATCH, kind="jaxmbs", **more)


def throughput(name, function, axes, *args):
    """Return the row of a function of one linkage that returns error and gradient of its 18 poses."""
    run, compile_seconds = timing.compile_function(jax.vmap(function, axes), *args)
    (_, gradient), runs = timing.measure(run, *args, repeats=9)
    poses = len(args[0]) * len(TARGETS)
    more = {"poses per second": poses / runs.median, "compile s": compile_seconds}
    more["gradients that are finite"] = float(np.isfinite(np.asarray(gradient)).all(axis=1).mean())
    return timing.row(name, runs, poses, kind="jaxmbs", **more)


# Row functions of the table of synthesis with their arguments.
CALLS = [
    (poses_row,),
    (kinematics_poses_row,),
    (curves_row, False),
    (curves_row, True),
    *((swarm_row, bounds, way, *budget) for bounds in MAX_LENGTH for way in WAYS for budget in budgets(way)),
    *((path_row, bounds, starts) for bounds in MAX_LENGTH for starts in (256, 4096)),
    *((same_error_row, bounds, way) for bounds in MAX_LENGTH for way in WAYS),
]
