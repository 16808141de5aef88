"""Shafts in space that drive each other by universal and homokinetic joints."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbs as mbs
from jaxmbs import spatial
from spatial_problems import Y, double_cardan, turned, two_shafts
from verification.case import KINEMATICS, case, close


def turn_of(run, shaft, bearing):
    """Return the angle (without jumps), the speed and the acceleration of a shaft about the z axis of its `bearing`."""
    turns = np.einsum("ij,tik->tjk", bearing, run.rotation(shaft))
    angle = np.unwrap(np.arctan2(turns[:, 1, 0], turns[:, 0, 0]))
    return angle, run.velocity(f"{shaft}.wz"), run.acceleration(f"{shaft}.wz")


@case("Textbooks", "universal joint at four bends", KINEMATICS, references=("universal_joint",))
def universal_joint(by, problem):
    """Compare angle, speed and acceleration behind a universal joint with the reference table."""
    rows = np.array(problem["rows"])
    bends = np.unique(rows[:, 0])
    angles, rate = np.deg2rad(rows[rows[:, 0] == bends[0], 1]), 2.0

    def turning(bend):
        """Return the motion of two shafts that are bent by an angle."""
        guess = {"second": spatial.coordinates((0, 0, 0), turned(Y, bend))}
        return mbs.kinematics(two_shafts(spatial.Universal, bend, rate), angles / rate, guess)

    runs = jax.vmap(turning)(jnp.deg2rad(bends))
    found = []
    for k, bend in enumerate(bends):
        run = jax.tree.map(lambda x, k=k: x[k], runs)
        found.append(turn_of(run, "second", np.asarray(turned(Y, np.deg2rad(bend)))))
    table = np.stack([rows[rows[:, 0] == bend][:, 2:] for bend in bends])
    angle, speed, acceleration = np.moveaxis(np.array(found), 1, 0)
    yield close("angle of the second shaft", angle, table[..., 0], 1e-12, "rad")
    yield close("ratio of the speeds", speed / rate, table[..., 1], 1e-12)
    yield close("its rate, over the squared speed", acceleration / rate**2, table[..., 2], 1e-12)


@case("Masarati", "homokinetic joint bent by 45°, three turns", KINEMATICS)
def homokinetic_joint(by):
    """Check that a constant-velocity joint keeps angle and speed."""
    bend, rate = np.pi / 4, 2.0
    turn, times = np.asarray(turned(Y, bend)), np.linspace(0, 3 * np.pi, 61)
    guess = {"second": spatial.coordinates((0, 0, 0), turn)}
    run = mbs.kinematics(two_shafts(spatial.ConstantVelocity, bend, rate), times, guess, throw=True)
    angle, speed, acceleration = turn_of(run, "second", turn)
    yield close("difference of the angles of the shafts", angle, rate * times, 1e-12, "rad")
    yield close("speed", speed, rate, 1e-11, "rad/s")
    yield close("acceleration", acceleration, 0, 1e-12, "rad/s²")


@case("Textbooks", "double Cardan joint, two turns", KINEMATICS, references=("universal_joint",))
def double_cardan_joint(by, problem):
    """Check that a double Cardan joint keeps angle and speed, and the speed of its middle shaft."""
    bend, rate, times = np.pi / 6, 2.0, np.linspace(0, 2 * np.pi, 41)
    mech, guess = double_cardan(bend, 0.4, rate)
    run = mbs.kinematics(mech, times, guess, throw=True)
    angle, speed, acceleration = turn_of(run, "last", np.asarray(turned(Y, 2 * bend)))
    yield close("difference of the angles of first and last shaft", angle, rate * times, 1e-11, "rad")
    yield close("speed", speed, rate, 1e-11, "rad/s")
    yield close("acceleration", acceleration, 0, 1e-10, "rad/s²")
    middle = turn_of(run, "middle", np.asarray(turned(Y, bend)))[1] / rate
    # The formula of the reference, whose θ₁ = 0 is where the driving yoke lies in the plane of the shafts.
    wanted = np.cos(bend) / (1 - (np.sin(bend) * np.cos(rate * times)) ** 2)
    yield close("speed of the middle shaft", middle, wanted, 1e-11)
