"""Published problems of dynamics as mechanisms, from the numbers in tests/references."""

import jax.numpy as jnp

import jaxmbs as mbs
from jaxmbs import planar
from linkages import reference

# Gravity along −y, as forces of a mechanism.
DOWN = {"gravity": mbs.Gravity((0, -9.81))}


def unit(angle):
    """Return (cos, sin) of an angle."""
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def bar(start, end):
    """Return the pose of a bar from `start` to `end`, with its frame in the middle."""
    return jnp.append((start + end) / 2, jnp.arctan2(*(end - start)[::-1]))


def pendulum(b):
    """Return a pendulum: a point mass b["mass"] on a massless rod b["length"]."""
    body = planar.Body(mass=b["mass"], inertia=0)
    pin = planar.Revolute("ground", "bob", (0, 0), (0, b["length"]))
    return mbs.Mechanism({"bob": body}, {"pin": pin}, forces={"gravity": mbs.Gravity(jnp.stack([0 * b["g"], -b["g"]]))})


def pendulum_start(b, angle):
    """Return the pose of `pendulum` at `angle` from the downward vertical, positive towards −x."""
    return {"bob": jnp.append(b["length"] * jnp.stack([-jnp.sin(angle), -jnp.cos(angle)]), -angle)}


def rod(length, density=1.0):
    """Return a uniform rod with its frame in the middle."""
    return planar.Body(mass=density * length, inertia=density * length**3 / 12)


def four_bar(b):
    """Return the four-bar of the dynamics reference; b: crank, coupler, rocker, ground, density, torque, g."""
    half = lambda name: (b[name] / 2, 0)
    back = lambda name: (-b[name] / 2, 0)
    return mbs.Mechanism(
        {name: rod(b[name], b["density"]) for name in ("crank", "coupler", "rocker")},
        {
            "O": planar.Revolute("ground", "crank", (0, 0), back("crank")),
            "A": planar.Revolute("crank", "coupler", half("crank"), back("coupler")),
            "B": planar.Revolute("coupler", "rocker", half("coupler"), half("rocker")),
            "C": planar.Revolute("ground", "rocker", (b["ground"], 0), back("rocker")),
        },
        forces={
            "gravity": mbs.Gravity(jnp.stack([0 * b["g"], -b["g"]])),
            "motor": mbs.Torque("crank", b["torque"]),
        },
    )


def four_bar_design():
    """Return the design of `four_bar` with the numbers of the reference."""
    p = reference("planar_four_bar_dynamics")["parameters"]
    return {
        "crank": p["crank_a"],
        "coupler": p["coupler_b"],
        "rocker": p["rocker_c"],
        "ground": p["ground_d"],
        "density": p["mass_per_length_rho_kg_per_m"],
        "torque": p["crank_torque_Nm"],
        "g": p["gravity_g"],
    }


def four_bar_start(b, angles):
    """Return the poses of `four_bar` for the angles of crank, coupler and rocker."""
    a = b["crank"] * unit(angles[0])
    tip = a + b["coupler"] * unit(angles[1])
    ground = jnp.stack([jnp.asarray(b["ground"]), 0.0 * jnp.asarray(b["ground"])])
    return {"crank": bar(0 * a, a), "coupler": bar(a, tip), "rocker": bar(ground, tip)}


def slider_crank(p):
    """Return the slider-crank that is released under gravity; p: the reference's parameters."""
    r, length = p["crank_r"], p["rod_l"]
    return mbs.Mechanism(
        {
            "crank": planar.Body(p["mass_crank"], p["mass_crank"] * r**2 / 12),
            "rod": planar.Body(p["mass_rod"], p["mass_rod"] * length**2 / 12),
            "slider": planar.Body(p["mass_slider"], 0),
        },
        {
            "O": planar.Revolute("ground", "crank", (0, 0), (-r / 2, 0)),
            "A": planar.Revolute("crank", "rod", (r / 2, 0), (-length / 2, 0)),
            "B": planar.Revolute("rod", "slider", (length / 2, 0), (0, 0)),
            "guide": planar.Translational("ground", "slider", (0, 0), (0, 0), (1, 0)),
        },
        forces={"gravity": mbs.Gravity((0, -p["gravity_g"]))},
    )


def slider_crank_start(p, angle):
    """Return the closed poses of `slider_crank` with the crank at `angle`."""
    a = p["crank_r"] * unit(angle)
    slider = jnp.stack([a[0] + jnp.sqrt(p["rod_l"] ** 2 - a[1] ** 2), 0 * a[1]])
    return {"crank": bar(0 * a, a), "rod": bar(a, slider), "slider": jnp.append(slider, 0)}


def windows(n, length=1.0, mass=1.0):
    """Return a row of n four-bar windows: cranks C0 … Cn, couplers L1 … Ln."""
    link = planar.Body(mass=mass, inertia=mass * length**2 / 12)
    lower, upper = (-length / 2, 0), (length / 2, 0)
    bodies = {f"C{k}": link for k in range(n + 1)} | {f"L{k}": link for k in range(1, n + 1)}
    joints = {f"O{k}": planar.Revolute("ground", f"C{k}", (k * length, 0), lower) for k in range(n + 1)}
    for k in range(1, n + 1):
        joints[f"A{k}"] = planar.Revolute(f"C{k - 1}", f"L{k}", upper, lower)
        joints[f"B{k}"] = planar.Revolute(f"L{k}", f"C{k}", upper, upper)
    return mbs.Mechanism(bodies, joints, forces=DOWN)


