"""Requests to the scripts: operations on buckets, which are joined (see batches.py), and commands."""

from collections.abc import Sequence
from typing import final

import msgspec
from msgspec import Struct

from app.gateway.limits.counters.scripts import EPOCH, RESERVATION_PREFIX, SETTLE, Scripts
from app.store.redis.resp import bulk

TAKE, FORCE, PREVIEW, ALLOW_UNSEEDED = 0, 1, 2, 4
# Flags of a rule.
DRY_RUN, STAYS_FULL, HAS_OVERRIDE = 1, 2, 4

# Amounts of each resource, needed or spent: requests, input, output and total tokens, cost, leases.
Amounts = tuple[int, int, int, int, int, int]

_encode = msgspec.msgpack.Encoder().encode


class BucketSet:
    """Buckets that are taken from together. `rules`: see take.lua. What is encoded is the same for each batch.

    `key_tag`: with what each key begins in Redis, before its name.
    """

    __slots__ = (
        *("bucket_count", "encoded_epoch", "encoded_key_count", "encoded_keys", "encoded_rules", "id_offset", "id_prefix", "keys"),
        "lease_ms",
    )

    def __init__(self, lease_ms: int, keys: Sequence[bytes], rules: Sequence[int], key_tag: bytes = b"") -> None:
        self.lease_ms = lease_ms
        self.keys = [key_tag + key for key in keys] if key_tag else keys
        self.bucket_count = len(keys)
        self.encoded_epoch = bulk(key_tag + EPOCH)
        self.encoded_keys = self.encoded_epoch + b"".join(map(bulk, self.keys))
        self.id_prefix = key_tag + RESERVATION_PREFIX
        self.id_offset = len(self.id_prefix)
        self.encoded_key_count = bulk(b"%d" % (len(keys) + 2))  # with a reservation
        self.encoded_rules = bulk(_encode(rules))

    def take(self, reservation_id: bytes, need: Amounts, mode: int = TAKE, base: int = 0) -> "Operation":
        """Takes `need` from every bucket, or from none. `base` says how many buckets the reservation has already."""
        return Operation(self, reservation_id, (mode, base, *need))

    def settle(self, reservation_id: bytes, spent: Amounts) -> "Operation":
        """Settles a reservation in all its buckets: see settle.lua."""
        return Operation(self, reservation_id, (SETTLE, 0, *spent))


@final
class Operation(Struct, frozen=True):
    """A change of a reservation in one step, after all earlier operations and before all later ones."""

    bucket_set: BucketSet
    reservation_id: bytes
    numbers: tuple[int, ...]  # see batch.lua


def encode_renew(scripts: Scripts, lease_ms: int, leases: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Renew leases: see renew.lua. `leases` has the bucket and the reservation of each."""
    keys = [scripts.key_tag + key for key, _ in leases]
    reservation_ids = [reservation_id for _, reservation_id in leases]
    keys.insert(0, scripts.key_tag + EPOCH)
    return scripts.renew.call_by_hash(keys, (b"%d" % lease_ms, *reservation_ids))


def encode_seed(scripts: Scripts, key: bytes, born_ms: int, start_ms: int, finish_ms: int, spent: int) -> bytes:
    arguments = _encode((born_ms, start_ms, finish_ms, spent))
    return scripts.seed.call_by_hash((scripts.key_tag + EPOCH, scripts.key_tag + key), (arguments,))


def encode_rebuild(scripts: Scripts, key: bytes, born_ms: int, window_ms: int, used: Sequence[tuple[int, int]]) -> bytes:
    """Add to a window what was used before an epoch: see rebuild.lua. `used` has slots, each with an amount."""
    arguments = _encode([born_ms, window_ms, *(number for pair in used for number in pair)])
    return scripts.rebuild.call_by_hash((scripts.key_tag + EPOCH, scripts.key_tag + key), (arguments,))
