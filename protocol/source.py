"""Python source under construction: indented lines, fresh names, and the constants that lines refer to."""

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """One generated module: its lines, and the namespace in which they will run."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._counter = 0
        self._constants: dict[object, str] = {}

    def line(self, text: str) -> None:
        """Add one line at the current depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line that opens a block; what is added inside is indented."""
        self.line(head)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A name not used before in this module."""
        self._counter += 1
        return f"{stem}{self._counter}"

    def constant(self, stem: str, key: object, make: Callable[[], object]) -> str:
        """The name of a constant; the same key gives the same name."""
        if key not in self._constants:
            name = self._constants[key] = self.fresh(stem)
            self.names[name] = make()
        return self._constants[key]

    def build(self, name: str, title: str) -> Any:
        """Compile the module and return what it calls `name`; tracebacks show its lines under `title`."""
        text = "\n".join(self._lines) + "\n"
        filename = f"<generated {title}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        exec(compile(text, filename, "exec"), self.names)
        return self.names[name]
