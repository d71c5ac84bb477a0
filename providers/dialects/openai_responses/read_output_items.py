"""Reads output items of a Response as parts."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from providers.canonical.carrier import decode_carrier
from providers.canonical.chat import Citation, Opaque, Part, Reasoning, Refusal, Text, ToolCall
from providers.canonical.raw_json import DECODE_ERRORS
from providers.canonical.tool_calls import new_call_id
from providers.dialects.openai_responses.dialect_name import DIALECT
from providers.dialects.openai_responses.response_schema import Content, Item


class _Kind(Struct):
    type: str = ""


class _Annotation(Struct):
    type: str = ""
    url: str | None = None
    title: str | None = None
    filename: str | None = None
    start_index: int | None = None
    end_index: int | None = None


class _UnknownItem(Struct):
    content: list[Content] = []


_kind_decoder = msgspec.json.Decoder(_Kind)


_item_decoder = msgspec.json.Decoder(Item)
_content_decoder = msgspec.json.Decoder(_UnknownItem)


_annotation_decoder = msgspec.json.Decoder(_Annotation)


# Between the paragraphs of a reasoning summary.
PARAGRAPH_BREAK = "\n\n"


KNOWN_ITEM_TYPES = frozenset({"message", "reasoning", "function_call", "custom_tool_call"})


def read_item(raw: bytes | Raw) -> Item:
    """Decodes an item; of an unknown type, only its type. Raises DECODE_ERRORS."""
    kind = _kind_decoder.decode(raw).type
    return _item_decoder.decode(raw) if kind in KNOWN_ITEM_TYPES else Item(type=kind)


def read_parts(item: Item, raw: Raw) -> Iterator[Part]:
    match item.type:
        case "message":
            for content in item.content or ():
                part = read_content(content)
                if part is not None:
                    yield replace(part, phase=item.phase) if item.phase and isinstance(part, Text) else part
        case "reasoning":
            part = read_reasoning_part(read_reasoning_text(item), item.encrypted_content)
            if part is not None:
                yield part
        case "function_call" | "custom_tool_call":
            yield read_tool_call(item)
        case _:
            parts = [part for part in map(read_content, read_unknown_content(raw)) if part is not None]
            yield from parts or (Opaque(DIALECT, raw),)


def read_unknown_content(raw: bytes | Raw) -> list[Content]:
    """The content of an item of an unknown type, where it is a list as that of a message."""
    try:
        return _content_decoder.decode(raw).content
    except DECODE_ERRORS:
        return []


def read_content(content: Content) -> Text | Refusal | None:
    """Returns None for a type without a canonical part, and the text of an unknown type."""
    match content.type:
        case "output_text" | "text":
            return Text(content.text or "", read_citations(content.annotations))
        case "refusal":
            return Refusal(content.refusal or "")
        case "reasoning_text" | "summary_text":
            return None
        case _:
            return Text(content.text) if content.text else Refusal(content.refusal) if content.refusal else None


def read_reasoning_text(item: Item) -> str:
    """The reasoning, or its summary if the reasoning is encrypted."""
    return PARAGRAPH_BREAK.join(each.text or "" for each in item.content or item.summary or ())


def read_reasoning_part(text: str, encrypted_content: str | None) -> Reasoning | Opaque | None:
    """Reasoning, or the block of another dialect that its encrypted content carries. None without text and encrypted content."""
    if not encrypted_content:
        return Reasoning(text) if text else None
    opaque_state = decode_carrier(encrypted_content, caller_dialect=DIALECT)
    if opaque_state.origin != DIALECT and not text and _is_typed_object(opaque_state.data):
        return Opaque(opaque_state.origin, Raw(opaque_state.data.encode()))
    return Reasoning(text, opaque_state)


def _is_typed_object(data: str) -> bool:
    try:
        return bool(_kind_decoder.decode(data).type)
    except DECODE_ERRORS:
        return False


def read_tool_call(item: Item) -> ToolCall:
    """A tool call. It gets an id if it has none, as its result needs one, and an empty object if it has no arguments."""
    id, name = item.call_id or item.id or new_call_id(), item.name or ""
    if item.type == "custom_tool_call":
        return ToolCall(id, name, item.input or "", custom=True)
    arguments = item.arguments if isinstance(item.arguments, str | None) else msgspec.json.encode(item.arguments).decode()
    return ToolCall(id, name, arguments if arguments and not arguments.isspace() else "{}")


def read_citations(annotations: Sequence[Raw] | None) -> tuple[Citation, ...]:
    return tuple(_read_citation(raw) for raw in annotations or ())


def _read_citation(raw: Raw) -> Citation:
    annotation = _annotation_decoder.decode(raw)
    return Citation(
        DIALECT, raw, annotation.url, annotation.title or annotation.filename, None, annotation.start_index, annotation.end_index
    )
