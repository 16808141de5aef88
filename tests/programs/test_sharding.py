"""Batches sharded over several devices: each device computes its own samples, and nothing is gathered."""

import os
import subprocess
import sys

# Runs in a process of its own, with eight devices of the host.
SCRIPT = """
import re
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import jaxmbs as mbs
from jaxmbs import planar

jax.config.update("jax_enable_x64", True)
devices = np.array(jax.devices())
assert devices.size == 8
row = NamedSharding(Mesh(devices, ("d",)), P("d"))
table = NamedSharding(Mesh(devices.reshape(4, 2), ("a", "b")), P("a", "b"))

def crank(length, driven=False):
    rod = lambda x: planar.Body(x, x**3 / 12)
    bodies = {"crank": rod(length), "rod": rod(3 * length), "rocker": rod(jnp.full_like(length, 2.5))}
    joints = {
        "O": planar.Revolute("ground", "crank", (0, 0), (-length / 2, 0)),
        "A": planar.Revolute("crank", "rod", (length / 2, 0), (-1.5 * length, 0)),
        "B": planar.Revolute("rod", "rocker", (1.5 * length, 0), (1.25, 0)),
        "C": planar.Revolute("ground", "rocker", (3.5, 0), (-1.25, 0)),
    }
    motor = {"motor": planar.RevoluteDriver("ground", "crank", mbs.motion.Ramp(1.0))} if driven else {}
    return mbs.Mechanism(bodies, joints, motor, {"weight": mbs.Gravity((0, -9.81))})

guess = {"crank": (0.5, 0, 0.0), "rod": (2.0, 1.0, 0.7), "rocker": (3.0, 1.0, 2.0)}
times = np.linspace(0.0, 0.5, 6)
simulate = lambda x: mbs.simulate(crank(x), times, guess, step=0.01, method=mbs.RK4()).q
kinematics = lambda x: mbs.kinematics(crank(x, True), times, guess).v
slope = jax.grad(lambda x: jnp.sum(simulate(x)[-1] ** 2))

def check(function, x, sharding):
    function = jax.jit(function)
    one, many = jax.device_put(x, jax.devices()[0]), jax.device_put(x, sharding)
    text = function.lower(many).compile().as_text()
    assert not re.search("all-gather|all-reduce|all-to-all|collective", text), text
    found, expected = function(many), function(one)
    assert found.sharding.is_equivalent_to(NamedSharding(sharding.mesh, sharding.spec), found.ndim), found.sharding
    np.testing.assert_array_equal(found, expected)
    return text

x = np.linspace(0.95, 1.05, 4096)
for f in (simulate, slope, kinematics):
    # Code of one device has arrays of its 512 samples, and none of all 4096.
    sizes = re.findall(r"\\d+", " ".join(re.findall(r"\\[[\\d,]+\\]", check(jax.vmap(f), x, row))))
    assert "512" in sizes and "4096" not in sizes, sizes
check(jax.vmap(jax.vmap(simulate)), x[:64].reshape(16, 4), table)
# An operand for one axis, one for the other: their sum over what they do not depend on is all that is communicated.
half = mbs.program(lambda x, y: jnp.sin(x) * y / 2)
product = jax.vmap(jax.vmap(half, (None, 0)), (0, None))
a, b = (NamedSharding(table.mesh, P(axis)) for axis in "ab")
loss = jax.jit(jax.grad(lambda x, y: jnp.sum(product(x, y)), (0, 1)))
found = loss(jax.device_put(x[:8], a), jax.device_put(x[:6], b))
np.testing.assert_allclose(found[0], np.cos(x[:8]) * x[:6].sum() / 2, rtol=1e-12)
np.testing.assert_allclose(found[1], np.full(6, np.sin(x[:8]).sum() / 2), rtol=1e-12)
# Starts of a search are shared out by themselves: as many on each device, and the same result as on one.
turn = np.linspace(0, 6, 7)
targets = np.stack([1 + 0.4 * np.cos(turn), 1 + 0.2 * np.sin(turn)], axis=1)
search = lambda: mbs.synthesis.path(targets, starts=64).best
everywhere = search()
jax.local_devices = lambda: [jax.devices()[0]]
jax.tree.map(np.testing.assert_array_equal, everywhere.design, search().design)
"""


# Batches that are divided by `jax.shard_map` in lowering, as on TPUs: XLA's emission, and a TPU's kernels interpreted.
# Sizes that the devices do not divide, no samples at all, two axes, operands that depend on one of them.
BY_SHARD_MAP = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import jaxmbs as mbs

devices = np.array(jax.devices())
row = NamedSharding(Mesh(devices, ("d",)), P("d"))
table = NamedSharding(Mesh(devices.reshape(4, 2), ("a", "b")), P("a", "b"))

