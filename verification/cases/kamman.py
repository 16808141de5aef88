"""Kamman: moments of joints, matrices of trees, elimination of known coordinates, driving torques."""

import jax
import numpy as np

import jaxmbs as mbs
from jaxmbs import planar
from kane_boxed import BOXED, HELD_SLIDES
from kane_eliminations import ELIMINATIONS
from kane_problems import FIRST, GROUND, KANE, SECOND, TIMES, named, planar_double_pendulum, turned
from kane_symbolic import BRANCHED, CHAIN, SymbolicTree, random_state, random_tree, tree_mechanism
from norms import size
from verification.case import Analysis, Simulation, below, case, close

# Moments in joints from multipliers.
MOMENT = Analysis("joint_moment", "Kane")
# Matrices [A] and {f} of Kane's equations.
MATRICES = Analysis("kane_matrices", "Kane")
# Accelerations at one state, as `simulate` computes them.
AT_ONE_STATE = Analysis("simulate, at one state", "Kane")


def register_joint(name):
    """Register the boxed results of a joint."""
    held, lower, own = BOXED[name]

    @case("Kamman", f"boxed results of the joint: {name}", MOMENT, quick=True)
    def results(by):
        """Compare the moment of a joint with the boxed results at random angles."""
        rng, off = np.random.default_rng(list(BOXED).index(name)), []
        slides = HELD_SLIDES.get(name, (1, 2, 3))
        for angles in (*rng.uniform(-np.pi, np.pi, (6, 3)), np.zeros(3)):
            angles = np.where(np.isin([1, 2, 3], held), 0, angles)
            multipliers = np.zeros(6)
            multipliers[[k - 1 for k in held]] = rng.normal(size=len(held))
            multipliers[[k + 2 for k in slides]] = rng.normal(size=len(slides))
            found = mbs.joint_moment(angles, multipliers)
            sines, cosines = ([None, *f(angles)] for f in (np.sin, np.cos))
            given, largest = multipliers[[k - 1 for k in held]], max(1.0, size(multipliers) / min(1, abs(cosines[2])))
            for moment, wanted in ((found.moment_lower, lower), (found.moment, own)):
                off.append(np.subtract(moment, wanted(sines, cosines, *given)) / largest)
            off.append(np.subtract(found.force, multipliers[3:]))
        yield below("force, moment in both frames", off, 1e-12, "relative")


for _name in BOXED:
    register_joint(_name)


@case("Kamman", "(28) to (33): sums of the moment for held angles of any size", MOMENT, quick=True)
def sums_of_the_moment(by):
    """Compare sums in the moment of a joint with the printed ones."""
    rng, off = np.random.default_rng(2), []
    for _ in range(20):
        angles, multipliers = rng.uniform(-np.pi, np.pi, 3), rng.normal(size=6)
        (_, s1, s2, s3), (_, c1, c2, c3) = ([None, *f(angles)] for f in (np.sin, np.cos))
        found = mbs.joint_moment(angles, multipliers)
        m, n = found.moment, found.moment_lower
        in_own = [c2 * c3 * m[0] - c2 * s3 * m[1] + s2 * m[2], s3 * m[0] + c3 * m[1], m[2]]
        in_lower = [n[0], c1 * n[1] + s1 * n[2], s2 * n[0] - s1 * c2 * n[1] + c1 * c2 * n[2]]
        largest = max(1.0, size(m))
        off += [np.subtract(sums, multipliers[:3]) / largest for sums in (in_own, in_lower)]
        off.append((turned(angles) @ m - n) / largest)
    yield below("multipliers", off, 1e-12, "relative")


def tree_matrices(name, lower, method, seed, *, quick):
    """Register [A] and {f} of a tree against SymPy."""

    @case("Kamman", f"(2) to (4): [A] and {{f}} of {name}, against SymPy's {method}", MATRICES, quick=quick)
    def matrices(by):
        """Compare [A] and {f} of a random tree at random states with SymPy."""
        tree = random_tree(np.random.default_rng(seed), lower)
        symbolic = SymbolicTree(tree)
        wanted = symbolic.by_kane() if method == "KanesMethod" else symbolic.by_vectors()
        mech, rng, off = tree_mechanism(tree), np.random.default_rng(8), ([], [])
        found = jax.jit(lambda x, y: mbs.kane_matrices(mech, x, y))
        for _ in range(5):
            x, y = random_state(rng, len(lower))
            for got, matrix, gaps in zip(found(x, y), wanted(x, y), off, strict=True):
                gaps.append((got - np.asarray(matrix).reshape(got.shape)) / size(matrix))
        yield below("[A]", off[0], 1e-10, "relative")
        yield below("{f}", off[1], 1e-10, "relative")


