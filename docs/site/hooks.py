"""Pages that are made when the site is built: elements, gallery of examples, reference, and the linkages to drag."""

import importlib
import inspect
import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

import jaxmbs as mbs
from jaxmbs import planar, spatial
from jaxmbs.io.models.json_format import elements as types

sys.path.insert(0, str(Path(__file__).parent))
import catalogue
import dragged
import element_pictures
import figures
import formulas
import interface
import lesson_pages
import lessons
import number_markers

jax.config.update("jax_enable_x64", True)
mpl.use("Agg")

# Folder of the repository.
ROOT = Path(__file__).parent.parent.parent
# Module and catalogue of examples of the elements of the plane and of space.
SPACES = {"planar": (planar, catalogue.PLANAR), "spatial": (spatial, catalogue.SPATIAL)}
# Modules of the reference pages, with their titles.
MODULES = {
    "jaxmbs": "The front door", "jaxmbs.planar": "Planar elements", "jaxmbs.spatial": "Spatial elements",
    "jaxmbs.motion": "Motions", "jaxmbs.forces": "Forces", "jaxmbs.synthesis": "Synthesis",
    "jaxmbs.identification": "Identification",
    "jaxmbs.system.topology": "Topology", "jaxmbs.numerics.rotation": "Rotations", "jaxmbs.io": "Files",
    "jaxmbs.env": "Environments", "jaxmbs.sweeps": "Large studies", "jaxmbs.viz": "Pictures",
}  # fmt: skip
# Section of the first page of the reference about types in signatures.
TYPES = """## Types

Types of arrays name their shapes, as in [jaxtyping](https://docs.kidger.site/jaxtyping/).

| type | values |
|---|---|
| `Float[Array, "T n"]` | array of floating-point numbers, T rows and n columns |
| `Float[Array, ""]` | one number, as an array without axes |
| `Float[Array, "*batch n"]` | any number of axes, then one of length n |
| `Int[Array, "…"]`, `Bool[Array, "…"]` | whole numbers, truth values |
| `Float[ArrayLike, "3"]` | numbers that become such an array: a tuple, a list, an array of NumPy or JAX |
| `ArrayLike` | a number or an array |
| `Coordinates` | q (n,), a mapping of names to coordinates, or an `Assembly`; see `Mechanism.coordinates` |
| `Named` | a mapping of names to elements, or pairs of a name and an element |
| `Names` | a name, or several names |

n is the number of coordinates, m the number of velocities, rows the number of constraint equations, T the number of
times, d the dimension, 2 or 3. Angles are in radians. All other quantities are in any consistent units of length, mass,
time and force; environments have SI units."""


@event_priority(100)
def on_files(files, config):
    """Add generated pages."""
    add = lambda path, **content: files.append(File.generated(config, path, **content))
    for space, (module, groups) in SPACES.items():
        links = []
        for group, entries in groups.items():
            links.append(f"\n## {group}\n")
            for name, entry in entries.items():
                add(f"elements/images/{space}_{name}.svg", content=picture(space, entry))
                add(f"elements/{space}_{name}.md", content=element_page(space, name, getattr(module, name), entry))
                links.append(f"- [{name}]({space}_{name}.md): {first_line(getattr(module, name))}")
        title = {"planar": "Elements of the plane", "spatial": "Elements of space"}[space]
        add(f"elements/{space}.md", content=f"# {title}\n" + "\n".join(links) + "\n")
    for path, text in gallery().items():
        add(path, content=text)
    for name in figures.FIGURES:
        add(f"images/{name}.svg", content=figures.svg(name))
    for name, text in dragged.pages().items():
        add(f"interactive/{name}.html", content=text)
    for path in lessons.NOTEBOOKS:
        text, outputs = lesson_pages.page(path)
        add(f"lessons/{path.stem}.md", content=text)
        add(f"lessons/{path.name}", abs_src_path=str(path))
        for name, content in outputs.items():
            add(name, content=content)
    for name, title in MODULES.items():
        add(f"reference/{name}.md", content=reference(name, title))
    add("reference/api.md", content=interface.page(interface.FILE.read_text("utf-8")))
    for path in sorted((ROOT / "benchmarks").glob("*.png")):
        add(f"images/{path.name}", abs_src_path=str(path))
    modules = bullet_list(f"[{title}]({name}.md): `{name}`" for name, title in MODULES.items())
    modules += "\n- [Interface](api.md): all names on one page, and what may be relied on"
    presumed = (inspect.getdoc(mbs) or "").partition("\n\n")[2]
    listing = f"# Reference\n\nFrom the docstrings.\n\n{modules}\n\n{TYPES}\n\n## Examples\n\n{presumed}\n"
    add("reference/index.md", content=listing)
    return files


