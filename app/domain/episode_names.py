"""Episodes that callers name by a text of their own, such as the id of a conversation: the text becomes a UUID of the team.

The UUID is a pure function of the team's id and the text, with no secret and no state, so it is the same on every worker and replica,
after a restart and after the secret key was changed. It is a UUIDv8: never one of the UUIDv7s that the gateway creates. Its last four
bytes are a checksum of the rest and of the team, so the UUID is recognised when the caller sends it instead of the text, and that of
another team is not.

Episodes that are recorded hang on these functions: they must never return anything else.
"""

import hashlib
import re
from typing import NamedTuple

from app.domain.uuid7 import is_uuid7

MAX_NAME_CHARACTERS = 128

_UUID8 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)
_CONTROL_CHARACTER = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_HASHED_BYTES = 12
_HASH_PURPOSE, _CHECK_PURPOSE = b"episode name", b"episode check"


class RecordedEpisode(NamedTuple):
    """An episode as records have it."""

    id: str
    name: str | None  # the text that the caller names it by; None: none


def episode_id_of(team_id: str, named: str) -> str:
    """The id of the episode that a team names by a UUIDv7, by a text, or by the UUID that stands for its text."""
    return named.lower() if is_uuid7(named) or is_named_episode_id(team_id, named) else named_episode_id(team_id, named)


def named_episode_id(team_id: str, name: str) -> str:
    """The id of the episode that a team calls `name`."""
    hashed = bytearray(_hash(team_id, name.encode("utf-8", "surrogatepass"), _HASH_PURPOSE)[:_HASHED_BYTES])
    hashed[6] = 0x80 | hashed[6] & 0x0F  # the version
    hashed[8] = 0x80 | hashed[8] & 0x3F  # the variant
    digits = (hashed + _checksum(team_id, hashed)).hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_named_episode_id(team_id: str, id: str) -> bool:
    """Whether named_episode_id() returned it for a name of this team."""
    if not is_uuid8(id):
        return False
    all_bytes = bytes.fromhex(id.replace("-", ""))
    return all_bytes[_HASHED_BYTES:] == _checksum(team_id, all_bytes[:_HASHED_BYTES])


def is_uuid8(text: str) -> bool:
    return _UUID8.fullmatch(text) is not None


def name_problem(name: str) -> str | None:
    """Why a text cannot name an episode, as the end of a sentence; None: it can."""
    if not name:
        return "it is empty: leave it out for a new episode"
    if len(name) > MAX_NAME_CHARACTERS:
        return f"it has {len(name)} characters, and at most {MAX_NAME_CHARACTERS} are allowed"
    if (control := _CONTROL_CHARACTER.search(name)) is not None:
        return f"character {control.start() + 1} is a control character (U+{ord(control[0]):04X})"
    if name != name.strip():
        return "it begins or ends with a space, which a header could not carry"
    return None


def _checksum(team_id: str, hashed: bytes | bytearray) -> bytes:
    return _hash(team_id, bytes(hashed), _CHECK_PURPOSE)[: 16 - _HASHED_BYTES]


def _hash(team_id: str, data: bytes, purpose: bytes) -> bytes:
    # The team as the key: blake2 hashes it apart from the rest, so that no team and name together are those of another.
    return hashlib.blake2b(data, digest_size=16, key=team_id.encode()[:64], person=purpose).digest()
