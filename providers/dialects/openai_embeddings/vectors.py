"""One embedding: a list of numbers, or base64 of little-endian 32-bit floats. Parsed only to convert one to the other."""

import base64
import binascii
from array import array
from math import isfinite
from sys import byteorder

import msgspec
from msgspec import Raw

from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.raw_json import DECODE_ERRORS

_numbers_decoder = msgspec.json.Decoder(list[float])
_text_decoder = msgspec.json.Decoder(str)
_NUMBER_CHARACTERS = b"0123456789+-.eE \t\r\n"


def is_base64(vector: Raw) -> bool:
    return bytes(memoryview(vector)[:1]) == b'"'


def vector_length(vector: Raw, number_bytes: int) -> int:
    """How many numbers a vector has. Each has `number_bytes` in base64. Raises InvalidUpstreamResponse if it is not a vector."""
    if is_base64(vector):
        size_bytes = _base64_size_bytes(vector)
        if not size_bytes or size_bytes % number_bytes:
            raise InvalidUpstreamResponse(
                f"The engine's embedding is base64 of {size_bytes} bytes, which are not numbers of {number_bytes} bytes each."
            )
        return size_bytes // number_bytes
    # Counting what is left without digits takes one pass, a sixth of the time of parsing.
    brackets = bytes(vector).translate(None, _NUMBER_CHARACTERS)
    if brackets.startswith(b"[[") and brackets.endswith(b"]]"):
        raise InvalidUpstreamResponse(
            f"The engine sent a vector for each token ({brackets.count(b'[') - 1} of them) instead of one for the input: "
            "its pooling is switched off."
        )
    if (brackets[:1], brackets[1:-1].strip(b","), brackets[-1:]) != (b"[", b"", b"]") or (
        len(brackets) == 2 and not bytes(vector).strip(b"[] \t\r\n")
    ):
        raise InvalidUpstreamResponse("The engine's embedding is neither a list of numbers nor base64.")
    return len(brackets) - 1


def _base64_size_bytes(vector: Raw) -> int:
    # JSON may write / as \/, and some do.
    text = _text_decoder.decode(vector).encode() if b"\\" in bytes(vector) else bytes(memoryview(vector)[1:-1])
    return len(text) * 3 // 4 - text[-2:].count(b"=") if len(text) % 4 == 0 else len(text.rstrip(b"=")) * 3 // 4


def encode_base64(vector: Raw) -> str:
    """A list of numbers as base64. Raises InvalidUpstreamResponse if it is not one, or not of 32-bit floats."""
    try:
        floats = array("f", _numbers_decoder.decode(vector))
    except DECODE_ERRORS as exc:
        raise InvalidUpstreamResponse(f"The engine's embedding is not a list of numbers: {exc}.") from None
    _check_finite(floats)
    if byteorder == "big":
        floats.byteswap()
    return base64.b64encode(floats.tobytes()).decode()


def decode_numbers(vector: Raw) -> list[float]:
    """Base64 as a list of numbers. Raises InvalidUpstreamResponse if it is not base64 of 32-bit floats."""
    floats = array("f")
    try:
        floats.frombytes(base64.b64decode(_text_decoder.decode(vector), validate=True))
    except (*DECODE_ERRORS, binascii.Error, ValueError) as exc:
        raise InvalidUpstreamResponse(f"The engine's embedding is not base64 of 32-bit floats: {exc}.") from None
    if byteorder == "big":
        floats.byteswap()
    _check_finite(floats)
    return floats.tolist()


def _check_finite(floats: "array[float]") -> None:
    # One number that is not finite makes the sum so too; the sum of finite 32-bit floats, in 64 bits, is finite.
    if not isfinite(sum(floats)):
        raise InvalidUpstreamResponse("The engine's embedding holds a number that is not one, or is larger than 32-bit floats are.")
