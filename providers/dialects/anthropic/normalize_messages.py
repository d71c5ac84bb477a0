"""Makes messages what Anthropic and every other host accepts, where that changes nothing that they say: as soon as a request is parsed.

Results of tools stand at the beginning of the user's message behind their calls (providers/canonical/open_calls.py), images get the label
that their bytes have (providers/canonical/image_types.py), and schemas of tools say that they are of an object.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from providers.canonical.extra_fields import as_raw
from providers.canonical.image_types import image_type
from providers.canonical.open_calls import MISSING_RESULT, Repair, lost_call_text
from providers.canonical.raw_json import Body
from providers.canonical.tool_schemas import OBJECT_TYPE, type_as_object
from providers.dialects.anthropic.request_schema import Block, Message, Source, Tool

_CALL, _RESULT = "tool_use", "tool_result"

_decode_objects = msgspec.json.Decoder(list[dict[str, Any]]).decode
_decode_raw_objects = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode


def are_calls_in_order(messages: Sequence[Message]) -> bool:
    """Whether each call has its result at the beginning of the user's turn behind it, and each result a call.

    Neighbouring messages of one role are one turn; a system message between them belongs to none.
    """
    waiting: dict[str | None, bool] = {}
    for message in messages:
        content = message.content
        if message.role == "assistant":
            if waiting and waiting.pop(None, False) and waiting:
                return False  # the user's turn is over
            if type(content) is list:
                for block in content:
                    if block.type == _CALL:
                        waiting[block.id] = True
        elif message.role == "user":
            had_text = type(content) is str
            for block in content if type(content) is list else ():
                if block.type != _RESULT:
                    had_text = True
                elif had_text or not waiting.pop(block.tool_use_id, False):
                    return False
            if waiting:
                if had_text and None not in waiting:
                    return False
                waiting[None] = True  # the user's turn has begun; another message of it may hold more results
    waiting.pop(None, None)
    return not waiting or messages[-1].role == "assistant"


# A block with the caller's path of it.
_PathAndBlock = tuple[str, Any]


class _Turn(Struct):
    """A turn of the assistant with calls."""

    missing: dict[str, str]  # the path of each that has no result
    last_index: int
    results: list[_PathAndBlock]
    user_index: int | None = None  # of the message behind it


def put_calls_in_order(messages: Sequence[Message], body: Body) -> Repair | None:
    """Writes the messages with the results of each turn at the beginning of the next. None: they stay as they are."""
    turns = _find_turns(messages)
    if turns is None:
        return None
    raw_messages = _decode_list(as_raw(body["messages"]))
    decoded: dict[int, list[Any]] = {
        index: _decode_list(msgspec.json.decode(raw_messages[index], type=dict[str, Raw])["content"])
        for index, message in enumerate(messages)
        if message.role == "user" and isinstance(message.content, list)
    }
    reported: list[str] = []
    by_call: dict[str, _Turn] = {}
    starting = {turn.last_index: turn for turn in turns}
    kept: dict[int, list[_PathAndBlock]] = {}
    for index, message in enumerate(messages):
        turn = starting.get(index)
        if turn is not None:
            by_call |= dict.fromkeys(turn.missing, turn)
        if message.role != "user" or isinstance(message.content, str):
            continue
        kept[index] = []
        is_behind_others = False
        for number, block in enumerate(message.content):
            raw_block, path = decoded[index][number], f"messages[{index}].content[{number}]"
            if block.type != _RESULT:
                is_behind_others = True
                kept[index].append((path, raw_block))
                continue
            turn = by_call.get(block.tool_use_id or "")
            if turn is None or turn.missing.pop(block.tool_use_id or "", None) is None:
                kept[index] += _as_user_text(block, raw_block, path)
                reported.append(path)
                continue
            if turn.user_index != index or is_behind_others:
                reported.append(path)
            turn.results.append((path, raw_block))
    reported += [path for turn in turns if turn.user_index is not None for path in turn.missing.values()]
    return _write(messages, raw_messages, turns, kept, reported, body) if reported else None


def _find_turns(messages: Sequence[Message]) -> list[_Turn] | None:
    """The assistant's turns with calls. None: two of the calls of a turn have the same id."""
    turns: list[_Turn] = []
    is_open = False
    for index, message in enumerate(messages):
        if message.role == "user":
            if turns and turns[-1].user_index is None:
                turns[-1].user_index = index
            is_open = False
        if message.role != "assistant" or not isinstance(message.content, list):
            continue
        calls = {block.id or "": f"messages[{index}].content[{n}]" for n, block in enumerate(message.content) if block.type == _CALL}
        if len(calls) < sum(block.type == _CALL for block in message.content):
            return None
        if calls and is_open:
            turns[-1].missing |= calls
            turns[-1].last_index = index
        elif calls:
            turns.append(_Turn(calls, index, []))
            is_open = True
    return turns


