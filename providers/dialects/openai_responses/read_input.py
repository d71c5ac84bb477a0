"""Reads the instructions and input items of a Responses request as messages."""

import mimetypes
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from providers.canonical.chat import (
    Audio,
    Content,
    File,
    Image,
    Inline,
    Message,
    Opaque,
    OpaqueState,
    Reasoning,
    Refusal,
    Role,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Uploaded,
)
from providers.canonical.errors import InvalidRequest
from providers.canonical.media import read_url
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.dialects.openai.file_host import FILE_HOST
from providers.dialects.openai_responses.dialect_name import DIALECT
from providers.dialects.openai_responses.input_items import list_input_items
from providers.dialects.openai_responses.namespaces import SEARCH_NAME, expand_namespace, is_namespace, qualified_name
from providers.dialects.openai_responses.raw_fields import RawObject, extra_fields, raw_field, text_field
from providers.dialects.openai_responses.read_output_items import PARAGRAPH_BREAK, read_citations, read_reasoning_part

_object_decoder = msgspec.json.Decoder(RawObject)
_list_decoder = msgspec.json.Decoder(list[Raw])
_NO_ARGUMENTS = Raw(b"{}")
_content_decoder = msgspec.json.Decoder(str | list[RawObject])

# Items that are tool results.
RESULT_TYPES = frozenset({"function_call_output", "custom_tool_call_output"})
# Items that are read as tools and as fields of the request (context_items.py), or ask for a compaction, and are no messages.
_SETTING_TYPES = frozenset({"additional_tools", "configuration_update", "compaction_trigger"})
# The role of items that only this dialect has. The role of all others is assistant.
_ITEM_ROLES: Mapping[str, Role] = {
    "computer_call_output": "user",
    "local_shell_call_output": "user",
    "shell_call_output": "user",
    "apply_patch_call_output": "user",
    "mcp_approval_response": "user",
    "tool_search_output": "user",
}


class LocatedMessage(Struct):
    """A message with its origin: the indexes of its input items, and for each part the item and the position inside it."""

    message: Message
    item_indexes: list[int]
    part_positions: list[tuple[int, int]]


def read_messages(body: Body) -> Iterable[Message]:
    for located in read_located_messages(body):
        yield located.message


def read_located_messages(body: Body) -> Iterable[LocatedMessage]:
    """The messages. Neighbouring items of the assistant become one message, and so do neighbouring tool results.

    Instructions become a system message without items. Raises InvalidRequest for an item that cannot be decoded.
    """
    if body.has_value("instructions") and body.value("instructions"):
        yield LocatedMessage(Message("system", (Text(body.value("instructions")),)), [], [])
    role: Role | None = None
    items: list[int] = []
    parts: list[Content] = []
    positions: list[tuple[int, int]] = []
    extra: dict[str, Raw] = {}
    for at, raw in enumerate(list_input_items(body)):
        try:
            item = _object_decoder.decode(raw)
            kind = _item_kind(item)
            if kind in _SETTING_TYPES:
                continue
            item_role, may_join = _item_role(kind, item)
            if role is not None and (item_role != role or not may_join or _is_other_phase(item, parts, extra)):
                yield _locate_message(role, items, parts, positions, extra)
                items, parts, positions, extra = [], [], [], {}
            previous_count = len(parts)
            _read_item(kind, item, raw, parts, extra)
            items.append(at)
            positions += [(at, part_index) for part_index in range(len(parts) - previous_count)]
            role = item_role
            if not may_join:
                yield _locate_message(role, items, parts, positions, extra)
                role, items, parts, positions, extra = None, [], [], [], {}
        except DECODE_ERRORS as exc:
            raise InvalidRequest(f"`input[{at}]` cannot be understood: {exc}.", param=f"input[{at}]") from None
    if role is not None:
        yield _locate_message(role, items, parts, positions, extra)


def _item_kind(item: RawObject) -> str:
    """Returns the type of an item. One without a type that has an id and no role is a reference, as parse_request() takes it."""
    is_reference = raw_field(item, "role") is None and raw_field(item, "id") is not None
    return text_field(item, "type") or ("item_reference" if is_reference else "message")


def _item_role(kind: str, item: RawObject) -> tuple[Role, bool]:
    """The role of an item's message, and whether neighbours of the same role join it."""
    if kind == "message":
        role: Any = text_field(item, "role")
        return role, role == "assistant"
    if kind in RESULT_TYPES:
        return "user", True
    return _ITEM_ROLES.get(kind, "assistant"), True


def _is_other_phase(item: RawObject, parts: list[Content], extra: RawObject) -> bool:
    """Whether its text has another `phase` (commentary or final answer) than the text before it: a message has one phase."""
    has_other_phase = _item_kind(item) == "message" and text_field(item, "phase") != text_field(extra, "phase")
    return has_other_phase and any(isinstance(part, Text | Refusal) for part in parts)


def _locate_message(
    role: Role, items: list[int], parts: list[Content], positions: list[tuple[int, int]], extra: dict[str, Raw]
) -> LocatedMessage:
    if role == "assistant":
        _restore_call_states(parts, positions)
    return LocatedMessage(Message(role, tuple(parts), extra=extra), items, positions)