def windows_start(n, speed, length=1.0):
    """Return poses and velocities of upright windows whose tips move with `speed` along +x."""
    poses = {f"C{k}": jnp.stack([k * length, length / 2, jnp.pi / 2]) for k in range(n + 1)}
    poses |= {f"L{k}": jnp.stack([(k - 0.5) * length, length, 0.0]) for k in range(1, n + 1)}
    rates = {f"C{k}": jnp.stack([speed / 2, 0.0, -speed / length]) for k in range(n + 1)}
    rates |= {f"L{k}": jnp.stack([speed, 0.0, 0.0]) for k in range(1, n + 1)}
    return poses, rates


# Joints of Andrews' mechanism: point and two bodies.
ANDREWS_JOINTS = (
    ("O", "ground", "OF"),
    ("F", "OF", "FE"),
    ("B", "ground", "BDE"),
    ("E", "FE", "BDE"),
    ("A", "ground", "AG"),
    ("G", "AG", "EG"),
    ("E", "FE", "EG"),
    ("A", "ground", "AH"),
    ("H", "AH", "EH"),
    ("E", "FE", "EH"),
)
# Point by which each body of Andrews' mechanism is placed at a body before it: point and body.
ANDREWS_PLACED = ("O OF", "F FE", "B BDE", "A AG", "G EG", "A AH", "H EH")


def andrews_points(length):
    """Return the points of each body of Andrews' mechanism, from its mass centre, turned by its absolute angle."""
    along, across = (lambda x: jnp.stack([x, 0 * x])), (lambda x: jnp.stack([0 * x, -x]))
    n = {name: jnp.asarray(x) for name, x in length.items()}
    pin_b = -(across(n["sa"]) + along(n["sb"]))
    pin_ag = -(along(n["ta"]) - across(n["tb"]))
    pin_ah = -(across(n["ua"]) - along(n["ub"]))
    return {
        "OF": {"O": along(-n["ra"]), "F": along(n["rr"] - n["ra"])},
        "FE": {"F": along(n["da"]), "E": along(n["da"] - n["d"])},
        "BDE": {"B": pin_b, "E": pin_b + across(n["ss"]), "D": pin_b + along(n["sd"]) + across(n["sc"])},
        "EG": {"G": across(n["ea"] - n["e"]), "E": across(n["ea"])},
        "AG": {"A": pin_ag, "G": pin_ag + along(n["zt"])},
        "EH": {"H": along(n["fa"] - n["zf"]), "E": along(n["fa"])},
        "AH": {"A": pin_ah, "H": pin_ah + across(n["u"])},
    }


def andrews(length, torque=None, stiffness=None):
    """Return Andrews' squeezing mechanism; length: the reference's lengths, by name."""
    p = reference("andrews")["parameters"]
    points, ground = andrews_points(length), {**p["ground_points_m"], "O": (0.0, 0.0)}
    numbers = zip(p["body_order"], p["masses_kg"], p["moments_of_inertia_about_centre_of_mass_kg_m2"], strict=True)
    at = lambda body, name: ground[name] if body == "ground" else points[body][name]
    return mbs.Mechanism(
        {name: planar.Body(mass, inertia) for name, mass, inertia in numbers},
        {f"{name} {j}": planar.Revolute(i, j, at(i, name), at(j, name)) for name, i, j in ANDREWS_JOINTS},
        forces={
            "motor": mbs.Torque("OF", p["motor_torque_on_OF_Nm"] if torque is None else torque),
            "spring": mbs.Spring(
                "ground",
                "BDE",
                ground["C"],
                points["BDE"]["D"],
                p["spring_constant_c0_N_per_m"] if stiffness is None else stiffness,
                p["spring_free_length_l0_m"],
            ),
        },
    )


def andrews_angles(q):
    """Return the absolute angles of the bodies of Andrews' mechanism from the source's angles, in its order."""
    beta, theta, gamma, phi, delta, omega, epsilon = q
    return {
        "OF": beta,
        "FE": beta + theta,
        "BDE": gamma,
        "EG": phi + delta,
        "AG": delta,
        "EH": omega + epsilon,
        "AH": epsilon,
    }


def andrews_start(length, angles):
    """Return the poses of Andrews' mechanism for absolute angles of its bodies."""
    p = reference("andrews")["parameters"]
    points, ground = andrews_points(length), {**p["ground_points_m"], "O": (0.0, 0.0)}
    before = {(name, j): i for name, i, j in ANDREWS_JOINTS}
    turned = lambda body, s: s[0] * unit(angles[body]) + s[1] * unit(angles[body] + jnp.pi / 2)
    origins = {}
    for pair in ANDREWS_PLACED:
        name, body = pair.split()
        i = before[name, body]
        pin = jnp.asarray(ground[name]) if i == "ground" else origins[i] + turned(i, points[i][name])
        origins[body] = pin - turned(body, points[body][name])
    return {body: jnp.append(origins[body], angles[body]) for body in origins}
