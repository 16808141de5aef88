"""Published problems in space as mechanisms, from the numbers in tests/references; and motions in minimal coordinates."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import jaxmbs as mbs
from jaxmbs import spatial
from linkages import reference

# Unit vectors of the axes.
X, Y, Z = np.eye(3)


def turned(axis, angle):
    """Return the rotation matrix about an axis of length 1, by Rodrigues' formula."""
    x, y, z = axis
    zero = 0.0 * x
    skew = jnp.stack([jnp.stack([zero, -z, y]), jnp.stack([z, zero, -x]), jnp.stack([-y, x, zero])])
    return jnp.eye(3) + jnp.sin(angle) * skew + (1 - jnp.cos(angle)) * skew @ skew


def frame(along, beside):
    """Return the rotation with x along one direction and y along the part of another that is perpendicular to it."""
    x = along / np.linalg.norm(along)
    y = beside - x * (x @ beside)
    y = y / np.linalg.norm(y)
    return np.stack([x, y, np.cross(x, y)], axis=1)


class MinimalModel:
    """Lagrange's equations in coordinates that need no constraints, by automatic differentiation of the energies.

    Args:
        placed: x → a list of (centre of mass, rotation matrix), one for each body.
        masses, inertias: of the bodies; the inertias about the centre of mass in the axes of the body.
        potential, power: V(x), and Rayleigh's function R(x, ẋ), half of the power lost.
    """

    def __init__(self, placed, masses, inertias, potential, power=lambda x, v: 0.0):
        inertias = [jnp.diag(jnp.asarray(j, float)) for j in inertias]

        def kinetic(x, v):
            """Return the kinetic energy for coordinates x and rates v."""
            total = 0.0
            now, rates = jax.jvp(placed, (x,), (v,))
            for (_, a), (r_dot, a_dot), mass, inertia in zip(now, rates, masses, inertias, strict=True):
                spin = a.T @ a_dot
                omega = jnp.stack([spin[2, 1], spin[0, 2], spin[1, 0]])
                total += (mass * r_dot @ r_dot + omega @ inertia @ omega) / 2
            return total

        def accelerations(x, v):
            """Return ẍ for coordinates x and rates v."""
            by_v = jax.grad(kinetic, 1)
            coriolis = jax.jvp(lambda x: by_v(x, v), (x,), (v,))[1]
            force = jax.grad(kinetic)(x, v) - jax.grad(potential)(x) - jax.grad(power, 1)(x, v) - coriolis
            return jnp.linalg.solve(jax.hessian(kinetic, 1)(x, v), force)

        def rates(state):
            """Return the derivatives of (x, ẋ)."""
            x, v = jnp.split(state, 2)
            return jnp.concatenate([v, accelerations(x, v)])

        self.rates, self.slopes = jax.jit(rates), jax.jit(jax.jacfwd(rates))
        self.energy = jax.jit(jax.vmap(lambda x, v: kinetic(x, v) + potential(x)))
        self.placed = placed

    def motion(self, times, x, v, method="DOP853", rtol=1e-13, atol=1e-13):
        """Return x and ẋ at the times, (T, n) each, by scipy."""
        start = np.concatenate([np.atleast_1d(np.asarray(part, float)) for part in (x, v)])
        given = {"jac": lambda t, y: np.asarray(self.slopes(y))} if method == "Radau" else {}
        run = solve_ivp(
            lambda t, y: np.asarray(self.rates(y)),
            (times[0], times[-1]),
            start,
            method,
            times,
            rtol=rtol,
            atol=atol,
            **given,
        )
        assert run.success, run.message
        return np.split(run.y.T, 2, axis=1)

    def poses(self, x):
        """Return the centres of mass (T, 3) and rotation matrices (T, 3, 3) of the first body."""
        return jax.vmap(lambda x: self.placed(x)[0])(jnp.asarray(x))


def on_a_joint(joint, mass, inertia, com, gravity, **forces):
    """Return a body on a joint to ground, under its weight."""
    forces["gravity"] = mbs.Gravity(gravity)
    return mbs.Mechanism({"body": spatial.Body(mass, inertia, com)}, {"joint": joint}, forces=forces)


