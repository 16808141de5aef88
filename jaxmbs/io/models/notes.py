"""Notes that a reader takes of a file: elements that it passes over, and errors with their lines."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

from jaxmbs.io.models.model import ModelError
from jaxmbs.io.models.options import ReadOptions
from jaxmbs.io.models.xml_lines import LineElement

# Number of names in a sentence about elements of one kind.
MAX_NAMES = 3
# Number of errors in one message.
MAX_ERRORS = 20


class Notes:
    """Notes of the reader of one file.

    Args:
        options: the options of `load`.
    """

    def __init__(self, options: ReadOptions):
        self._options = options
        self._passed_over: dict[tuple[str, str, str], list[tuple[str, int]]] = {}
        self._errors: list[tuple[int, str]] = []

    def check_ignore(self, root: LineElement, known: Collection[str]) -> None:
        """Raise `ModelError` for tags to be ignored that are neither known nor in the file."""
        tags = {*known, *(element.tag for element in root.iter())}
        for tag in self._options.ignore:
            if tag not in tags:
                raise ModelError(f"{tag!r} cannot be ignored: the file has no such tag; known are {', '.join(known)}")

    def pass_over(self, kind: str, element: LineElement, name: str = "", *, reason: str, tag: str = "") -> None:
        """Take down that an element is passed over, unless `ignore` has its tag.

        Args:
            kind: the kind, such as "damping of fixed joints".
            element: the element.
            name: name of the element or of its owner.
            reason: the reason, without a full stop.
            tag: the name by which `ignore` knows it; the tag of the element unless given.
        """
        tag = tag or element.tag
        if tag not in self._options.ignore:
            self._passed_over.setdefault((kind, reason, tag), []).append((name, element.line))

    @contextlib.contextmanager
    def errors_of(self, element: LineElement) -> Iterator[None]:
        """Collect a `ModelError` that is raised inside, with the line of the element."""
        try:
            yield
        except ModelError as error:
            self._errors.append((element.line, str(error)))

    def check(self) -> None:
        """Raise all errors in one `ModelError`; if `strict` is set, elements that are passed over are errors."""
        errors = list(self._errors)
        if self._options.strict:
            for (kind, reason, tag), found in self._passed_over.items():
                of = _names(found)
                errors.append((found[0][1], f"{kind}{of}: {reason}; leave it out with ignore=({tag!r},)"))
        if errors:
            shown = [f"line {line}: {text}" for line, text in sorted(errors)[:MAX_ERRORS]]
            more = [f"and {len(errors) - MAX_ERRORS} more errors"] if len(errors) > MAX_ERRORS else []
            raise ModelError("; ".join(shown + more))

    @property
    def sentences(self) -> tuple[str, ...]:
        """A sentence for each kind of element that was passed over."""
        return tuple(f"{kind}{_names(found)}: {reason}" for (kind, reason, _), found in self._passed_over.items())


def _names(found: list[tuple[str, int]]) -> str:
    """Return the number of elements and the first names, such as " (12: 'a', 'b', 'c', …)"."""
    names = list(dict.fromkeys(repr(name) for name, _ in found if name))
    listed = ", ".join(names[:MAX_NAMES]) + (", …" if len(names) > MAX_NAMES else "")
    return f" ({len(found)}: {listed})" if listed else f" ({len(found)})"
