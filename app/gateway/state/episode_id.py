"""Episode ids: those that the gateway minted are told apart from those that callers made, without a look-up."""

import hashlib
import hmac
import random
from collections.abc import Sequence

from msgspec import Struct

from app.domain import uuid7
from app.domain.episode_names import MAX_NAME_CHARACTERS, is_named_episode_id, name_problem, named_episode_id
from app.domain.experiments import EpisodeKind
from providers.canonical.errors import InvalidRequest

_CLOCK_SKEW_MS = 60_000
_MAC_BYTES = 3
_RANDOM_BITS = 38


class Episode(Struct, frozen=True):
    """An episode of a team. `name`: the text that the caller calls it by; None: it has none, or the caller sent the id for it."""

    id: str
    kind: EpisodeKind
    name: str | None = None

    @property
    def born_ms(self) -> int | None:
        """The Unix time in ms at which the episode began, or None for an id of kind `text`.

        It is as true as the id: whoever made a `caller_uuid7` chose it.
        """
        return None if self.kind == "text" else uuid7.created_ms(self.id)


class EpisodeIds:
    """Mints ids of episodes and recognises them. `secret_keys` are as in NARTHEX_SECRET_KEY, the newest first.

    Of the 62 random bits of a minted UUIDv7, the last 24 are a MAC of the others, the time and the team. They are checked against every
    key, so ids stay recognised until the key that they were minted by is removed; then they count as callers' own. Without a key the MAC
    can be computed by anyone who knows the team's id.
    """

    def __init__(self, secret_keys: Sequence[str]) -> None:
        keys = [hmac.digest(key.encode(), b"narthex minted episodes", hashlib.sha256) for key in secret_keys or [""]]
        # A copy of a keyed hash is ready a microsecond sooner than a new one: every request without an episode mints one.
        self._hashes = [hashlib.blake2s(key=key, digest_size=_MAC_BYTES) for key in keys]
        self._newest = self._hashes[0]

    def mint(self, team_id: str, at_us: int | None = None) -> Episode:
        """A new episode that begins now, or at `at_us` (microseconds of Unix time)."""
        signed = (uuid7.first_half(at_us) << 40 | 0x80_0000_0000 | random.getrandbits(_RANDOM_BITS)).to_bytes(13, "big")
        mac = self._newest.copy()
        mac.update(signed + team_id.encode())
        digits = (signed + mac.digest()).hex()
        return Episode(f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}", "minted")

    def read(self, text: str, team_id: str, now_ms: float) -> Episode:
        """The episode that a caller names: by a UUIDv7 (its own, or one of ours), by a text, or by the UUID that stands for that text.

        Raises InvalidRequest for a UUIDv7 that was created more than a minute (clock skew) from now, and for a text that cannot be a name.
        """
        if uuid7.is_uuid7(text):
            if uuid7.created_ms(text) > now_ms + _CLOCK_SKEW_MS:
                raise InvalidRequest("`episode_id` lies in the future: it was created more than a minute from now.", param="episode_id")
            return self.recorded(text.lower(), team_id)
        if is_named_episode_id(team_id, text):
            return Episode(text.lower(), "text")
        problem = name_problem(text)
        if problem is not None:
            raise InvalidRequest(
                f"`episode_id` must be a UUIDv7, as an earlier response returned it, or a text of your own of 1 to {MAX_NAME_CHARACTERS}"
                f" characters: {problem}.",
                param="episode_id",
            )
        return Episode(named_episode_id(team_id, text), "text", text)

    def recorded(self, id: str, team_id: str, name: str | None = None) -> Episode:
        """An episode by its id, in lower case, as it is recorded."""
        if not uuid7.is_uuid7(id):
            return Episode(id, "text", name)
        return Episode(id, "minted" if self._has_valid_mac(id, team_id) else "caller_uuid7", name)

    def _has_valid_mac(self, id: str, team_id: str) -> bool:
        all_bytes = bytes.fromhex(id.replace("-", ""))
        signed = all_bytes[:-_MAC_BYTES] + team_id.encode()
        for keyed in self._hashes:
            mac = keyed.copy()
            mac.update(signed)
            if hmac.compare_digest(mac.digest(), all_bytes[-_MAC_BYTES:]):
                return True
        return False