def joint_case(name):
    """Return a case of the single-body reference: mechanism, start, and centre of mass from the joint."""
    problem = reference("single_body_joints")
    case = problem["cases"][name]
    numbers, kind = case["joint"], case["joint"]["type"]
    turn, centre = (
        np.array(case[f"{key}"]) for key in ("rotation_initial_body_to_world", "centre_of_mass_initial_world")
    )
    origin = np.array(numbers["body_point_initial_world" if kind == "distance" else "location_world"], float)
    com, forces = turn.T @ (centre - origin), {}
    if kind == "distance":
        ground = np.array(numbers["ground_point_world"], float)
        joint = spatial.Distance("ground", "body", ground, (0, 0, 0), np.linalg.norm(origin - ground))
    else:
        axes = {}
        if "axis_world" in numbers:
            # z is the axis; x is anything across it, the same direction for both frames at the start.
            placed = frame(np.array(numbers["axis_world"]), X)[:, [1, 2, 0]]
            axes = {"frame_i": placed, "frame_j": turn.T @ placed}
        kinds = {
            k.__name__.lower(): k for k in (spatial.Revolute, spatial.Spherical, spatial.Prismatic, spatial.Cylindrical)
        }
        joint = kinds[kind]("ground", "body", origin, (0, 0, 0), **axes)
    if "torsional_stiffness_Nm_per_rad" in numbers:
        axis = np.array(numbers["axis_world"])
        forces["spring"] = mbs.TorsionSpring(
            "ground",
            "body",
            numbers["torsional_stiffness_Nm_per_rad"],
            numbers["spring_rest_angle_rad"],
            numbers["torsional_damping_Nms_per_rad"],
            axis_i=axis,
            axis_j=turn.T @ axis,
        )
    inertia = case["principal_inertia_about_centre_of_mass_body_axes"]
    mech = on_a_joint(joint, case["mass"], inertia, com, (0, 0, -problem["gravity_g"]), **forces)
    return mech, {"body": spatial.coordinates(origin, turn)}, com


# Body of the shafts, with all moments of inertia 1.
SHAFT = spatial.Body(1.0, (1.0, 1.0, 1.0))


def on_its_axis(shaft, turn):
    """Return joints of a shaft that turns about the z axis of a frame in the ground; its place is free."""
    return spatial.TotalJoint("ground", shaft, orientation=("fixed", "fixed", "free"), frame_i=turn, frame_j=np.eye(3))


def two_shafts(joint, bend, rate):
    """Return shafts along z, joined at the origin, the second bent by an angle about y; the first is driven."""
    return mbs.Mechanism(
        {"first": SHAFT, "second": SHAFT},
        {
            "bearing": spatial.Revolute("ground", "first"),
            "joint": joint("first", "second"),
            "other bearing": on_its_axis("second", turned(Y, bend)),
        },
        {"motor": spatial.RevoluteDriver("ground", "first", motion=mbs.motion.Ramp(rate))},
    )


def double_cardan(bend, length, rate):
    """Return three shafts, each bent by an angle about y, with two Cardan joints of parallel yokes; and a guess."""
    middle, last = turned(Y, bend), turned(Y, 2 * bend)
    end = middle @ (Z * length)
    mech = mbs.Mechanism(
        {"first": SHAFT, "middle": SHAFT, "last": SHAFT},
        {
            "bearing": spatial.Revolute("ground", "first"),
            "joint": spatial.Universal("first", "middle"),
            "other joint": spatial.Universal("middle", "last", Z * length, (0, 0, 0), Y, X),
            "other bearing": spatial.Cylindrical("ground", "last", end, (0, 0, 0), frame_i=last, frame_j=np.eye(3)),
        },
        {"motor": spatial.RevoluteDriver("ground", "first", motion=mbs.motion.Ramp(rate))},
    )
    return mech, {"middle": spatial.coordinates((0, 0, 0), middle), "last": spatial.coordinates(end, last)}


