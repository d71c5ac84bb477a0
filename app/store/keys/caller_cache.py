"""A cache of callers by the hash of their key; the least recently used are evicted first."""

from collections.abc import Callable, Mapping

from app.domain.callers import Caller


class CallerCache:
    """A cache of at most `max_callers` callers, in two halves.

    An entry that is used moves to the newer half; when that is full, the older half is evicted. So the most
    recently used half is always there, and a key in frequent use costs one look-up in one dict. `initial`
    holds the first entries, in the order of all_callers(). `on_evicted` is called when a half was evicted.
    """

    def __init__(self, max_callers: int, initial: Mapping[bytes, Caller], on_evicted: Callable[[], None]) -> None:
        self._half_size = max(max_callers // 2, 1)
        self._on_evicted = on_evicted
        latest = list(initial.items())[-2 * self._half_size :]
        self._newer: dict[bytes, Caller] = dict(latest[-self._half_size :])
        self._older: dict[bytes, Caller] = dict(latest[: -self._half_size])

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)

    def get(self, hash: bytes) -> Caller | None:
        caller = self._newer.get(hash)
        if caller is None and self._older:
            caller = self._older.get(hash)
            if caller is not None:
                self.put(hash, caller)
        return caller

    def put(self, hash: bytes, caller: Caller) -> None:
        self._older.pop(hash, None)
        self._newer[hash] = caller
        if len(self._newer) > self._half_size:
            self._older, self._newer = self._newer, {}
            self._on_evicted()

    def peek(self, hash: bytes) -> Caller | None:
        """Like get(), but does not count as use."""
        return self._newer.get(hash) or self._older.get(hash)

    def pop(self, hash: bytes) -> bool:
        """Remove an entry; returns whether it was there."""
        return self._newer.pop(hash, None) is not None or self._older.pop(hash, None) is not None

    def all_callers(self) -> dict[bytes, Caller]:
        """All entries, the less recently used half first."""
        return {**self._older, **self._newer}
