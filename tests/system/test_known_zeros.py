"""Plain zeros in vectors are structure: they cost nothing, and are numbers again where an array is given."""

import copy
import itertools
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.programs import EMISSIONS

BARS = {"crank": 1.0, "coupler": 2.9, "rocker": 3.0, "ground": 3.5}
Z = (0, 0, 1)


def four_bar(b, *, com=None, along=lambda x: (x, 0), down=(0, -9.81)):
    """With its points made by `along`."""
    rod = lambda length: planar.Body(mass=length, inertia=length**3 / 12, com=com)
    half = lambda name: along(b[name] / 2)
    back = lambda name: along(-b[name] / 2)
    return mbs.Mechanism(
        {name: rod(b[name]) for name in ("crank", "coupler", "rocker")},
        {
            "O": planar.Revolute("ground", "crank", along(0), back("crank")),
            "A": planar.Revolute("crank", "coupler", half("crank"), back("coupler")),
            "B": planar.Revolute("coupler", "rocker", half("coupler"), half("rocker")),
            "C": planar.Revolute("ground", "rocker", along(b["ground"]), back("rocker")),
        },
        forces={"gravity": mbs.Gravity(down)},
    )


def numbers(b, com=None):
    """The same four-bar, all entries of its vectors numbers."""
    as_array = lambda x: jnp.stack([jnp.asarray(x), jnp.zeros(())])
    return four_bar(b, com=com, along=as_array, down=np.array([0, -9.81]))


def arm(axis=Z, *, as_given=lambda x: x):
    """A double pendulum in space."""
    body = spatial.Body(1.0, as_given(((0.1, 0, 0), (0, 0.2, 0), (0, 0, 0.3))), as_given((0, 0, 0)))
    joints = {
        "base": spatial.Revolute("ground", "upper", as_given((0, 0, 0)), as_given((0, 0.5, 0)), as_given(axis)),
        "elbow": spatial.Revolute("upper", "lower", as_given((0, -0.5, 0)), as_given((0, 0.5, 0)), as_given(axis)),
    }
    return mbs.Mechanism({"upper": body, "lower": body}, joints, forces={"g": mbs.Gravity(as_given((0, -9.81, 0)))})


def accelerations(mech, q, v, t=0.0):
    return mbs.Augmented().equations(mech).accelerations(q, v, jnp.asarray(t, q.dtype))[0]


acceleration = mbs.program(accelerations, limit=None)


def operations(mech):
    """Of the acceleration."""
    q = mech.coordinates()
    return acceleration.trace(mech, q, jnp.ones(mech.layout.m), 0.0).size


def state(mech):
    """Some configuration and velocity."""
    q, v = np.random.default_rng(3).normal(size=(2, mech.layout.n))
    return mech.coordinates(q), jnp.asarray(v[: mech.layout.m])


def test_a_centre_of_mass_of_plain_zeros_costs_nothing():
    """com=(0, 0) costs as much as leaving it out, plain zeros in points less than numbers that happen to be zero."""
    left_out = operations(four_bar(BARS))
    assert operations(four_bar(BARS, com=(0, 0))) == operations(four_bar(BARS, com=[0.0, 0])) == left_out
    assert left_out < 0.9 * operations(numbers(BARS)) < 0.7 * operations(numbers(BARS, com=np.zeros(2)))


def test_axes_frames_and_inertia_matrices_of_plain_zeros():
    """In space an axis (0, 0, 1) needs no rotation to be worked out."""
    assert operations(arm()) < 0.75 * operations(arm(as_given=np.asarray))


def chain(links):
    """Rods in space, their hinges across each other in turn."""
    names = ["ground", *(f"rod{k}" for k in range(links))]
    joints = {
        f"hinge{k}": spatial.Revolute(i, j, (0, 0, 0) if k == 0 else (0, 0.5, 0), (0, -0.5, 0), (Z, (1, 0, 0))[k % 2])
        for k, (i, j) in enumerate(itertools.pairwise(names))
    }
    return mbs.Mechanism(dict.fromkeys(names[1:], spatial.Body(1.0, (0.1, 0.01, 0.1))), joints)


def test_the_acceleration_of_a_chain_grows_with_its_links():
    """Twice the links, twice the operations: a joint's rows are zero but for its two bodies, however many there are."""
    short, long = (operations(chain(links)) for links in (10, 20))
    assert long < 2.1 * short


@pytest.mark.one_in(4)
@pytest.mark.parametrize("emission", EMISSIONS)
@pytest.mark.parametrize("pair", [(four_bar(BARS, com=(0, 0)), numbers(BARS)), (arm(), arm(as_given=np.asarray))])
def test_the_same_accelerations_as_with_numbers(pair, emission, agree):
    with mbs.emission(emission):
        found = [acceleration(mech, *state(mech)) for mech in pair]
        agree(found[0], found[1], 1e-12)


