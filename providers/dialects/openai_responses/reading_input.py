"""What was said so far in an ask in Responses: items as messages."""

import mimetypes
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from providers.chat import (
    Audio,
    Content,
    File,
    Image,
    Inline,
    Message,
    Opaque,
    Reasoning,
    Refusal,
    Role,
    Seal,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Uploaded,
)
from providers.dialects.openai_responses.conversation import input_items
from providers.dialects.openai_responses.fields import Object, rest_of, text_of
from providers.dialects.openai_responses.items import BREAK, HOST, ORIGIN, read_citations, read_sealed
from providers.errors import Malformed
from providers.media import read_url
from providers.wire import NULL, UNREADABLE, Body

_object = msgspec.json.Decoder(Object)
_list = msgspec.json.Decoder(list[Raw])
_content = msgspec.json.Decoder(str | list[Object])

# Items that are what a call gave.
RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})
# Whose message an item is part of that only this dialect has; of the others it is the assistant's.
_SIDES: Mapping[str, Role] = {
    "computer_call_output": "user",
    "local_shell_call_output": "user",
    "shell_call_output": "user",
    "apply_patch_call_output": "user",
    "mcp_approval_response": "user",
    "additional_tools": "developer",
    "configuration_update": "developer",
}


class Placed(Struct):
    """A message, the items of the input that it was read from, and of each of its parts the item and the place within that."""

    message: Message
    items: list[int]
    parts: list[tuple[int, int]]


def read_messages(body: Body) -> Iterable[Message]:
    for placed in read_placed(body):
        yield placed.message


def read_placed(body: Body) -> Iterable[Placed]:
    """Neighbouring items of the assistant are one message, and so are neighbouring results of tools. Instructions are of no item."""
    if body.said("instructions") and body.value("instructions"):
        yield Placed(Message("system", (Text(body.value("instructions")),)), [], [])
    role: Role | None = None
    items: list[int] = []
    parts: list[Content] = []
    places: list[tuple[int, int]] = []
    extra: dict[str, Raw] = {}
    for at, raw in enumerate(input_items(body)):
        try:
            item = _object.decode(raw)
            kind = text_of(item, "type") or "message"
            side, joins = _side(kind, item)
            if role is not None and (side != role or not joins or _is_other_phase(item, parts, extra)):
                yield _placed(role, items, parts, places, extra)
                items, parts, places, extra = [], [], [], {}
            before = len(parts)
            _read_item(kind, item, raw, parts, extra)
            items.append(at)
            places += [(at, within) for within in range(len(parts) - before)]
            role = side
            if not joins:
                yield _placed(role, items, parts, places, extra)
                role, items, parts, places, extra = None, [], [], [], {}
        except UNREADABLE as fault:
            raise Malformed(f"`input[{at}]` cannot be understood: {fault}.", param=f"input[{at}]") from None
    if role is not None:
        yield _placed(role, items, parts, places, extra)


def _side(kind: str, item: Object) -> tuple[Role, bool]:
    """Whose message an item belongs to, and whether it may share it with its neighbours."""
    if kind == "message":
        role: Any = text_of(item, "role")
        return role, role == "assistant"
    if kind in RESULTS:
        return "user", True
    return _SIDES.get(kind, "assistant"), True


def _is_other_phase(item: Object, parts: list[Content], extra: Object) -> bool:
    """Whether its text is commentary where that before it was the final answer, or the other way round: a message is one of them."""
    is_text = (text_of(item, "type") or "message") == "message"
    return is_text and text_of(item, "phase") != text_of(extra, "phase") and any(isinstance(part, Text | Refusal) for part in parts)


def _placed(role: Role, items: list[int], parts: list[Content], places: list[tuple[int, int]], extra: dict[str, Raw]) -> Placed:
    if role == "assistant":
        _seal_calls(parts, places)
    return Placed(Message(role, tuple(parts), extra=extra), items, places)


