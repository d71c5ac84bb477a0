"""Writes parts as output items of a Response."""

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec
from msgspec import Raw

from providers.canonical.carrier import encode_carrier
from providers.canonical.chat import Citation, Opaque, OpaqueState, Part, Reasoning, Refusal, Text, ToolCall
from providers.canonical.sse import to_single_line
from providers.canonical.tool_calls import write_arguments
from providers.dialect import ResponseMeta
from providers.dialects.openai_responses.dialect_name import DIALECT
from providers.dialects.openai_responses.namespaces import SEARCH_NAME, CallNames


def write_message_item(id: str, content: Sequence[dict[str, Any]], status: str, phase: str | None = None) -> dict[str, Any]:
    item: dict[str, Any] = {"id": id, "type": "message", "status": status, "content": content, "role": "assistant"}
    return item if phase is None else {**item, "phase": phase}


def is_other_phase(part: Part, phase: str | None) -> bool:
    """Whether a text begins a message of its own, as the one before it has another phase."""
    return isinstance(part, Text) and part.phase != phase


def write_text_content(text: str, annotations: Sequence[Any], logprobs: Sequence[Raw] = ()) -> dict[str, Any]:
    return {"type": "output_text", "annotations": annotations, "logprobs": logprobs, "text": text}


def write_logprob(entry: Raw) -> Raw:
    """An entry on one line, with a list of `bytes` for each token: a Response takes no null, which chat does.

    Of a host that reports none they are those of the token's text; none where that is not all of the token.
    """
    decoded = msgspec.json.decode(entry)
    incomplete = [each for each in (decoded, *(decoded.get("top_logprobs") or ())) if each.get("bytes") is None]
    for each in incomplete:
        each["bytes"] = [] if "\ufffd" in each["token"] else list(each["token"].encode())
    return Raw(msgspec.json.encode(decoded) if incomplete else to_single_line(bytes(entry)))


def write_refusal_content(text: str) -> dict[str, Any]:
    return {"type": "refusal", "refusal": text}


def write_reasoning_item(
    id: str, text: str, opaque_state: OpaqueState | None, *, as_summary: bool, status: str = "completed"
) -> dict[str, Any]:
    """A reasoning item. With `as_summary` the text is written as a summary, because the caller requested one.

    The opaque state of another dialect is carried in `encrypted_content`.
    """
    item: dict[str, Any] = {"id": id, "type": "reasoning", "status": status, "summary": [], "content": []}
    if text:
        item["summary" if as_summary else "content"] = [{"type": "summary_text" if as_summary else "reasoning_text", "text": text}]
    if opaque_state is not None:
        item["encrypted_content"] = encode_carrier(opaque_state, caller_dialect=DIALECT)
    return item


def write_call_item(id: str, call: ToolCall, arguments: str, names: CallNames, status: str = "completed") -> dict[str, Any]:
    """A call. One of a function in a namespace names both parts."""
    if is_search_call(call, names):
        head = {"id": id, "type": "tool_search_call", "execution": "client", "call_id": call.id, "status": status}
        return {**head, "arguments": write_arguments(arguments)}
    call_fields = {"call_id": call.id, "name": call.name}
    if call.name in names.in_namespaces:
        call_fields["namespace"], call_fields["name"] = names.in_namespaces[call.name]
    if call.custom:
        return {"id": id, "type": "custom_tool_call", "status": status, "input": arguments, **call_fields}
    return {"id": id, "type": "function_call", "status": status, "arguments": arguments, **call_fields}


def is_search_call(part: Part, names: CallNames) -> bool:
    """Whether a call is written as a search for tools, which has arguments as an object, and no events of their own."""
    return names.has_search and isinstance(part, ToolCall) and part.name == SEARCH_NAME and not part.custom


def may_be_cut_off(part: Part) -> bool:
    """Whether a part that is the last of a response that was cut off has no end. What a host signed is complete."""
    match part:
        case Text() | Refusal():
            return True
        case Reasoning() | ToolCall():
            return part.opaque_state is None
        case Opaque():
            return False
        case _:
            assert_never(part)


def call_opaque_state(call: ToolCall, opaque_state: OpaqueState) -> OpaqueState:
    """The opaque state of a tool call, for a reasoning item of its own behind the call: a call item has no field for it."""
    return OpaqueState(opaque_state.origin, msgspec.json.encode({"call": call.id, "seal": opaque_state.data}).decode())


def write_opaque_item(id: str, part: Opaque) -> Any:
    """An item of this dialect as it is, or a reasoning item that carries the block of another dialect."""
    if part.origin == DIALECT:
        return Raw(to_single_line(bytes(part.raw)))
    return write_reasoning_item(id, "", OpaqueState(part.origin, bytes(part.raw).decode()), as_summary=False)


def write_citations(text: str, citations: Sequence[Citation]) -> list[Any]:
    """The annotations. A citation of another dialect without a URL cannot be expressed and is left out."""
    annotations: list[Any] = []
    for each in citations:
        if each.origin == DIALECT:
            annotations.append(Raw(to_single_line(bytes(each.raw))))
        elif each.url is not None:
            start, end = each.start or 0, len(text) if each.end is None else each.end
            annotations.append(
                {"type": "url_citation", "start_index": start, "end_index": end, "title": each.title or each.url, "url": each.url}
            )
    return annotations


def wants_summary(meta: ResponseMeta) -> bool:
    """Whether the request asks for a summary of the reasoning."""
    raw_reasoning = meta.request_body.get("reasoning")
    reasoning = msgspec.json.decode(raw_reasoning) if isinstance(raw_reasoning, Raw) else raw_reasoning
    return isinstance(reasoning, dict) and bool(reasoning.get("summary") or reasoning.get("generate_summary"))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
