"""Kane's equations in relative coordinates against SymPy, the equations and boxed results of the notes, balances by hand.

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
from jaxmbs.motion import Harmonic, Polynomial, Ramp
from random_mechanisms import random_body

GROUND = "ground"
KANE = mbs.Kane()
X, Y, Z = np.eye(3)
SINGULAR, CONVERGED = int(mbs.Status.SINGULAR), int(mbs.Status.CONVERGED)


def size(x):
    """The largest absolute value."""
    return np.abs(np.asarray(x)).max(initial=0.0)


def close(found, expected, tolerance, of=None):
    """The same to a part of the largest value, or of 1 if that is larger."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    largest = max(1.0, size(expected if of is None else of))
    assert size(found - expected) < tolerance * largest, (size(found - expected), largest)


def turned(angles):
    """The rotation matrix of body-fixed angles 1-2-3, by scipy."""
    return Rotation.from_euler("XYZ", angles).as_matrix()


# --- trees in all of their 6N coordinates, and the same in SymPy ----------------------------------------------------------


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


# --- the equations of the notes, literally --------------------------------------------------------------------------------


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


# --- boxed results for joints ---------------------------------------------------------------------------------------------

# Of the angles that a joint holds: its moment in the frames of J and of K by λ; S and C are sines and cosines of θ₁ θ₂ θ₃.
# Typed from the notes, with the held angles at zero.
BOXED = {
    "universal, 1 held (45) (47) (48)": (
        (1,),
        lambda S, C, a: (a, 0, -(S[2] / C[2]) * a),
        lambda S, C, a: (C[3] / C[2] * a, -S[3] / C[2] * a, 0),
    ),
    "universal, 2 held (54) (56) (57)": (
        (2,),
        lambda S, C, a: (0, C[1] * a, S[1] * a),
        lambda S, C, a: (S[3] * a, C[3] * a, 0),
    ),
    "universal, 3 held (59) (60) (62)": (
        (3,),
        lambda S, C, a: (0, -S[1] / C[2] * a, C[1] / C[2] * a),
        lambda S, C, a: (-(S[2] / C[2]) * a, 0, a),
    ),
    "hinge, 2 and 3 held (65) (68)": (
        (2, 3),
        lambda S, C, a, b: (0, C[1] * a - S[1] * b, S[1] * a + C[1] * b),
        lambda S, C, a, b: (0, a, b),
    ),
    "hinge, 1 and 3 held (70) (72)": (
        (1, 3),
        lambda S, C, a, b: (a, 0, (b - S[2] * a) / C[2]),
        lambda S, C, a, b: ((a - S[2] * b) / C[2], 0, b),
    ),
    "hinge, 1 and 2 held (73) (75)": (
        (1, 2),
        lambda S, C, a, b: (a, b, 0),
        lambda S, C, a, b: (C[3] * a + S[3] * b, -S[3] * a + C[3] * b, 0),
    ),
    "prismatic": ((1, 2, 3), lambda S, C, a, b, c: (a, b, c), lambda S, C, a, b, c: (a, b, c)),
    "spherical": ((), lambda S, C: (0, 0, 0), lambda S, C: (0, 0, 0)),
}
# "The components of the constraint moments are as described above for a hinge joint about the n_J1 direction."
BOXED["cylindrical"] = BOXED["hinge, 2 and 3 held (65) (68)"]
# Translations that joints hold; forces are λ themselves, (34) and (41).
HELD_SLIDES = {"prismatic": (2, 3), "cylindrical": (2, 3)}


@pytest.mark.parametrize("name", BOXED)
def test_boxed_results(name):
    """Force and moment of each joint as in the notes, at random angles; signs of cos θ₂ both occur."""
    held, lower, own = BOXED[name]
    rng = np.random.default_rng(list(BOXED).index(name))
    for angles in (*rng.uniform(-np.pi, np.pi, (6, 3)), np.zeros(3)):
        angles = np.where(np.isin([1, 2, 3], held), 0, angles)
        multipliers = np.zeros(6)
        multipliers[[k - 1 for k in held]] = rng.normal(size=len(held))
        multipliers[[k + 2 for k in HELD_SLIDES.get(name, (1, 2, 3))]] = rng.normal(
            size=len(HELD_SLIDES.get(name, "123"))
        )
        found = mbs.joint_moment(angles, multipliers)
        sines, cosines = ([None, *f(angles)] for f in (np.sin, np.cos))
        given = multipliers[[k - 1 for k in held]]
        scale = multipliers / min(1, abs(cosines[2]))
        np.testing.assert_array_equal(found.force, multipliers[3:])
        close(found.moment_lower, np.array(lower(sines, cosines, *given)), 1e-12, scale)
        close(found.moment, np.array(own(sines, cosines, *given)), 1e-12, scale)
        assert found.status == CONVERGED


