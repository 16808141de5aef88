"""Kernels for TPUs without a TPU: `make bench-tpu`, or `python benchmarks/tpu.py [words in the names of cases]`.

libtpu compiles the cases for v5e and v6e, each in its own process. The numbers of a case replace older ones in tpu.json, of
which the table of tpu.md is made. Times are those of the processor, which other work on the machine changes little.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np
from gpu_cases import CASES
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from jaxmbs import synthesis
from jaxmbs.search import multistart

# File of the results, beside which the table is written.
RESULTS = Path(__file__).with_name("tpu.json")
# Names of the topologies to compile for, by the name of the chip.
CHIPS = {"v5e": "v5e:2x2", "v6e": "v6e:2x2"}
# Number of samples of a batch, on one device.
SAMPLES = 2**16
# Wall time in seconds after which a case is given up.
MAX_SECONDS = 900
# Cases of `gpu_cases` that are left out, because others differ from them only in the number of steps.
SHORT = ("four-bar, joint coordinates", "four-bar, Augmented")
# Name of the inner program of a search for a path.
PATH = "synthesis.path, ten steps"
# Pattern of the bytes of vector memory of a kernel, in the code that libtpu has optimised.
VMEM = r'"tpu_custom_call".*"memory_space":"1","offset":"0","size":"(\d+)"'
# Head of the table.
HEAD = "| case | chip | kernels | XLA operations | VMEM, MB | code, MB | to lower, CPU s | libtpu, CPU s |"


class Found(Exception):
    """Ends a search before it computes anything; its arguments are a compiled function, and those of that function."""


def path_steps():
    """Return the function of a batch of starts that `synthesis.path` compiles, and its arguments for two starts."""
    original = multistart._compiled_steps

    def end_search(problem, *args):
        raise Found(original(problem, 10), args)

    multistart._compiled_steps = lambda problem, _: partial(end_search, problem)
    try:
        synthesis.path([[0.0, 0.0], [1.0, 0.2], [1.2, 1.0], [0.1, 0.9]], starts=2)
    except Found as found:
        return found.args


def compile_case(name, chip):
    """Return the numbers of a case for a chip."""
    one, batch_of = (None, None) if name == PATH else CASES[name].make(np.float32)
    function, batch = path_steps() if name == PATH else (jax.vmap(one), batch_of(2))
    device = topologies.get_topology_desc(platform="tpu", topology_name=CHIPS[chip]).devices[0]
    many = lambda shape: (SAMPLES, *shape[1:]) if shape[:1] == (2,) else shape
    argument = lambda x: jax.ShapeDtypeStruct(many(x.shape), x.dtype, sharding=SingleDeviceSharding(device))
    args = jax.tree.map(argument, jax.eval_shape(lambda *args: args, *batch))
    begin = time.process_time()
    lowered = jax.jit(lambda *args: function(*args)).trace(*args).lower(lowering_platforms=("tpu",))
    middle = time.process_time()
    compiled = lowered.compile()
    end = time.process_time()
    text = compiled.as_text()
    return {
        "kernels": text.count('custom_call_target="tpu_custom_call"'),
        "XLA operations": len(re.findall(r"^\s+(?:ROOT )?%\S+ = ", text, re.MULTILINE)),
        "VMEM, MB": max(map(int, re.findall(VMEM, text)), default=0) / 1e6,
        "code, MB": compiled.memory_analysis().generated_code_size_in_bytes / 1e6,
        "lower, s": middle - begin,
        "libtpu, s": end - middle,
    }


def table(results):
    """Return the text of tpu.md."""
    lines = [HEAD, re.sub(r"[^|]+", "---", HEAD)]
    keys = [f"{name}; {chip}" for name in (*CASES, PATH) for chip in CHIPS]
    for key in filter(results["cases"].get, keys):
        row = results["cases"][key]
        cells = [f"{x:.1f}" if isinstance(x, float) else f"{x:,}" if isinstance(x, int) else x for x in row.values()]
        lines.append(f"| {' | '.join([*key.split('; '), *cells])} |")
    explained = (
        f"By `benchmarks/tpu.py`, with JAX {results['jax']} and libtpu {results['libtpu']}: {SAMPLES:,} samples in float32 "
        "on one device. *XLA operations* are those of the code that libtpu has optimised, with programs too large for a "
        "kernel. *VMEM* is the vector memory that libtpu reserves for the largest kernel. libtpu gives no number of cycles "
        "or flops of kernels."
    )
    return "\n".join(["# Kernels for TPUs, compiled without a TPU", "", explained, "", *lines, ""])


def main():
    """Compile the chosen cases, and write the results and the table."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"cases": {}}
    results |= {"jax": version("jax"), "libtpu": version("libtpu")}
    names = [name for name in (*CASES, PATH) if name not in SHORT and all(word in name for word in sys.argv[1:])]
    for chip, name in [(chip, name) for chip in CHIPS for name in names]:
        # A process that was stopped leaves this file, and the next one would wait for it.
        Path(tempfile.gettempdir(), "libtpu_lockfile").unlink(missing_ok=True)
        try:
            command = [sys.executable, __file__, "--case", name, chip]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=MAX_SECONDS, check=True)
            row = json.loads(done.stdout.splitlines()[-1])
        except subprocess.SubprocessError as error:
            row = {"error": "not compiled: " + type(error).__name__}
        results["cases"][f"{name}; {chip}"] = row
        print(name, chip, row, flush=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        RESULTS.with_suffix(".md").write_text(table(results))


if __name__ == "__main__":
    print(json.dumps(compile_case(*sys.argv[2:]))) if sys.argv[1:2] == ["--case"] else main()
