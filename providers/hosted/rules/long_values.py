"""Names of users and of caches that are longer than a host takes: a hash goes in their place, the same for the same name."""

import hashlib
from collections.abc import Mapping

from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy

# Claude Code's metadata.user_id is longer: "Invalid 'user': string too long. Expected a string with maximum length 64".
# Source: https://platform.openai.com/docs/api-reference/chat/create (safety_identifier, prompt_cache_key), read 2026-11.
OPENAI_MAX_CHARS: Mapping[str, int] = dict.fromkeys(("user", "safety_identifier", "prompt_cache_key"), 64)


def hash_long_values(body: Body, max_chars: Mapping[str, int], drop_policy: DropPolicy) -> None:
    """Replaces what is too long by the beginning of its SHA-256, and reports it: other requests of the same user get the same one."""
    for field in sorted(max_chars.keys() & body.keys()):
        value = body.value(field)
        if isinstance(value, str) and len(value) > max_chars[field]:
            body[field] = hashlib.sha256(value.encode()).hexdigest()[: max_chars[field]]
            drop_policy.report_dropped(field)
