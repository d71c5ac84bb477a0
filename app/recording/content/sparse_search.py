"""Search for what is rare in a text, and may be everywhere in a hostile one, in time that grows with the text and no faster.

RE2 reads text without a match at hundreds of megabytes a second, and takes microseconds for each match. Python's own engine takes a
tenth of that for a match, and far longer for text without one. So RE2 finds where something may be, and `re` looks there.
"""

import re
from collections.abc import Callable, Iterator

from app.store.keys.mask_rules import Pattern

Span = tuple[int, int]
# Checks what the exact pattern has found: the place, or None, and from where to look on.
Check = Callable[[bytes, int, int], tuple[Span | None, int]]

_WINDOW_BYTES = 512
MAX_MATCH_BYTES = 128
# Patterns of our own, which are known to be small.
_MEMORY_BYTES = 4 * 1024 * 1024


class SparseSearch:
    """A search in two steps: RE2 finds where a match may be, and `re` looks there.

    `rough` is for RE2, on bytes; it matches wherever `exact` does, or begins a byte earlier. `exact` matches
    up to MAX_MATCH_BYTES, with what it looks at behind a match.
    """

    def __init__(self, rough: bytes, exact: bytes, check: Check) -> None:
        self._rough = Pattern(rough.decode(), max_memory_bytes=_MEMORY_BYTES, is_text=False)
        self.exact = re.compile(exact)
        self._check = check

    def find_all(self, text: bytes) -> Iterator[Span]:
        at = 0
        # A byte earlier: the rough pattern may need the byte before a match.
        while (found := self._rough.find(text, max(at - 1, 0))) is not None:
            at = max(at, found[0])
            end = at + _WINDOW_BYTES
            while at < end and (match := self.exact.search(text, at, end + MAX_MATCH_BYTES)) is not None and match.start() < end:
                span, at = self._check(text, *match.span())
                if span is not None:
                    yield span
            at = max(at, end)
