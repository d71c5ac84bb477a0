"""The path in a Responses request that a path in the canonical messages comes from."""

import re

import msgspec

from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body
from providers.dialects.openai_responses.input_items import ContinuedInput, is_text_input, list_input_items
from providers.dialects.openai_responses.raw_fields import RawObject, text_field
from providers.dialects.openai_responses.read_input import RESULT_TYPES, LocatedMessage, read_located_messages

_CANONICAL_PATH = re.compile(r"messages\[(\d+)\](?:\.content\[(\d+)\])?(?:\.content\[(\d+)\])?((?:\..+)?)", re.DOTALL)
_object_decoder = msgspec.json.Decoder(RawObject)
_parts_decoder = msgspec.json.Decoder(str | list[RawObject])
# Canonical field -> the caller's, if they differ.
_CALLER_SUFFIXES = {".citations": ".annotations"}


def caller_path(body: Body, path: str) -> str:
    """The caller's path for a canonical path. See providers.dialect.ChatDialect.

    Everything from an earlier turn has the path `previous_response_id`.
    """
    matched = _CANONICAL_PATH.fullmatch(path)
    if matched is None:
        return path
    message, part_index, inner_index, suffix = matched.groups()
    try:
        located = list(read_located_messages(body))
    except InvalidRequest:
        return path
    if int(message) >= len(located):
        return path
    return _message_path(body, located[int(message)], part_index, inner_index, _CALLER_SUFFIXES.get(suffix, suffix)) or path


def _message_path(body: Body, located: LocatedMessage, part_index: str | None, inner_index: str | None, suffix: str) -> str | None:
    """Returns the caller's path of a message, or of a part of one; None if there is no such part."""
    if not located.item_indexes:
        return "instructions"
    items = list_input_items(body)
    if part_index is None:
        at = next(
            (each for each in located.item_indexes if _existing_suffix(_object_decoder.decode(items[each]), suffix)),
            located.item_indexes[0],
        )
        return _item_path(body, at, _existing_suffix(_object_decoder.decode(items[at]), suffix))
    if int(part_index) >= len(located.part_positions):
        return None
    at, inner = located.part_positions[int(part_index)]
    item = _object_decoder.decode(items[at])
    kind = text_field(item, "type") or "message"
    if kind == "message":
        return _item_path(body, at, _part_path(item, "content", inner, suffix))
    if kind in RESULT_TYPES and inner_index is not None:
        return _item_path(body, at, _part_path(item, "output", int(inner_index), suffix))
    return _item_path(body, at, _existing_suffix(item, suffix))


def _part_path(item: RawObject, key: str, at: int, suffix: str) -> str:
    """The path of a part. A string in place of a list of parts is one part without fields."""
    parts = _parts_decoder.decode(item[key])
    return f".{key}" if isinstance(parts, str) or at >= len(parts) else f".{key}[{at}]{_existing_suffix(parts[at], suffix)}"


def _existing_suffix(fields: RawObject, suffix: str) -> str:
    """The rest of a path if its first field exists, else ""."""
    return suffix if re.split(r"[.\[]", suffix[1:])[0] in fields else ""


def _item_path(body: Body, at: int, suffix: str) -> str:
    raw_input = body["input"]
    if isinstance(raw_input, ContinuedInput):
        path = raw_input.item_path(at)
        return f"{path}{suffix}" if path.endswith("]") and at not in raw_input.rewritten else path
    if is_text_input(body):
        return "input"
    return f"input[{at}]{suffix}"
