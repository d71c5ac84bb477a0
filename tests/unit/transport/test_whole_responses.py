"""A response that comes in one read is read by providers.wire as the parser of HTTP reads it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers import wire
from providers.transport.http1_response import InvalidHttpResponse, ResponseReader
from tests.support.wire_inputs import inputs

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-length: 2\r\n\r\n{}"


def read(*pieces: bytes, is_head_request: bool = False) -> dict[str, Any] | str:
    reader = ResponseReader(is_head_request)
    try:
        for piece in pieces:
            reader.feed(piece)
    except InvalidHttpResponse as error:
        return str(error)
    return {name: getattr(reader, name) for name in ResponseReader.__slots__ if not name.startswith("_")}


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whole_response_is_the_one_that_the_parser_reads(seed: int) -> None:
    chosen = wire.parse_response
    taken = 0
    for (raw,) in inputs("parse_response", 100, seed):
        taken += chosen(raw) is not None
        by_wire = read(raw), read(raw, raw)
        wire.parse_response = lambda data: None
        try:
            assert by_wire == (read(raw), read(raw, raw)), raw
        finally:
            wire.parse_response = chosen
    assert taken > 10


@pytest.mark.parametrize("before", [b"HTTP/1.1 103 Early\r\n\r\n", b"HTTP/1.1 200 OK\r\nco"])
def test_response_that_has_begun_is_left_to_the_parser(before: bytes) -> None:
    rest = RESPONSE if b"103" in before else b"ntent-length: 2\r\n\r\n{}"
    result = read(before, rest)
    assert isinstance(result, dict) and result["blocks"] == [b"{}"] and result["complete"]


def test_response_to_a_head_request_has_no_body() -> None:
    result = read(RESPONSE, is_head_request=True)
    assert isinstance(result, dict) and result["blocks"] == [] and result["complete"]
