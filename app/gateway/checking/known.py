"""What was found of contents, by the contents themselves: bounded in number and in bytes, the longest unused given up first."""

from typing import Generic, TypeVar

T = TypeVar("T")

# To hash 100 kB takes longer than the whole look-up may; to compare them does not.
_SAMPLED_FROM_BYTES = 8_192
_SAMPLES = 64
_MOST_ALIKE = 8


class Known(Generic[T]):
    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._found: dict[bytes, list[tuple[bytes, T]]] = {}
        self._count = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return self._count

    def get(self, content: bytes) -> T | None:
        """None: not known."""
        sample = _sample(content)
        alike = self._found.pop(sample, None)
        if alike is None:
            return None
        self._found[sample] = alike  # at the end: used last
        for known, value in alike:
            if known == content:
                return value
        return None

    def put(self, content: bytes, value: T) -> None:
        if len(content) > self._most_bytes:
            return
        sample = _sample(content)
        alike = self._found.pop(sample, [])
        if len(alike) >= _MOST_ALIKE:
            self._forget(alike)
        alike.append((content, value))
        self._found[sample] = alike
        self._count += 1
        self.size_bytes += len(content)
        while self._count > self._most or self.size_bytes > self._most_bytes:
            unused = next(iter(self._found))
            self._forget(self._found[unused])
            if not self._found[unused]:
                del self._found[unused]

    def _forget(self, alike: list[tuple[bytes, T]]) -> None:
        content, _ = alike.pop(0)
        self._count -= 1
        self.size_bytes -= len(content)


def _sample(content: bytes) -> bytes:
    """What finds a content among others: all of a short one, of a long one its length, its ends and some bytes in between."""
    size = len(content)
    if size < _SAMPLED_FROM_BYTES:
        return content
    return b"%d:%b%b%b" % (size, content[:256], content[:: size // _SAMPLES], content[-256:])
