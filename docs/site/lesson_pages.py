"""Pages of the lessons: the notebooks with their outputs and pictures, and with solutions that unfold.

Notebooks are stored without outputs, so each is run once. The results are kept in `build/lessons`, under a digest of the
code of the notebook, of this package and of the versions of the packages that it uses. After a change of one of them the
notebook is run again; a change of its text needs no run. The tests of the notebooks read and write the same folder.

With the environment variable JAXMBS_LESSONS=kept no notebook is run: pages show results of an earlier state, if there are
any, or else no outputs. That is quicker while one works on other pages.
"""

import hashlib
import html
import importlib.metadata
import os
import re
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter
from nbconvert.preprocessors import ExecutePreprocessor

# Folder of the repository.
ROOT = Path(__file__).parents[2]
# Folder of notebooks with outputs.
RESULTS = ROOT / "build" / "lessons"
# Packages whose versions may change outputs.
PACKAGES = ("jax", "jaxlib", "numpy", "matplotlib", "llvmlite")
# Longest time for one cell, in seconds.
MAX_SECONDS = 900
# Template of a page.
TEMPLATE = Path(__file__).with_name("lesson.md.j2")
# Pages that show an animation, as `mbs.viz.animate` puts them into a notebook.
PLAYER = re.compile(r'<iframe srcdoc="([^"]*)"')


def code_cells(notebook) -> list:
    """Return the cells of a notebook that have code."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def digest(path: Path) -> str:
    """Return a digest of all that the outputs of a notebook depend on."""
    parts = [cell.source.encode() for cell in code_cells(nbformat.read(path, as_version=4))]
    for file in sorted((ROOT / "jaxmbs").rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            parts += [str(file.relative_to(ROOT)).encode(), file.read_bytes()]
    parts += [f"{name} {importlib.metadata.version(name)}".encode() for name in PACKAGES]
    found = hashlib.sha256()
    for part in parts:
        found.update(hashlib.sha256(part).digest())
    return found.hexdigest()[:16]


def run(path: Path):
    """Run a notebook from top to bottom and return it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    runner = ExecutePreprocessor(timeout=MAX_SECONDS, kernel_name="python3", extra_arguments=["--log-level=ERROR"])
    runner.preprocess(notebook, {"metadata": {"path": str(path.parent)}})
    said = [x.text for cell in code_cells(notebook) for x in cell.outputs if x.get("name") == "stderr"]
    if said:
        raise RuntimeError(f"{path.name} writes to stderr: {said[0]}")
    return notebook


def executed(path: Path):
    """Return a notebook with outputs: kept ones if nothing has changed, else those of a new run, which are kept."""
    kept = RESULTS / f"{path.stem}-{digest(path)}.ipynb"
    older = sorted(RESULTS.glob(f"{path.stem}-*.ipynb"), key=lambda x: x.stat().st_mtime)
    notebook = nbformat.read(path, as_version=4)
    if not kept.exists() and os.environ.get("JAXMBS_LESSONS") == "kept":
        if not older:
            return notebook
        kept = older[-1]
    if not kept.exists():
        print(f"running notebooks/{path.name}", flush=True)
        result = run(path)
        RESULTS.mkdir(parents=True, exist_ok=True)
        # Another process may look for this file: it appears at once and complete.
        part = RESULTS / f"{path.stem}.{os.getpid()}.part"
        nbformat.write(result, part)
        part.replace(kept)
        for file in older:
            file.unlink(missing_ok=True)
    # Texts are those of today.
    for cell, result in zip(code_cells(notebook), code_cells(nbformat.read(kept, as_version=4)), strict=False):
        cell.outputs = result.outputs
    return notebook


def page(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return the page of a lesson in Markdown, and the pictures and players that it shows, by their paths in the site."""
    notebook = executed(path)
    del notebook.cells[1]  # the installation in Colab
    files = extracted_players(notebook, path.stem)
    exporter = MarkdownExporter(raw_template=TEMPLATE.read_text())
    text, resources = exporter.from_notebook_node(notebook, {"unique_key": path.stem, "output_files_dir": "images"})
    files |= {f"lessons/{name}": content for name, content in resources["outputs"].items()}
    title, _, rest = links_of_site(text).strip().partition("\n")
    note = f"*This page is a notebook, which you can [download]({path.name}) and run.*"
    return f"{title}\n\n{note}\n{rest}\n", files


def extracted_players(notebook, stem: str) -> dict[str, bytes]:
    """Put each player into a file of its own, which the notebook then shows in a frame; return these files."""
    files = {}
    for cell in code_cells(notebook):
        for output in cell.outputs:
            player = PLAYER.match(output.get("data", {}).get("text/html", ""))
            if player:
                name = f"players/{stem}_{len(files) + 1}.html"
                files[name] = html.unescape(player[1]).encode()
                output.data["text/html"] = f'<iframe class="player" src="../{name}" title="{stem}"></iframe>'
    return files


def links_of_site(text: str) -> str:
    """Return the text of a notebook with links to pages of the site in place of files of the repository."""
    text = re.sub(r"\]\((\d\w*)\.ipynb\)", r"](\1.md)", text)
    text = re.sub(r"\]\(\.\./examples/(\d\w*)\.py\)", r"](../gallery/\1.md)", text)
    return text.replace("](../examples/README.md)", "](../gallery/index.md)").replace("](../docs/", "](../")
