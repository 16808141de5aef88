"""Trajectories that are saved and loaded: every array, every name, and the mechanism if it can be written as JSON."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial

TIMES = np.linspace(0, 0.2, 3)


def cart(rate=1.0, motion=None):
    """A cart on a rail and a bob that a driver turns on it."""
    return mbs.Mechanism(
        {"cart": planar.Body(2.0, 1.0), "bob": planar.Body(1.0, 0.1)},
        {
            "rail": planar.Translational("ground", "cart", (0, 0), (0, 0), (1, 0), (1, 0)),
            "pin": planar.Revolute("cart", "bob", (0, 0), (0, rate)),
        },
        {"motor": planar.RevoluteDriver("cart", "bob", motion or mbs.motion.Harmonic(0.3, rate, 0.0, 0.1))},
        {"weight": mbs.Gravity((0, -9.81))},
    )


def top():
    return mbs.Mechanism(
        {"top": spatial.Body(1.0, (1.0, 1.0, 2.0), (0, 0, 0.5))},
        {"ball": spatial.Spherical("ground", "top")},
        forces={"weight": mbs.Gravity((0, 0, -9.81))},
    )


def agree(found, expected):
    """Two trajectories with the same structure and the same numbers."""
    assert found.layout == expected.layout
    assert found.state_names == expected.state_names
    assert (found.energy is None) == (expected.energy is None)
    for name in ("t", "q", "v", "a", "status", "multipliers", "states", "energy"):
        ours, theirs = (jax.tree.leaves(getattr(run, name)) for run in (found, expected))
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype


def test_simulations(tmp_path):
    motor = {"axle": mbs.Motor("hinge", resistance=1.0, torque_constant=0.1, inductance=1.0, voltage=1.0)}
    hinged = mbs.Mechanism(
        {"arm": spatial.Body()}, {"hinge": spatial.Revolute("ground", "arm", axis_i=(0, 1, 0))}, forces=motor
    )
    for mech, joint in ((cart(), "pin"), (hinged, "hinge")):
        run = mbs.simulate(mech, TIMES, step=0.05)
        again = mbs.load_trajectory(run.save(tmp_path / "folder" / "run.npz"))
        agree(again, run)
        np.testing.assert_array_equal(again.joint(joint).angle, run.joint(joint).angle)
        assert str(again.explain_failure()) == "nothing failed"
    assert again.states is not None
    np.testing.assert_array_equal(again.state("axle.current"), run.state("axle.current"))


def test_batches_keep_the_numbers_of_each_sample(tmp_path):
    batch = jax.jit(jax.vmap(lambda rate: mbs.simulate(cart(rate), TIMES, step=0.1)))(jnp.array([1.0, 1.5]))
    again = mbs.load_trajectory(batch.save(tmp_path / "batch.npz"))
    agree(again, batch)
    for sample in range(2):
        ours, theirs = (run.mechanism.at_index((sample, 0)).constraints["pin"].point_j for run in (again, batch))
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(again.joint("pin").rate, batch.joint("pin").rate)


def test_functions_of_the_user(tmp_path):
    """They are written as operations; a number that each sample has its own of cannot be."""
    driven = lambda rate: cart(motion=mbs.motion.Function(lambda t: jnp.sin(rate * t)))
    run = mbs.simulate(driven(2), TIMES, step=0.1)
    again = mbs.load_trajectory(run.save(tmp_path / "run.npz"))
    agree(again, run)
    np.testing.assert_array_equal(again.joint("pin").angle, run.joint("pin").angle)

    batch = jax.jit(jax.vmap(lambda rate: mbs.simulate(driven(rate), TIMES, step=0.1)))(jnp.array([1.0, 1.5]))
    with pytest.warns(UserWarning, match=r"batch\.npz: the mechanism is left out: .* that differ between samples"):
        again = mbs.load_trajectory(batch.save(tmp_path / "batch.npz"))
    agree(again, batch)
    assert again.mechanism is None


def test_single_precision(tmp_path):
    run = mbs.simulate(top().astype(jnp.float32), TIMES.astype(np.float32), step=0.1)
    again = mbs.load_trajectory(run.save(tmp_path / "run.npz"))
    agree(again, run)
    assert again.mechanism.at_index((0,)).dtype == jnp.float32


def test_messages(tmp_path):
    run = mbs.simulate(top(), TIMES[:2], step=0.1)
    with pytest.raises(ValueError, match=r"^run\.txt: the name of a trajectory must end in \.npz$"):
        run.save(tmp_path / "run.txt")
    with pytest.raises(ValueError, match=r"^save works outside jit, vmap and grad only"):
        jax.jit(lambda run: run.save(tmp_path / "run.npz"))(run)
    with pytest.raises(ValueError, match=r"^none\.npz: No such file"):
        mbs.load_trajectory(tmp_path / "none.npz")
    np.savez(tmp_path / "other.npz", head=np.array([{}], object))
    (tmp_path / "text.npz").write_text("no archive")
    np.savez(tmp_path / "arrays.npz", t=np.zeros(3))
    for name in ("other", "text", "arrays"):
        with pytest.raises(ValueError, match=rf"^{name}\.npz: is not a trajectory of jaxmbs"):
            mbs.load_trajectory(tmp_path / f"{name}.npz")
    assert not list(tmp_path.glob(".*"))