def _read_item(kind: str, item: Object, raw: Raw, parts: list[Content], extra: dict[str, Raw]) -> None:
    match kind:
        case "message":
            extra |= rest_of(item, "role", "content")
            parts += _read_content(item["content"])
        case "function_call" | "custom_tool_call":
            said = "input" if kind == "custom_tool_call" else "arguments"
            call = ToolCall(text_of(item, "call_id"), text_of(item, "name"), text_of(item, said), kind == "custom_tool_call")
            more = rest_of(item, "call_id", "name", said)
            parts.append(replace(call, extra=more) if more else call)
        case "function_call_output" | "custom_tool_call_output":
            results: Any = tuple(_read_content(item["output"]))
            parts.append(
                ToolResult(
                    text_of(item, "call_id"), results, custom=kind == "custom_tool_call_output", extra=rest_of(item, "call_id", "output")
                )
            )
        case "reasoning":
            part = _read_reasoning(item)
            if part is not None:
                parts.append(part)
        case _:
            parts.append(Opaque(ORIGIN, raw))


def _read_reasoning(item: Object) -> Reasoning | Opaque | None:
    """None for what says nothing: neither text nor what only its minter can read."""
    thought = BREAK.join([*_texts(item, "content")] or [*_texts(item, "summary")])
    part = read_sealed(thought, text_of(item, "encrypted_content"))
    more = rest_of(item, *_REASONING)
    return replace(part, extra=more) if more and isinstance(part, Reasoning) else part


_REASONING = ("summary", "content", "encrypted_content")


def _texts(item: Object, key: str) -> Iterable[str]:
    if key in item and item[key] != NULL:
        for each in _list.decode(item[key]):
            yield text_of(_object.decode(each), "text")


class _CallSeal(Struct):
    call: str
    seal: str


_call_seals = msgspec.json.Decoder(_CallSeal)


def _seal_calls(parts: list[Content], places: list[tuple[int, int]]) -> None:
    """Puts what came with a call back on the call, and takes away the reasoning that carried it."""
    seals: dict[str, Seal] = {}
    carriers: set[int] = set()
    for at, part in enumerate(parts):
        if isinstance(part, Reasoning) and not part.text and part.seal is not None and part.seal.origin != ORIGIN:
            try:
                told = _call_seals.decode(part.seal.data)
            except UNREADABLE:
                continue
            seals[told.call] = Seal(part.seal.origin, told.seal)
            carriers.add(at)
    if not seals:
        return
    kept = [at for at in range(len(parts)) if at not in carriers]
    places[:] = [places[at] for at in kept]
    parts[:] = [replace(part, seal=seals.get(part.id)) if isinstance(part, ToolCall) else part for part in (parts[at] for at in kept)]


def _read_content(raw: Raw) -> Iterable[Content]:
    said = _content.decode(raw)
    if isinstance(said, str):
        return [Text(said)]
    return [_read_part(part) for part in said]


def _read_part(part: Object) -> Content:
    kind = text_of(part, "type")
    match kind:
        case "input_text" | "output_text" | "text":
            annotations = _list.decode(part["annotations"]) if "annotations" in part and part["annotations"] != NULL else ()
            return Text(text_of(part, "text"), read_citations(annotations), rest_of(part, "text", "annotations", "logprobs"))
        case "refusal":
            return Refusal(text_of(part, "refusal"))
        case "input_image":
            detail = text_of(part, "detail")
            extra = rest_of(part, "image_url", "file_id", "detail")
            return Image(_source(part, "image_url", read_url), None if detail in ("", "auto") else detail, extra)
        case "input_file":
            name = text_of(part, "filename") or None
            return File(_read_file(part, name), name, rest_of(part, "file_data", "file_url", "file_id", "filename"))
        case "input_audio":
            audio = _object.decode(part["input_audio"])
            return Audio(Inline(f"audio/{text_of(audio, 'format')}", text_of(audio, "data")), rest_of(part, "input_audio"))
        case _:
            return Opaque(ORIGIN, Raw(msgspec.json.encode(part)))


def _read_file(part: Object, name: str | None) -> Source:
    data = text_of(part, "file_data")
    if not data:
        return _source(part, "file_url", read_url)
    source = read_url(data)
    if isinstance(source, Inline):
        return source
    # Base64 alone, as some clients send it: what it is, its name tells.
    return Inline(mimetypes.guess_type(name or "")[0] or "application/pdf", data)


def _source(part: Object, key: str, read: Callable[[str], Source]) -> Source:
    file_id = text_of(part, "file_id")
    return Uploaded(HOST, file_id) if file_id else read(text_of(part, key))
