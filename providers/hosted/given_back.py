"""Answers that are given back in a conversation, without what a host would refuse of them."""

import msgspec
from msgspec import Raw

from providers.losses import Losses
from providers.rest import as_raw
from providers.wire import NULL, UNREADABLE, Body

# What answers tell beyond text and calls, and clients give back as it came.
TOLD_BESIDE = frozenset({"reasoning_content", "reasoning", "reasoning_details", "annotations", "refusal", "audio", "function_call"})
_WORDS = {key: f'"{key}"'.encode() for key in TOLD_BESIDE}
_NOTHING = (NULL, Raw(b"[]"), Raw(b'""'))
_ASSISTANT = Raw(b'"assistant"')

_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def leave_out_of_answers(body: Body, known: frozenset[str], losses: Losses) -> None:
    """All of TOLD_BESIDE that the host does not know: reasoning and citations are reported; a call, or what was said, is refused."""
    if not body.said("messages"):
        return
    raw = bytes(as_raw(body["messages"]))
    strange = [key for key in TOLD_BESIDE - known if _WORDS[key] in raw]
    if not strange:
        return
    try:
        messages = _messages(raw)
    except UNREADABLE:
        return
    changed = False
    for at, message in enumerate(messages):
        if message.get("role") != _ASSISTANT:
            continue
        for key in strange:
            if key in message:
                _part_with(message.pop(key), key, at, losses)
                changed = True
    if changed:
        body["messages"] = messages


def _part_with(said: Raw, key: str, at: int, losses: Losses) -> None:
    if said in _NOTHING:
        return
    path = f"messages[{at}].{key}"
    if key in ("refusal", "audio", "function_call"):
        losses.part_with(path, "it has no such field, and refuses what it does not know.")
    else:
        losses.dropped.append(path)
