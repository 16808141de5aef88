"""Trees of bodies in space, and their Kane's equations by SymPy."""

from types import SimpleNamespace

import numpy as np
from scipy.spatial.transform import Rotation

import jaxmbs as mbs
from jaxmbs import spatial
from kane_problems import GROUND
from random_mechanisms import random_body


def random_tree(rng, lower):
    """Return the numbers of a tree of space: lower body of each body, points, frames, masses, forces."""
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
    """Return the tree as a mechanism. B1 floats if there is no B3; B2 is body i of its joint; B3's joint has frames."""
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
        """Return [A] and {f} as functions of x, y by SymPy's own method of Kane."""
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
        """Return [A] and {f} as functions of x, y from (7), by SymPy's partial velocities and accelerations."""
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
            """Return [A] and {f} as numbers."""
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


# Lower body of each body of a chain of two.
CHAIN = {"B1": GROUND, "B2": "B1"}


# Lower body of each body of a branched tree, not in the order of the tree.
BRANCHED = {"B3": "B1", "B1": GROUND, "B2": "B1"}


def random_state(rng, count):
    """Return x, 3 angles within ±3 rad of each body, then 3 displacements of each, and y, 6 velocities of each body."""
    angles = rng.uniform(-3, 3, (count, 3))
    return np.concatenate([angles.ravel(), rng.normal(size=3 * count)]), rng.normal(size=6 * count)
