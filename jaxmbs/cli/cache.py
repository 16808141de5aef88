"""`jaxmbs cache`: list or clear the compiled programs on disk."""

from __future__ import annotations

from jaxmbs.cli.report import Report
from jaxmbs.programs import active_store


def arguments(parser) -> None:
    """Add the arguments of `jaxmbs cache` to its parser."""
    parser.add_argument("--clear", action="store_true", help="remove all files")


def run(args) -> Report:
    """Report the folder and size of the cache of compiled programs, after clearing it with `--clear`."""
    place = active_store()
    if place is None:
        return Report({"folder": None})
    removed = {"removed": place.clear()} if args.clear else {}
    files = place.files()
    sizes: dict[str, float] = {}
    for path, status in files:
        kind = "XLA" if path.parent != place.folder else path.suffix.removeprefix(".")
        sizes[kind] = sizes.get(kind, 0) + status.st_size / 2**20
    total = sum(sizes.values())
    return Report({"folder": place.folder, **removed, "files": len(files), "megabytes": total, "of which": sizes})
