"""The Lua scripts, and their hashes, by which the server knows them."""

import hashlib
from importlib import resources

from msgspec import Struct

EPOCH = b"nx:epoch"
# Hashes of one epoch: the rules whose windows were rebuilt, and the workers whose machines' spools are stored. See rings.lua.
REBUILT_PREFIX, STORED_PREFIX = b"nx:rebuilt:", b"nx:stored:"
RESERVATION_PREFIX = b"nx:t:"

# The first number of a reply of take; see take.lua.
TAKEN, REFUSED, FORGOTTEN, UNSEEDED, WRONG_TIME, NOT_TAKEN = range(6)
# Flags of a wait in such a reply.
WAIT_IS_ESTIMATE, WAIT_IS_AFTER_LOSS = 1, 2


class Script(Struct, frozen=True):
    text: bytes
    sha: bytes


class Scripts(Struct, frozen=True):
    take: Script
    settle: Script
    renew: Script
    seed: Script
    rebuild: Script


def read_scripts(clock: str | None = None) -> Scripts:
    """Read the scripts. `clock` is Lua that defines `now` in place of clock.lua, for tests."""
    prelude = (clock or _text("clock")) + _text("rings")

    def script(name: str) -> Script:
        text = (prelude + _text(name)).encode()
        return Script(text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())

    return Scripts(script("take"), script("settle"), script("renew"), script("seed"), script("rebuild"))


def _text(name: str) -> str:
    return resources.files(__package__ or "").joinpath(f"{name}.lua").read_text()
