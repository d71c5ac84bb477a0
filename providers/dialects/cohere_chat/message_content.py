"""Content blocks that messages of every role are made of."""

from collections.abc import Sequence
from typing import Any

# Why a part is refused, for DropPolicy.
WRONG_ROLE = "a message of this role cannot hold it."


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def collapse_text(content: Sequence[dict[str, Any]]) -> Any:
    """The content of a message: a string if it is one text or empty, else the blocks."""
    if not content:
        return ""
    return content[0]["text"] if len(content) == 1 and content[0]["type"] == "text" else content
