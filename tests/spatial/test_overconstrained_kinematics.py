"""Motions of mechanisms with more constraints than their freedom leaves room for, against closed forms.

A four-bar of four hinges in space has three constraints that repeat others wherever it is. In Bennett's linkage (G. T.
Bennett, "A new mechanism", Engineering, 1903) they do so only on its motion: off it, every position is rigid.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial
from linkages import four_bar as planar_four_bar
from linkages import four_bar_guess

TIMES = np.linspace(0, 6.2, 32)
LINKS = ("ground", "crank", "coupler", "rocker")
SAMPLES = 50
FIRST = 1.0  # rad


def far(length, twist):
    """The far hinge of a link after Denavit and Hartenberg, without offset: along x, and turned by the twist about x."""
    s, c, one = jnp.sin(twist), jnp.cos(twist), jnp.ones_like(twist)
    return length * jnp.eye(3)[0], jnp.stack([one, 0 * s, 0 * s, 0 * s, c, -s, 0 * s, s, c]).reshape(3, 3)


def linkage(ends, rate=1.0, first=FIRST):
    """Four hinges in a ring, from the far hinges of its links; the motion is that of the crank's angle."""
    hinges = {}
    for k, (point, frame) in enumerate(ends):
        to = LINKS[(k + 1) % 4]
        hinges[f"hinge of {to}"] = spatial.Revolute(LINKS[k], to, point, (0, 0, 0), frame_i=frame, frame_j=jnp.eye(3))
    motor = spatial.RevoluteDriver(
        "ground", "crank", mbs.motion.Ramp(rate, first), frame_i=ends[0][1], frame_j=jnp.eye(3)
    )
    return mbs.Mechanism({name: spatial.Body() for name in LINKS[1:]}, hinges, {"motor": motor})


def placed(ends, angles):
    """Places (3, 3) and rotations (3, 3, 3) of the moving links at the angles of their first hinges."""
    place, turn, found = jnp.zeros(3), jnp.eye(3), []
    for (along, twisted), angle in zip(ends, angles, strict=False):
        place = place + turn @ along
        turn = turn @ twisted @ mbs.rotation.matrix(mbs.rotation.about(2, angle))
        found.append((place, turn))
    return tuple(map(jnp.stack, zip(*found, strict=True)))


def four_bar(b):
    """Links in the plane, and the three angles by the crank's: the elbow is where two circles meet."""
    ground, crank, coupler, rocker = b

    def angles(theta):
        tip = jnp.stack([ground + crank * jnp.cos(theta), crank * jnp.sin(theta)])
        distance = jnp.sqrt(tip @ tip)
        along = (distance**2 + coupler**2 - rocker**2) / (2 * distance)
        x, y = -tip / distance
        elbow = along * jnp.stack([x, y]) + jnp.sqrt(coupler**2 - along**2) * jnp.stack([-y, x])
        second = jnp.arctan2(elbow[1], elbow[0])
        third = jnp.arctan2(*(-tip - elbow)[::-1])
        return theta, second - theta, third - second

    return [far(length, jnp.zeros(())) for length in b], angles


def bennett(b):
    """Opposite links equal, a / sin α = b / sin β; tan(θ₁/2) tan(θ₂/2) = sin((α + β) / 2) / sin((α − β) / 2), θ₃ = −θ₁."""
    a, alpha, beta = b
    other = a * jnp.sin(beta) / jnp.sin(alpha)
    ratio = jnp.sin((alpha + beta) / 2) / jnp.sin((alpha - beta) / 2)
    angles = lambda theta: (theta, 2 * jnp.arctan2(ratio * jnp.cos(theta / 2), jnp.sin(theta / 2)), -theta)
    return [far(a, alpha), far(other, beta)] * 2, angles


CASES = {
    "four-bar": (four_bar, np.array([3.5, 1.0, 3.0, 2.5]), 0.1),
    "Bennett": (bennett, np.array([1.0, 0.7, 1.9]), 0.2),
}


def motion(make, b, times=TIMES, rate=1.0):
    ends, angles = make(b)
    mech = linkage(ends, rate)
    places, turns = placed(ends, angles(jnp.asarray(FIRST)))
    poses = [jnp.concatenate([r, mbs.rotation.from_matrix(a)]) for r, a in zip(places, turns, strict=True)]
    return mbs.kinematics(mech, times, dict(zip(LINKS[1:], jax.lax.stop_gradient(poses), strict=True)))


def seen(q):
    """Places and rotation matrices, in which both signs of Euler parameters are the same."""
    q = q.reshape(3, 7)
    return q[:, :3], jax.vmap(mbs.rotation.matrix)(q[:, 3:])


def wanted(make, b, t):
    ends, angles = make(b)
    return placed(ends, angles(FIRST + t))


