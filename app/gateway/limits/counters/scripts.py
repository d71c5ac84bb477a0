"""The Lua scripts, and their hashes, by which the server knows them."""

import re
from importlib import resources

from msgspec import Struct

from app.store.redis.redis_url import parse_redis_url
from app.store.redis.scripts import Script, make_script

SETTLE = 8  # the mode of an operation that settles; see batch.lua
EPOCH = b"nx:epoch"
# In a cluster, before the name of each key that limits use: they are all in one slot, so that one script can take from any of them.
CLUSTER_TAG = b"{nx}"
# Hashes of one epoch: the rules whose windows were rebuilt, and the workers whose machines' spools are stored. See rings.lua.
REBUILT_PREFIX, STORED_PREFIX = b"nx:rebuilt:", b"nx:stored:"
RESERVATION_PREFIX = b"nx:t:"

# Constants in the scripts, where a local variable would cost more than its use.
_CONSTANTS = {
    "SLOTS": 17,  # of a ring
    "QUARTER": 900_000,
    "DAY": 86_400_000,
    "MORE": 60_000,  # for which a window is kept beyond what it counts, as the clock may go back
    "REBUILDING": 2_000,  # how long it takes, roughly, to rebuild windows
    "SETTLE": SETTLE,
    "MAX_UNPACKED": 4_000,  # Lua's stack holds 8,000
    "KEEPS_SETTLED": "false",
    "ID_START": len(RESERVATION_PREFIX) + 1,  # of a reservation's id in its key
}
_CONSTANT = re.compile(rf"\b({'|'.join(_CONSTANTS)})\b")

# The first number of a reply to an operation that takes; see take.lua.
TAKEN, REFUSED, FORGOTTEN, UNSEEDED, WRONG_TIME, NOT_TAKEN = range(6)
# Flags of a wait in such a reply.
WAIT_IS_ESTIMATE, WAIT_IS_AFTER_LOSS = 1, 2


class Scripts(Struct, frozen=True):
    """The scripts, for keys that begin with `key_tag`."""

    batch: Script
    renew: Script
    seed: Script
    rebuild: Script
    key_tag: bytes = b""


def read_scripts(clock: str | None = None, key_tag: bytes = b"", *, keeps_settled: bool = False) -> Scripts:
    """Read the scripts. `clock` is Lua that defines `now` in place of clock.lua, for tests.

    `keeps_settled`: a reservation that is settled stays known as such for a minute.
    """
    constants = {**_CONSTANTS, "KEEPS_SETTLED": str(keeps_settled).lower(), "ID_START": len(key_tag + RESERVATION_PREFIX) + 1}
    prelude = (clock or _text("clock")) + _text("rings")

    def script(*names: str) -> Script:
        return make_script(_CONSTANT.sub(lambda name: str(constants[name[0]]), prelude + "".join(map(_text, names))))

    return Scripts(script("buckets", "take", "settle", "batch"), script("renew"), script("seed"), script("rebuild"), key_tag)


def key_tag(redis_url: str) -> bytes:
    """Returns what the keys of limits begin with in the Redis of this address. Raises ValueError for an invalid one."""
    return CLUSTER_TAG if redis_url and parse_redis_url(redis_url).mode == "cluster" else b""


def _text(name: str) -> str:
    return resources.files(__package__ or "").joinpath(f"{name}.lua").read_text()