def _read_item(kind: str, item: RawObject, raw: Raw, parts: list[Content], extra: dict[str, Raw]) -> None:
    match kind:
        case "message":
            extra |= extra_fields(item, "role", "content")
            parts += _read_content(item["content"])
        case "function_call" | "custom_tool_call":
            arguments_key = "input" if kind == "custom_tool_call" else "arguments"
            call = ToolCall(text_field(item, "call_id"), qualified_name(item), text_field(item, arguments_key), kind == "custom_tool_call")
            extra_call_fields = extra_fields(item, "call_id", "name", "namespace", arguments_key)
            parts.append(replace(call, extra=extra_call_fields) if extra_call_fields else call)
        case "function_call_output" | "custom_tool_call_output":
            results: Any = tuple(_read_content(item["output"]))
            parts.append(
                ToolResult(
                    text_field(item, "call_id"),
                    results,
                    custom=kind == "custom_tool_call_output",
                    extra=extra_fields(item, "call_id", "output"),
                )
            )
        case "tool_search_call" if call_id := text_field(item, "call_id"):
            parts.append(ToolCall(call_id, SEARCH_NAME, bytes(item.get("arguments", _NO_ARGUMENTS)).decode()))
        case "tool_search_output" if call_id := text_field(item, "call_id"):
            parts.append(ToolResult(call_id, (Text(_describe_found(item)),)))
        case "reasoning":
            part = _read_reasoning(item)
            if part is not None:
                parts.append(part)
        case _:
            parts.append(Opaque(DIALECT, raw))


def _describe_found(item: RawObject) -> str:
    """The names of the tools that a search has found, which the request has as tools."""
    names: list[str] = []
    for raw in _list_decoder.decode(item["tools"]):
        tool = _object_decoder.decode(raw)
        functions = expand_namespace(tool) if is_namespace(tool) else [tool]
        names += [text_field(function, "name") for function in functions]
    return f"Found these tools, which can be called now: {', '.join(filter(None, names))}" if names else "No tool was found."


def _read_reasoning(item: RawObject) -> Reasoning | Opaque | None:
    """Returns None for an item without text and without encrypted content."""
    text = PARAGRAPH_BREAK.join([*_texts(item, "content")] or [*_texts(item, "summary")])
    part = read_reasoning_part(text, text_field(item, "encrypted_content"))
    other_fields = extra_fields(item, *_REASONING_FIELDS)
    return replace(part, extra=other_fields) if other_fields and isinstance(part, Reasoning) else part


_REASONING_FIELDS = ("summary", "content", "encrypted_content")


def _texts(item: RawObject, key: str) -> Iterable[str]:
    if key in item and item[key] != NULL:
        for each in _list_decoder.decode(item[key]):
            yield text_field(_object_decoder.decode(each), "text")


class _CallState(Struct):
    call: str
    seal: str


_call_state_decoder = msgspec.json.Decoder(_CallState)


def _restore_call_states(parts: list[Content], positions: list[tuple[int, int]]) -> None:
    """Puts the opaque state of a tool call back on the call, and removes the reasoning part that carried it."""
    opaque_states: dict[str, OpaqueState] = {}
    carriers: set[int] = set()
    for at, part in enumerate(parts):
        if isinstance(part, Reasoning) and not part.text and part.opaque_state is not None and part.opaque_state.origin != DIALECT:
            try:
                decoded = _call_state_decoder.decode(part.opaque_state.data)
            except DECODE_ERRORS:
                continue
            opaque_states[decoded.call] = OpaqueState(part.opaque_state.origin, decoded.seal)
            carriers.add(at)
    if not opaque_states:
        return
    kept_indexes = [at for at in range(len(parts)) if at not in carriers]
    positions[:] = [positions[at] for at in kept_indexes]
    parts[:] = [
        replace(part, opaque_state=opaque_states.get(part.id)) if isinstance(part, ToolCall) else part
        for part in (parts[at] for at in kept_indexes)
    ]


def _read_content(raw: Raw) -> Iterable[Content]:
    content = _content_decoder.decode(raw)
    if isinstance(content, str):
        return [Text(content)]
    return [_read_part(part) for part in content]


def _read_part(part: RawObject) -> Content:
    kind = text_field(part, "type")
    match kind:
        case "input_text" | "output_text" | "text":
            annotations = _list_decoder.decode(part["annotations"]) if "annotations" in part and part["annotations"] != NULL else ()
            return Text(text_field(part, "text"), read_citations(annotations), extra_fields(part, "text", "annotations", "logprobs"))
        case "refusal":
            return Refusal(text_field(part, "refusal"))
        case "input_image":
            detail = text_field(part, "detail")
            extra = extra_fields(part, "image_url", "file_id", "detail")
            return Image(_source(part, "image_url", read_url), None if detail in ("", "auto") else detail, extra)
        case "input_file":
            name = text_field(part, "filename") or None
            return File(_read_file(part, name), name, extra_fields(part, "file_data", "file_url", "file_id", "filename"))
        case "input_audio":
            audio = _object_decoder.decode(part["input_audio"])
            return Audio(Inline(f"audio/{text_field(audio, 'format')}", text_field(audio, "data")), extra_fields(part, "input_audio"))
        case _:
            return Opaque(DIALECT, Raw(msgspec.json.encode(part)))


def _read_file(part: RawObject, name: str | None) -> Source:
    data = text_field(part, "file_data")
    if not data:
        return _source(part, "file_url", read_url)
    source = read_url(data)
    if isinstance(source, Inline):
        return source
    # Plain base64, which some clients send: the file name gives the media type.
    return Inline(mimetypes.guess_type(name or "")[0] or "application/pdf", data)


def _source(part: RawObject, key: str, read_source: Callable[[str], Source]) -> Source:
    file_id = text_field(part, "file_id")
    return Uploaded(FILE_HOST, file_id) if file_id else read_source(text_field(part, key))
