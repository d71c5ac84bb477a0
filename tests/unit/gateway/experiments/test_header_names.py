"""Names of arms and experiments in headers: whatever a name holds, a caller can send back what it got."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.experiments.header_names import read_header_name, write_header_name


@given(st.text())
def test_what_a_header_says_names_the_same_again(name: str):
    value = write_header_name(name)
    assert value.isascii() and all(0x20 <= byte < 0x7F for byte in value)
    try:
        name.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which no configuration can hold
        return
    assert read_header_name(value) == name


@pytest.mark.parametrize(
    ("name", "value"),
    [("gpt-5-mini", b"gpt-5-mini"), ("openai/gpt 5", b"openai/gpt 5"), ("größe", b"gr%C3%B6%C3%9Fe"), ("50%", b"50%25")],
)
def test_only_what_is_no_ascii_is_encoded_and_the_percent_sign(name: str, value: bytes):
    assert write_header_name(name) == value


@pytest.mark.parametrize("value", [b"gr%C3%B6%c3%9fe", "größe".encode(), "größe".encode("latin-1")])
def test_caller_may_send_the_bytes_of_a_name_itself(value: bytes):
    assert read_header_name(value) == "größe"


def test_percent_sign_that_encodes_nothing_is_itself():
    assert read_header_name(b"50%") == "50%"
