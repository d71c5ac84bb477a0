"""Callers by the hash of their key, as many as may be remembered: those used least recently are forgotten first."""

from collections.abc import Callable, Mapping

from app.domain import Caller


class CallerCache:
    """At most `most`, and one: in two halves. What is used moves into the newer one; when that is full, the older one is forgotten.

    So the half of them that was used last is always there, and a key that is used much costs one look into one dict. `met`: what is
    remembered at the start, in the order of `everything`. `on_forgotten` is called when an older half has gone.
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
        """Without using it."""
        return self._newer.get(hash) or self._older.get(hash)

    def pop(self, hash: bytes) -> bool:
        """Whether it was there."""
        return self._newer.pop(hash, None) is not None or self._older.pop(hash, None) is not None

    def all_callers(self) -> dict[bytes, Caller]:
        """The half that was used less recently comes first."""
        return {**self._older, **self._newer}
