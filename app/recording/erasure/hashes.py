"""Keyed hashes of what an erasure is about: it can be found in records again, by Python and by Postgres, while its value is not kept."""

import hashlib
import hmac
import secrets
from typing import Literal

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.postgres.partitions import Connection
from app.store.postgres.tables import erasure_keys

SelectorKind = Literal["end_user", "tag", "episode"]

_KEY_BYTES = 32
_BLOCK_BYTES = 64  # of SHA-256


class Selector(Struct, frozen=True):
    """The records to erase: those of an end user, those with one value of a tag, or those of an episode."""

    kind: SelectorKind
    tag: str | None  # the name of the tag
    # An episode is given by its UUID, or by the text that its caller names it by; an order has the UUID, in
    # lower case.
    value: str


def hash_of(key: bytes, selector: Selector) -> bytes:
    """Returns the HMAC-SHA256 of the selector."""
    return hmac.digest(key, _prefix(selector.kind, selector.tag) + selector.value.encode("utf-8", "replace"), "sha256")


class SqlHash(Struct, frozen=True):
    """The same hash in SQL, which has SHA-256 but no HMAC. `inner` and `outer` are parameters of
    expression().
    """

    inner: bytes
    outer: bytes

    @classmethod
    def of(cls, key: bytes, kind: SelectorKind, tag: str | None) -> "SqlHash":
        padded = key.ljust(_BLOCK_BYTES, b"\0")
        inner, outer = (bytes(byte ^ mask for byte in padded) for mask in (0x36, 0x5C))
        return cls(inner + _prefix(kind, tag), outer)

    @staticmethod
    def expression(value: str, inner: str, outer: str) -> str:
        """Returns the hash of `value`, an SQL expression of type text.

        `inner` and `outer` are placeholders.
        """
        return f"sha256({outer}::bytea || sha256({inner}::bytea || convert_to({value}, 'UTF8')))"


async def read_key(connection: Connection) -> bytes | None:
    """Returns the key, or None if there was no erasure yet."""
    return await connection.fetchval("SELECT key FROM erasure_keys")


async def make_key(connection: AsyncConnection) -> bytes:
    """Returns the key, which is made if there is none."""
    await connection.execute(insert(erasure_keys).values(id=1, key=secrets.token_bytes(_KEY_BYTES)).on_conflict_do_nothing())
    return bytes((await connection.execute(select(erasure_keys.c.key))).scalar_one())


def shown_hash(hash: bytes) -> str:
    return hash.hex()


def _prefix(kind: SelectorKind, tag: str | None) -> bytes:
    """Returns a digest, so that no name of a tag and value together are those of another."""
    return hashlib.sha256(b"\0".join((kind.encode(), (tag or "").encode("utf-8", "replace")))).digest()
