"""Reading what engines answer on these routes: an object or a list of them, in which an error may stand with status 200."""

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
    """Raises Garbled, or the error that it holds."""
    body = Body.read_response(raw)
    error = find_error(body)
    if error is not None:
        raise error
    return body


def read_list(raw: bytes) -> list[Body]:
    """A bare list, as SGLang and TGI answer. Raises Garbled, or the error that came instead."""
    if raw.lstrip()[:1] == b"{":
        read_object(raw)
    for candidate in (raw, repair_unicode(raw)):
        try:
            return [Body(item) for item in _object_list_decoder.decode(candidate)]
        except DECODE_ERRORS:
            continue
    raise InvalidUpstreamResponse("The engine's answer is not the list of objects that its API promises.")


def read_object_or_list(raw: bytes) -> Body | list[Body]:
    """Whichever of the two it is."""
    return read_list(raw) if raw.lstrip()[:1] == b"[" else read_object(raw)


def reported_input_tokens(response: Body | list[Body]) -> int | None:
    """The tokens that went in, as `usage` or SGLang's `meta_info` tells them; None if they are not told of all."""
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
    """Raises Garbled: `what` the engine's answer holds not."""
    try:
        return decoder.decode(msgspec.json.encode(body.get(key, NULL)))
    except DECODE_ERRORS as error:
        raise InvalidUpstreamResponse(f"The engine's answer holds no {description}: {error}.") from None