for _name, _lower in {"a chain of two bodies": CHAIN, "three branched bodies": BRANCHED}.items():
    tree_matrices(_name, _lower, "vectors", 5, quick=True)
    tree_matrices(_name, _lower, "KanesMethod", 6, quick=False)


def elimination(name, *, quick):
    """Register a mechanism with known coordinates."""
    build, unknown, moving = ELIMINATIONS[name]

    @case("Kamman", f"(9) to (12): known coordinates eliminated, {name}", AT_ONE_STATE, quick=quick)
    def known_coordinates(by):
        """Compare accelerations and driving forces with those after elimination of known coordinates."""
        mech, rng, t = build(), np.random.default_rng(6), 0.3
        names = mbs.Kane().of(mech).names
        x, y, rates = np.zeros((3, len(names)))
        for k, key in enumerate(names):
            if key in unknown:
                x[k], y[k] = rng.uniform(-1, 1, 2)
            if key in moving:
                motion, sign, offset = moving[key]
                rate = jax.grad(motion)
                x[k], y[k], rates[k] = sign * motion(t) + offset, sign * rate(t), sign * jax.grad(rate)(t)
        free = np.array([key in unknown for key in names])
        mass, force = (np.asarray(m) for m in mbs.kane_matrices(mech, x, y, t))
        right = force[free] - mass[np.ix_(free, ~free)] @ rates[~free]
        rates[free] = np.linalg.solve(mass[np.ix_(free, free)], right)
        multipliers = mass @ rates - force
        q, v, a = mbs.Kane().of(mech).to_bodies(x, y, rates, t)
        yield below("gaps of joints and drivers", mbs.constraints(mech, q, t), 1e-13)
        run = mbs.simulate(mech, [t], q, v, formulation=KANE, throw=True)
        found = mbs.kane_multipliers(mech, run)[0]
        for name, got, wanted, tolerance in (
            ("velocities", run.v[0], v, 1e-11),
            ("accelerations", run.a[0], a, 1e-9),
            ("multipliers", found, multipliers, 1e-9),
        ):
            yield below(name, (got - np.asarray(wanted)) / max(1.0, size(wanted)), tolerance, "relative")


for _name in ELIMINATIONS:
    elimination(_name, quick="slide" not in _name)


@case("Kamman", "specified motion: driving torques of a double pendulum", Simulation(0.1, formulation=KANE), quick=True)
def driving_torques(by):
    """Compare the torques that drive a double pendulum with those by Newton and Euler."""
    motors = {
        "shoulder": planar.RevoluteDriver(GROUND, "a", FIRST),
        # Counts from b to a: minus the angle of the elbow.
        "elbow": planar.RevoluteDriver("b", "a", SECOND),
    }
    mech = planar_double_pendulum(motors)
    run = by.run(mech, TIMES)
    found = by.reactions(mech, run)
    values = [
        [np.asarray(jax.vmap(f)(TIMES)) for f in (c, jax.grad(c), jax.grad(jax.grad(c)))] for c in (FIRST, SECOND)
    ]
    (p1, w1, e1), (p2, w2, e2) = values[0], [a - b for a, b in zip(*values, strict=True)]
    # Newton and Euler by hand, with the numbers of `planar_double_pendulum`.
    (m1, c1, j1), (m2, c2, j2), length, g = (1.3, 0.4, 0.2), (0.9, 0.3, 0.15), 0.7, 9.81
    c, s = m2 * length * c2 * np.cos(p2 - p1), m2 * length * c2 * np.sin(p2 - p1)
    elbow = (j2 + m2 * c2**2) * e2 + c * e1 + s * w1**2 + m2 * g * c2 * np.cos(p2)
    shoulder = (j1 + m1 * c1**2 + m2 * length**2) * e1 + c * e2 - s * w2**2
    shoulder += (m1 * c1 + m2 * length) * g * np.cos(p1) + elbow
    multipliers = named(mech, mbs.kane_multipliers(mech, run))
    for name, got, wanted in (
        ("torque of the shoulder", found["shoulder"].effort, shoulder),
        ("torque of the elbow", found["elbow"].effort, -elbow),
        ("multiplier of the first angle", multipliers["a.phi"], shoulder),
        ("multiplier of the second angle", multipliers["b.phi"], elbow),
    ):
        yield close(name, got, wanted, 1e-10, "N m")
