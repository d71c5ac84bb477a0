"""Memory for bodies: how many bytes the requests in progress may hold, for each key, each team, and all of this worker's together.

A body counts from its head on, with the size that the head declares, until its request has ended. Bodies that came at once and are
small are not counted: connections bound them.
"""

from collections import Counter

from app.domain import Caller
from app.settings import Settings
from providers.canonical.errors import BodyMemoryExceeded, Unavailable

# What an upload counts at least, however little of it has come: a connection may buffer as much.
_MIN_CLAIM_BYTES = 64 * 1024
_RETRY_AFTER_S = 1


class BodyMemory:
    """One for each worker."""

    def __init__(self, settings: Settings) -> None:
        self.max_key_bytes = settings.bodies_max_bytes_key
        self.max_team_bytes = settings.bodies_max_bytes_team
        self.max_worker_bytes = settings.bodies_max_bytes_worker
        self.worker_bytes = 0
        self.team_bytes: Counter[str] = Counter()
        self.key_bytes: Counter[str] = Counter()

    def claim(self, caller: Caller) -> "BodyClaim":
        """A claim of nothing, which the bodies of one request enlarge, and which is to be released."""
        return BodyClaim(self, caller)


class BodyClaim:
    """The bytes of one request. `size_bytes`: how many are claimed."""

    __slots__ = ("_key_id", "_memory", "_team_id", "size_bytes")

    def __init__(self, memory: BodyMemory, caller: Caller) -> None:
        self._memory = memory
        self._team_id = caller.team_id
        self._key_id = caller.key_id
        self.size_bytes = 0

    def grow_to(self, size_bytes: int) -> None:
        """Claims as much in all. Raises as add() does."""
        self.add(max(size_bytes, _MIN_CLAIM_BYTES) - self.size_bytes)

    def add(self, more_bytes: int) -> None:
        """Claims more. A request that alone holds something is never refused, so that each body can be sent at some time.

        Raises BodyMemoryExceeded for the key or the team, Unavailable for the worker; the claim is then unchanged.
        """
        if more_bytes <= 0:
            return
        memory = self._memory
        if self._exceeds(memory.key_bytes[self._key_id], more_bytes, memory.max_key_bytes):
            raise _exceeded("this key", memory.max_key_bytes)
        if self._exceeds(memory.team_bytes[self._team_id], more_bytes, memory.max_team_bytes):
            raise _exceeded("your team", memory.max_team_bytes)
        if self._exceeds(memory.worker_bytes, more_bytes, memory.max_worker_bytes):
            raise Unavailable("The gateway has no memory for this body at the moment: try again.", retry_after_s=_RETRY_AFTER_S)
        self._change(more_bytes)

    def release(self) -> None:
        self._change(-self.size_bytes)

    def _exceeds(self, held_bytes: int, more_bytes: int, max_bytes: int) -> bool:
        return held_bytes > self.size_bytes and held_bytes + more_bytes > max_bytes

    def _change(self, more_bytes: int) -> None:
        memory = self._memory
        self.size_bytes += more_bytes
        memory.worker_bytes += more_bytes
        for counter, id in ((memory.team_bytes, self._team_id), (memory.key_bytes, self._key_id)):
            counter[id] += more_bytes
            if not counter[id]:
                del counter[id]


def _exceeded(holder: str, max_bytes: int) -> BodyMemoryExceeded:
    return BodyMemoryExceeded(
        f"The requests of {holder} that are being received or answered may hold {max_bytes} bytes of bodies together in one gateway"
        " process, and this one exceeds that: try again when another has ended, or send fewer at a time.",
        retry_after_s=_RETRY_AFTER_S,
    )
