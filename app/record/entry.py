"""An entry: one exchange on its way into the spool."""

from typing import Protocol

import msgspec

from app.domain import ContentPolicy, Exchange
from app.record.growing import Growing
from app.record.redact import redact, whole_frames
from app.record.segment import PART_OF_ASK, PART_OF_REPLY


class Keeper(Protocol):
    """Where entries end up: the Spool."""

    def part(self, entry: "Entry", kind: int, data: bytes) -> None: ...

    def end(self, entry: "Entry", exchange: Exchange, ask: bytes, reply: bytes) -> None: ...


class Entry:
    """One exchange as it is recorded. Holds little: what grows beyond `spool_part_bytes` is spilled; what the policy forbids is not held.

    Must be closed, whatever happens: until then it may keep a segment from being finished.
    """

    __slots__ = ("_ask", "_part_bytes", "_policy", "_reply", "_spill_at", "_spool", "closed", "id", "is_lost", "last_part", "segment")

    def __init__(self, spool: Keeper, id: str, policy: ContentPolicy, part_bytes: int) -> None:
        self.id = id
        self.closed = False
        self.is_lost = False
        self.last_part = 0
        self.segment: Growing | None = None
        self._spool = spool
        self._policy: ContentPolicy = policy
        self._part_bytes = part_bytes
        self._spill_at = part_bytes
        self._ask: bytes | bytearray = b""
        self._reply: bytes | bytearray = b""

    @property
    def key(self) -> bytes:
        """What ties the parts together."""
        return bytes.fromhex(self.id.replace("-", ""))

    def ask(self, data: bytes) -> None:
        """The caller's body, at once or in pieces."""
        if self._policy == "none":
            return
        self._ask = _joined(self._ask, data)
        # To be redacted, it must be read whole.
        if len(self._ask) > self._part_bytes and self._policy == "full":
            self._ask = self._spilled(PART_OF_ASK, self._ask)

    def reply(self, data: bytes) -> None:
        """A block, as it goes to the caller."""
        if self._policy == "none":
            return
        self._reply = _joined(self._reply, data)
        if len(self._reply) > self._spill_at:
            self._spill_reply()

    def close(self, exchange: Exchange) -> None:
        """Ends it with one record. A second call does nothing."""
        if self.closed:
            return
        self.closed = True
        ask, reply = self._ask, self._reply
        self._ask = self._reply = b""
        if exchange.content != self._policy:
            exchange = msgspec.structs.replace(exchange, content=self._policy)
        if self._policy == "redacted":
            ask, reply = redact(bytes(ask)), redact(bytes(reply))
            ask = self._spilled(PART_OF_ASK, ask) if len(ask) > self._part_bytes else ask
            reply = self._spilled(PART_OF_REPLY, reply) if len(reply) > self._part_bytes else reply
        self._spool.end(self, exchange, bytes(ask), bytes(reply))

    def _spill_reply(self) -> None:
        if self._policy == "full":
            self._reply = self._spilled(PART_OF_REPLY, self._reply)
            return
        cut = whole_frames(self._reply)
        if cut:
            self._spilled(PART_OF_REPLY, redact(bytes(self._reply[:cut])), to_the_end=True)
            self._reply = self._reply[cut:]
        # A body without frames is held until it is whole; looking for an end of one after each block would cost more with each.
        self._spill_at = max(self._part_bytes, 2 * len(self._reply))

    def _spilled(self, kind: int, data: bytes | bytearray, to_the_end: bool = False) -> bytes:
        """Spills parts of the usual size; what is left."""
        end = len(data) if to_the_end else len(data) - len(data) % self._part_bytes
        view = memoryview(data)
        for start in range(0, end, self._part_bytes):
            if self.is_lost:
                return b""
            self._spool.part(self, kind, bytes(view[start : min(end, start + self._part_bytes)]))
        return b"" if self.is_lost else bytes(view[end:])


def _joined(held: bytes | bytearray, data: bytes) -> bytes | bytearray:
    if not held:
        return data
    if type(held) is bytearray:
        held += data
        return held
    joined = bytearray(held)
    joined += data
    return joined
