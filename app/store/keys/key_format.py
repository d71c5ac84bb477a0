"""The format of keys: their public part, their hash, and what keys and tokens share, a name and an expiry."""

import hashlib
import re
from datetime import UTC, datetime

from app.domain.errors import InvalidKeyField
from app.store.postgres.names import MAX_NAME_CHARACTERS

_KEY_PATTERN = re.compile(r"nx-([0-9a-f]{12})-[A-Za-z0-9_-]{43}")
_PREFIX_PATTERN = re.compile(r"(?:nx-)?([0-9a-f]{12})(?:-.*)?", re.DOTALL)


def hash_key(key: str) -> bytes:
    """The hash that is stored of a key. A key has 256 random bits, so a fast hash without salt reveals nothing."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def key_prefix(key: str) -> str | None:
    """The public part of a complete key. None: the text does not have the format of a key."""
    match = _KEY_PATTERN.fullmatch(key)
    return match and match[1]


def parse_prefix(text: str) -> str | None:
    """The public part in text that a person typed: with or without `nx-` and the rest of the key. None: there is none."""
    match = _PREFIX_PATTERN.fullmatch(text)
    return match and match[1]


def public_prefix(key: str) -> str:
    """The public part of a key, as in nx-0123456789ab; of a complete key or of a part that was typed."""
    return f"nx-{key.removeprefix('nx-').split('-')[0]}"


def check_name(name: str) -> str:
    if not (name.isprintable() or not name) or len(name) > MAX_NAME_CHARACTERS:
        raise InvalidKeyField("name", f"A key's name has at most {MAX_NAME_CHARACTERS} printable characters, unlike {name!r:.60}.")
    return name


def check_expiry(moment: datetime | None) -> datetime | None:
    """Validate when a key expires; returns it in UTC. A time without a zone is UTC."""
    if moment is None:
        return None
    try:
        aware = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise InvalidKeyField(
            "expires_at", f"{moment.isoformat()} is beyond the calendar; leave `expires_at` out for a key that does not expire."
        ) from None
    if aware <= datetime.now(UTC):
        raise InvalidKeyField(
            "expires_at", f"{moment.isoformat()} is in the past: a key must expire in the future. To end a key now, revoke it."
        )
    return aware
