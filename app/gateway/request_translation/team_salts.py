"""Salts of prefix caches: engines that know `cache_salt` reuse a cached prefix only for requests with the same salt.

Without one, the time to the first token tells a team whether another has sent the same beginning of a prompt.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any

# Teams come from the configuration, so this bounds only what a very large one keeps.
_MAX_TEAMS = 100_000
# vLLM takes at most 128 characters, and none of @ / \ and NUL: hexadecimal fits all engines.
_SALT_CHARACTERS = 32


class TeamSalts:
    """The salt of each team, the same in every process with the same keys. `secret_keys` are as in NARTHEX_SECRET_KEY, the newest first.

    Without a key the salts can be computed from the names of teams; callers cannot send one all the same.
    """

    def __init__(self, secret_keys: Sequence[str]) -> None:
        self._key = hmac.digest(secret_keys[0].encode() if secret_keys else b"", b"narthex prefix caches of teams", hashlib.sha256)
        self._salts: dict[str, str] = {}

    def salt(self, team_id: str, callers_own: Any = None) -> str:
        """The salt of a team's cache. `callers_own` is one of the caller's, where an operator accepts it: it divides that cache, and joins
        no other's.
        """
        salt = self._salts.get(team_id)
        if salt is None:
            if len(self._salts) >= _MAX_TEAMS:
                self._salts.clear()
            salt = self._salts[team_id] = _hash(self._key, team_id)
        return salt if not callers_own else _hash(salt.encode(), str(callers_own))


def _hash(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:_SALT_CHARACTERS]