def slider_crank():
    """Return the spatial slider-crank with the crank's centre of mass at its pivot, and its start."""
    p = reference("spatial_slider_crank")["parameters"]
    pivot, half = np.array(p["A"]), p["rod_length"] / 2
    pin, slider = pivot + Z * p["crank_length"], 0.2 * X
    # The rod along its x axis; its y axis is the arm of the cross.
    rod = frame(slider - pin, np.cross(slider - pin, X))
    crank, of_rod = p["inertia_crank_about_its_centre_of_mass"], p["inertia_rod_about_its_centre_of_mass"]
    mech = mbs.Mechanism(
        {
            "crank": spatial.Body(p["mass_crank"], (crank["transverse"], crank["transverse"], crank["along_crank"])),
            "rod": spatial.Body(p["mass_rod"], (of_rod["along_rod"], of_rod["transverse"], of_rod["transverse"])),
            "slider": spatial.Body(p["mass_slider"], p["inertia_slider"]),
        },
        {
            "A": spatial.Revolute("ground", "crank", pivot, (0, 0, 0), X),
            "B": spatial.Spherical("crank", "rod", (0, 0, p["crank_length"]), (-half, 0, 0)),
            "C": spatial.Universal("rod", "slider", (half, 0, 0), (0, 0, 0), Y, X),
            "guide": spatial.Prismatic("ground", "slider", axis_i=X),
        },
        forces={"gravity": mbs.Gravity(p["gravity_vector"])},
    )
    start = {
        "crank": spatial.coordinates(pivot),
        "rod": spatial.coordinates((pin + slider) / 2, rod),
        "slider": spatial.coordinates(slider),
    }
    return mech, start


# Names of the rods of Bricard's mechanism.
RODS = tuple(f"rod{k}" for k in range(1, 6))


def bricard():
    """Return Bricard's mechanism and its start: five rods, x along the rod, y along the joint axis at its first end."""
    problem = reference("bricard")
    p = problem["parameters"]
    points, axes = (np.array(problem[f"{key}_P1_to_P6_initial"], float) for key in ("points", "joint_axes"))
    across = p["inertia_transverse_about_centre_of_mass"]
    placed = {"ground": (np.zeros(3), np.eye(3))}
    for k, name in enumerate(RODS):
        placed[name] = (points[k] + points[k + 1]) / 2, frame(points[k + 1] - points[k], axes[k])
    joints, chain = {}, ("ground", *RODS, "ground")
    for k, (i, j) in enumerate(pairwise(chain)):
        ends = [turn.T @ (points[k] - r) for r, turn in (placed[i], placed[j])]
        joints[f"P{k + 1}"] = spatial.Revolute(i, j, *ends, *(placed[body][1].T @ axes[k] for body in (i, j)))
    body = spatial.Body(p["mass_of_each_rod"], (p["inertia_about_rod_axis"], across, across))
    mech = mbs.Mechanism(dict.fromkeys(RODS, body), joints, forces={"gravity": mbs.Gravity(p["gravity_vector"])})
    return mech, {name: spatial.coordinates(*placed[name]) for name in RODS}


def bricard_hexagon(psi):
    """Return the six points P1 … P6 of Bricard's mechanism in the ground, as a function of one parameter ψ.

    Edges e_k of length 1 with joint axes e_{k−1} × e_k that are perpendicular to each other. With a threefold symmetry
    P1 P3 P5 and P2 P4 P6 are equilateral triangles of circumradius r and s in parallel planes, h apart:
    r² + s² − r s + h² = 1 is the length. The cosines a, b at the joints, 3 s² = 2 + 2 a and 3 r² = 2 + 2 b, satisfy
    a + b + a b = 0 for perpendicular axes, so that r s = 2/3: r, s = √(2/3) exp ±w and h² = 1/3 − 8/3 sinh² w, for all w
    from −½ ln 2 to ½ ln 2. With sinh w = sin ψ / √8 and h = cos ψ / √3 this is smooth.
    """
    w = jnp.arcsinh(jnp.sin(psi) / np.sqrt(8))
    h, size = jnp.cos(psi) / np.sqrt(3), np.sqrt(2 / 3)
    radii, heights = jnp.tile(jnp.stack([size * jnp.exp(w), size * jnp.exp(-w)]), 3), jnp.tile(jnp.stack([0 * h, h]), 3)
    angles = np.pi / 3 * np.arange(6)
    points = jnp.stack([radii * np.cos(angles), radii * np.sin(angles), heights], axis=1)
    edges = points - jnp.roll(points, 1, axis=0)
    axes = jnp.cross(edges, jnp.roll(edges, -1, axis=0))
    # Cross products vanish, and change sides, where three edges are in line; the axis of the neighbour does not then.
    first, last = axes[0] * _side((psi + np.pi / 2) / 2), axes[5] * _side((np.pi / 2 - psi) / 2)
    along = edges[0]
    across = jnp.where(first @ first > last @ last, first, jnp.cross(along, last))
    across = across / jnp.sqrt(across @ across)
    seen = jnp.stack([along, across, jnp.cross(along, across)], axis=1)
    in_ground = np.stack([-Z, Y, X], axis=1)
    return (points - points[:1]) @ seen @ in_ground.T


