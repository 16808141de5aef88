"""Kane's equations of trees in all of their 6N coordinates, against SymPy and the equations of the notes.

Kamman, Multibody Dynamics: Equations of Motion for Multibody Systems with Inter-Body Joint Constraints; numbers (…) below
are those of its equations.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.motion import Harmonic
from kane_problems import GROUND, KANE, WEIGHT, close
from norms import size
from random_mechanisms import random_body


def random_tree(rng, lower):
    """Numbers of a tree of space: names of lower bodies by body, then points, frames, masses, forces."""
    bodies = {name: random_body(rng, 3) for name in lower}
    point = lambda: rng.uniform(-0.6, 0.6, 3)
    frame = lambda: Rotation.random(random_state=int(rng.integers(1000))).as_matrix()
    joints = {
        name: SimpleNamespace(point_i=point(), point_j=point(), frame_i=np.eye(3), frame_j=np.eye(3)) for name in lower
    }
    if "B3" in lower:
        joints["B3"].frame_i, joints["B3"].frame_j = frame(), frame()
    else:
        joints["B1"].point_i = joints["B1"].point_j = np.zeros(3)
    return SimpleNamespace(
        lower=lower,
        bodies=bodies,
        joints=joints,
        gravity=rng.normal(size=3) * 5,
        force=(point(), rng.normal(size=3)),
        torque=rng.normal(size=3),
    )


def tree_mechanism(tree):
    """Without B3 no joint holds B1; B2 is body i of its joint; the joint of B3 has frames."""
    at, joints = tree.joints, {}
    if "B3" in tree.lower:
        joints["1"] = spatial.Cylindrical(GROUND, "B1", at["B1"].point_i, at["B1"].point_j, (1, 2, 3))
        given = at["B3"]
        frames = {"frame_i": given.frame_i, "frame_j": given.frame_j}
        joints["3"] = spatial.Revolute(tree.lower["B3"], "B3", given.point_i, given.point_j, **frames)
    joints["2"] = spatial.Spherical("B2", tree.lower["B2"], at["B2"].point_j, at["B2"].point_i)
    forces = {
        "gravity": mbs.Gravity(tree.gravity),
        "force": mbs.PointForce("B2", *tree.force, follower=True),
        "torque": mbs.Torque("B1", tree.torque, "B2"),
    }
    return mbs.Mechanism(tree.bodies, joints, forces=forces)


class SymbolicTree:
    """The tree in SymPy: angular velocities of frames by their own formulas, velocities by the theory of points.

    Attributes:
        N: the ground. x, y: coordinates and speeds in the order of the notes. bodies: of each body (name, mass, central
            inertia, mass centre, frame). loads: pairs of a point and a force, or of a frame and a torque.
    """

    def __init__(self, tree):
        import sympy
        from sympy.physics import mechanics as me

        names, count = list(tree.lower), len(tree.lower)
        angles = {name: me.dynamicsymbols(f"theta_{name}_1:4") for name in names}
        slides = {name: me.dynamicsymbols(f"s_{name}_1:4") for name in names}
        self.x = [c for group in (angles, slides) for name in names for c in group[name]]
        self.y = list(me.dynamicsymbols(f"y1:{6 * count + 1}"))
        self.speeds = {c.diff(): y for c, y in zip(self.x, self.y, strict=True)}
        self.N, origin = me.ReferenceFrame("N"), me.Point("O")
        origin.set_vel(self.N, 0)
        vector = lambda frame, s: sum((c * e for c, e in zip(s, frame, strict=True)), me.Vector(0))
        numbers = lambda frame, s: vector(frame, [float(c) for c in s])
        frames, origins, self.bodies = {GROUND: self.N}, {GROUND: origin}, []
        for name in sorted(names):
            joint, lower = tree.joints[name], frames[tree.lower[name]]
            at_lower, at_own, own = (me.ReferenceFrame(f"{k}{name}") for k in "FGK")
            at_lower.orient_explicit(lower, sympy.Matrix(joint.frame_i))
            at_own.orient_body_fixed(at_lower, angles[name], "123")
            own.orient_explicit(at_own, sympy.Matrix(joint.frame_j.T))
            at_own.set_ang_vel(at_lower, at_own.ang_vel_in(at_lower).xreplace(self.speeds))
            ends = [me.Point(f"{k}{name}") for k in "abog"]
            ends[0].set_pos(origins[tree.lower[name]], numbers(lower, joint.point_i))
            ends[1].set_pos(ends[0], vector(at_lower, slides[name]))
            ends[2].set_pos(ends[1], -numbers(own, joint.point_j))
            ends[3].set_pos(ends[2], numbers(own, tree.bodies[name].com))
            ends[0].v2pt_theory(origins[tree.lower[name]], self.N, lower)
            sliding = vector(at_lower, [self.speeds[c.diff()] for c in slides[name]])
            ends[1].set_vel(
                self.N, ends[0].vel(self.N) + sliding + (lower.ang_vel_in(self.N) ^ ends[1].pos_from(ends[0]))
            )
            ends[2].v2pt_theory(ends[1], self.N, own)
            ends[3].v2pt_theory(ends[2], self.N, own)
            frames[name], origins[name] = own, ends[2]
            self.bodies.append(
                (name, float(tree.bodies[name].mass), np.asarray(tree.bodies[name].inertia), ends[3], own)
            )
        self.loads = [(point, mass * numbers(self.N, tree.gravity)) for _, mass, _, point, _ in self.bodies]
        pushed = origins["B2"].locatenew("P", numbers(frames["B2"], tree.force[0]))
        pushed.v2pt_theory(origins["B2"], self.N, frames["B2"])
        self.loads.append((pushed, numbers(frames["B2"], tree.force[1])))
        torque = numbers(self.N, tree.torque)
        self.loads += [(frames["B1"], torque), (frames["B2"], -torque)]

    def by_kane(self):
        """[A] and {f} as functions of x, y by SymPy's own method of Kane."""
        import sympy
        from sympy.physics import mechanics as me

        bodies = []
        for name, mass, inertia, point, frame in self.bodies:
            order = [(0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (0, 2)]
            central = me.inertia(frame, *(float(inertia[k]) for k in order))
            bodies.append(me.RigidBody(name, point, frame, mass, (central, point)))
        kinematical = [c.diff() - y for c, y in zip(self.x, self.y, strict=True)]
        method = me.KanesMethod(self.N, self.x, self.y, kinematical)
        method.kanes_equations(bodies, self.loads)
        return sympy.lambdify((self.x, self.y), (method.mass_matrix, method.forcing[:, 0]), cse=True)

    def by_vectors(self):
        """[A] and {f} as functions of x, y from (7), by partial velocities and accelerations of SymPy's vectors."""
        import sympy
        from sympy.physics import mechanics as me

        t = me.dynamicsymbols._t
        still = {y.diff(t): 0 for y in self.y} | self.speeds
        partial = lambda vectors: [me.partial_velocity([v], self.y, self.N)[0] for v in vectors]
        points = [point for *_, point, _ in self.bodies]
        frames = [frame for *_, frame in self.bodies]
        at = [x for x, _ in self.loads]
        velocities = [point.vel(self.N) for point in points] + [frame.ang_vel_in(self.N) for frame in frames]
        loaded = [x.ang_vel_in(self.N) if isinstance(x, me.ReferenceFrame) else x.vel(self.N) for x in at]
        accelerations = [v.dt(self.N).xreplace(still) for v in velocities]
        spins = velocities[len(points) :]
        rows = [*partial(velocities), *partial(loaded), accelerations, spins, [load for _, load in self.loads]]
        # Components stay in the frames where they are short; numbers are turned to the ground.
        seen = sorted({frame for row in rows for v in row for _, frame in v.args} | set(frames), key=str)
        matrices = [m for row in rows for v in row for m, _ in v.args]
        turns = [self.N.dcm(frame) for frame in seen]
        program = sympy.lambdify((self.x, self.y), [*turns, *matrices], cse=True)

        def evaluate(x, y):
            values = iter(program(x, y))
            turns = {frame: next(values) for frame in seen}
            out = []
            for row in rows:
                vectors = []
                for v in row:
                    vectors.append(sum((turns[frame] @ next(values) for _, frame in v.args), np.zeros((3, 1)))[:, 0])
                out.append(np.array(vectors))
            accelerations, omega, loads = out[-3:]
            n, count = len(self.y), len(points)
            mass, force = np.zeros((n, n)), np.zeros(n)
            for k, (_, m, inertia, _, frame) in enumerate(self.bodies):
                by_v, by_w, w = out[k], out[count + k], omega[k]
                central = turns[frame] @ inertia @ turns[frame].T
                mass += m * by_v @ by_v.T + by_w @ central @ by_w.T
                force -= m * by_v @ accelerations[k]
                force -= by_w @ (central @ accelerations[count + k] + np.cross(w, central @ w))
            for by_load, load in zip(out[2 * count : -3], loads, strict=True):
                force += by_load @ load
            return mass, force

        return evaluate


CHAIN = {"B1": GROUND, "B2": "B1"}
# Not in the order of the tree.
BRANCHED = {"B3": "B1", "B1": GROUND, "B2": "B1"}


def random_state(rng, count):
    """x and y with angles of any size."""
    angles = rng.uniform(-3, 3, (count, 3))
    return np.concatenate([angles.ravel(), rng.normal(size=3 * count)]), rng.normal(size=6 * count)


def check_matrices(tree, expected, states):
    mech, rng = tree_mechanism(tree), np.random.default_rng(8)
    found = jax.jit(lambda x, y: mbs.kane_matrices(mech, x, y))
    for _ in range(states):
        x, y = random_state(rng, len(tree.lower))
        for got, wanted in zip(found(x, y), expected(x, y), strict=True):
            assert size(got - np.asarray(wanted).reshape(got.shape)) < 1e-10 * size(wanted)


@pytest.mark.parametrize("lower", [CHAIN, BRANCHED], ids=["chain", "branched"])
def test_matrices_by_vectors_of_sympy(lower):
    """[A] and {f} of a chain and of three branched bodies: (7) with velocities, their partials and rates by SymPy."""
    tree = random_tree(np.random.default_rng(5), lower)
    check_matrices(tree, SymbolicTree(tree).by_vectors(), 5)


@pytest.mark.slow
@pytest.mark.parametrize("lower", [CHAIN, BRANCHED], ids=["chain", "branched"])
def test_matrices_by_kanes_method_of_sympy(lower):
    """[A] and {f} of the same trees by SymPy's KanesMethod."""
    tree = random_tree(np.random.default_rng(6), lower)
    check_matrices(tree, SymbolicTree(tree).by_kane(), 5)


def test_matrices_of_the_plane():
    """[A] and {f} of two bodies in the plane with all six coordinates: Lagrange's equations by SymPy."""
    import sympy
    from sympy.physics import mechanics as me

    rng = np.random.default_rng(7)
    a, b = random_body(rng, 2), random_body(rng, 2)
    ends, g, torque = rng.uniform(-0.5, 0.5, (3, 2)), rng.normal(size=2) * 5, 1.3
    mech = mbs.Mechanism(
        {"a": a, "b": b},
        {
            "slide": planar.Translational(GROUND, "a", ends[0], ends[1], (1, 2)),
            "pin": planar.Revolute("b", "a", *ends[1:]),
        },
        forces={"gravity": mbs.Gravity(g), "torque": mbs.Torque("b", torque, "a")},
    )
    t = me.dynamicsymbols._t
    x = me.dynamicsymbols("phi_a phi_b x_a y_a x_b y_b")
    turn = lambda phi: sympy.Matrix([[sympy.cos(phi), -sympy.sin(phi)], [sympy.sin(phi), sympy.cos(phi)]])
    column = lambda s: sympy.Matrix([float(c) for c in s])
    # "b" is body i of its pin: the end on it is ends[1], that on "a" is ends[2].
    origin_a = column(ends[0]) + sympy.Matrix(x[2:4]) - turn(x[0]) * column(ends[1])
    origin_b = origin_a + turn(x[0]) * (column(ends[2]) + sympy.Matrix(x[4:])) - turn(x[0] + x[1]) * column(ends[1])
    lagrangian = 0
    for body, origin, phi in ((a, origin_a, x[0]), (b, origin_b, x[0] + x[1])):
        centre = origin + turn(phi) * column(body.com)
        kinetic = float(body.mass) * centre.diff(t).dot(centre.diff(t)) + float(body.inertia) * phi.diff(t) ** 2
        lagrangian += kinetic / 2 + float(body.mass) * column(g).dot(centre)
    method = me.LagrangesMethod(lagrangian + torque * x[1], x)
    method.form_lagranges_equations()
    speeds = sympy.symbols("y1:7")
    plain = dict(zip([c.diff(t) for c in x], speeds, strict=True))
    matrices = [m.xreplace(plain) for m in (method.mass_matrix, method.forcing)]
    expected = sympy.lambdify((x, speeds), matrices, cse=True)
    for _ in range(3):
        at, rates = rng.normal(size=6) * 2, rng.normal(size=6)
        for got, wanted in zip(mbs.kane_matrices(mech, at, rates), expected(at, rates), strict=True):
            assert size(got - np.asarray(wanted).reshape(got.shape)) < 1e-10 * size(wanted)
    assert mbs.kane_names(mech) == ("a.phi", "b.phi", "a.x", "a.y", "b.x", "b.y")


def skew(w):
    return np.cross(np.eye(3), w)


@pytest.mark.parametrize("lower", [CHAIN, BRANCHED], ids=["chain", "branched"])
def test_equations_3_and_4(lower):
    """(3) and (4) term by term with numpy, from `partial_velocities`; and v, ω of the state as these times y."""
    tree = random_tree(np.random.default_rng(9), lower)
    mech, rng = tree_mechanism(tree), np.random.default_rng(10)
    for _ in range(3):
        x, y = random_state(rng, len(lower))
        q, v = mbs.kane_configuration(mech, x, y)
        bodies = mbs.partial_velocities(mech, x, y)
        assert set(bodies) == set(lower)
        turn = {name: Rotation.from_quat(np.roll(q[k], -1)).as_matrix() for name, k in euler_slices(mech).items()}
        force_point, force = tree.force
        wrenches = {name: np.zeros((2, 3)) for name in lower}
        for name, body in mech.bodies.items():
            wrenches[name][0] += float(body.mass) * turn[name].T @ tree.gravity
        wrenches["B2"] += (
            force,
            np.cross(force_point - np.asarray(mech.bodies["B2"].com), force) - turn["B2"].T @ tree.torque,
        )
        wrenches["B1"][1] += turn["B1"].T @ tree.torque
        mass, f = np.zeros((x.size, x.size)), np.zeros(x.size)
        for name, body in mech.bodies.items():
            by_v, by_v_rate, by_w, by_w_rate = (np.asarray(m) for m in bodies[name])
            m, inertia, w, u = float(body.mass), np.asarray(body.inertia), by_w @ y, by_v @ y
            state = v[mech.layout.velocity_slices[name]]
            close(w, state[3:], 1e-13)
            close(u, turn[name].T @ state[:3] + np.cross(w, body.com), 1e-13)
            mass += m * by_v.T @ by_v + by_w.T @ inertia @ by_w
            f += by_v.T @ wrenches[name][0] + by_w.T @ wrenches[name][1]
            f -= m * by_v.T @ by_v_rate @ y
            f -= m * by_v.T @ skew(w) @ u
            f -= by_w.T @ inertia @ by_w_rate @ y
            f -= by_w.T @ skew(w) @ inertia @ w
        found = mbs.kane_matrices(mech, x, y)
        for got, wanted in zip(found, (mass, f), strict=True):
            assert size(got - wanted) < 1e-12 * size(wanted)
        assert size(found[0] - found[0].T) == 0


def euler_slices(mech):
    """Of each body the entries of q with its Euler parameters."""
    return {name: slice(at.start + 3, at.stop) for name, at in mech.layout.body_slices.items()}


def test_rates_of_partial_velocities():
    """Rates are derivatives along the motion: by automatic differentiation, and by central differences."""
    tree = random_tree(np.random.default_rng(11), BRANCHED)
    mech = tree_mechanism(tree)
    x, y = random_state(np.random.default_rng(12), 3)
    values = jax.jit(lambda x: [m[::2] for m in mbs.partial_velocities(mech, x).values()])
    given = [m[1::2] for m in mbs.partial_velocities(mech, x, y).values()]
    by_jvp, h = jax.jvp(values, (x,), (y,))[1], 1e-4
    steps = [values(x + k * h * y) for k in (-2, -1, 1, 2)]
    for body in range(3):
        for k in range(2):
            close(given[body][k], by_jvp[body][k], 1e-13)
            a, b, c, d = (step[body][k] for step in steps)
            close(given[body][k], (a - 8 * b + 8 * c - d) / (12 * h), 1e-9)


def test_names_and_states():
    """`kane_names` orders as (1), all angles first; `kane_coordinates` is the inverse of `kane_configuration`."""
    mech = tree_mechanism(random_tree(np.random.default_rng(13), BRANCHED))
    each = [[f"{body}.{c}" for body in BRANCHED for c in group] for group in (("theta_1", "theta_2", "theta_3"), "xyz")]
    assert mbs.kane_names(mech) == (*each[0], *each[1])
    x, y = random_state(np.random.default_rng(14), 3)
    x[1:9:3] /= 2.1  # |θ₂| < π/2
    back = mbs.kane_coordinates(mech, *mbs.kane_configuration(mech, x, y))
    close(back[0], x, 1e-12)
    close(back[1], y, 1e-12)
    assert size(mbs.kane_configuration(mech, x)[1]) == 0


def test_matrices_under_transformations():
    """`kane_matrices` under jit, vmap and grad: batches give the same numbers, gradients are central differences."""
    tree = random_tree(np.random.default_rng(15), CHAIN)
    rng = np.random.default_rng(16)
    states = [random_state(rng, 2) for _ in range(3)]
    mech = tree_mechanism(tree)
    batch = jax.jit(jax.vmap(lambda x, y: mbs.kane_matrices(mech, x, y)))(
        *(np.stack(part) for part in zip(*states, strict=True))
    )
    for k, state in enumerate(states):
        for found, expected in zip(batch, mbs.kane_matrices(mech, *state), strict=True):
            close(found[k], expected, 1e-13)
    weights = rng.normal(size=12)

    @jax.jit
    def total(x, y, length, mass):
        moved = mbs.Mechanism(
            {"B1": spatial.Body(mass, 0.3, (0.1, 0.2, 0.3)), "B2": tree.bodies["B2"]},
            {"2": spatial.Spherical("B1", "B2", jnp.stack([length, 0.1, 0.2]), (0.1, -0.2, 0.3))},
            forces=WEIGHT,
        )
        matrix, force = mbs.kane_matrices(moved, x, y)
        return weights @ matrix @ weights + weights @ force

    point = [*map(jnp.asarray, states[0]), jnp.asarray(0.4), jnp.asarray(1.3)]
    slopes, h = jax.grad(total, range(4))(*point), 1e-5
    for k, slope in enumerate(slopes):
        direction = rng.normal(size=slope.shape)
        ends = [total(*(p + sign * h * direction if n == k else p for n, p in enumerate(point))) for sign in (1, -1)]
        expected = (ends[0] - ends[1]) / (2 * h)
        assert abs(np.sum(slope * direction) - expected) < 1e-6 * max(1, abs(expected))


def test_gradients_of_a_motion():
    """Of a driven double pendulum by a driver's amplitude and a link's length: central differences; and a batch of both."""

    def end(design):
        amplitude, length = design
        bodies = {"a": planar.Body(1.3, 0.2, (0.4, 0)), "b": planar.Body(0.9, 0.15, (0.3, 0))}
        pins = {
            "O": planar.Revolute(GROUND, "a", (0, 0), (0, 0)),
            "A": planar.Revolute("a", "b", jnp.stack([length, 0 * length]), (0, 0)),
        }
        motor = {"motor": planar.RevoluteDriver(GROUND, "a", Harmonic(amplitude, 3.0, 0.3))}
        mech = mbs.Mechanism(bodies, pins, motor, {"gravity": mbs.Gravity((0, -9.81))})
        run = mbs.simulate(mech, np.array([0.0, 0.5]), step=0.01, formulation=KANE)
        return run.position("b.phi")[-1] + run.multipliers[-1, -1]

    design, h = jnp.array([0.8, 0.7]), 1e-5
    slopes = jax.jit(jax.grad(end))(design)
    around = jnp.concatenate([design[None] + h * np.eye(2), design[None] - h * np.eye(2)])
    values = jax.jit(jax.vmap(end))(around)
    expected = (values[:2] - values[2:]) / (2 * h)
    assert np.all(np.abs(slopes - expected) < 1e-6 * np.abs(expected))
    assert abs(jax.jit(end)(around[0]) - values[0]) < 1e-12 * abs(values[0])
