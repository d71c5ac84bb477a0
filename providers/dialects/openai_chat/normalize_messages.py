"""Makes messages of chat what every host accepts, where that changes nothing that they say: as soon as a request is parsed.

Empty lists ask for nothing, and OpenAI, Qwen and DeepSeek answer 400 to them ("[] is too short": openai/openai-node#1341,
QwenLM/qwen-code#2054, JetBrains/koog#786, read 2026-11). Calls and results are put in order (providers/canonical/open_calls.py), and images
get the label that their bytes have (providers/canonical/image_types.py).
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from providers.canonical.extra_fields import as_raw
from providers.canonical.image_types import relabel_data_url
from providers.canonical.open_calls import MISSING_RESULT, Entry, LostCall, Missing, Repair, arrange, lost_call_text
from providers.canonical.raw_json import NULL, Body
from providers.canonical.tool_schemas import OBJECT_TYPE, type_as_object
from providers.dialects.openai_chat.request_schema import ImageUrl, Message, Tool

_EMPTY_TEXT = Raw(b'""')

_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_objects = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode = msgspec.json.decode


def are_calls_in_order(messages: Sequence[Message]) -> bool:
    """Whether each call has a result right after it, and each result a call. Calls without ids, which are OpenAI's oldest, are."""
    waiting: set[str | None] = set()
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id not in waiting:
                return False
            waiting.remove(message.tool_call_id)
        elif waiting:
            return False
        elif message.tool_calls:
            waiting = {call.id for call in message.tool_calls}
            if len(waiting) < len(message.tool_calls):
                return False
    return not waiting or bool(messages[-1].tool_calls)


def put_calls_in_order(messages: Sequence[Message], body: Body) -> Repair | None:
    """Writes the messages with one result after each call. None: they stay as they are, for ids are missing or used twice."""
    if any(_has_no_id(message) for message in messages):
        return None
    entries = [
        Entry(
            f"messages[{at}]",
            [(call.id or "", f"messages[{at}].tool_calls[{number}]") for number, call in enumerate(message.tool_calls or ())],
            message.tool_call_id if message.role == "tool" else None,
            message.role == "assistant",
        )
        for at, message in enumerate(messages)
    ]
    arranged = arrange(entries, joins_entries=False)
    if arranged is None:
        return None
    order, reported = arranged
    raw_messages = _decode_list(as_raw(body["messages"]))
    written: list[Any] = []
    part_paths: dict[int, Sequence[str]] = {}
    for each in order:
        match each:
            case Missing():
                written.append({"role": "tool", "tool_call_id": each.call_id, "content": MISSING_RESULT})
            case LostCall():
                content = messages[each.index].content
                if isinstance(content, list):
                    path = f"messages[{each.index}]"
                    part_paths[len(written)] = [path, *(f"{path}.content[{number}]" for number in range(len(content)))]
                written.append(_as_user_message(_decode_object(raw_messages[each.index])))
            case _:
                written.append(raw_messages[each])
    body["messages"] = as_raw(written)
    return Repair(reported, [each if isinstance(each, int) else each.index for each in order], part_paths)


def _has_no_id(message: Message) -> bool:
    if message.role in ("tool", "function"):
        return not message.tool_call_id
    return message.function_call is not None or any(not call.id for call in message.tool_calls or ())


def _as_user_message(result: dict[str, Raw]) -> dict[str, Any]:
    introduction = lost_call_text(_decode(result["tool_call_id"]))
    content: Any = result.get("content", NULL)
    if bytes(content)[:1] == b"[":
        return {"role": "user", "content": [{"type": "text", "text": introduction}, *_decode_list(content)]}
    return {"role": "user", "content": f"{introduction}\n{_decode(content) or ''}"}


def leave_out_empty_lists(body: Body) -> None:
    """Writes the messages without `tool_calls: []`, and with a text in place of `content: []`."""
    messages = _decode_objects(as_raw(body["messages"]))
    for message in messages:
        if _is_empty_list(message.get("tool_calls", NULL)):
            del message["tool_calls"]
        if _is_empty_list(message.get("content", NULL)) and "tool_calls" not in message:
            message["content"] = _EMPTY_TEXT  # beside calls Mistral takes it: recording mistral/13
    body["messages"] = as_raw(messages)


def _is_empty_list(raw: Raw) -> bool:
    value = bytes(raw)
    return value[:1] == b"[" and not value[1:-1].strip()


def relabel_images(messages: Sequence[Message], body: Body) -> None:
    """Writes the messages with the true media type of each image that is sent as a data URL."""
    raw_messages: list[Any] = _decode_list(as_raw(body["messages"]))
    for at, message in enumerate(messages):
        if not isinstance(message.content, list):
            continue
        urls = {number: url for number, part in enumerate(message.content) if (url := _true_url(part.image_url)) is not None}
        if urls:
            raw_messages[at] = _with_urls(_decode_object(raw_messages[at]), urls)
    body["messages"] = as_raw(raw_messages)


def _true_url(image_url: ImageUrl | str | None) -> str | None:
    url = image_url.url if isinstance(image_url, ImageUrl) else image_url
    return None if url is None else relabel_data_url(url)


def _with_urls(message: dict[str, Raw], urls: dict[int, str]) -> dict[str, Any]:
    parts: list[Any] = _decode_objects(message["content"])
    for number, url in urls.items():
        image_url = parts[number]["image_url"]
        parts[number]["image_url"] = url if bytes(image_url)[:1] == b'"' else {**_decode_object(image_url), "url": url}
    return {**message, "content": parts}


def is_mislabelled(image_url: ImageUrl | str | None) -> bool:
    """Whether this is a data URL of an image with a wrong label."""
    return _true_url(image_url) is not None


def write_schema_types(tools: Sequence[Tool], body: Body) -> None:
    """Writes the type of each function's schema that leaves it out, and leaves out null (providers/canonical/tool_schemas.py)."""
    decoded: list[dict[str, Any]] = _decode_objects(as_raw(body["tools"]))
    for number, tool in enumerate(tools):
        if tool.function is None or tool.function.parameters is UNSET:
            continue
        function: dict[str, Raw] = _decode_object(decoded[number]["function"])
        if tool.function.parameters is None:
            del function["parameters"]  # OpenAI refuses null, and takes a function without
            decoded[number]["function"] = function
        elif tool.function.parameters.type != OBJECT_TYPE:
            decoded[number]["function"] = {**function, "parameters": type_as_object(function["parameters"])}
    body["tools"] = as_raw(decoded)
