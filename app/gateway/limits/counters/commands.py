"""Commands that call the scripts, assembled from parts that are encoded once for all requests."""

from collections.abc import Sequence

import msgspec

from app.gateway.limits.counters.resp import array, bulk, command
from app.gateway.limits.counters.scripts import EPOCH, RESERVATION_PREFIX, Scripts

TAKE, FORCE, PREVIEW, ALLOW_UNSEEDED = 0, 1, 2, 4
# Flags of a rule.
DRY_RUN, STAYS_FULL = 1, 2

# Amounts of each resource, needed or spent: requests, input, output and total tokens, cost, leases.
Amounts = tuple[int, int, int, int, int, int]

_encode = msgspec.msgpack.Encoder().encode


class BucketSet:
    """Buckets that are taken from together. `rules` has ten numbers for each; see take.lua."""

    __slots__ = ("_after_settle", "_after_take", "_before_settle", "_before_take", "_lease_ms")

    def __init__(self, scripts: Scripts, lease_ms: int, keys: Sequence[bytes], rules: Sequence[int]) -> None:
        self._lease_ms = lease_ms
        buckets = b"".join(map(bulk, keys))
        count = len(keys)
        self._before_take = array(count + 7) + _evalsha(scripts.take.sha, count + 2) + bulk(EPOCH)
        self._after_take = buckets + bulk(_encode(rules))
        self._before_settle = array(count + 5) + _evalsha(scripts.settle.sha, count + 1)
        self._after_settle = buckets

    def take(self, reservation_id: bytes, need: Amounts, mode: int = TAKE, base: int = 0) -> bytes:
        """Take `need` from every bucket, or from none. `base` says how many buckets the reservation has already."""
        arguments = _encode((mode, base, self._lease_ms, *need))
        return b"%b$%d\r\n%b%b\r\n%b$%d\r\n%b\r\n" % (
            self._before_take,
            len(reservation_id) + 5,
            RESERVATION_PREFIX,
            reservation_id,
            self._after_take,
            len(arguments),
            arguments,
        )

    def settle(self, reservation_id: bytes, spent: Amounts) -> bytes:
        """Settle a reservation in all its buckets: see settle.lua."""
        arguments = _encode(spent)
        return b"%b$%d\r\n%b%b\r\n%b$%d\r\n%b\r\n" % (
            self._before_settle,
            len(reservation_id) + 5,
            RESERVATION_PREFIX,
            reservation_id,
            self._after_settle,
            len(arguments),
            arguments,
        )


def encode_renew(scripts: Scripts, lease_ms: int, leases: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Renew leases: see renew.lua. `leases` has the bucket and the reservation of each."""
    keys = [key for key, _ in leases]
    reservation_ids = [reservation_id for _, reservation_id in leases]
    return command((b"EVALSHA", scripts.renew.sha, b"%d" % (len(keys) + 1), EPOCH, *keys, b"%d" % lease_ms, *reservation_ids))


def encode_seed(scripts: Scripts, key: bytes, born_ms: int, start_ms: int, finish_ms: int, spent: int) -> bytes:
    arguments = _encode((born_ms, start_ms, finish_ms, spent))
    return command((b"EVALSHA", scripts.seed.sha, b"2", EPOCH, key, arguments))


def encode_rebuild(scripts: Scripts, key: bytes, born_ms: int, window_ms: int, used: Sequence[tuple[int, int]]) -> bytes:
    """Add to a window what was used before an epoch: see rebuild.lua. `used` has slots, each with an amount."""
    arguments = _encode([born_ms, window_ms, *(number for pair in used for number in pair)])
    return command((b"EVALSHA", scripts.rebuild.sha, b"2", EPOCH, key, arguments))


def _evalsha(sha: bytes, keys: int) -> bytes:
    return bulk(b"EVALSHA") + bulk(sha) + bulk(b"%d" % keys)