def test_gradient_by_a_whole_mechanism():
    """It has zeros where zeros are known, and elsewhere what it has for numbers."""
    energy = lambda mech: jnp.sum(acceleration(mech, *state(mech)) ** 2)
    plain, full = (jax.grad(energy)(mech) for mech in (four_bar(BARS, com=(0, 0)), numbers(BARS)))
    for name in "OABC":
        for point in ("point_i", "point_j"):
            found, expected = (np.asarray(getattr(g.constraints[name], point)) for g in (plain, full))
            assert found.shape == (2,)
            assert found[1] == 0
            if (name, point) != ("O", "point_i"):
                np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)
    np.testing.assert_array_equal(plain.bodies["crank"].com, np.zeros(2))
    assert plain.forces["gravity"].acceleration.shape == (2,)


def test_a_builder_under_jit_vmap_and_grad(agree):
    """Traced numbers beside plain zeros: as many operations, the same derivatives."""
    q, v = state(four_bar(BARS))
    function = mbs.program(lambda b, q, v: accelerations(four_bar(b, com=(0, 0)), q, v))
    assert function.trace(BARS, q, v).size <= operations(four_bar(BARS))
    size = lambda build: lambda b: jnp.sum(acceleration(build(b), q, v) ** 2)
    batch = jax.tree.map(lambda x: x * jnp.linspace(0.8, 1.2, 3), BARS)
    found, expected = (jax.vmap(jax.value_and_grad(size(build)))(batch) for build in (four_bar, numbers))
    agree(found, expected, 1e-10)


def test_mechanisms_as_pytrees(agree):
    """Stacked and mapped over, in single precision, copied, pickled, with another number in place of one."""
    mech = four_bar(BARS, com=(0, 0))
    q, v = state(mech)
    again = pickle.loads(pickle.dumps(copy.copy(mech)))
    assert jax.tree.structure(again) == jax.tree.structure(mech)
    second = four_bar({**BARS, "coupler": 2.5}, com=(0, 0))
    both = jax.tree.map(lambda *xs: jnp.stack(xs), mech, second)
    assert both.constraints["A"].point_i.shape == both.bodies["rocker"].com.shape == (2, 2)
    found = jax.vmap(acceleration, (0, None, None))(both, q, v)
    agree(found, jnp.stack([acceleration(mech, q, v), acceleration(second, q, v)]), 1e-12)

    single = mech.astype(jnp.float32)
    assert {np.dtype(x.dtype) for x in jax.tree.leaves(single)} == {np.dtype("float32")}
    assert single.bodies["crank"].com.dtype == single.constraints["O"].point_i.dtype == jnp.float32
    assert acceleration(single, q.astype(jnp.float32), v.astype(jnp.float32), jnp.float32(0)).dtype == jnp.float32

    heavy = eqx.tree_at(lambda m: m.bodies["crank"].mass, mech, jnp.asarray(7.0))
    assert heavy.bodies["crank"].mass == 7
    np.testing.assert_array_equal(heavy.constraints["A"].point_i, mech.constraints["A"].point_i)


def test_what_is_structure():
    """Plain numbers in tuples and lists; not arrays, not what was computed, not scalars."""
    count = lambda point: jax.tree.leaves(planar.Revolute("a", "b", point, np.ones(2)))[0].size
    assert [count(p) for p in ((0, 0), (0.5, 0), [0.0, 0.5], (1, 2))] == [0, 1, 1, 2]
    assert [count(p) for p in (np.zeros(2), jnp.zeros(2), (np.float64(0), jnp.zeros(())))] == [2, 2, 2]
    assert len(jax.tree.leaves(mbs.Spring("a", "b", stiffness=0, free_length=0))) == 2
    frame = ((1, 0, 0), (0, 0, -1), (0, 1, 0))
    for given in (frame, [(0.5, 0, 0.2), (0, 0.3, 0), (0.7, 0.8, 0)]):
        np.testing.assert_array_equal(spatial.Revolute("a", "b", frame_i=given).frame_i, given)
    mbs.Mechanism({"a": spatial.Body(frames={"pin": spatial.Frame((0, 0, 1), frame)})})
    placed = spatial.Revolute("ground", "a", spatial.Frame((0, 0, 1), frame))
    assert jax.tree.structure(placed) == jax.tree.structure(spatial.Revolute("ground", "a", (0, 0, 1), frame_i=frame))


@pytest.mark.parametrize("point", [(0, 0, 0), (0,), (0, "x"), (0, (0, 0)), [[0, 0]], ((0, 0), (0, 0))])
def test_wrong_points_are_still_named(point):
    with pytest.raises(ValueError, match=r"constraint 'O' \(Revolute\): point_i must be an array of shape \(2,\)"):
        mbs.Mechanism({"a": planar.Body()}, {"O": planar.Revolute("ground", "a", point, (0, 0))})


def test_files(tmp_path):
    """Structural zeros come back as such from a file, and numbers as numbers."""
    for mech in (four_bar(BARS, com=(0, 0)), numbers(BARS, com=np.zeros(2)), arm(), arm(as_given=np.asarray)):
        mbs.io.save(mech, tmp_path / "model.json")
        again = mbs.io.load(tmp_path / "model.json").mechanism
        assert jax.tree.structure(again) == jax.tree.structure(mech)
        assert all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (again, mech)), strict=True))
