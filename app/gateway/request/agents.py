"""Coding agents: what their requests say beyond their API.

Their headers name a session, whose requests stay where its prompt cache is. Claude Code has a contract with gateways besides, which it
carries inside (`GET /protocol` of `claude gateway`, 2.1.332, read 2026-11): no field that a gateway does not know is a reason to refuse.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Raw

from providers.canonical.errors import NarthexError, Unsupported
from providers.canonical.raw_json import NULL
from providers.dialects.anthropic.known_fields import is_known_field

CLAUDE_CODE_SESSION = b"x-claude-code-session-id"
# In the order in which they are read: ours, Claude Code's, Codex's (two spellings of its versions), and opencode's.
SESSION_HEADERS = (b"x-narthex-session", CLAUDE_CODE_SESSION, b"session-id", b"session_id", b"x-session-affinity", b"x-session-id")
# OpenAI routes requests with the same key to the same cache: https://platform.openai.com/docs/guides/prompt-caching, read 2026-11.
CACHE_KEY = "prompt_cache_key"
_MAX_KEY_BYTES = 512  # of a key that a caller may make as large as a body


def find_session(headers: Mapping[bytes, bytes], body: Mapping[str, Raw]) -> str | None:
    """Returns the session that a request belongs to, by its headers or by its key of prompt caches; None if it names none."""
    for name in SESSION_HEADERS:
        if value := headers.get(name):
            return value.decode("latin-1")
    key = bytes(body.get(CACHE_KEY, NULL))
    return None if key == NULL else key[:_MAX_KEY_BYTES].decode("latin-1")


def allow_unknown_fields(headers: Mapping[bytes, bytes], may_drop: Callable[[str], bool]) -> Callable[[str], bool]:
    """Returns a predicate for fields that may be dropped: those of `may_drop`, and for Claude Code those that Anthropic's API has not."""
    if CLAUDE_CODE_SESSION not in headers:
        return may_drop
    return lambda path: may_drop(path) or not is_known_field(path)


def soften_refusal(headers: Iterable[tuple[bytes, bytes]], error: NarthexError) -> None:
    """Gives a field that no target has the status 400 for Claude Code, which then tries again without what a 400 may be about."""
    if isinstance(error, Unsupported) and any(name.lower() == CLAUDE_CODE_SESSION for name, _ in headers):
        error.status = 400
