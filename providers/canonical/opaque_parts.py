"""Opaque parts: the `type` by which every dialect knows a part that only its origin can read."""

import msgspec
from msgspec import Raw

from providers.canonical.raw_json import DECODE_ERRORS, NULL

# Encrypted or redacted reasoning, by the type of its part in the dialects that have it.
REASONING_KINDS = frozenset({"redacted_thinking", "reasoning", "reasoning.encrypted"})
# What OpenAI searched for itself in earlier turns: what was found is in the text of the answer, or among the tools.
SEARCH_KINDS = frozenset({"web_search_call", "tool_search_call", "tool_search_output"})

_any = msgspec.json.Decoder()
_object = msgspec.json.Decoder(dict[str, Raw])


def opaque_kind(raw: Raw) -> str:
    """The type of a part; "" if it has none. It may be anything: a caller who sends a carrier back may have made it up."""
    try:
        kind = _any.decode(_object.decode(raw).get("type", NULL))
    except DECODE_ERRORS:
        return ""
    return kind if isinstance(kind, str) else ""
