"""What messages of every role are made of, and what of other APIs they leave unsaid."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from providers.chat import Opaque
from providers.dialect import Concessions

read_object = msgspec.json.Decoder(dict[str, Raw]).decode

NOT_HERE = "it has no place for it in a message of this role."

# Reasoning that only its minter can read, by the type of its part in the dialects that have it.
_SEALED = frozenset({"redacted_thinking", "reasoning", "reasoning.encrypted"})


def text_of(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def plain(content: Sequence[dict[str, Any]]) -> Any:
    """A string where it is one text, or none."""
    if not content:
        return ""
    return content[0]["text"] if len(content) == 1 and content[0]["type"] == "text" else content


def leave_opaque(part: Opaque, path: str, concessions: Concessions) -> None:
    kind = read_object(part.raw).get("type")
    if kind is not None and msgspec.json.decode(kind) in _SEALED:
        concessions.hint("reasoning.seal")
    else:
        concessions.without(path, f"only {part.origin:.40} has it.")


def leave_extra(extra: Mapping[str, Raw], path: str, concessions: Concessions, *, given_back: bool = False) -> None:
    """`given_back`: by an assistant, it asks for nothing."""
    for key, value in extra.items():
        if given_back:
            concessions.hint(f"{path}.{key}")
        else:
            concessions.extra(f"{path}.{key}", value, "it is a field of another API.")