def _side(angle):
    """Return −1 if the sine of an angle is negative, else 1."""
    return jnp.where(jnp.sin(angle) < 0, -1.0, 1.0)


def bricard_model():
    """Return Bricard's mechanism as a `MinimalModel` with its one coordinate ψ."""
    p = reference("bricard")["parameters"]
    across, mass = p["inertia_transverse_about_centre_of_mass"], p["mass_of_each_rod"]
    gravity = np.array(p["gravity_vector"], float)

    def placed(x):
        """Return centre of mass and rotation matrix of each rod for x = (ψ,)."""
        points = bricard_hexagon(x[0])
        # Each joint axis is perpendicular to the next, both to the rod between: all from that at P1.
        axes, poses = Y, []
        for k in range(5):
            along = points[k + 1] - points[k]
            third = jnp.cross(along, axes)
            poses.append(((points[k] + points[k + 1]) / 2, jnp.stack([along, axes, third], axis=1)))
            axes = third
        return poses

    potential = lambda x: -sum(mass * gravity @ r for r, _ in placed(x))
    return MinimalModel(placed, [mass] * 5, [(p["inertia_about_rod_axis"], across, across)] * 5, potential)


def box(mass, sides):
    """Return the moments of inertia of a box."""
    square = np.array(sides, float) ** 2
    return mass * (square.sum() - square) / 12


def governor_rod():
    """Return mass and moments of a rod with the mass at its tip, and its centre of mass from the hinge."""
    p = reference("flyball_governor")["parameters"]
    length, rod, tip = p["rod_box_m"][0], np.prod(p["rod_box_m"]) * 3000, p["point_mass_at_each_rod_tip_kg"]
    com = (rod * length / 2 + tip * length) / (rod + tip)
    across = rod * (length / 2 - com) ** 2 + tip * (length - com) ** 2
    return rod + tip, box(rod, p["rod_box_m"]) + across * (Y + Z), com


