"""The cache on disk: programs are found by content; damaged files and folders that others may write to are not used."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbs as mbs
from jaxmbs.programs.runtime import store
from jaxmbs.programs.runtime.content import digest
from jaxmbs.programs.runtime.store import Store

# A pendulum and the slope of its last angle by its length; prints both, and how many graphs were made for them.
SCRIPT = """
import jax, jax.numpy as jnp, jaxmbs as mbs
from jaxmbs import planar
from jaxmbs.programs.tracing import program

mbs.enable_cache()
jax.config.update("jax_enable_x64", True)
made, graph = [], program.Graph
program.Graph = lambda *args: made.append(1) or graph(*args)

def angle(length):
    rod = planar.Body(mass=1.0, inertia=0.1, com=(length, 0))
    pin = planar.Revolute("ground", "rod", (0, 0), (0, 0))
    mech = mbs.Mechanism({"rod": rod}, {"pin": pin}, forces={"gravity": mbs.Gravity((0, -9.81))})
    return mbs.simulate(mech, jnp.linspace(0, 0.5, 3), None, None, step=0.05).q[-1, 2]

value, slope = jax.value_and_grad(angle)(0.7)
print(float(value).hex(), float(slope).hex(), len(made))
"""


def started(folder) -> subprocess.Popen:
    environment = os.environ | {"JAXMBS_CACHE": str(folder), "JAXMBS_EMISSION": "llvm"}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(process) -> tuple[str, str, int]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    value, slope, graphs = out.split()
    return value, slope, int(graphs)


@pytest.mark.variant
def test_second_process_makes_no_graph_and_damage_does_no_harm(tmp_path):
    """Four processes at once on an empty folder, one after them, one after all files were damaged: the same bits."""
    folder = tmp_path / "kept"
    results = [ended(process) for process in [started(folder) for _ in range(4)]]
    assert all(result[:2] == results[0][:2] for result in results)
    assert all(result[2] > 0 for result in results)
    assert ended(started(folder)) == (*results[0][:2], 0)
    for k, path in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        data = bytearray(path.read_bytes())
        place = (37 * k) % len(data)
        data[place] ^= 1 << k % 8
        path.write_bytes(data[: len(data) // 2] if k % 3 == 0 else data)
    again = ended(started(folder))
    assert again[:2] == results[0][:2]
    assert again[2] > 0


@pytest.fixture
def place(tmp_path):
    return Store(tmp_path / "kept")


def test_what_is_put_is_got_by_another(place):
    place.put("facts", b"key", b"content")
    assert Store(place.folder).get("facts", b"key") == b"content"
    assert place.get("facts", b"other") is None
    assert place.get("object", b"key") is None
    assert place.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", ["every bit", "truncated", "empty", "garbage"])
def test_damaged_files_are_missing(place, damage):
    content = os.urandom(40)
    place.put("object", b"key", content)
    (path,) = place.folder.iterdir()
    good = path.read_bytes()
    bad = {
        "every bit": [good[:k] + bytes([good[k] ^ 1 << b]) + good[k + 1 :] for k in range(len(good)) for b in range(8)],
        "truncated": [good[:k] for k in range(len(good))],
        "empty": [b""],
        "garbage": [os.urandom(len(good)), b"x" * 10_000],
    }[damage]
    for data in bad:
        path.write_bytes(data)
        assert place.get("object", b"key") is None
        assert not path.exists()
    place.put("object", b"key", content)
    assert place.get("object", b"key") == content


@pytest.mark.variant
def test_process_killed_while_it_writes(tmp_path):
    """The files there afterwards are whole, and half-written ones go when the folder is cleared."""
    script = (
        "import sys; from pathlib import Path; from jaxmbs.programs.runtime.store import Store\n"
        "place = Store(Path(sys.argv[1]))\n"
        "for k in range(10**9):\n"
        "    place.put('object', b'%d' % (k % 5), bytes([k % 5]) * 3_000_000)\n"
        "    print(flush=True)"
    )
    folder = tmp_path / "kept"
    for pause in (0.02, 0.05, 0.11):
        with subprocess.Popen([sys.executable, "-c", script, folder], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
    place = Store(folder)
    found = {k: place.get("object", b"%d" % k) for k in range(5)}
    assert any(found.values())
    assert all(data is None or data == bytes([k]) * 3_000_000 for k, data in found.items())
    place.clear()
    assert list(folder.iterdir()) == []


def test_folder_that_others_may_write_to(tmp_path, monkeypatch):
    folder = tmp_path / "kept"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(UserWarning, match=r"kept is not used: another user owns it or may write to it"):
        place = Store(folder)
    place.put("facts", b"key", b"content")
    assert place.get("facts", b"key") is None
    assert list(folder.iterdir()) == []
    folder.chmod(0o700)
    tmp_path.chmod(0o777)
    with pytest.warns(UserWarning, match="another user may replace"):
        Store(folder)
    tmp_path.chmod(0o700)
    assert Store(folder).usable
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.warns(UserWarning, match="another user owns it"):
        Store(folder)


def test_file_that_others_may_write_to_or_link(place, tmp_path):
    place.put("facts", b"key", b"content")
    (path,) = place.folder.iterdir()
    path.chmod(0o666)
    assert place.get("facts", b"key") is None
    path.chmod(0o600)
    assert place.get("facts", b"key") == b"content"
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert place.get("facts", b"key") is None


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_full_or_read_only_folder_warns_once(place, monkeypatch, code):
    def refuse(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)
    with pytest.warns(UserWarning, match=f"cannot be written: {os.strerror(code)}"):
        place.put("facts", b"key", b"content")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        place.put("facts", b"key", b"content")
        assert place.get("facts", b"key") is None


# The kernel refuses what this process writes, before it starts or while it runs, as on a full disk; prints all warnings.
FULL = """
import resource, signal, sys, warnings
import jax, jax.numpy as jnp, jaxmbs as mbs

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
fill = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    if sys.argv[1] == "before":
        fill()
    mbs.enable_cache()
    if sys.argv[1] == "later":
        fill()
    value = jax.grad(mbs.program(lambda x: jnp.sin(x) ** 2))(jnp.linspace(0.5, 1, 3)[1])
