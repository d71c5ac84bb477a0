"""The byte edit: an engine's completion made the caller's. Our keys are replaced, everything else is the engine's own bytes.

Which keys: id, model, episode_id, usage, and a `text` of null, with which no official client can live.
"""

import msgspec
from msgspec import Raw, Struct

from providers.dialect import Edited, Stamp
from providers.errors import Garbled
from providers.openai_endings import PLAIN, with_plain_endings
from providers.openai_stream import StreamEditor, check_ending, read_heads
from providers.openai_usage import told_usage
from providers.told import error_in
from providers.wire import NULL, UNREADABLE, Body

_EMPTY = Raw(b'""')
_OBJECT = "text_completion"


class _Said(Struct):
    text: Raw = NULL


_texts = msgspec.json.Decoder(list[_Said]).decode
_choices = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def edit(raw: bytes, stamp: Stamp) -> Edited:
    """A whole answer. Raises Garbled if it is none, or the error that an engine told with status 200."""
    body = Body.read_reply(raw)
    error = error_in(body)
    if error is not None:
        raise error
    choices = body.get("choices", NULL)
    try:
        shaped = _shaped(bytes(choices))
        heads = read_heads(shaped)
        if any([head.finish_reason in PLAIN for head in heads]):
            shaped = with_plain_endings(shaped)
            heads = read_heads(shaped)
        body["choices"] = Raw(shaped)
    except UNREADABLE as fault:
        raise Garbled(f"The engine's answer is not a completion: {fault}.") from None
    if not heads:
        raise Garbled("The engine's answer has no choices.")
    for head in heads:
        check_ending(head.finish_reason)
    usage = None
    if body.said("usage"):
        usage, body["usage"] = told_usage(body["usage"], body.value("service_tier"))
    body["id"], body["episode_id"], body["model"] = f"cmpl-{stamp.id}", stamp.episode_id, stamp.model
    body["object"] = _OBJECT
    if not body.said("created"):
        body["created"] = stamp.created
    return Edited(body.write(), usage, min(heads, key=lambda head: head.index or 0).finish_reason)


def chunk_editor(stamp: Stamp) -> StreamEditor:
    return StreamEditor(stamp, f"cmpl-{stamp.id}", _OBJECT, _shaped)


def _shaped(choices: bytes) -> bytes:
    told = _texts(choices)
    if all(choice.text != NULL for choice in told):
        return choices
    return msgspec.json.encode([{**choice, "text": _EMPTY} if choice.get("text", NULL) == NULL else choice for choice in _choices(choices)])