def _write(
    messages: Sequence[Message],
    raw_messages: list[Raw],
    turns: list[_Turn],
    kept: dict[int, list[_PathAndBlock]],
    reported: list[str],
    body: Body,
) -> Repair:
    leading: dict[int, list[_PathAndBlock]] = {}
    for turn in turns:
        if turn.user_index is not None:
            leading[turn.user_index] = turn.results + [
                (path, {"type": _RESULT, "tool_use_id": call_id, "content": MISSING_RESULT, "is_error": True})
                for call_id, path in turn.missing.items()
            ]
    written: list[Any] = []
    indexes: list[int] = []
    part_paths: dict[int, Sequence[str]] = {}
    for index, message in enumerate(messages):
        results = leading.get(index, [])
        if message.role != "user" or (isinstance(message.content, str) and not results):
            written.append(raw_messages[index])
        else:
            text = [(f"messages[{index}].content", {"type": "text", "text": message.content})] if message.content else []
            blocks = results + (text if isinstance(message.content, str) else kept[index])
            if not blocks:
                continue  # all that it held has been moved
            part_paths[len(written)] = [path for path, _ in blocks]
            fields = msgspec.json.decode(raw_messages[index], type=dict[str, Raw])
            written.append({**fields, "content": [block for _, block in blocks]})
        indexes.append(index)
    body["messages"] = as_raw(written)
    return Repair(reported, indexes, part_paths)


def _as_user_text(block: Block, raw_block: Raw, path: str) -> list[_PathAndBlock]:
    introduction = lost_call_text(block.tool_use_id)
    content: Any = msgspec.json.decode(raw_block, type=dict[str, Any]).get("content")
    if isinstance(content, str):
        return [(path, {"type": "text", "text": f"{introduction}\n{content}"})]
    inner: list[_PathAndBlock] = [(f"{path}.content[{number}]", each) for number, each in enumerate(content or ())]
    return [(path, {"type": "text", "text": introduction}), *inner]


def has_wrong_label(block: Block) -> bool:
    """Whether this is an image whose label its bytes contradict."""
    source = block.source
    return block.type == "image" and isinstance(source, Source) and source.type == "base64" and _true_type(source) != source.media_type


def _true_type(source: Source) -> str:
    return image_type((source.media_type or "").lower(), source.data or "")


def relabel_images(body: Body) -> None:
    """Writes the messages with the true media type of each image."""
    messages = _decode_objects(as_raw(body["messages"]))
    for image in _images(message["content"] for message in messages):
        source = image["source"]
        source["media_type"] = image_type(source["media_type"].lower(), source["data"])
    body["messages"] = as_raw(messages)


def _images(contents: Iterator[Any]) -> Iterator[dict[str, Any]]:
    for content in contents:
        for block in cast("list[dict[str, Any]]", content) if isinstance(content, list) else ():
            if block["type"] == "image" and block["source"].get("type") == "base64":
                yield block
            elif block["type"] == _RESULT:
                yield from _images(iter([block.get("content")]))


def write_schema_types(tools: Sequence[Tool], body: Body) -> None:
    """Writes the type of each schema that leaves it out (providers/canonical/tool_schemas.py)."""
    decoded: list[dict[str, Any]] = _decode_raw_objects(as_raw(body["tools"]))
    for number, tool in enumerate(tools):
        if tool.input_schema is not None and tool.input_schema.type != OBJECT_TYPE:
            decoded[number]["input_schema"] = type_as_object(decoded[number]["input_schema"])
    body["tools"] = as_raw(decoded)
