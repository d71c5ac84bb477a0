"""The byte edit of embeddings: as many as requested, in order, in the requested encoding and length.

If they are that already, they stay the engine's own bytes. The body has no fields of ours: headers hold the ids.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse, RequestIgnored
from providers.canonical.model_names import read_model_name
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.upstream_errors import find_error
from providers.dialect import OutboundResponse, ResponseMeta
from providers.dialects.openai.usage import read_usage
from providers.dialects.openai_embeddings.vectors import decode_numbers, encode_base64, is_base64, vector_length

# Bytes per number in base64, by vLLM's `embed_dtype`.
_NUMBER_BYTES = {"float16": 2, "bfloat16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1}

_LIST = Raw(b'"list"')
_EMBEDDING = Raw(b'"embedding"')

_items_decoder = msgspec.json.Decoder(list[dict[str, Raw]])
_list_decoder = msgspec.json.Decoder(list[Raw])


class _RequestedOutput:
    """The encoding, the dimensions and the number of embeddings that the caller's body requests."""

    def __init__(self, request_body: Mapping[str, Any]) -> None:
        body = Body(request_body)
        self.as_base64 = body.value("encoding_format") == "base64"
        self.dimensions: int | None = body.value("dimensions")
        dtype, endianness = body.value("embed_dtype"), body.value("endianness")
        self.number_bytes = _NUMBER_BYTES.get(dtype, 4)
        # Numbers other than OpenAI's little-endian floats: they cannot be converted.
        self.custom_encoding = dtype not in (None, "float32") or endianness == "big"
        self.count = _count_inputs(body)


def _count_inputs(body: Body) -> int | None:
    """How many embeddings are requested; None if the body does not say."""
    if not body.has_value("input"):
        return _count_conversations(body) if body.has_value("messages") else None
    raw_input = body["input"]
    if not bytes(raw_input).startswith(b"["):
        return 1
    inputs = _list_decoder.decode(raw_input)
    return 1 if bytes(inputs[0])[:1].isdigit() else len(inputs)


def _count_conversations(body: Body) -> int:
    messages = _list_decoder.decode(body["messages"])
    return len(messages) if bytes(messages[0]).startswith(b"[") else 1


def edit_response(raw: bytes, meta: ResponseMeta) -> OutboundResponse:
    """A complete response.

    Raises InvalidUpstreamResponse for embeddings that do not match the request, RequestIgnored if the engine ignored `dimensions`, or
    the error that it reported with status 200.
    """
    body = Body.read_response(raw)
    error = find_error(body)
    if error is not None:
        raise error
    try:
        items = _items_decoder.decode(body.get("data", NULL))
    except DECODE_ERRORS as exc:
        raise InvalidUpstreamResponse(f"The engine's answer holds no embeddings: {exc}.") from None
    requested = _RequestedOutput(meta.request_body)
    if requested.count is not None and len(items) != requested.count:
        raise InvalidUpstreamResponse(f"The engine sent {len(items)} embeddings for {requested.count} inputs.")
    ordered = _sort_by_index(items)
    changed = [_fit_to_request(item, index, requested) for index, item in enumerate(ordered)]
    if ordered is not items or any(changed):
        body["data"] = ordered
    model = read_model_name(body.get("model"))
    body["object"], body["model"] = _LIST, meta.model
    usage = _read_usage(body)
    if not body.has_value("usage"):  # official clients require it; Together sends none
        body["usage"] = {"prompt_tokens": 0, "total_tokens": 0}
    return OutboundResponse(body.write(), usage, None, model)


def _sort_by_index(items: list[dict[str, Raw]]) -> list[dict[str, Raw]]:
    """The items sorted by index; the same list if they are sorted, or have no indexes."""
    indexes = [item.get("index", NULL) for item in items]
    positions = list(range(len(items)))
    if all(index == NULL for index in indexes) or [bytes(index) for index in indexes] == [b"%d" % position for position in positions]:
        return items
    try:
        order = [msgspec.json.decode(index, type=int) for index in indexes]
    except DECODE_ERRORS:
        order = []
    if sorted(order) != positions:
        raise InvalidUpstreamResponse("The engine's embeddings are not numbered as the inputs are.")
    return [items[at] for at in sorted(positions, key=order.__getitem__)]


def _fit_to_request(item: dict[str, Any], index: int, requested: _RequestedOutput) -> bool:
    """Converts an item to what is requested; returns whether it changed. Raises InvalidUpstreamResponse or RequestIgnored."""
    vector = item.get("embedding", NULL)
    length = vector_length(vector, requested.number_bytes)
    if requested.dimensions is not None and length != requested.dimensions:
        raise RequestIgnored(
            f"The engine sent an embedding of {length} numbers, but `dimensions` is {requested.dimensions}: this model does not "
            "support it. Leave it out, or choose another model.",
            upstream_status=422,
            param="dimensions",
        )
    changes: dict[str, Any] = {key: value for key, value in (("index", index), ("object", _EMBEDDING)) if item.get(key, NULL) == NULL}
    if is_base64(vector) != requested.as_base64:
        if requested.custom_encoding:
            raise InvalidUpstreamResponse("The engine sent its embeddings in another encoding than requested, and not as 32-bit floats.")
        changes["embedding"] = encode_base64(vector) if requested.as_base64 else decode_numbers(vector)
    item.update(changes)
    return bool(changes)


def _read_usage(body: Body) -> Usage:
    """Usage with an output of 0, whatever is reported. An input of 0, which some hosts report, counts as unknown."""
    reported = read_usage(body["usage"]) if body.has_value("usage") else None
    return Usage(reported.input or None if reported else None, 0)