@pytest.mark.parametrize("name", CASES)
def test_a_turn_by_closed_form(name):
    """Designs at random: poses, and velocities and accelerations of places, at all times; by straight-line code."""
    make, middle, spread = CASES[name]
    designs = middle + spread * np.random.default_rng(0).uniform(-1, 1, (SAMPLES, middle.size))

    def compared(b):
        run = motion(make, b)
        at = jax.vmap(lambda t: wanted(make, b, t))
        rates = jax.vmap(jax.jacfwd(lambda t: wanted(make, b, t)[0]))
        second = jax.vmap(jax.jacfwd(jax.jacfwd(lambda t: wanted(make, b, t)[0])))
        places = lambda x: x.reshape(-1, 3, 6)[..., :3]
        found = (*jax.vmap(seen)(run.q), places(run.v), places(run.a))
        return run.status, found, (*at(TIMES), rates(TIMES), second(TIMES))

    status, found, expected = jax.jit(jax.vmap(compared))(designs)
    assert (np.asarray(status) == 0).all()
    for a, b, size in zip(found, expected, (1e-11, 1e-11, 1e-10, 1e-9), strict=True):
        assert np.abs(a - b).max() < size * max(1, np.abs(b).max())
    ends, angles = make(middle)
    poses = zip(LINKS[1:], *placed(ends, angles(FIRST)), strict=True)
    guess = {link: jnp.concatenate([r, mbs.rotation.from_matrix(a)]) for link, r, a in poses}
    report = mbs.explain(linkage(ends), guess)
    assert report.path.startswith("straight-line")
    assert report.rank == 18 < report.constraints


@pytest.mark.parametrize("name", CASES)
def test_gradients_by_closed_form(name):
    """Of a sum of all places after a quarter turn, by the design, in both modes."""
    make, middle, _ = CASES[name]
    times = np.array([0.0, 0.7])
    loss = lambda b: jnp.sum(jnp.sin(seen(motion(make, b, times).q[-1])[0]))
    expected = jax.grad(lambda b: jnp.sum(jnp.sin(wanted(make, b, 0.7)[0])))(middle)
    for mode in (jax.grad, jax.jacfwd):
        np.testing.assert_allclose(jax.jit(mode(loss))(middle), expected, rtol=1e-9, atol=1e-11)


def test_lock_up():
    """A crank that cannot turn all round ends where coupler and rocker are in line, in each sample."""
    designs = np.array([3.5, 2.0, 2.6, 2.7]) + 0.05 * np.random.default_rng(1).uniform(-1, 1, (8, 4))
    times = np.linspace(0, 0.7, 71)
    status = np.asarray(jax.jit(jax.vmap(lambda b: motion(four_bar, b, times, rate=-1.0).status))(designs))
    ground, crank, coupler, rocker = designs.T
    end = FIRST - np.arccos(((coupler + rocker) ** 2 - ground**2 - crank**2) / (2 * ground * crank))
    last = np.array([times[each == 0].max() for each in status])
    assert (status[:, -1] == mbs.Status.LOCKED_UP).all()
    assert ((last < end) & (end < last + times[1])).all()


# Crank, coupler, rocker, ground, branch, the crank's first angle and which way it turns: where these lock up, steps of ten
# degrees once went on along the other branch.
JUMPED = np.array([
    [1.0065610203518425, 1.0198125718297097, 2.138369765473002, 2.12468661701119, -1, 4.426948346068482, 1],
    [1.95884786571441, 1.8323968533776338, 2.1972650822731206, 2.3235626420285795, -1, 5.191337879797559, 1],
    [1.2958618140909766, 1.1972932175997046, 0.847666106584072, 0.7492274806845267, 1, 2.5095939003448637, -1],
    [2.1332055476268357, 0.6274440136126718, 1.411476055056776, 2.9170653013524803, 1, 0.6565163960123125, -1],
])  # fmt: skip


def test_no_jump_to_the_other_branch():
    """An f_q that is not square has no determinant whose sign could change: the same statuses as in the plane."""
    times = np.linspace(0, 2 * np.pi, 37)

    def both(crank, coupler, rocker, ground, branch, first, rate):
        b = {"crank": crank, "coupler": coupler, "rocker": rocker, "ground": ground}
        flat = planar_four_bar(b)
        driver = planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(rate, first))
        guess = four_bar_guess(b, first, branch)
        flat = mbs.kinematics(mbs.Mechanism(flat.bodies, flat.constraints, {"motor": driver}), times, guess)
        phi = flat.q[0, 2::3]
        ends = [far(length, jnp.zeros(())) for length in (-ground, crank, coupler, rocker)]
        places, turns = placed(ends, (phi[0], phi[1] - phi[0], phi[2] + jnp.pi - phi[1]))
        poses = [jnp.concatenate([r, mbs.rotation.from_matrix(a)]) for r, a in zip(places, turns, strict=True)]
        ring = mbs.kinematics(linkage(ends, rate, first), times, dict(zip(LINKS[1:], poses, strict=True)))
        return flat.status, ring.status

    flat, ring = jax.jit(jax.vmap(both))(*JUMPED.T)
    assert (np.asarray(flat)[:, -1] == mbs.Status.LOCKED_UP).all()
    np.testing.assert_array_equal(ring, flat)
