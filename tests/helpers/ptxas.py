"""NVIDIA's assembler, and the programs that a function consists of."""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import NamedTuple

import jax

from jaxmbs.programs import emission

# Path of NVIDIA's assembler, None if it is not installed.
PTXAS = next(Path(sysconfig.get_paths()["purelib"]).glob("nvidia/*/bin/ptxas"), None) or shutil.which("ptxas")


class Assembled(NamedTuple):
    """Report of the assembler: registers of a thread, bytes of its stack, bytes spilled."""

    registers: int
    stack: int
    spilled: int


def assembled(text: str, capability: tuple[int, int], folder: Path) -> Assembled:
    """Assemble PTX for a compute capability and return the report; raise an error if it is refused."""
    source = folder / "kernel.ptx"
    source.write_text(text)
    command = [PTXAS, f"-arch=sm_{capability[0]}{capability[1]}", "-v", source, "-o", folder / "kernel.cubin"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[:2000]
    number = lambda pattern: max(map(int, re.findall(pattern, done.stderr)), default=0)
    return Assembled(
        number(r"Used (\d+) registers"), number(r"(\d+) bytes stack frame"), number(r"(\d+) bytes spill stores")
    )


def programs_of(function, *args) -> list:
    """Return the programs that a function of arrays runs on a GPU, each once."""
    found = {}

    def search(jaxpr):
        """Add the programs of a jaxpr and of all inside it."""
        for eqn in jaxpr.eqns:
            if "program" in eqn.params:
                found[eqn.params["program"].fingerprint] = eqn.params["program"]
            for value in jax.tree.leaves(tuple(eqn.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
                inner = getattr(value, "jaxpr", value)
                if hasattr(inner, "eqns"):
                    search(inner)

    with emission("gpu-on-host"):
        search(jax.make_jaxpr(function)(*args).jaxpr)
    return list(found.values())
