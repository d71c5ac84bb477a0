"""Summaries of conversations that were compacted here: encrypted for the caller's hand, and put back into the input that they return in.

A `compaction` item that the gateway made holds what the model wrote of the conversation (app/gateway/emulation/compaction.py). Nothing is
kept of it: whoever has the item, and a key of its team, has the summary, at any model and any process with the same NARTHEX_SECRET_KEY.
"""

import msgspec
from msgspec import Raw, Struct

from app.store.postgres.vault import SummaryCipher
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.dialects.openai_responses.input_items import ContinuedInput, list_input_items

_INTRODUCTION = (
    "Another model wrote this summary of the conversation up to here, of which only the user's messages are left. Go on from it.\n\n"
)
# Items before a summary that stay beside it: what the user and the instructions say, tools and settings.
_KEPT_ROLES = frozenset({"user", "system", "developer"})
_SUMMARY_TYPES = frozenset({"compaction", "compaction_summary"})
_KEPT_TYPES = _SUMMARY_TYPES | {"additional_tools", "configuration_update"}


class _Item(Struct):
    type: str | None = None
    role: str | None = None
    encrypted_content: str | None = None


_item_decoder = msgspec.json.Decoder(_Item)


def open_summaries(body: Body, cipher: SummaryCipher, team_id: str) -> None:
    """Puts the last summary as a message of the user's in the place of its item, in place.

    What it summarises goes: items before it that are neither the user's nor instructions, earlier summaries, and the demands for them.
    Items of hosts that compact themselves stay. Raises InvalidRequest for a summary that cannot be read.
    """
    items = list_input_items(body)
    summaries: dict[int, str] = {}
    kept = [*range(len(items))]
    for at in [at for at, raw in enumerate(items) if b'"compaction' in bytes(raw)]:
        item = _read_item(items[at])
        if item.type == "compaction_trigger" and at < len(items) - 1:
            kept.remove(at)
        elif (summary := _read_summary(item, _path(items, at), cipher, team_id)) is not None:
            summaries[at] = summary
    if not summaries and len(kept) == len(items):
        return
    last = max(summaries, default=0)
    kept = [at for at in kept if at >= last or (at not in summaries and _stays(items[at]))]
    opened = ContinuedInput([items[at] for at in kept])
    opened.paths = [_path(items, at) for at in kept]
    if isinstance(items, ContinuedInput):
        opened.has_context_items = items.has_context_items
        opened.rewritten = frozenset({place for place, at in enumerate(kept) if at in items.rewritten})
    if summaries:
        place = opened.summary_at = kept.index(last)
        opened[place] = _as_message(summaries[last])
        opened.rewritten |= {place}
    body["input"] = opened


def _as_message(summary: str) -> Raw:
    part = {"type": "input_text", "text": _INTRODUCTION + summary}
    return Raw(msgspec.json.encode({"type": "message", "role": "user", "content": [part]}))


def _read_item(raw: Raw) -> _Item:
    try:
        return _item_decoder.decode(raw)
    except DECODE_ERRORS:
        return _Item()  # its reader says what is wrong


def _read_summary(item: _Item, path: str, cipher: SummaryCipher, team_id: str) -> str | None:
    """The summary in an item; None: it holds none of ours."""
    if item.type not in _SUMMARY_TYPES or item.encrypted_content is None:
        return None
    try:
        return cipher.decrypt(item.encrypted_content, team_id)
    except ValueError:
        error = InvalidRequest(
            f"The summary in `{path}` cannot be read here: it was made for another team, or with a key that this gateway no longer has, or"
            " it is damaged. Leave it out, and send what the model should know.",
            param=path,
        )
        error.code = "invalid_encrypted_content"
        raise error from None


def _stays(raw: Raw) -> bool:
    item = _read_item(raw)
    return item.role in _KEPT_ROLES or item.type in _KEPT_TYPES


def _path(items: list[Raw], at: int) -> str:
    return items.item_path(at) if isinstance(items, ContinuedInput) else f"input[{at}]"