def governor():
    """Return the flyball governor and its start. x of a rod points from its hinge to its tip."""
    p = reference("flyball_governor")["parameters"]
    density, offset, omega = (p[key] for key in (
        "density_of_rods_shaft_and_slider_kg_per_m3", "hinge_and_slider_point_offset_m", "omega_initial_rad_per_s"
    ))  # fmt: skip
    height, half = p["shaft_box_m"][0], p["rod_box_m"][0] / 2
    shaft, slider = density * np.prod(p["shaft_box_m"]), density * p["slider_cube_side_m"] ** 3
    mass, inertia, com = governor_rod()
    droop = np.deg2rad(p["rod_angle_below_horizontal_initial_deg"])
    bodies = {
        "shaft": spatial.Body(shaft, box(shaft, p["shaft_box_m"])[[1, 2, 0]], (0, 0, height / 2)),
        "slider": spatial.Body(slider, box(slider, [p["slider_cube_side_m"]] * 3)),
    }
    joints = {
        "bearing": spatial.Revolute("ground", "shaft"),
        "guide": spatial.Prismatic("shaft", "slider"),
    }
    forces = {"gravity": mbs.Gravity((0, 0, -p["gravity_g"]))}
    lifted = np.array([0, 0, p["slider_height_initial_m"]])
    start = {"shaft": spatial.coordinates(), "slider": spatial.coordinates(lifted)}
    rates = {name: np.array([0, 0, 0, 0, 0, omega]) for name in bodies}
    for name, side in (("right", 1), ("left", -1)):
        hinge, turn = np.array([side * offset, 0, height]), np.diag([side, side, 1]) @ np.asarray(turned(Y, droop))
        bodies[name] = spatial.Body(mass, inertia, (com, 0, 0))
        joints[f"{name} hinge"] = spatial.Revolute("shaft", name, hinge, (0, 0, 0), Y * side, Y)
        forces[f"{name} spring"] = mbs.SpringDamper(
            name,
            "slider",
            (half, 0, 0),
            (side * offset, 0, 0),
            p["spring_stiffness_N_per_m"],
            p["damping_N_s_per_m"],
            p["spring_free_length_m"],
        )
        start[name] = spatial.coordinates(hinge, turn)
        rates[name] = np.concatenate([np.cross(Z * omega, hinge), turn.T @ Z * omega])
    return mbs.Mechanism(bodies, joints, forces=forces), start, rates


def governor_model():
    """Return the governor with symmetric rods as a `MinimalModel`, and x and ẋ at its start.

    x: angle of the shaft, angle of the rods below the horizontal, height of the slider.
    """
    p = reference("flyball_governor")["parameters"]
    density, offset, g = (p[key] for key in (
        "density_of_rods_shaft_and_slider_kg_per_m3", "hinge_and_slider_point_offset_m", "gravity_g"
    ))  # fmt: skip
    shaft, slider = density * np.prod(p["shaft_box_m"]), density * p["slider_cube_side_m"] ** 3
    rod, tip, length = density * np.prod(p["rod_box_m"]), p["point_mass_at_each_rod_tip_kg"], p["rod_box_m"][0]

    def on_rod(x, part):
        """Return distance from the shaft's axis, and height, of the point of a rod at the part `part` of its length."""
        return offset + part * length * jnp.cos(x[1]), p["shaft_box_m"][0] - part * length * jnp.sin(x[1])

    def placed(x):
        """Return centre of mass and rotation matrix of each body for coordinates x."""
        around = turned(Z, x[0])
        rod_turn = around @ turned(Y, x[1])
        at = lambda part: around @ jnp.stack([on_rod(x, part)[0], 0.0, on_rod(x, part)[1]])
        return [
            (jnp.stack([0.0, 0.0, x[2]]), around),
            (jnp.zeros(3), around),
            (at(0.5), rod_turn),
            (at(1.0), rod_turn),
        ]

    def stretch(x):
        """Return the length of a spring beyond its free length."""
        rho, z = on_rod(x, 0.5)
        return jnp.sqrt((rho - offset) ** 2 + (z - x[2]) ** 2) - p["spring_free_length_m"]

    def potential(x):
        """Return the potential energy of weights and springs."""
        weight = g * (slider * x[2] + 2 * rod * on_rod(x, 0.5)[1] + 2 * tip * on_rod(x, 1.0)[1])
        return weight + p["spring_stiffness_N_per_m"] * stretch(x) ** 2

    power = lambda x, v: p["damping_N_s_per_m"] * jax.jvp(stretch, (x,), (v,))[1] ** 2
    # Two rods move alike: as one of twice the mass.
    inertias = (
        box(slider, [p["slider_cube_side_m"]] * 3),
        box(shaft, p["shaft_box_m"])[[1, 2, 0]],
        box(2 * rod, p["rod_box_m"]),
        np.zeros(3),
    )
    model = MinimalModel(placed, (slider, shaft, 2 * rod, 2 * tip), inertias, potential, power)
    x = [0.0, np.deg2rad(p["rod_angle_below_horizontal_initial_deg"]), p["slider_height_initial_m"]]
    return model, x, [p["omega_initial_rad_per_s"], 0.0, 0.0]
