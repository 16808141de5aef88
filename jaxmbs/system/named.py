"""Results of elements, by the names of the elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import jax

from jaxmbs.element import unknown


class AbstractNamed(Mapping[str, Any]):
    """An ordered mapping of names to results; a pytree. A subclass defines `__getitem__`, and `kind` for messages."""

    kind: ClassVar[str]

    def __init__(self, by_name: dict[str, Any]):
        self._by_name = dict(by_name)

    def __init_subclass__(cls) -> None:
        jax.tree_util.register_pytree_node(
            cls,
            lambda named: (tuple(named._by_name.values()), tuple(named._by_name)),
            lambda names, values: cls(dict(zip(names, values, strict=True))),
        )

    def named(self, name: Any) -> Any:
        """Return the result of the element with this name.

        Raises:
            KeyError: there is no such element.
        """
        if name not in self._by_name:
            raise KeyError(unknown(self.kind, name, self._by_name))
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._by_name)})"
