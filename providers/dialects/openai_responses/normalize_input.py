"""Makes input items what every host accepts, where that changes nothing that they say: as soon as a request is parsed.

Calls and results are put in order (providers/canonical/open_calls.py), images get the label that their bytes have
(providers/canonical/image_types.py), and schemas of functions say that they are of an object.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.extra_fields import as_raw
from providers.canonical.image_types import relabel_data_url
from providers.canonical.open_calls import MISSING_RESULT, Entry, LostCall, Missing, Repair, arrange, lost_call_text
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.canonical.tool_schemas import OBJECT_TYPE, type_as_object
from providers.dialects.openai_responses.input_items import ContinuedInput
from providers.dialects.openai_responses.request_schema import Item, Part, Tool

_CALLS, _RESULTS = ("function_call", "custom_tool_call"), ("function_call_output", "custom_tool_call_output")
_USER_ROLES = ("user", "system", "developer")

_decode_item = msgspec.json.Decoder(Item).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_objects = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


def are_calls_in_order(items: Sequence[Item]) -> bool:
    """Whether the results of each run of calls follow it, before anybody else speaks, and each result has a call."""
    waiting: dict[str | None, str] = {}
    others: frozenset[str | None] | None = None
    for item in items:
        if item.type in _CALLS:
            if item.call_id in waiting:
                return False
            waiting[item.call_id] = item.type
        elif item.type in _RESULTS:
            if waiting.pop(item.call_id, None) is None:
                others = _other_calls(items) if others is None else others
                if item.call_id not in others:
                    return False
        elif waiting and item.role in _USER_ROLES:
            return False
    return not waiting or items[-1].type in _CALLS


def _other_calls(items: Sequence[Item]) -> frozenset[str | None]:
    """Ids of calls of other kinds: Codex answers a `local_shell_call` with a `function_call_output`.

    Source: codex-rs, context_manager/normalize.rs, read 2026-11; older ones have the id of the item alone.
    """
    others = [item for item in items if item.type is not None and item.type.endswith("_call") and item.type not in _CALLS]
    return frozenset(id for item in others for id in (item.call_id, item.id) if id is not None)


def put_calls_in_order(items: Sequence[Item], body: Body) -> Repair | None:
    """Writes the input with one result for each call. None: it stays as it is, for two calls have the same id."""
    arranged = _arrange(items, [f"input[{at}]" for at in range(len(items))])
    if arranged is None:
        return None
    order, reported = arranged
    body["input"] = as_raw(_write_in_order(order, items, _decode_list(as_raw(body["input"]))))
    part_paths: dict[int, Sequence[str]] = {}
    for place, each in enumerate(order):
        if isinstance(each, LostCall) and isinstance(output := items[each.index].output, list):
            path = f"input[{each.index}]"
            part_paths[place] = [path, *(f"{path}.output[{number}]" for number in range(len(output)))]
    return Repair(reported, [each if isinstance(each, int) else each.index for each in order], part_paths)


def put_continued_calls_in_order(continued: ContinuedInput) -> Repair | None:
    """The same for an input with the items of earlier turns, in place. None: they are in order, or are no items that can be read."""
    if not any(b'"call_id"' in bytes(item) for item in continued):
        return None
    try:
        items = [_decode_item(item) for item in continued]
    except DECODE_ERRORS:
        return None
    if not items or are_calls_in_order(items):
        return None
    paths = [continued.item_path(at) for at in range(len(items))]
    arranged = _arrange(items, paths)
    if arranged is None:
        return None
    order, reported = arranged
    written = _write_in_order(order, items, list(continued))
    continued[:] = [each if isinstance(each, Raw) else as_raw(each) for each in written]
    continued.paths = [paths[each if isinstance(each, int) else each.index] for each in order]
    continued.rewritten = frozenset(place for place, each in enumerate(order) if not isinstance(each, int))
    return Repair([*dict.fromkeys(reported)], ())  # the paths of `continued` are the caller's own


def _arrange(items: Sequence[Item], paths: Sequence[str]) -> tuple[list[int | Missing | LostCall], list[str]] | None:
    others = _other_calls(items)
    entries = [
        Entry(
            path,
            [(item.call_id or "", path)] if item.type in _CALLS else (),
            item.call_id if item.type in _RESULTS and item.call_id not in others else None,
            item.role not in _USER_ROLES,
        )
        for item, path in zip(items, paths, strict=True)
    ]
    return arrange(entries, joins_entries=True)


def _write_in_order(order: Sequence[int | Missing | LostCall], items: Sequence[Item], raw_items: Sequence[Raw]) -> list[Any]:
    written: list[Any] = []
    for each in order:
        match each:
            case Missing():
                kind = _RESULTS[_CALLS.index(items[each.index].type or "")]
                written.append({"type": kind, "call_id": each.call_id, "output": MISSING_RESULT})
            case LostCall():
                written.append(_as_user_message(items[each.index], _decode_object(raw_items[each.index])))
            case _:
                written.append(raw_items[each])
    return written


def _as_user_message(item: Item, fields: dict[str, Raw]) -> dict[str, Any]:
    introduction = {"type": "input_text", "text": lost_call_text(item.call_id)}
    output = item.output
    parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else _decode_list(fields["output"])
    return {"type": "message", "role": "user", "content": [introduction, *parts]}


def is_mislabelled(part: Part) -> bool:
    """Whether this is an image in a data URL with a wrong label."""
    return part.type == "input_image" and part.image_url is not None and relabel_data_url(part.image_url) is not None


def relabel_images(items: Sequence[Item], body: Body) -> None:
    """Writes the input with the true media type of each image that is sent as a data URL."""
    raw_items: list[Any] = _decode_list(as_raw(body["input"]))
    for at, item in enumerate(items):
        for key, parts in (("content", item.content), ("output", item.output)):
            if isinstance(parts, list) and any(map(is_mislabelled, parts)):
                fields: dict[str, Any] = raw_items[at] if isinstance(raw_items[at], dict) else _decode_object(raw_items[at])
                written: list[Any] = _decode_objects(fields[key])
                for number, part in enumerate(parts):
                    if is_mislabelled(part):
                        written[number]["image_url"] = relabel_data_url(part.image_url or "")
                raw_items[at] = {**fields, key: written}
    body["input"] = as_raw(raw_items)


def write_schema_types(tools: Sequence[Tool], body: Body) -> None:
    """Writes the type of each function's schema that leaves it out (providers/canonical/tool_schemas.py)."""
    decoded: list[dict[str, Any]] = _decode_objects(as_raw(body["tools"]))
    for number, tool in enumerate(tools):
        if tool.parameters is not None and tool.parameters.type != OBJECT_TYPE:
            decoded[number]["parameters"] = type_as_object(decoded[number]["parameters"])
    body["tools"] = as_raw(decoded)