def on_page_markdown(markdown, page, config, files):
    """Insert numbers, and replace links out of `docs`: to pages of examples, to notebooks, to a copied picture."""
    markdown = number_markers.without_markers(number_markers.insert(markdown, number_markers.Values()))
    markdown = re.sub(r"\(\.\./((?:\.\./)*)examples/([0-9]\w*)\.py\)", r"(\1gallery/\2.md)", markdown)
    markdown = re.sub(r"\(\.\./((?:\.\./)*)notebooks/(\w+)\.ipynb\)", r"(\1lessons/\2.md)", markdown)
    return re.sub(r"\(\.\./benchmarks/(\w+\.png)\)", r"(images/\1)", markdown)


def on_page_content(page_html, page, config, files):
    """Show formulas."""
    return formulas.with_mathml(page_html)


def mechanism(space: str, entry):
    """Return the mechanism of an entry, and its q assembled near the guess."""
    names = {"planar": planar, "spatial": spatial, "mbs": mbs, "jnp": jnp}
    element = eval(entry.code, names)
    # Bodies are slender, because pictures draw them by their inertia.
    body = planar.Body() if space == "planar" else spatial.Body(1.0, (1e-4, 2e-3, 2e-3))
    bodies = {name: body for name in ("a", "b") if name in entry.guess}
    driver = "Driver" in type(element).__name__
    name = "cam" if "cam" in entry.guess else "element"
    mech = mbs.Mechanism(
        bodies, eval(entry.context, names) | ({} if driver else {name: element}), {name: element} if driver else {}
    )
    return mech, mbs.assemble(mech, entry.guess, throw=True).q


def picture(space: str, entry) -> str:
    """Return the picture of an entry as SVG."""
    mech, q = mechanism(space, entry)
    elements = {**mech.constraints, **mech.drivers}
    element = elements["cam" if "cam" in entry.guess else "element"]
    return element_pictures.picture(mech, q, element, entry.points)


def element_page(space: str, name: str, own: type, entry) -> str:
    """Return the page of an element: description, code, equations, reaction, arguments, example."""
    doc = inspect.getdoc(own) or ""
    about, example = doc.partition("Args:")[0], inspect.cleandoc("\n" + doc.partition("Examples:\n")[2])
    mech, _ = mechanism(space, entry)
    element = next(x for x in (*mech.drivers.values(), *mech.constraints.values()) if type(x) is own)
    extra = len(element.extra)
    more = f", with {extra} coordinate{'s' * (extra > 1)} of its own" if extra else ""
    facts = [f"**Equations**: {element.rows}{more}"]
    if element.freedom is not None:
        facts.append(f"**Freedom** of b on a: {element.freedom}")
    facts.append(f"**Reaction**: {entry.reaction}")
    parts = [
        f"# {name}",
        about.strip(),
        f"![{name}](images/{space}_{name}.svg)",
        f"```python\n{entry.code}\n```",
        bullet_list(facts),
        "Rows of Φ_q and right sides follow from the residual by differentiation; a reaction is Φ_qᵀλ, on body b from "
        "body a. `mbs.reactions(mech, run)[name]` has `.force`, `.torque`, `.components`. See [dynamics](../dynamics.md).",
    ]
    parts += ["## Arguments", bullet_list(arguments_of(own)), "## Example", f"```pycon\n{example}\n```"]
    return "\n\n".join(parts)


