"""Lua scripts for the server, and their hashes, by which it knows those that it has run."""

import hashlib
from collections.abc import Sequence

from msgspec import Struct

from app.store.redis.resp import command


class Script(Struct, frozen=True):
    text: bytes
    sha: bytes

    def call_by_hash(self, keys: Sequence[bytes], arguments: Sequence[bytes]) -> bytes:
        return command((b"EVALSHA", self.sha, b"%d" % len(keys), *keys, *arguments))

    def call_by_text(self, keys: Sequence[bytes], arguments: Sequence[bytes]) -> bytes:
        """The server knows the script by its hash from then on."""
        return command((b"EVAL", self.text, b"%d" % len(keys), *keys, *arguments))


def make_script(text: str) -> Script:
    encoded = text.encode()
    return Script(encoded, hashlib.sha1(encoded, usedforsecurity=False).hexdigest().encode())
