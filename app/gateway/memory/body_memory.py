"""Memory for bodies: how many bytes the requests in progress may hold, for each key, each team, and all of this worker's together.

A body counts from its head on, until its request has ended: for its key and its team with the size that the head declares, so that
uploads which cannot all be completed are refused before they begin. For the worker it counts with what has come of it: declaring a
size costs nothing, and must not take memory from other teams.

Of the worker's memory a team may hold at most twice as much as is left, after Choudhury and Hahne's dynamic thresholds
(https://doi.org/10.1109/90.664262, read 2026-11): so a few teams that hold all they may still leave some for whoever comes next.

Bodies of up to UNCOUNTED_BYTES are not counted: connections bound them.
"""

from collections import Counter

from app.domain.callers import Caller
from app.settings import Settings
from providers.canonical.errors import BodyMemoryExceeded, Unavailable

UNCOUNTED_BYTES = 64 * 1024
# What an upload counts at least for its key and team, however little of it has come: a connection may buffer as much.
_MIN_DECLARED_BYTES = 64 * 1024
_SHARE_OF_REST = 2
_RETRY_AFTER_S = 1


class BodyMemory:
    """The memory that bodies take in one worker."""

    def __init__(self, settings: Settings) -> None:
        self.max_key_bytes = settings.bodies_max_bytes_key
        self.max_team_bytes = settings.bodies_max_bytes_team
        self.max_worker_bytes = settings.bodies_max_bytes_worker
        self.held_bytes = 0  # what has come of all bodies
        self.held_of_teams: Counter[str] = Counter()
        self.of_teams: Counter[str] = Counter()  # what the bodies of each have come to, or declared
        self.of_keys: Counter[str] = Counter()  # what the bodies of each have come to, or declared

    def claim(self, caller: Caller) -> "BodyClaim":
        """A claim of nothing, which the bodies of one request enlarge, and which is to be released."""
        return BodyClaim(self, caller)


class BodyClaim:
    """The bytes of one request."""

    __slots__ = ("_key_id", "_memory", "_team_id", "declared_bytes", "size_bytes")

    def __init__(self, memory: BodyMemory, caller: Caller) -> None:
        self._memory = memory
        self._team_id = caller.team_id
        self._key_id = caller.key_id
        self.declared_bytes = 0  # how many are to come in all, as far as is known
        self.size_bytes = 0  # how many have come

    def declare(self, size_bytes: int) -> None:
        """Claims as much for the key and the team, before any of it has come. Raises as add() does, also where the worker has no room."""
        undeclared_bytes = max(size_bytes, _MIN_DECLARED_BYTES) - self.declared_bytes
        self._check_declared(undeclared_bytes)
        self._check_held(size_bytes)
        self._change_declared(max(undeclared_bytes, 0))

    def grow_to(self, size_bytes: int) -> None:
        """Notes that `size_bytes` have come in all. Raises as add() does."""
        self.add(size_bytes - self.size_bytes)

    def add(self, more_bytes: int) -> None:
        """More bytes have come. A request that alone holds something is never refused, so that each body can be sent at some time.

        Raises BodyMemoryExceeded for the key or the team, Unavailable for the worker; the claim is then unchanged.
        """
        if more_bytes <= 0:
            return
        undeclared_bytes = self.size_bytes + more_bytes - self.declared_bytes
        self._check_declared(undeclared_bytes)
        self._check_held(more_bytes)
        self._change_declared(max(undeclared_bytes, 0))
        self._change_held(more_bytes)

    def release(self) -> None:
        self._change_declared(-self.declared_bytes)
        self._change_held(-self.size_bytes)

    def _check_declared(self, more_bytes: int) -> None:
        memory = self._memory
        if self._exceeds(memory.of_keys[self._key_id], more_bytes, memory.max_key_bytes):
            raise _exceeded("this key", memory.max_key_bytes)
        if self._exceeds(memory.of_teams[self._team_id], more_bytes, memory.max_team_bytes):
            raise _exceeded("your team", memory.max_team_bytes)

    def _exceeds(self, declared_bytes: int, more_bytes: int, max_bytes: int) -> bool:
        return more_bytes > 0 and declared_bytes > self.declared_bytes and declared_bytes + more_bytes > max_bytes

    def _check_held(self, more_bytes: int) -> None:
        memory, of_team = self._memory, self._memory.held_of_teams[self._team_id]
        rest_bytes = memory.max_worker_bytes - memory.held_bytes
        is_full = memory.held_bytes > self.size_bytes and more_bytes > rest_bytes
        if is_full or (of_team > self.size_bytes and of_team + more_bytes > _SHARE_OF_REST * rest_bytes):
            raise Unavailable("The gateway has no memory for this body at the moment: try again.", retry_after_s=_RETRY_AFTER_S)

    def _change_declared(self, more_bytes: int) -> None:
        self.declared_bytes += more_bytes
        _change(self._memory.of_teams, self._team_id, more_bytes)
        _change(self._memory.of_keys, self._key_id, more_bytes)

    def _change_held(self, more_bytes: int) -> None:
        self.size_bytes += more_bytes
        self._memory.held_bytes += more_bytes
        _change(self._memory.held_of_teams, self._team_id, more_bytes)


def _change(counter: Counter[str], id: str, more_bytes: int) -> None:
    counter[id] += more_bytes
    if not counter[id]:
        del counter[id]


def _exceeded(holder: str, max_bytes: int) -> BodyMemoryExceeded:
    return BodyMemoryExceeded(
        f"The requests of {holder} that are being received or answered may hold {max_bytes} bytes of bodies together in one gateway"
        " process, and this one exceeds that: try again when another has ended, or send fewer at a time.",
        retry_after_s=_RETRY_AFTER_S,
    )
