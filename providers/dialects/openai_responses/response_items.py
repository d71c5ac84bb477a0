"""Items of an answer's output: parts as items, and back."""

import re
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, assert_never

import msgspec
from msgspec import Raw, Struct

from providers.canonical.carrier import decode_carrier, encode_carrier
from providers.canonical.chat import Citation, Opaque, OpaqueState, Part, Reasoning, Refusal, Text, ToolCall
from providers.canonical.raw_json import DECODE_ERRORS, to_single_line
from providers.dialect import ResponseMeta

ORIGIN = "openai_responses"
# Who keeps the files that are uploaded for it: the same as for OpenAI's chat.
FILE_HOST = "openai"
# OpenAI's own are longer, vLLM's are UUIDs of another version.
_GATEWAY_ITEM_ID = re.compile(r"[a-z]{2,4}_([0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15})[0-9a-f]{4}")
# Between the parts of a summary, which are paragraphs.
PARAGRAPH_BREAK = "\n\n"


class Content(Struct):
    """A part of a message, of reasoning or of its summary."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    annotations: list[Raw] | None = None
    logprobs: list[Raw] | None = None


class Item(Struct):
    type: str = ""
    content: list[Content] | None = None
    summary: list[Content] | None = None
    encrypted_content: str | None = None
    call_id: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None
    input: str | None = None


class _Kind(Struct):
    type: str = ""


class _Annotation(Struct):
    type: str = ""
    url: str | None = None
    title: str | None = None
    filename: str | None = None
    start_index: int | None = None
    end_index: int | None = None


_kind_decoder = msgspec.json.Decoder(_Kind)
_item_decoder = msgspec.json.Decoder(Item)
_annotation_decoder = msgspec.json.Decoder(_Annotation)
KNOWN_ITEM_TYPES = frozenset({"message", "reasoning", "function_call", "custom_tool_call"})


def read_item(raw: bytes | Raw) -> Item:
    """An item of a type that has no name here is told by its type alone. Raises what msgspec raises."""
    kind = _kind_decoder.decode(raw).type
    return _item_decoder.decode(raw) if kind in KNOWN_ITEM_TYPES else Item(type=kind)


def read_parts(item: Item, raw: Raw) -> Iterator[Part]:
    match item.type:
        case "message":
            for content in item.content or ():
                part = read_content(content)
                if part is not None:
                    yield part
        case "reasoning":
            part = read_reasoning_part(read_reasoning_text(item), item.encrypted_content)
            if part is not None:
                yield part
        case "function_call" | "custom_tool_call":
            yield read_tool_call(item)
        case _:
            yield Opaque(ORIGIN, raw)


def read_content(content: Content) -> Text | Refusal | None:
    """None for a type that has no part in the meaning of an answer."""
    match content.type:
        case "output_text" | "text":
            return Text(content.text or "", read_citations(content.annotations))
        case "refusal":
            return Refusal(content.refusal or "")
        case _:
            return None


def read_reasoning_text(item: Item) -> str:
    """What was thought, or where that is sealed the summary of it."""
    return PARAGRAPH_BREAK.join(each.text or "" for each in item.content or item.summary or ())


def read_reasoning_part(text: str, encrypted_content: str | None) -> Reasoning | Opaque | None:
    """Reasoning, or what is carried in its place; None for what says nothing: neither text nor what only its minter can read."""
    if not encrypted_content:
        return Reasoning(text) if text else None
    opaque_state = decode_carrier(encrypted_content, caller_dialect=ORIGIN)
    if opaque_state.origin != ORIGIN and not text and _is_typed_object(opaque_state.data):
        return Opaque(opaque_state.origin, Raw(opaque_state.data.encode()))
    return Reasoning(text, opaque_state)


def _is_typed_object(data: str) -> bool:
    try:
        return bool(_kind_decoder.decode(data).type)
    except DECODE_ERRORS:
        return False


def read_tool_call(item: Item) -> ToolCall:
    """A call without an id gets one, for its result could not be told otherwise."""
    custom = item.type == "custom_tool_call"
    return ToolCall(
        item.call_id or item.id or f"call_{uuid.uuid4().hex[:24]}",
        item.name or "",
        (item.input if custom else item.arguments) or "",
        custom,
    )


def read_citations(annotations: Sequence[Raw] | None) -> tuple[Citation, ...]:
    return tuple(_read_citation(raw) for raw in annotations or ())


def _read_citation(raw: Raw) -> Citation:
    annotation = _annotation_decoder.decode(raw)
    return Citation(
        ORIGIN, raw, annotation.url, annotation.title or annotation.filename, None, annotation.start_index, annotation.end_index
    )


def write_citations(text: str, citations: Sequence[Citation]) -> list[Any]:
    """Those of a document that has no address can be said by nobody but who told them, and are left out."""
    annotations: list[Any] = []
    for each in citations:
        if each.origin == ORIGIN:
            annotations.append(Raw(to_single_line(bytes(each.raw))))
        elif each.url is not None:
            start, end = each.start or 0, len(text) if each.end is None else each.end
            annotations.append(
                {"type": "url_citation", "start_index": start, "end_index": end, "title": each.title or each.url, "url": each.url}
            )
    return annotations


def item_id(meta: ResponseMeta, prefix: str, output_index: int) -> str:
    """OpenAI takes back ids of at most 64 characters."""
    return f"{prefix}_{meta.id.replace('-', '')}{output_index:04x}"


def response_uuid_of(item_id: str) -> str | None:
    """The answer (its inference's UUID) of which item_id() made this id; None for an id of another's."""
    matched = _GATEWAY_ITEM_ID.fullmatch(item_id)
    return None if matched is None else str(uuid.UUID(matched[1]))


def write_text_content(text: str, annotations: Sequence[Any], logprobs: Sequence[Raw] = ()) -> dict[str, Any]:
    return {"type": "output_text", "annotations": annotations, "logprobs": logprobs, "text": text}


def write_refusal_content(text: str) -> dict[str, Any]:
    return {"type": "refusal", "refusal": text}


def write_message_item(id: str, content: Sequence[dict[str, Any]], status: str) -> dict[str, Any]:
    return {"id": id, "type": "message", "status": status, "content": content, "role": "assistant"}


def write_reasoning_item(
    id: str, text: str, opaque_state: OpaqueState | None, *, as_summary: bool, status: str = "completed"
) -> dict[str, Any]:
    """Reasoning is told as such, and as a summary to who asked for one. What another dialect minted is carried in the sealed field."""
    item: dict[str, Any] = {"id": id, "type": "reasoning", "status": status, "summary": [], "content": []}
    if text:
        item["summary" if as_summary else "content"] = [{"type": "summary_text" if as_summary else "reasoning_text", "text": text}]
    if opaque_state is not None:
        item["encrypted_content"] = encode_carrier(opaque_state, caller_dialect=ORIGIN)
    return item


def write_call_item(id: str, call: ToolCall, arguments: str, status: str = "completed") -> dict[str, Any]:
    call_fields = {"call_id": call.id, "name": call.name}
    if call.custom:
        return {"id": id, "type": "custom_tool_call", "status": status, "input": arguments, **call_fields}
    return {"id": id, "type": "function_call", "status": status, "arguments": arguments, **call_fields}


def call_opaque_state(call: ToolCall, opaque_state: OpaqueState) -> OpaqueState:
    """What came with a call, in a reasoning item of its own behind it: an item for a call has no field for it."""
    return OpaqueState(opaque_state.origin, msgspec.json.encode({"call": call.id, "seal": opaque_state.data}).decode())


def write_opaque_item(id: str, part: Opaque) -> Any:
    """Its own as it is; another's is carried."""
    if part.origin == ORIGIN:
        return Raw(to_single_line(bytes(part.raw)))
    return write_reasoning_item(id, "", OpaqueState(part.origin, bytes(part.raw).decode()), as_summary=False)


def wants_summary(meta: ResponseMeta) -> bool:
    raw_reasoning = meta.request_body.get("reasoning")
    reasoning = msgspec.json.decode(raw_reasoning) if isinstance(raw_reasoning, Raw) else raw_reasoning
    return isinstance(reasoning, dict) and bool(reasoning.get("summary") or reasoning.get("generate_summary"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def id_prefix(part: Part) -> str:
    match part:
        case Text() | Refusal():
            return "msg"
        case Reasoning() | Opaque():
            return "rs"
        case ToolCall():
            return "ctc" if part.custom else "fc"
        case _:
            assert_never(part)
