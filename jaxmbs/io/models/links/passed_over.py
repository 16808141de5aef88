"""Elements of a file that a mechanism does not have: a sentence for each kind, or one error that lists them all."""

from __future__ import annotations

from jaxmbs.io.models.model import ModelError

# Number of elements that a sentence names; it counts the others.
MAX_NAMED = 3


class PassedOver:
    """Elements that cannot be represented, by kind, while a file is read.

    Args:
        strict: True if they are errors.
        ignore: tags of elements that the user leaves out; they are not counted.
    """

    def __init__(self, strict: bool = False, ignore: tuple[str, ...] = ()):
        self.strict, self.ignore = strict, ignore
        self._found: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def add(self, tag: str, element: str, why: str, *, line: str = "", count: int = 1) -> None:
        """Add an element.

        Args:
            tag: its tag, one that `ignore` may name, or another word for its kind.
            element: its name.
            why: a clause that says what is not represented.
            line: its line, such as "line 12".
            count: number of elements, of which `element` names the first.
        """
        if tag not in self.ignore:
            self._found.setdefault((tag, why), []).append((element, f" ({line})" if line else ""))
            self._counts[tag, why] = self._counts.get((tag, why), 0) + count

    def sentences(self) -> tuple[str, ...]:
        """Return a sentence for each kind, such as "tendon: 'T1' and 4 more: they wrap around geoms"."""
        found = []
        for (tag, why), elements in self._found.items():
            named = [element for element, _ in elements[:MAX_NAMED]]
            more = self._counts[tag, why] - len(named)
            found.append(f"{tag}: {', '.join(named)}{f' and {more} more' if more else ''}: {why}")
        return tuple(found)

    def report(self, ignorable: tuple[str, ...]) -> tuple[str, ...]:
        """Return the sentences; raise `ModelError` with all elements if they are errors.

        Args:
            ignorable: tags that `ignore` may name.

        Raises:
            ModelError: there are elements that cannot be represented, and these are errors.
        """
        if not self._found:
            return ()
        if self.strict:
            elements = [f"{tag} {x}{line}: {why}" for (tag, why), found in self._found.items() for x, line in found]
            tags = tuple(dict.fromkeys(tag for tag, _ in self._found if tag in ignorable))
            leave = f", or leave them out with ignore={tags}" if tags else ""
            raise ModelError(f"cannot be represented: {'; '.join(elements)}; load it without strict=True{leave}")
        return self.sentences()
