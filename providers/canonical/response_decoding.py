"""Typed decoding of upstream responses that may hold an error, or half a surrogate pair, in place of what the API promises."""

from collections.abc import Callable
from typing import TypeVar

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.loose_types import with_expected_types
from providers.canonical.raw_json import DECODE_ERRORS, Body, repair_unicode
from providers.canonical.upstream_errors import find_error

T = TypeVar("T")


def decode_repaired(raw: bytes, decode: Callable[[bytes], T], expected: str) -> T:
    """Decodes JSON that did not decode at once: it holds an error, which is raised, or broken Unicode or types, which are repaired.

    `expected` names the response in the message: "one of Ollama's chat". Raises InvalidUpstreamResponse if it is neither.
    """
    error = find_error(Body.read_response(raw))
    if error is not None:
        raise error
    try:
        return decode(repair_unicode(raw))
    except DECODE_ERRORS:
        pass
    try:
        return decode(with_expected_types(raw))
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"The engine's response is not {expected}: {decode_error}.") from None