sys.stdout.write(f"{float(value):.6f} {[str(x.message) for x in found]}")
"""


@pytest.mark.parametrize("when", ["before", "later"])
def test_full_disk_gives_one_warning_with_that_of_jax(tmp_path, when):
    environment = os.environ | {"JAXMBS_CACHE": str(tmp_path / "kept"), "JAX_PLATFORMS": "cpu"}
    script = [sys.executable, "-c", FULL, when]
    found = subprocess.run(script, env=environment, capture_output=True, text=True, check=True).stdout
    assert found.startswith(f"{np.sin(2 * 0.75):.6f} ")
    assert found.count("the cache folder") == found.count("cannot be written: File too large") == 1
    assert found.count("', '") == 0, found


def test_what_is_on_a_full_disk_is_read_and_cleared(place, monkeypatch):
    place.put("facts", b"key", b"content")

    def refuse(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.warns(UserWarning, match="kept is not written to: it cannot be written: No space left"):
        full = Store(place.folder)
    full.put("facts", b"other", b"content")
    assert full.get("facts", b"key") == b"content"
    assert full.get("facts", b"other") is None
    assert full.clear() == 1


def test_folder_of_xla_that_others_may_write_to(tmp_path):
    """Its files are code, too."""
    script = """
import jax, jaxmbs as mbs
print(mbs.enable_cache(), jax.config.values["jax_compilation_cache_dir"])
"""
    environment = os.environ | {"JAXMBS_CACHE": str(tmp_path / "kept"), "JAX_PLATFORMS": "cpu"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    run = lambda: subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    folder = run().stdout.split()[1]
    assert os.stat(folder).st_mode & 0o777 == 0o700
    os.chmod(folder, 0o777)
    again = run()
    assert again.stdout.split() == [str(tmp_path / "kept"), "None"]
    assert again.stderr.count("another user owns it or may write to it") == 1


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="cannot be made"):
        assert not Store(tmp_path / "file" / "kept").usable


def test_oldest_files_go_first(tmp_path):
    place = Store(tmp_path / "kept", limit=10_000)
    for k in range(20):
        place.put("object", b"%d" % k, bytes(1000))
        path = place._path("object", b"%d" % k)
        os.utime(path, (1000 + k, 1000 + k))
    place.trim()
    left = [k for k in range(20) if place.get("object", b"%d" % k) is not None]
    assert left == list(range(20 - len(left), 20))
    assert sum(status.st_size for _, status in place.files()) <= 10_000


def test_environment_moves_it_and_turns_it_off(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_store", None)
    monkeypatch.setenv("JAXMBS_CACHE", "off")
    assert mbs.enable_cache() is None
    assert mbs.enable_cache(tmp_path / "kept") is None
    monkeypatch.setenv("JAXMBS_CACHE", str(tmp_path / "moved"))
    assert mbs.enable_cache() == tmp_path / "moved"
    assert mbs.enable_cache(tmp_path / "kept") == tmp_path / "kept"
    with pytest.raises(ValueError, match="megabytes must be positive, got 0"):
        mbs.enable_cache(megabytes=0)
    mbs.disable_cache()
    assert store.active_store() is None


def test_importing_changes_nothing():
    script = "import jax; before = dict(jax.config.values); import jaxmbs; assert before == dict(jax.config.values)"
    subprocess.run([sys.executable, "-c", script], check=True)


# Contents by which functions differ.


def key(f, *args) -> bytes | None:
    return digest(jax.make_jaxpr(f)(*args))


def made(scale):
    @jax.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), scale * tangents[0]))
    return lambda x: f(x) * 2


SCALE = 2.0


def scaled_by_a_global():
    f = jax.custom_jvp(lambda x: jnp.sin(x))
    # Looked up in a function within the rule.
    f.defjvp(lambda primals, tangents: (f(*primals), (lambda x: SCALE * x)(tangents[0])))
    return f


def test_numbers_that_a_rule_looks_up_count(monkeypatch):
    before = key(scaled_by_a_global(), 1.0)
    assert before == key(scaled_by_a_global(), 1.0) is not None
    monkeypatch.setattr(f"{__name__}.SCALE", 3.0)
    assert key(scaled_by_a_global(), 1.0) != before


def test_equal_functions_have_equal_digests():
    assert key(made(2.0), 1.0) == key(made(2.0), 1.0)
    assert key(lambda x: jnp.linalg.solve(x, x @ x), jnp.eye(3)) == key(
        lambda y: jnp.linalg.solve(y, y @ y), jnp.eye(3)
    )


@pytest.mark.parametrize(
    ("one", "other", "x"),
    [
        (lambda x: x * 2.0, lambda x: x * 3.0, 1.0),
        (lambda x: x * 2.0, lambda x: x + 2.0, 1.0),
        (lambda x: x - x[::-1], lambda x: x[::-1] - x, jnp.ones(3)),
        (lambda x: x @ np.eye(3), lambda x: x @ np.diag([1.0, 1.0, 2.0]), jnp.ones(3)),
        (lambda x: jnp.sum(x, 0), lambda x: jnp.sum(x, 1), jnp.ones((3, 3))),
        (lambda x: x, lambda x: x * np.float32(1), jnp.float32(1)),
        (lambda x: jax.lax.scan(lambda c, _: (c * 2, None), x, length=9)[0],
         lambda x: jax.lax.scan(lambda c, _: (c * 3, None), x, length=9)[0], 1.0),
        (made(2.0), made(3.0), 1.0),
        (made(np.ones(2)), made(np.zeros(2)), jnp.ones(2)),
    ],
)  # fmt: skip
def test_different_functions_have_different_digests(one, other, x):
    assert None not in (key(one, x), key(other, x))
    assert key(one, x) != key(other, x)


def test_rule_that_cannot_be_told_apart_is_not_kept():
    class Scale:
        def __init__(self, value):
            self.value = value

        def __rmul__(self, x):
            return self.value * x

    assert key(made(Scale(2.0)), 1.0) is None


def test_shapes_and_types_count():
    double = lambda x: 2 * x
    keys = [key(double, x) for x in (1.0, jnp.ones(1), jnp.ones(2), jnp.ones(2, np.float32), jnp.ones((1, 2)), 1)]
    assert len(set(keys)) == len(keys)
