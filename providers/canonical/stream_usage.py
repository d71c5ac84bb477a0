"""Adds to the usage of a response, or to the last one of a stream, that is written for a caller, in whichever dialect."""

from collections.abc import Mapping
from typing import Any

from providers.canonical.raw_json import DECODE_ERRORS, Body, merge_object

_DATA = b"data: "


def add_to_last_usage(frames: bytes, added: Mapping[str, Any]) -> bytes:
    """The frames with fields added to their last usage; unchanged if they have none.

    `frames` are complete events, as the stream editors of providers/dialects write them. Usage is a field of the event (OpenAI's chat and
    completions, Anthropic's message_delta) or of its `response` (OpenAI's Responses).
    """
    end = len(frames)
    while (begin := frames.rfind(_DATA, 0, end)) >= 0:
        line_end = frames.find(b"\n", begin)
        is_line = begin == 0 or frames[begin - 1 : begin] == b"\n"
        data = frames[begin + len(_DATA) : line_end]
        edited = _add(data, added) if is_line and b'"usage"' in data else None
        if edited is not None:
            return b"".join((frames[: begin + len(_DATA)], edited, frames[line_end:]))
        end = begin
    return frames


def add_to_usage(response: bytes, added: Mapping[str, Any]) -> bytes:
    """A whole response with fields added to its usage; unchanged if it has none."""
    return _add(response, added) or response


def _add(data: bytes, added: Mapping[str, Any]) -> bytes | None:
    try:
        body = Body.read(data)
        if body.has_value("usage"):
            body["usage"] = merge_object(body["usage"], added)
            return body.write()
        if body.has_value("response"):
            response = Body.read(bytes(body["response"]))
            if response.has_value("usage"):
                response["usage"] = merge_object(response["usage"], added)
                body["response"] = response
                return body.write()
    except DECODE_ERRORS:
        pass
    return None