def arguments_of(own: type) -> list[str]:
    """Return the arguments of an element by its docstring, or that of a base class; else their names."""
    for kind in own.__mro__:
        text = inspect.cleandoc(kind.__doc__ or "").partition("Args:")[2]
        if text.strip():
            return items(text)
    return [f"`{name}`" for name in types.arguments_of(own)]


def bullet_list(lines) -> str:
    """Return lines as a list in Markdown."""
    return "\n".join(f"- {line}" for line in lines)


def items(arguments: str) -> list[str]:
    """Return the entries of a section of arguments, each as one line of Markdown."""
    found: list[str] = []
    for line in inspect.cleandoc("\n" + arguments.strip("\n").split("\n\n")[0]).splitlines():
        if not line.strip():
            break
        if not line.startswith(" ") and ":" in line:
            names, _, rest = line.partition(":")
            found.append(f"`{names}`:{rest}")
        elif found:
            found[-1] += f" {line.strip()}"
        else:
            found.append(line.strip())
    return found


def first_line(own: type) -> str:
    """Return the first paragraph of a docstring, shortened."""
    text = " ".join((inspect.getdoc(own) or "").split("\n\n")[0].split())
    return text if len(text) < 140 else text[: text.rfind(" ", 0, 140)] + " …"


def gallery() -> dict[str, str]:
    """Return the page of all examples, and one for each with its code, by path."""
    pages, table = {}, (ROOT / "examples" / "README.md").read_text()
    for path in sorted((ROOT / "examples").glob("[0-9]*.py")):
        source = path.read_text()
        about = inspect.cleandoc(source.split('"""')[1])
        shown = re.findall(r"!\[[^\]]*\]\(\.\./docs/images/[^)]*\)", table)
        own = [image for image in shown if Path(image.split("/")[-1][:-1]).stem in path.stem]
        if (ROOT / "docs" / "players" / f"{path.stem}.html").exists():
            own = [image for image in own if not image.endswith(".gif)")]
            own.insert(0, f'<iframe class="player" src="../players/{path.stem}.html" title="{path.stem}"></iframe>')
        images = "\n\n".join(image.replace("../docs/", "../") for image in own)
        pages[f"gallery/{path.stem}.md"] = f"# {about.split(':')[0]}\n\n{about}\n\n{images}\n\n```python\n{source}```\n"
    text = table.replace("# Examples", "# Gallery", 1).replace("../docs/images/", "../images/")
    pages["gallery/index.md"] = re.sub(r"\(([0-9]\w*)\.py\)", r"(\1.md)", text)
    return pages


def reference(name: str, title: str) -> str:
    """Return the reference of a module: every public name."""
    module = importlib.import_module(name)
    public = getattr(module, "__all__", None) or [
        x for x, value in vars(module).items()
        if not x.startswith("_") and (inspect.isclass(value) or inspect.isfunction(inspect.unwrap(value)))
        and (value.__module__ or "").startswith("jaxmbs")
        and (name != "jaxmbs" or not value.__module__.startswith("jaxmbs.forces"))
    ]  # fmt: skip
    if name in ("jaxmbs.motion", "jaxmbs.forces", "jaxmbs.system.topology", "jaxmbs.numerics.rotation"):
        public = [x for x in public if vars(module)[x].__module__.startswith(name)]
    parts = [f"# {title}\n\n`{name}`"]
    for x in public:
        value = vars(module)[x]
        options = "      show_root_heading: true\n      heading_level: 2"
        parts.append(f"::: {value.__module__}.{value.__qualname__}\n    options:\n{options}")
    return "\n\n".join(parts) + "\n"
