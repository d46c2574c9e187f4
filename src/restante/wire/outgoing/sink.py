"""A file for writers that want one, whose content is taken away as it comes."""

from __future__ import annotations

from collections.abc import Iterator


class Sink:
    """A file to write to, which remembers only what was written since it was last asked."""

    closed = False

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, content: bytes) -> int:
        self._written.append(bytes(content))
        return len(content)

    def taken(self) -> Iterator[bytes]:
        written, self._written = self._written, []
        if written:
            yield b"".join(written)

    def flush(self) -> None:
        """Do nothing: a sink holds nothing back."""

    def close(self) -> None:
        self.closed = True
