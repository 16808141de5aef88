"""The lessons: the table of docs/lessons.md, and the heads of the notebooks.

`python docs/site/lessons.py` writes both, after a change of a title, of a first paragraph, or of the address of the
repository, `Repository` in the project.urls of pyproject.toml. With an address there, notebooks have a badge that opens
them in Colab and install from it; else they install the package by its name.
"""

import json
import tomllib
from pathlib import Path

# Folder of the repository.
ROOT = Path(__file__).parents[2]
# Page with the table of lessons.
PAGE = ROOT / "docs" / "lessons.md"
# Notebooks of the lessons in their order.
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# Address of Google Colab.
COLAB = "https://colab.research.google.com"
# Head of the table of lessons.
TABLE_HEAD = "| lesson | what you learn |"


def repository() -> str | None:
    """Return the address of the repository, if the project has one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project.get("urls", {}).get("Repository")


def cells(path: Path) -> list[dict]:
    """Return the cells of a notebook."""
    return json.loads(path.read_text())["cells"]


def text(cell: dict) -> str:
    """Return the source of a cell."""
    return "".join(cell["source"])


def title(path: Path) -> str:
    """Return the title of a lesson."""
    return text(cells(path)[0]).partition("\n")[0].removeprefix("# ")


def about(path: Path) -> str:
    """Return the first cell without title and badge."""
    rest = text(cells(path)[0]).partition("\n\n")[2]
    return rest.partition("\n\n")[2] if rest.startswith("[![") else rest


def goal(path: Path) -> str:
    """Return the first sentence about a lesson, on one line."""
    return " ".join(about(path).split()).split(". ")[0].rstrip(".") + "."


def colab_address(path: Path) -> str | None:
    """Return the address of a notebook in Colab, if the repository is on GitHub."""
    address = (repository() or "").removesuffix(".git").removesuffix("/")
    name = address.removeprefix("https://github.com/")
    return f"{COLAB}/github/{name}/blob/main/notebooks/{path.name}" if name != address else None


def head(path: Path) -> str:
    """Return the first cell: title, badge, goal."""
    link = colab_address(path)
    badge = f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({link})\n\n" if link else ""
    return f"# {title(path)}\n\n{badge}{about(path)}"


def install(path: Path) -> str:
    """Return the second cell, which installs the package in Colab."""
    extra = "sweeps" if any("mbs.sweep(" in text(cell) for cell in cells(path)) else "viz"
    source = f" @ git+{repository()}" if repository() else ""
    return (
        f'import subprocess\nimport sys\n\npackage = "jaxmbs[{extra}]{source}"\n'
        'if "google.colab" in sys.modules:  # elsewhere it is there already\n'
        '    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", package], check=True)'
    )


def table() -> str:
    """Return the table with a row for each lesson."""
    rows = [TABLE_HEAD, "|---|---|"]
    for path in NOTEBOOKS:
        link = colab_address(path)
        colab = f" ([Colab]({link}))" if link else ""
        rows.append(f"| [{title(path)}](../notebooks/{path.name}){colab} | {goal(path)} |")
    return "\n".join(rows)


def main():
    """Write the first two cells of all notebooks and the table of lessons."""
    for path in NOTEBOOKS:
        notebook = json.loads(path.read_text())
        for cell, source in zip(notebook["cells"][:2], (head(path), install(path)), strict=True):
            cell["source"] = source.splitlines(keepends=True)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    before, rest = PAGE.read_text().split(TABLE_HEAD)
    PAGE.write_text(before + table() + "\n\n" + rest.split("\n\n", 1)[1])


if __name__ == "__main__":
    main()
