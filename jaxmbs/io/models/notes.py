"""Notes that a reader takes of an XML file: elements that it passes over, and errors, with their lines."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from xml.etree.ElementTree import Element

from jaxmbs.io.models.links.passed_over import PassedOver
from jaxmbs.io.models.model import ModelError
from jaxmbs.io.models.options import ReadOptions
from jaxmbs.io.models.xml_lines import line_of

# Number of errors in one message.
MAX_ERRORS = 20


class Notes:
    """Notes of the reader of one file.

    Args:
        options: the options of `load`.

    Attributes:
        passed_over: the elements that are passed over.
    """

    def __init__(self, options: ReadOptions):
        self.passed_over = PassedOver(options.strict, tuple(options.ignore))
        self._tags: dict[str, None] = {}
        self._errors: list[tuple[int, str]] = []

    def check_ignore(self, root: Element, known: Collection[str]) -> None:
        """Raise `ModelError` for tags to be ignored that are neither known nor in the file."""
        tags = {*known, *(element.tag for element in root.iter())}
        for tag in self.passed_over.ignore:
            if tag not in tags:
                raise ModelError(f"{tag!r} cannot be ignored: the file has no such tag; known are {', '.join(known)}")

    def pass_over(self, tag: str, name: str, element: Element | None, reason: str) -> None:
        """Record that an element is passed over.

        Args:
            tag: the tag by which `ignore` knows it.
            name: its name, or that of its owner, such as "link 'arm'".
            element: the element.
            reason: a clause that says why.
        """
        self._tags[tag] = None
        self.passed_over.add(tag, f"{name} (line {line_of(element)})".lstrip(), reason)

    @contextlib.contextmanager
    def errors_of(self, element: Element) -> Iterator[None]:
        """Collect a `ModelError` that is raised inside, with the line of the element."""
        try:
            yield
        except ModelError as error:
            self._errors.append((line_of(element), str(error)))

    @property
    def has_errors(self) -> bool:
        """True if an error was collected."""
        return bool(self._errors)

    def check(self) -> tuple[str, ...]:
        """Return a sentence for each kind of element that is passed over.

        Raises:
            ModelError: all errors in one message; if `strict` is set, with the elements that are passed over.
        """
        found = [f"line {line}: {text}" for line, text in sorted(self._errors)]
        if len(found) > MAX_ERRORS:
            found[MAX_ERRORS:] = [f"and {len(found) - MAX_ERRORS} more errors"]
        sentences: tuple[str, ...] = ()
        try:
            sentences = self.passed_over.report(tuple(self._tags))
        except ModelError as error:
            found.append(str(error))
        if found:
            raise ModelError("; ".join(found))
        return sentences
