"""What messages of every role are made of, and what of other APIs they leave unsaid."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.chat import Opaque
from providers.dialect import DropPolicy

decode_object = msgspec.json.Decoder(dict[str, Raw]).decode

WRONG_ROLE = "it has no place for it in a message of this role."

# Reasoning that only its minter can read, by the type of its part in the dialects that have it.
_REASONING_BLOCK_TYPES = frozenset({"redacted_thinking", "reasoning", "reasoning.encrypted"})


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def collapse_text(content: Sequence[dict[str, Any]]) -> Any:
    """A string where it is one text, or none."""
    if not content:
        return ""
    return content[0]["text"] if len(content) == 1 and content[0]["type"] == "text" else content


def drop_opaque(part: Opaque, path: str, drop_policy: DropPolicy) -> None:
    kind = decode_object(part.raw).get("type")
    if kind is not None and msgspec.json.decode(kind) in _REASONING_BLOCK_TYPES:
        drop_policy.drop_hint("reasoning.seal")
    else:
        drop_policy.drop_or_refuse(path, f"only {part.origin:.40} has it.")


def drop_extra_fields(extra: Mapping[str, Raw], path: str, drop_policy: DropPolicy, *, from_assistant: bool = False) -> None:
    """`given_back`: by an assistant, it asks for nothing."""
    for key, value in extra.items():
        if from_assistant:
            drop_policy.drop_hint(f"{path}.{key}")
        else:
            drop_policy.drop_extra_field(f"{path}.{key}", value, "it is a field of another API.")