def f(x, y, k):
    def step(c, u):
        return c * jnp.cos(u) + y[0], c
    last, rows = jax.lax.scan(step, x, jnp.arange(5, dtype=jnp.float32))
    return rows, last * y[k]

program = mbs.program(f)
one = jax.vmap(program, (0, None, 0))
both = jax.vmap(jax.vmap(program, (0, None, None)), (0, 0, None))
y = np.array([0.3, 1.5, -2.0], np.float32)
x = np.linspace(0, 1, 80, dtype=np.float32)
cases = [
    (one, (jax.device_put(x, row), y, np.arange(80) % 3)),
    (one, (x[:11], jax.device_put(y, NamedSharding(row.mesh, P())), np.arange(11) % 3)),
    (one, (jax.device_put(x[:0], row), y, np.arange(0))),
    (both, (jax.device_put(x.reshape(16, 5)[:, :4], table), np.outer(1 + x[:16], y), 1)),
]
for batch, args in cases:
    for emission in ("xla", "tpu-on-host"):
        with mbs.emission(emission):
            found = jax.jit(batch)(*args)
        alone = jax.tree.map(lambda z: jax.device_put(np.asarray(z), jax.devices()[0]), args)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found, jax.jit(batch)(*alone))
"""


def test_shards_by_shard_map():
    run(BY_SHARD_MAP, devices=8)


# Inside `jax.shard_map` as it is by default, which checks what varies from device to device. In the plane and in space.
SHARD_MAP = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
import jaxmbs as mbs
from jaxmbs import planar, spatial

jax.config.update("jax_enable_x64", True)
times = np.linspace(0.0, 0.2, 3)

def slider_crank(length, rate):
    bodies = {name: planar.Body(length) for name in ("crank", "rod", "slider")}
    joints = {
        "O": planar.Revolute("ground", "crank", (0, 0), (0, 0)),
        "A": planar.Revolute("crank", "rod", (length, 0), (0, 0)),
        "B": planar.Revolute("rod", "slider", (2.0, 0), (0, 0)),
        "S": planar.Translational("ground", "slider", (0, 0), (0, 0), (1, 0), (1, 0)),
    }
    motor = planar.RevoluteDriver("ground", "crank", mbs.motion.Function(lambda t: rate * t))
    return mbs.Mechanism(bodies, joints, {"motor": motor}, {"weight": mbs.Gravity((0, -9.81))})

def pendulum(length, rate):
    hinge = spatial.Revolute("ground", "bob", (0, 0, 0), (0, 0, length), axis_i=(0, 1, 0))
    bodies, forces = {"bob": spatial.Body(1.0, (1.0, 1.0, 1.0))}, {"weight": mbs.Gravity((rate, 0, -9.81))}
    return mbs.Mechanism(bodies, {"hinge": hinge}, forces=forces)

analyses = {
    "assemble": lambda x, rate: mbs.assemble(slider_crank(x, rate), {"slider": (3, 0, 0)}, 0.3).q,
    "kinematics": lambda x, rate: mbs.kinematics(slider_crank(x, rate), times, {"slider": (3, 0, 0)}).v,
    "simulate": lambda x, rate: mbs.simulate(pendulum(x, rate), times, {"bob.z": -1.0}, step=0.05).q,
}
mesh, x = Mesh(jax.devices(), ("devices",)), np.linspace(0.9, 1.1, 4)
for name, analysis in analyses.items():
    batch = jax.vmap(analysis, (0, None))
    shared = jax.shard_map(batch, mesh=mesh, in_specs=(P("devices"), P()), out_specs=P("devices"))
    loss = lambda f, x, rate: jnp.sum(f(x, rate) ** 2)
    values = [jax.jit(jax.value_and_grad(lambda *a: loss(f, *a), (0, 1)))(x, 1.5) for f in (shared, batch)]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, err_msg=name), *values)

def array_code(x):
    with mbs.emission("array"):
        return mbs.program(jnp.sin)(x)
try:
    jax.shard_map(array_code, mesh=mesh, in_specs=P("devices"), out_specs=P("devices"))(x)
except ValueError as error:
    assert "check_vma=False" in str(error), error
else:
    raise AssertionError("array code in a shard_map that checks")
"""


def test_within_shard_map():
    """Values and gradients by what varies over devices and by what does not are those of one device."""
    run(SHARD_MAP, devices=2)


def test_eight_devices():
    """Simulation, its gradient and kinematics, one and two axes of the batch, operands that depend on one of them: results
    to the bit as on one device, no communication, and no device computes the samples of another."""
    run(SCRIPT, devices=8)


def run(script: str, devices: int) -> None:
    """Run a script in a process with devices that share the cores: each has one thread."""
    flags = f"--xla_force_host_platform_device_count={devices} --xla_cpu_multi_thread_eigen=false"
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
