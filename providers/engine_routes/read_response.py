"""Reading responses of these routes: an object or a list of objects, which may hold an error with status 200."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body, repair_unicode
from providers.canonical.upstream_errors import find_error
from providers.dialects.openai.usage import read_usage

_object_list_decoder = msgspec.json.Decoder(list[dict[str, Raw]])


class _MetaInfo(msgspec.Struct):
    prompt_tokens: int | None = None


_meta_info_decoder = msgspec.json.Decoder(_MetaInfo)


def read_object(raw: bytes) -> Body:
    """The response as an object. Raises InvalidUpstreamResponse, or the error that it holds."""
    body = Body.read_response(raw)
    error = find_error(body)
    if error is not None:
        raise error
    return body


def read_list(raw: bytes) -> list[Body]:
    """The response as a bare list of objects, as SGLang and TGI send it. Raises InvalidUpstreamResponse, or the error that it holds."""
    if raw.lstrip()[:1] == b"{":
        read_object(raw)
    for candidate in (raw, repair_unicode(raw)):
        try:
            return [Body(item) for item in _object_list_decoder.decode(candidate)]
        except DECODE_ERRORS:
            continue
    raise InvalidUpstreamResponse("The engine's response is not the list of objects that its API documents.")


def read_object_or_list(raw: bytes) -> Body | list[Body]:
    """The response as whichever of the two it is. Raises as they do."""
    return read_list(raw) if raw.lstrip()[:1] == b"[" else read_object(raw)


def reported_input_tokens(response: Body | list[Body]) -> int | None:
    """The input tokens that `usage` or SGLang's `meta_info` reports; None if one of the objects reports none."""
    counts = [_input_tokens(each) for each in (response if isinstance(response, list) else [response])]
    reported = [count for count in counts if count is not None]
    return sum(reported) if reported and len(reported) == len(counts) else None


def _input_tokens(item: Mapping[str, Any]) -> int | None:
    body = Body(item)
    if body.has_value("usage"):
        usage = read_usage(msgspec.json.encode(body["usage"]))
        return usage.input or None if usage else None
    try:
        return _meta_info_decoder.decode(msgspec.json.encode(body.get("meta_info", NULL))).prompt_tokens
    except DECODE_ERRORS:
        return None


def decode_field(body: Mapping[str, Any], key: str, decoder: msgspec.json.Decoder[Any], description: str) -> Any:
    """A field of the response, decoded. Raises InvalidUpstreamResponse. `description` says what it holds, for the error."""
    try:
        return decoder.decode(msgspec.json.encode(body.get(key, NULL)))
    except DECODE_ERRORS as error:
        raise InvalidUpstreamResponse(f"The engine's response holds no {description}: {error}.") from None