def test_moments_satisfy_28_to_33():
    """With all angles held at any values: λ are the sums (28) to (30) of the moment in K, (31) to (33) of that in J."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        angles, multipliers = rng.uniform(-np.pi, np.pi, 3), rng.normal(size=6)
        (_, s1, s2, s3), (_, c1, c2, c3) = ([None, *f(angles)] for f in (np.sin, np.cos))
        found = mbs.joint_moment(angles, multipliers)
        m, n = found.moment, found.moment_lower
        in_own = [c2 * c3 * m[0] - c2 * s3 * m[1] + s2 * m[2], s3 * m[0] + c3 * m[1], m[2]]
        in_lower = [n[0], c1 * n[1] + s1 * n[2], s2 * n[0] - s1 * c2 * n[1] + c1 * c2 * n[2]]
        close(np.array(in_own), multipliers[:3], 1e-12, m)
        close(np.array(in_lower), multipliers[:3], 1e-12, m)
        close(turned(angles) @ m, n, 1e-12)


def test_joint_moment_where_angles_are_singular():
    """cos θ₂ = 0: the status says so, numbers are finite; derivatives and other samples of a batch do not suffer."""
    angles = np.array([[0.3, np.pi / 2, 0.4], [0.3, -np.pi / 2, 0.4], [0.3, 3 * np.pi / 2, 0.0], [0.3, 1.5, 0.4]])
    multipliers = np.arange(1.0, 7)
    found = jax.vmap(lambda a: mbs.joint_moment(a, multipliers))(angles)
    assert list(found.status) == [SINGULAR] * 3 + [CONVERGED]
    assert all(np.isfinite(part).all() for part in found[:3])
    close(found.moment[3], mbs.joint_moment(angles[3], multipliers).moment, 1e-15)
    slopes = jax.vmap(jax.jacfwd(lambda a: mbs.joint_moment(a, multipliers).moment))(angles)
    assert np.isfinite(slopes).all()


# --- forces of joints along a motion --------------------------------------------------------------------------------------


def named(mech, vector):
    """The entries of a vector, or of rows, in the order of `kane_names`, by name."""
    return dict(zip(mbs.kane_names(mech), np.moveaxis(np.asarray(vector), -1, 0), strict=True))


def in_motion(mech, run, name):
    """Of a body its origin and axes, the acceleration of its mass centre and the rate of its angular momentum about it."""
    body, at = mech.bodies[name], run.layout.body_slices[name]
    speeds = run.layout.velocity_slices[name]
    q, v, a = (np.asarray(x)[:, k] for x, k in ((run.q, at), (run.v, speeds), (run.a, speeds)))
    turn = Rotation.from_quat(np.roll(q[:, 3:], -1, axis=1)).as_matrix()
    w, alpha, com, inertia = v[:, 3:], a[:, 3:], np.asarray(body.com), np.asarray(body.inertia)
    local = np.cross(alpha, com) + np.cross(w, np.cross(w, com))
    momentum_rate = alpha @ inertia + np.cross(w, w @ inertia)
    to_ground = lambda x: np.einsum("tij,tj->ti", turn, x)
    centre = q[:, :3] + turn @ com
    return SimpleNamespace(
        origin=q[:, :3], turn=turn, centre=centre, a=a[:, :3] + to_ground(local), momentum_rate=to_ground(momentum_rate)
    )


def needed(mech, run, outboard, point):
    """Force, and moment about a point, that bodies need for their motion beside their weight; by Newton and Euler."""
    force, moment = np.zeros_like(point), np.zeros_like(point)
    for name in outboard:
        moving = in_motion(mech, run, name)
        own = mech.bodies[name].mass * (moving.a - np.asarray(mech.forces["gravity"].acceleration))
        force += own
        moment += moving.momentum_rate + np.cross(moving.centre - point, own)
    return force, moment


def check_joints(mech, run, joints, unknown, tolerance=1e-9):
    """Multipliers of a chain as forces of joints: against `reactions`, and the balance of the bodies beyond.

    joints: of each body (joint, lower body, bodies beyond). unknown: names of coordinates whose multipliers vanish.
    """
    multipliers = mbs.kane_multipliers(mech, run)
    x = jax.vmap(lambda q, v: mbs.kane_coordinates(mech, q, v)[0])(run.q, run.v)
    by_name, largest = named(mech, multipliers), size(multipliers)
    for name, row in by_name.items():
        assert (size(row) < tolerance * largest) == (name in unknown), name
    found, angles = mbs.reactions(mech, run), named(mech, x)
    for body, (joint, lower, outboard) in joints.items():
        element, moving = mech.constraints[joint], in_motion(mech, run, body)
        keys = [f"{body}.{c}" for c in ("theta_1", "theta_2", "theta_3", "x", "y", "z")]
        six = lambda values, keys=keys: np.stack([values[key] for key in keys], axis=-1)
        moment = jax.vmap(mbs.joint_moment)(six(angles)[:, :3], six(by_name))
        assert not np.any(moment.status)
        backwards = element.j != body
        own, other = (element.point_i, element.point_j) if backwards else (element.point_j, element.point_i)
        of_lower = np.eye(3)[None] if lower == GROUND else in_motion(mech, run, lower).turn
        frames = [getattr(element, f"frame_{k}", None) for k in ("ji" if backwards else "ij")]
        seen_lower, seen_own = (
            turn if frame is None else turn @ np.asarray(frame)
            for turn, frame in zip((of_lower, moving.turn), frames, strict=True)
        )
        to_ground = lambda turn, vector: np.einsum("tij,tj->ti", np.broadcast_to(turn, (len(run.t), 3, 3)), vector)
        end = moving.origin + moving.turn @ np.asarray(own)
        force, torque = needed(mech, run, outboard, end)
        close(to_ground(seen_lower, moment.force), force, tolerance)
        close(to_ground(seen_lower, moment.moment_lower), torque, tolerance)
        close(to_ground(seen_own, moment.moment), torque, tolerance)
        # Reactions act on body j, at point_j.
        reaction, torque_found = np.asarray(found[joint].force), np.asarray(found[joint].torque)
        if backwards:
            carrier = in_motion(mech, run, lower)
            there = carrier.origin + carrier.turn @ np.asarray(other)
            reaction, torque_found = -reaction, -torque_found - np.cross(there - end, reaction)
        close(to_ground(seen_lower, moment.force), reaction, tolerance)
        close(to_ground(seen_lower, moment.moment_lower), torque_found, tolerance)


def links(count, seed):
    rng = np.random.default_rng(seed)
    return dict(zip("abc", (random_body(rng, 3) for _ in range(count)), strict=False))


WEIGHT = {"gravity": mbs.Gravity((1.0, -2.0, -9.0))}


def turning_joints():
    """Hinge about x, universal and spherical joint, one after the other; points off the origins."""
    return mbs.Mechanism(
        links(3, 21),
        {
            "hinge": spatial.Revolute(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), X),
            "cross": spatial.Universal("a", "b", (0.3, 0.1, 0.0), (-0.2, 0.0, 0.2)),
            "ball": spatial.Spherical("b", "c", (0.2, 0.1, 0.1), (0.1, -0.3, 0.0)),
        },
        forces=WEIGHT,
    )


def sliding_joints():
    """Prismatic joint along z, cylindrical joint along x that counts from the outer body, hinge about y of given frames."""
    frames = {f"frame_{k}": Rotation.random(random_state=n).as_matrix()[:, [2, 0, 1]] for k, n in (("i", 4), ("j", 5))}
    return mbs.Mechanism(
        links(3, 22),
        {
            "rail": spatial.Prismatic(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1)),
            "sleeve": spatial.Cylindrical("b", "a", (0.3, 0.1, 0.0), (-0.2, 0.0, 0.2), X),
            "hinge": spatial.Revolute("b", "c", (0.2, 0.1, 0.1), (0.1, -0.3, 0.0), **frames),
        },
        forces=WEIGHT,
    )


MOVING = {
    "hinge, universal, spherical": (
        turning_joints,
        {"a": ("hinge", GROUND, "abc"), "b": ("cross", "a", "bc"), "c": ("ball", "b", "c")},
        {"a.theta_1", "b.theta_1", "b.theta_2", "c.theta_1", "c.theta_2", "c.theta_3"},
    ),
    "prismatic, cylindrical, hinge": (
        sliding_joints,
        {"a": ("rail", GROUND, "abc"), "b": ("sleeve", "a", "bc"), "c": ("hinge", "b", "c")},
        {"a.z", "b.theta_1", "b.x", "c.theta_3"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MOVING)
def test_forces_of_joints(name):
    """Multipliers of the known coordinates of chains of five kinds of joints in motion, made moments by `joint_moment`:
    the same as `reactions`, and as the balance of the bodies beyond; those of unknown coordinates vanish."""
    build, joints, unknown = MOVING[name]
    mech, rng = build(), np.random.default_rng(3)
    x, y = (np.where([key in unknown for key in mbs.kane_names(mech)], rng.uniform(-1, 1, 18), 0) for _ in range(2))
    q, v = mbs.kane_configuration(mech, x, y)
    assert size(mbs.constraints(mech, q)) < 1e-14
    run = mbs.simulate(mech, np.linspace(0, 0.1, 3), q, v, step=0.01, formulation=KANE)
    assert not run.status.any()
    close(run.q[0], q, 1e-13)
    close(run.v[0], v, 1e-12)
    check_joints(mech, run, joints, unknown)


# --- elimination ----------------------------------------------------------------------------------------------------------


SWING = Harmonic(0.7, 3.0, 0.4, 0.2)
PUSH = Polynomial((0.1, -0.4, 0.8))


def driven_hinge():
    return mbs.Mechanism(
        links(2, 31),
        {
            "hinge": spatial.Revolute(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), Y),
            "cross": spatial.Universal("a", "b", (0.3, 0.1, 0.0), (-0.2, 0.0, 0.2)),
        },
        {"motor": spatial.RevoluteDriver(GROUND, "a", axis_i=Y, motion=SWING)},
        WEIGHT | {"load": mbs.Torque("b", (0.3, Harmonic(1.0, 4.0), 0.0), "a")},
    )


def driven_slide():
    return mbs.Mechanism(
        links(3, 32),
        {
            "gantry": spatial.TotalJoint(
                GROUND, "a", (0.1, 0, 0), (0.1, 0.2, 0), (PUSH, "free", "fixed"), ("fixed", "fixed", "free")
            ),
            "rail": spatial.Prismatic("a", "b", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), -X),
            "ball": spatial.Spherical("b", "c", (0.2, 0.1, 0.1), (0.1, -0.3, 0.0)),
        },
        {"jack": spatial.TranslationalDriver("b", "a", (-0.2, 0.1, 0.1), (0.1, 0.2, 0.3), -X, motion=SWING)},
        WEIGHT,
    )


def driven_planar():
    a, b = (random_body(np.random.default_rng(k), 2) for k in (33, 34))
    return mbs.Mechanism(
        {"b": b, "a": a},
        {
            "pin": planar.Revolute(GROUND, "a", (0.1, 0.2), (-0.3, 0.1)),
            "slide": planar.Translational("a", "b", (0.1, 0.2), (0.1, 0.1), (0, 2)),
        },
        {"motor": planar.RevoluteDriver(GROUND, "a", SWING, angle_i=0.5, angle_j=-0.2)},
        {"gravity": mbs.Gravity((1.0, -9.0))},
    )


# Names of unknown coordinates, and known ones that move: value, rate and second rate are sign · C + offset.
ELIMINATIONS = {
    "hinge in space": (driven_hinge, {"b.theta_1", "b.theta_2"}, {"a.theta_2": (SWING, 1, 0)}),
    # Advance of a's end from b's along −x of b is that of b's end from a's along +x of a.
    "slide and total joint": (
        driven_slide,
        {"a.y", "a.theta_3", "c.theta_1", "c.theta_2", "c.theta_3"},
        {"a.x": (PUSH, 1, 0), "b.x": (SWING, 1, 0)},
    ),
    "hinge in the plane": (driven_planar, {"b.y"}, {"a.phi": (SWING, 1, 0.7)}),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * ("slide" in name)) for name in ELIMINATIONS]
)
def test_elimination(name):
    """Rows and columns of known coordinates taken out of [A]{ẏ} = {f} by hand, (9) to (12): accelerations of `simulate` and
    multipliers of `kane_multipliers`, with coordinates known in time."""
    build, unknown, moving = ELIMINATIONS[name]
    mech, rng, t = build(), np.random.default_rng(6), 0.3
    names = mbs.kane_names(mech)
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
    rates[free] = np.linalg.solve(mass[np.ix_(free, free)], force[free] - mass[np.ix_(free, ~free)] @ rates[~free])
    multipliers = mass @ rates - force
    (q, v), (_, a) = jax.jvp(lambda x, y: mbs.kane_configuration(mech, x, y), (x, y), (y, rates))
    assert size(mbs.constraints(mech, q, t)) < 1e-13
    run = mbs.simulate(mech, [t], q, v, formulation=KANE)
    assert not run.status.any()
    close(run.q[0], q, 1e-12)
    close(run.v[0], v, 1e-11)
    close(run.a[0], a, 1e-9)
    close(mbs.kane_multipliers(mech, run)[0], multipliers, 1e-9)
    assert KANE.equations(mech).space.m == free.sum()


# --- specified motion -----------------------------------------------------------------------------------------------------


def check_specified(mech, run):
    """Φ = 0, Φ_q v = ν, Φ_q v̇ = γ of all joints and drivers."""
    assert not run.status.any()

    @mbs.program
    def gaps(q, v, a, t):
        jacobian = mbs.constraint_jacobian(mech, q, t)
        rates = jacobian @ v - mbs.velocity_rhs(mech, q, t), jacobian @ a - mbs.acceleration_rhs(mech, q, v, t)
        return mbs.constraints(mech, q, t), *rates

    for gap, of in zip(jax.vmap(gaps)(run.q, run.v, run.a, run.t), (run.q, run.v, run.a), strict=True):
        assert size(gap) < 1e-10 * max(1, size(of))


def check_driven(mech, run, tolerance=1e-9):
    """As specified, and all reactions are those of `Augmented`."""
    check_specified(mech, run)
    found, expected = (mbs.reactions(mech, run, formulation=f) for f in (KANE, None))
    for name in found:
        for part in ("force", "torque", "effort"):
            if getattr(expected[name], part) is not None:
                close(getattr(found[name], part), getattr(expected[name], part), tolerance)
    return found


TIMES = np.linspace(0.1, 1.1, 5)
FIRST, SECOND = Harmonic(0.8, 3.0, 0.3, -0.5), Polynomial((0.3, -1.0, 0.7, 0.4))


def planar_double_pendulum(drivers):
    a, b = planar.Body(1.3, 0.2, (0.4, 0)), planar.Body(0.9, 0.15, (0.3, 0))
    return mbs.Mechanism(
        {"a": a, "b": b},
        {
            "O": planar.Revolute(GROUND, "a", (0, 0), (0, 0)),
            "A": planar.Revolute("a", "b", (0.7, 0), (0, 0)),
        },
        drivers,
        {"gravity": mbs.Gravity((0, -9.81))},
    )


def test_driving_torques_of_a_planar_double_pendulum():
    """Both hinges driven, nothing unknown remains: torques of inverse dynamics, by hand and as in `Augmented`."""
    motors = {
        "shoulder": planar.RevoluteDriver(GROUND, "a", FIRST),
        # Counts from b to a: minus the angle of the elbow.
        "elbow": planar.RevoluteDriver("b", "a", SECOND),
    }
    mech = planar_double_pendulum(motors)
    assert KANE.equations(mech).space.m == 0
    run = mbs.simulate(mech, TIMES, step=0.1, formulation=KANE)
    found = check_driven(mech, run)
    values = [
        [np.asarray(jax.vmap(f)(TIMES)) for f in (c, jax.grad(c), jax.grad(jax.grad(c)))] for c in (FIRST, SECOND)
    ]
    (p1, w1, e1), (p2, w2, e2) = values[0], [a - b for a, b in zip(*values, strict=True)]
    (m1, c1, j1), (m2, c2, j2), length, g = (1.3, 0.4, 0.2), (0.9, 0.3, 0.15), 0.7, 9.81
    c, s = m2 * length * c2 * np.cos(p2 - p1), m2 * length * c2 * np.sin(p2 - p1)
    elbow = (j2 + m2 * c2**2) * e2 + c * e1 + s * w1**2 + m2 * g * c2 * np.cos(p2)
    shoulder = (j1 + m1 * c1**2 + m2 * length**2) * e1 + c * e2 - s * w2**2
    shoulder += (m1 * c1 + m2 * length) * g * np.cos(p1) + elbow
    close(found["shoulder"].effort, shoulder, 1e-9)
    close(found["elbow"].effort, -elbow, 1e-9)
    close(found["elbow"].torque, -elbow, 1e-9)  # on a, the driver's body j
    multipliers = named(mech, mbs.kane_multipliers(mech, run))
    close(multipliers["a.phi"], shoulder, 1e-9)
    close(multipliers["b.phi"], elbow, 1e-9)


def double_pendulum(drivers):
    """Hinges about y, and about x of the second body, with points and mass centres off the origins."""
    return mbs.Mechanism(
        links(2, 41),
        {
            "O": spatial.Revolute(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), Y),
            "A": spatial.Revolute("a", "b", (0.3, 0.1, 0.0), (-0.2, 0.0, 0.2), (1, 1, 0), X),
        },
        drivers,
        WEIGHT,
    )


@pytest.mark.slow
def test_driving_torques_of_a_double_pendulum_in_space():
    """Both hinges driven, one of them from the outer body: as in `Augmented`, and the balance of the bodies beyond."""
    motors = {
        "shoulder": spatial.RevoluteDriver(GROUND, "a", axis_i=Y, motion=FIRST),
        "elbow": spatial.RevoluteDriver("b", "a", axis_i=X, axis_j=(1, 1, 0), motion=SECOND),
    }
    mech = double_pendulum(motors)
    assert KANE.equations(mech).space.m == 0
    run = mbs.simulate(mech, TIMES, step=0.1, formulation=KANE)
    found = check_driven(mech, run)
    for motor, body, sign, outboard in (("shoulder", "a", 1, "ab"), ("elbow", "b", -1, "b")):
        moving = in_motion(mech, run, body)
        joint = mech.constraints["O" if body == "a" else "A"]
        end, axis = (moving.turn @ np.asarray(s) for s in (joint.point_j, Y if body == "a" else X))
        _, moment = needed(mech, run, outboard, moving.origin + end)
        close(found[motor].effort, sign * np.sum(moment * axis, axis=1), 1e-9)


@pytest.mark.slow
def test_one_hinge_driven_and_one_free():
    """A double pendulum of space with a driven shoulder: the motion as with a multiplier for the driver, reactions as in
    `Augmented`."""
    mech = double_pendulum({"shoulder": spatial.RevoluteDriver(GROUND, "a", axis_i=Y, motion=FIRST)})
    assert KANE.equations(mech).space.m == 1
    run = mbs.simulate(mech, TIMES[:3], v0={"b.wx": 2.0}, step=0.002, formulation=KANE)
    other = mbs.simulate(mech, TIMES[:3], run.q[0], run.v[0], step=0.002, formulation=mbs.JointCoordinates())
    check_driven(mech, run)
    close(run.q, other.q, 1e-9)
    close(run.a, other.a, 1e-7)


def hinge(**axes):
    return spatial.Revolute(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), **axes)


def turner(i, j, **axes):
    return spatial.RevoluteDriver(i, j, **axes)


OBLIQUE = np.array([1.0, 2.0, -0.5])
ON_I, ON_J, OTHER = (Rotation.random(random_state=k).as_matrix() for k in (51, 52, 53))
AHEAD, BEHIND = (Rotation.from_rotvec([0, 0, angle]).as_matrix() for angle in (0.7, -1.9))
MANY = Ramp(50.0, -1.0)

# The joint of one body and its driver.
DRIVEN = {
    "oblique axis": (hinge(axis_i=OBLIQUE), turner(GROUND, "a", axis_i=OBLIQUE, motion=FIRST)),
    "driver from the body": (hinge(axis_i=OBLIQUE), turner("a", GROUND, axis_i=OBLIQUE, motion=FIRST)),
    "joint from the body": (
        spatial.Revolute("a", GROUND, axis_i=OBLIQUE, axis_j=Y),
        turner(GROUND, "a", axis_i=Y, axis_j=OBLIQUE, motion=FIRST),
    ),
    "driver along the negative axis": (hinge(axis_i=Y), turner(GROUND, "a", axis_i=-Y, motion=FIRST)),
    "joint along the negative axis": (hinge(axis_i=-Y), turner("a", GROUND, axis_i=Y, motion=FIRST)),
    "axes that differ in the bodies": (
        hinge(axis_i=OBLIQUE, axis_j=X),
        turner(GROUND, "a", axis_i=OBLIQUE, axis_j=X, motion=FIRST),
    ),
    "frames turned about the axis": (
        hinge(frame_i=ON_I, frame_j=ON_J),
        turner(GROUND, "a", frame_i=ON_I @ AHEAD, frame_j=ON_J @ BEHIND, motion=FIRST),
    ),
    "frames, from the body, upside down": (
        hinge(frame_i=ON_I, frame_j=ON_J),
        turner(
            "a", GROUND, frame_i=ON_J @ BEHIND @ np.diag([1, -1, -1]), frame_j=ON_I @ np.diag([-1, 1, -1]), motion=FIRST
        ),
    ),
    "many turns": (hinge(axis_i=OBLIQUE), turner(GROUND, "a", axis_i=OBLIQUE, motion=MANY)),
    "many turns back, from the body": (hinge(axis_i=Y), turner("a", GROUND, axis_i=-Y, motion=Ramp(-50.0, 70.0))),
    "oblique driver": (hinge(axis_i=Z), turner(GROUND, "a", axis_i=(0.2, 0.1, 1.0), motion=FIRST)),
    "oblique driver, many turns": (
        hinge(axis_i=Z),
        turner("a", GROUND, axis_i=(0.2, 0.1, 1.0), axis_j=(0, -0.3, 1), motion=MANY),
    ),
    "cylindrical": (
        spatial.Cylindrical(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), OBLIQUE),
        turner(GROUND, "a", axis_i=OBLIQUE, motion=FIRST),
    ),
    "screw": (
        spatial.Screw(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), OBLIQUE, pitch=0.4),
        turner("a", GROUND, axis_i=OBLIQUE, motion=FIRST),
    ),
    "prismatic": (
        spatial.Prismatic(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), OBLIQUE, X),
        spatial.TranslationalDriver(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), OBLIQUE, X, motion=FIRST),
    ),
    "prismatic, from the body, other points, oblique": (
        spatial.Prismatic(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), OBLIQUE),
        spatial.TranslationalDriver("a", GROUND, (0.5, 0.1, 0.2), (-0.2, 0.1, 0.1), (1, 1, 0.3), motion=FIRST),
    ),
    "total joint": (
        spatial.TotalJoint(GROUND, "a", (0.1, 0.2, 0.3), (-0.2, 0.1, 0.1), ("fixed",) * 3, ("fixed", MANY, "fixed")),
        None,
    ),
}


QUICK = {"frames, from the body, upside down", "oblique driver, many turns", "screw"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in DRIVEN]
)
def test_ways_to_drive_a_joint(name):
    """Drivers from either body, along either axis, with frames, oblique, over many turns: Φ and its rates vanish, and the
    effort times Ċ is the power that the body needs, by Newton's and Euler's equations."""
    joint, driver = DRIVEN[name]
    mech = mbs.Mechanism(links(1, 61), {"joint": joint}, {} if driver is None else {"motor": driver}, WEIGHT)
    assert KANE.equations(mech).space.m == (1 if name == "cylindrical" else 0)
    run = mbs.simulate(mech, TIMES, step=0.05, formulation=KANE)
    check_specified(mech, run)
    found = mbs.reactions(mech, run, formulation=KANE)
    motion = MANY if driver is None else driver.motion
    effort = found["joint"].effort[:, 0] if driver is None else found["motor"].effort
    moving, v = in_motion(mech, run, "a"), np.asarray(run.v)
    force, moment = needed(mech, run, "a", moving.origin)
    power = np.sum(force * v[:, :3], axis=1) + np.sum(moment * np.einsum("tij,tj->ti", moving.turn, v[:, 3:]), axis=1)
    close(effort * np.asarray(jax.vmap(jax.grad(motion))(TIMES)), power, 1e-9)


def test_turns_of_a_driver_are_counted():
    """Over 8 turns in the plane and in space: φ itself where it counts, and Euler parameters that never jump."""
    mech = mbs.Mechanism(
        {"a": planar.Body(1.0, 0.1, (0.3, 0))},
        {"O": planar.Revolute(GROUND, "a", (0, 0), (0, 0))},
        {"motor": planar.RevoluteDriver("a", GROUND, MANY, angle_j=0.5)},
    )
    times = np.linspace(0, 1, 201)
    run = mbs.simulate(mech, times, step=0.005, formulation=KANE)
    assert not run.status.any()
    # Φ = (φ_j + θ_j) − (φ_i + θ_i) − C with the ground as j.
    close(run.position("a.phi"), 0.5 - (50 * times - 1), 1e-13)
    joint, driver = DRIVEN["many turns"]
    run = mbs.simulate(
        mbs.Mechanism(links(1, 61), {"O": joint}, {"motor": driver}), times, step=0.005, formulation=KANE
    )
    steps = np.sum(np.asarray(run.q[1:, 3:] * run.q[:-1, 3:]), axis=1)
    close(steps, np.full(200, np.cos(0.125)), 1e-12)


SECOND_DRIVERS = {"the same": (FIRST, True), "another": (SECOND, False)}


def twice_driven(dimension, motion):
    if dimension == 2:
        pair = {"one": planar.RevoluteDriver(GROUND, "a", FIRST), "two": planar.RevoluteDriver(GROUND, "a", motion)}
        return planar_double_pendulum(pair)
    joints = {"O": hinge(axis_i=Y), "A": spatial.Revolute("a", "b", X, -X)}
    pair = {"one": turner(GROUND, "a", axis_i=Y, motion=FIRST), "two": turner("a", GROUND, axis_i=-Y, motion=motion)}
    return mbs.Mechanism(links(2, 62), joints, pair, WEIGHT)


@pytest.mark.parametrize("name", SECOND_DRIVERS)
@pytest.mark.parametrize("dimension", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_two_drivers_at_the_same_angle(name, dimension):
    """A driver that repeats another is redundant and does no harm; one that contradicts it is seen. With a free body."""
    motion, possible = SECOND_DRIVERS[name]
    mech = twice_driven(dimension, motion)
    run = mbs.simulate(mech, TIMES[:3], step=0.05, formulation=KANE)
    assert all(np.isfinite(x).all() for x in (run.q, run.v, run.a))
    if possible:
        check_specified(mech, run)
        found = mbs.reactions(mech, run, formulation=KANE)
        assert all(
            np.isfinite(np.asarray(x)).all() for x in (found["one"].effort, found["two"].effort, found["O"].force)
        )
    else:
        assert np.all(np.asarray(run.status) != CONVERGED)


# --- rotations through the singularity of angles --------------------------------------------------------------------------

TOP = spatial.Body(1.3, (0.11, 0.2, 0.27), (0.05, -0.1, 0.2))


def alone(joint=None, gravity=(0, 0, 0), body=TOP):
    return mbs.Mechanism(
        {"a": body}, {} if joint is None else {"joint": joint}, forces={"gravity": mbs.Gravity(gravity)}
    )


BALL = spatial.Spherical(GROUND, "a")
DOWN = (0, 0, -9.81)
TUMBLING = {
    # A point mass far from the support passes the singularity of the angles, θ₂ = π/2, in each of its swings.
    "spherical pendulum": (
        alone(BALL, DOWN, spatial.Body(1.0, 1e-3, (0, 0, -1))),
        {"a.wy": 5.5, "a.wx": 0.3, "a.wz": 0.1},
    ),
    "free body": (alone(), {"a.wx": 0.3, "a.wy": 5.0, "a.wz": -0.4, "a.x": 0.1}),
    "heavy free body": (alone(None, (0, 0, -1e-3)), {"a.wx": 0.3, "a.wy": 5.0, "a.wz": -0.4, "a.x": 0.1}),
    "heavy top": (alone(BALL, DOWN), {"a.wx": 0.3, "a.wy": 5.0, "a.wz": 4.0}),
}


@pytest.mark.parametrize("name", TUMBLING)
def test_energy_over_100_seconds(name):
    """Tumbling through cos θ₂ = 0 with Euler parameters, the default of joints that can: energy to 1e-8 over 100 s."""
    mech, v0 = TUMBLING[name]
    run = mbs.simulate(mech, np.linspace(0, 100, 401), v0=v0, step=1e-3, formulation=KANE)
    assert not run.status.any()
    energy = np.asarray(run.energy.total)
    assert size(energy - energy[0]) < 1e-8 * np.max(np.abs(run.energy.kinetic))
    across = Rotation.from_quat(np.roll(run.q[:, 3:7], -1, axis=1)).as_matrix()[:, 0, 2]  # sin θ₂
    assert np.sum(np.diff(np.sign(np.abs(across) - 0.95)) > 0) > 2


def test_angles_that_become_singular():
    """θ₁ θ₂ θ₃ of a body that turns about its second axis exactly: good up to θ₂ = π/2, singular from there on, as where it
    tumbles past; samples of the same batch that stay away go on and agree with Euler parameters, without loss."""
    mech, times, step = alone(BALL, body=spatial.Body(1.3, (0.11, 0.2, 0.27))), np.linspace(0, 2, 41), 1e-3
    through = np.array([[0, 1.0, 0], [0, -1.6, 0], [1e-4, 1.2, 1e-4]])
    away = np.array([[1.0, 0, 0], [0, 0, 2.0], [0.5, 0.3, 0.2], [0, 0, 0], [0.2, 1.2, 0.1], [0, 0.78, 0]])
    start = jnp.concatenate([jnp.zeros((9, 3)), np.concatenate([through, away])], axis=1)
    run = jax.vmap(lambda v, f: mbs.simulate(mech, times, v0=v, step=step, formulation=f), in_axes=(0, None))
    found, expected = (run(start, f) for f in (mbs.Kane(angles="joint"), KANE))
    assert not expected.status.any()
    q = np.moveaxis(np.asarray(expected.q), -1, 0)
    margin = np.sqrt(1 - np.minimum(1, (2 * (q[4] * q[6] + q[3] * q[5])) ** 2))  # |cos θ₂|
    status = np.asarray(found.status)
    for k in range(len(through)):
        first = np.flatnonzero(status[k])[0]
        assert np.all(status[k, first:] == SINGULAR)
        # At the first output after the singularity, or in the few steps before it.
        passed = np.argmin(margin[k])
        assert passed <= first + 1
        assert first <= passed + 1
        close(found.q[k, :first], expected.q[k, :first], 1e-9)
        assert all(np.isfinite(x[k]).all() for x in (found.q, found.v, found.a))
    for k in range(len(through), 9):
        assert not status[k].any()
        assert margin[k].min() > 0
        close(found.q[k], expected.q[k], 1e-9)
        close(found.v[k], expected.v[k], 1e-9)
        close(found.energy.total[k], expected.energy.total[k], 1e-9)


def test_start_where_angles_are_singular():
    """θ₂ = ±π/2 at the start, up to rounding: singular at once with angles, no matter to Euler parameters."""
    mech, rng = alone(BALL), np.random.default_rng(0)
    angles = np.stack([rng.uniform(-3, 3, 64), np.repeat([1, -1], 32) * np.pi / 2, rng.uniform(-3, 3, 64)], axis=1)
    angles[::2, 2] = 0
    q = {"a": jnp.stack([spatial.coordinates((0, 0, 0), turned(theta)) for theta in angles])}
    v = jnp.asarray(rng.normal(size=64))
    for formulation, status in ((mbs.Kane(angles="joint"), SINGULAR), (KANE, CONVERGED)):
        start = lambda q, v, f=formulation: mbs.simulate(mech, [0, 0.1], q, {"a.wy": v}, step=0.01, formulation=f)
        run = jax.vmap(start)(q, v)
        assert np.all(run.status == status)
        assert np.isfinite(run.q).all()


# --- loops, options, other joints -----------------------------------------------------------------------------------------


def four_bar(drivers):
    rod = lambda length, k: planar.Body(1.0 + k, 0.1, (length / 2, 0.05))
    return mbs.Mechanism(
        {"crank": rod(0.4, 0), "coupler": rod(1.0, 1), "rocker": rod(0.8, 2)},
        {
            "O": planar.Revolute(GROUND, "crank", (0, 0), (0, 0)),
            "A": planar.Revolute("crank", "coupler", (0.4, 0), (0, 0)),
            "B": planar.Revolute("coupler", "rocker", (1.0, 0), (0.8, 0)),
            "C": planar.Revolute(GROUND, "rocker", (1.1, 0), (0, 0)),
        },
        drivers,
        {"gravity": mbs.Gravity((0.5, -9.81))},
    ), {"crank": (0, 0, 0.6), "coupler": (0.33, 0.23, 0.5), "rocker": (1.1, 0, 1.8)}


@pytest.mark.parametrize("name", [pytest.param("open", marks=pytest.mark.slow), "driven"])
def test_loop(name):
    """A four-bar, its crank free or driven: accelerations, and all reactions, as in `Augmented`; (6) and (7)."""
    mech, guess = four_bar({"motor": planar.RevoluteDriver(GROUND, "crank", SWING)} if name == "driven" else {})
    start = mbs.assemble(mech, guess)
    assert start.status == CONVERGED
    v0 = None if name == "driven" else {"crank.phi": 3.0}
    runs = [
        mbs.simulate(mech, TIMES[:2] - TIMES[0], start, v0, step=0.01, formulation=f) for f in (KANE, mbs.Augmented())
    ]
    for part in ("q", "v", "a"):
        close(getattr(runs[0], part)[0], getattr(runs[1], part)[0], 1e-10)
        close(getattr(runs[0], part)[1], getattr(runs[1], part)[1], 1e-5)
    check_driven(mech, runs[0])


@pytest.mark.slow
def test_hinge_by_euler_parameters():
    """A hinge named in `euler_parameters` has six coordinates and five constraint rows: the same motion and reactions."""
    mech = mbs.Mechanism(links(1, 71), {"O": hinge(axis_i=OBLIQUE)}, forces=WEIGHT)
    other = mbs.Kane(euler_parameters="O")
    assert other.equations(mech).space.m == 6
    runs = [mbs.simulate(mech, [0, 0.1], v0={"a.wx": 1.0}, step=0.005, formulation=f) for f in (KANE, other)]
    again = mbs.simulate(mech, [0, 0.1], runs[0].q[0], runs[0].v[0], step=0.005, formulation=other)
    for part in ("q", "v", "a"):
        close(getattr(again, part), getattr(runs[0], part), 1e-8)
    found, expected = (mbs.reactions(mech, runs[0], formulation=f)["O"] for f in (other, None))
    close(found.force, expected.force, 1e-9)
    close(found.torque, expected.torque, 1e-9)


def test_driven_angle_without_inertia():
    """A point mass at its pin: the angle has no inertia, but it is known; torques are those of the bodies beyond."""
    mech = mbs.Mechanism(
        {"a": planar.Body(1.0, 0.0), "b": planar.Body(1.0, 0.0, (0.5, 0))},
        {"O": planar.Revolute(GROUND, "a", (0, 0), (0, 0)), "A": planar.Revolute("a", "b", (0.3, 0), (0, 0))},
        {"shoulder": planar.RevoluteDriver(GROUND, "a", FIRST), "elbow": planar.RevoluteDriver("a", "b", SECOND)},
        {"gravity": mbs.Gravity((0, -9.81))},
    )
    run = mbs.simulate(mech, TIMES, step=0.1, formulation=KANE)
    assert not run.status.any()
    by_time = lambda f: np.asarray(jax.vmap(f)(TIMES))
    angle = lambda t: FIRST(t) + SECOND(t)
    place = lambda t: jnp.stack([
        0.3 * jnp.cos(FIRST(t)) + 0.5 * jnp.cos(angle(t)), 0.3 * jnp.sin(FIRST(t)) + 0.5 * jnp.sin(angle(t))
    ])  # fmt: skip
    r, a = by_time(place), by_time(jax.jacfwd(jax.jacfwd(place))) + np.array([0, 9.81])
    found = mbs.reactions(mech, run, formulation=KANE)
    close(found["shoulder"].effort, r[:, 0] * a[:, 1] - r[:, 1] * a[:, 0], 1e-12)
    arm = 0.5 * np.stack([np.cos(by_time(angle)), np.sin(by_time(angle))], axis=1)
    close(found["elbow"].effort, arm[:, 0] * a[:, 1] - arm[:, 1] * a[:, 0], 1e-12)


METHODS = [
    mbs.Adaptive(1e-9, 1e-9),
    mbs.SemiImplicitEuler(),
    mbs.GeneralizedAlpha(0.8),
    mbs.HHT(-0.1),
    mbs.CoordinatePartitioning(),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_nothing_unknown_in_every_method(method):
    """All is known: there is nothing to integrate, and every method gives the specified motion."""
    motors = {
        f"{k}": planar.RevoluteDriver(*ends, c) for k, ends, c in ((1, (GROUND, "a"), FIRST), (2, ("a", "b"), SECOND))
    }
    step = None if isinstance(method, mbs.Adaptive) else 0.05
    run = mbs.simulate(planar_double_pendulum(motors), TIMES, step=step, method=method, formulation=KANE)
    assert not run.status.any()
    first, second = (np.asarray(jax.vmap(c)(TIMES)) for c in (FIRST, SECOND))
    close(run.position("a.phi"), first, 1e-14)
    close(run.position("b.phi"), first + second, 1e-14)


@pytest.mark.parametrize("driven", [range(20), range(17, 20)], ids=["all", "some"])
@pytest.mark.slow
def test_long_chain(driven):
    """Twenty links, a loop in the program: efforts are the multipliers of the coordinates; free ones have none."""
    ends = {k: (f"b{k - 1}" if k else GROUND, f"b{k}") for k in range(20)}
    mech = mbs.Mechanism(
        dict.fromkeys((f"b{k}" for k in range(20)), planar.Body(1.0, 0.1, (0.1, 0.02))),
        {f"J{k}": planar.Revolute(*ends[k], (0.2 * (k > 0), 0), (0, 0)) for k in range(20)},
        {f"D{k}": planar.RevoluteDriver(*ends[k], Ramp(0.1 * (k + 1), 0.05)) for k in driven},
        {"gravity": mbs.Gravity((0, -9.81))},
    )
    run = mbs.simulate(mech, TIMES[:2], step=0.01, formulation=KANE)
    assert not run.status.any()
    assert size(jax.vmap(lambda q, t: mbs.constraints(mech, q, t))(run.q, run.t)) < 1e-12
    multipliers = mbs.kane_multipliers(mech, run)
    found, largest = mbs.reactions(mech, run, formulation=KANE), size(multipliers)
    for k in range(20):
        effort = found[f"D{k}"].effort if k in driven else np.zeros(2)
        assert size(multipliers[:, k] - effort) < 1e-12 * largest


# --- transformations ------------------------------------------------------------------------------------------------------


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
    around = jnp.concatenate([design + h * np.eye(2), design - h * np.eye(2)])
    values = jax.jit(jax.vmap(end))(around)
    expected = (values[:2] - values[2:]) / (2 * h)
    assert np.all(np.abs(slopes - expected) < 1e-6 * np.abs(expected))
    assert abs(jax.jit(end)(around[0]) - values[0]) < 1e-12 * abs(values[0])


# --- starts that do not fit -----------------------------------------------------------------------------------------------


def test_start_that_contradicts_the_specified_motion():
    """Wrong angles, open joints, wrong turns and wrong velocities at the start: drivers and joints hold exactly at once."""
    mech = planar_double_pendulum({"motor": planar.RevoluteDriver("a", GROUND, MANY)})
    q0 = {"a": (0.2, -0.3, 12.0), "b": (0.9, 0.4, -20.0)}
    v0 = mech.velocities({"a.phi": -3.0, "b.phi": 2.0, "b.x": 7.0})
    run = mbs.simulate(mech, TIMES[:2], q0, v0, step=0.01, formulation=KANE)
    check_specified(mech, run)
    close(run.position("a.phi"), -(50 * TIMES[:2] - 1), 1e-13)


@pytest.mark.slow
def test_start_in_space_that_contradicts_the_specified_motion():
    """The same in space."""
    mech = mbs.Mechanism(
        links(1, 81), {"O": hinge(axis_i=OBLIQUE)}, {"motor": turner("a", GROUND, axis_i=OBLIQUE, motion=FIRST)}
    )
    q0 = {"a": spatial.coordinates((0.3, 0.1, -0.2), (0.4, 2.0, 0.3))}
    v0 = mech.velocities({"a.wx": 4.0, "a.y": 2.0})
    check_specified(mech, mbs.simulate(mech, TIMES[:2], q0, v0, step=0.01, formulation=KANE))


def test_velocities_at_the_start_are_the_nearest():
    """v with Φ_q v = ν that is nearest to v0 in the sense of M, by numpy: with a driven and a free joint."""
    mech = planar_double_pendulum({"motor": planar.RevoluteDriver(GROUND, "a", FIRST)})
    t, v0 = 0.3, np.random.default_rng(18).normal(size=6)
    q, _ = mbs.kane_configuration(mech, np.array([FIRST(t), 0.7, 0, 0, 0, 0]))
    run = mbs.simulate(mech, [t], q, v0, formulation=KANE)
    assert run.status[0] == CONVERGED
    close(run.q[0], q, 1e-14)
    jacobian, right = np.asarray(mbs.constraint_jacobian(mech, q, t)), np.asarray(mbs.velocity_rhs(mech, q, t))
    mass = np.asarray(mbs.mass_matrix(mech, q))
    by_force = np.linalg.solve(mass, jacobian.T)
    close(run.v[0], v0 + by_force @ np.linalg.solve(jacobian @ by_force, right - jacobian @ v0), 1e-12)


# --- bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"angles": "nothing"}, "nothing"),
        ({"euler_parameters": ("ball", "nothing")}, "nothing"),
        ({"angles": "hinge"}, "hinge"),
        ({"angles": ("cross",)}, "cross"),
        ({"cut": "nothing"}, "nothing"),
        ({"base": "nothing"}, "nothing"),
    ],
    ids=str,
)
def test_bad_options(options, message):
    """Names that are no joint of the tree, and angles for what has axes: the error names them."""
    with pytest.raises(ValueError, match=message):
        mbs.simulate(turning_joints(), [0.0], formulation=mbs.Kane(**options))


def test_bad_input():
    """Euler parameters or angles in the plane, wrong shapes of x and y."""
    flat = planar_double_pendulum(())
    for options in ({"euler_parameters": "O"}, {"angles": "O"}):
        with pytest.raises(ValueError, match="O"):
            mbs.simulate(flat, [0.0], formulation=mbs.Kane(**options))
    functions = mbs.kane_matrices, mbs.kane_configuration, mbs.partial_velocities
    for function in functions:
        with pytest.raises(ValueError, match=r"x must have shape \(6,\), got \(5,\)"):
            function(flat, np.zeros(5), np.zeros(6))
        with pytest.raises(ValueError, match=r"y must have shape \(6,\), got \(7,\)"):
            function(flat, np.zeros(6), np.zeros(7))
    with pytest.raises(ValueError, match=r"x must have shape"):
        mbs.kane_matrices(flat, 0.0, np.zeros(6))
    with pytest.raises(ValueError, match="shape"):
        mbs.kane_coordinates(flat, np.zeros(5))


def test_name_in_both_options():
    """A joint cannot be described by angles and by Euler parameters."""
    with pytest.raises(ValueError, match="ball"):
        mbs.simulate(turning_joints(), [0.0], formulation=mbs.Kane(angles="ball", euler_parameters="ball"))


def test_joint_moment_of_wrong_shapes():
    """Shapes of θ and λ are checked."""
    for angles, multipliers in (
        (np.zeros(2), np.zeros(6)),
        (np.zeros(3), np.zeros(5)),
        (np.zeros((3, 1)), np.zeros(6)),
    ):
        with pytest.raises(ValueError, match="shape"):
            mbs.joint_moment(angles, multipliers)


def test_driver_across_the_slide():
    """A translational driver across the axis of its joint prescribes nothing of it: that cannot be assembled."""
    joint, driver = (
        spatial.Prismatic(GROUND, "a", axis_i=X),
        spatial.TranslationalDriver(GROUND, "a", axis_i=Z, motion=FIRST),
    )
    mech = mbs.Mechanism(links(1, 3), {"rail": joint}, {"jack": driver}, WEIGHT)
    assert np.all(np.asarray(mbs.simulate(mech, TIMES[:2], step=0.1, formulation=KANE).status) != CONVERGED)
