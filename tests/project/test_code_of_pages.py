"""The code of every page runs: its blocks one after the other, after the code that the page assumes."""

import json
import re
import shlex
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import jaxmbs as mbs
from jaxmbs import synthesis
from jaxmbs.cli.main import parser
from page_code import BEFORE_AND_AFTER, ELSEWHERE, ONLY_COMPILED, SEARCHES, SMALLER

ROOT = Path(__file__).parents[2]
PAGES = {path.relative_to(ROOT / "docs").as_posix(): path for path in sorted((ROOT / "docs").rglob("*.md"))}
PAGES |= {name: ROOT / name for name in ("README.md", "CONTRIBUTING.md")}
# Packages that the code of a page needs.
NEEDS = {"cad.md": ("build123d", "viser"), "files.md": ("mujoco",), "fmu.md": ("fmpy",)}
SLOW = {"identification.md"} | {page for page in PAGES if page.startswith("synthesis/")}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page].read_text("utf-8"), re.DOTALL | re.MULTILINE)


def test_every_page_with_code_is_run():
    with_code = {page for page in PAGES if blocks(page, "(?:python|pycon)")}
    assert with_code == set(BEFORE_AND_AFTER) | ELSEWHERE


def _quick_searches(monkeypatch):
    for name, options in SEARCHES.items():
        whole = getattr(synthesis, name)
        quick = lambda *args, whole=whole, options=options, **given: whole(*args, **{**given, **options})
        monkeypatch.setattr(synthesis, name, quick)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=pytest.mark.slow) if p in SLOW else p for p in BEFORE_AND_AFTER]
)
# Searches this short find nothing good, which is a warning.
@pytest.mark.filterwarnings("ignore:no (linkage|design|start):UserWarning")
@pytest.mark.filterwarnings("ignore:the identification has not converged:UserWarning")
def test_code_runs(page, tmp_path, monkeypatch):
    for package in NEEDS.get(page, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    _quick_searches(monkeypatch)
    scope = {"__name__": "page", "MODELS": ROOT / "examples" / "models"}
    before, after = BEFORE_AND_AFTER[page]
    exec(blocks("index.md", "python")[0], scope)
    exec(before, scope)
    for number, block in enumerate(blocks(page, "python")):
        for large, small in SMALLER.items():
            block = block.replace(large, small)
        code = compile(block, f"{page}, block {number + 1}", "exec")
        if not any(words in block for words in ONLY_COMPILED):
            exec(code, scope)
    exec(after, scope)
    jax.block_until_ready([x for x in scope.values() if isinstance(x, jax.Array)])


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_files(page, tmp_path):
    """Commands have arguments that exist, scripts are there, and JSON can be read."""
    for block in blocks(page, "(?:text)?"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True) if re.match(r"(\$ )?jaxmbs ", line) else []
            words = words[: words.index(">")] if ">" in words else words
            if words:
                parser().parse_args(words[1:])
            for script in re.findall(r"^\$ python (\S+)", line):
                assert (ROOT / script).exists()
    model, *expressions = map(json.loads, blocks(page, "json") or ["{}"])
    for expression in expressions:  # of a force of that model
        model["forces"]["of the page"] = {"type": "Torque", "body": "crank", "value": expression}
        (tmp_path / "model.json").write_text(json.dumps(model))
        loaded = mbs.load(tmp_path / "model.json")
        assert mbs.generalized_force(loaded, loaded.guess, jnp.ones(9))[2] == -3
