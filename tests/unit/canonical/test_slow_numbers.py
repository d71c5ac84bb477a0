"""Numbers that take the decoder long are counted before it sees them, in little time whatever the body is."""

import base64
import json
import random
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.rest.request_parsing import parse_admin_body
from app.gateway.feedback.invalid_feedback import InvalidFeedback
from app.gateway.feedback.request import parse_feedback
from providers.canonical.errors import InvalidRequest, InvalidUpstreamResponse
from providers.canonical.ndjson import NdjsonDecoder
from providers.canonical.slow_numbers import MOST_SLOW_NUMBERS, count_slow_numbers, has_slow_numbers
from providers.canonical.sse import SSEDecoder
from providers.catalogue import DIALECTS
from tests.support.processes.cpu_time import least_cpu_time_s
from tests.support.strategies.chat_strategies import bounded

SLOW = {
    "large exponent": "1e300",
    "exponent with a sign": "1E+300",
    "denormal": "5e-324",
    "zeros before the exponent": "1e0300",
    "fraction": "9.5e307",
    "309 digits": "9" * 308 + ".5",
    "fraction of 700 digits": "0." + "0" * 300 + "1" * 400,
}
SLOWISH = {"between two doubles": "1e23", "twenty digits": "14696761907773048210e99", "negative": "13933401266620901823e-10"}
ORDINARY = ("1.5", "0", "-0.0123", "1e-07", "1.2345678901234567e-05", "12345678901234567890", "3.141592653589793", "false", "1e5")
random_bytes = random.Random(5).randbytes


def _body(number: str, count: int) -> bytes:
    return b'{"model":"m","messages":[{"role":"user","content":"a"}],"x":[%b]}' % ",".join([number] * count).encode()


@pytest.mark.parametrize("number", SLOW.values(), ids=SLOW)
def test_few_slow_numbers_are_decoded_and_many_are_refused(number: str) -> None:
    assert not has_slow_numbers(_body(number, 40))
    assert has_slow_numbers(_body(number, MOST_SLOW_NUMBERS + 10))  # some may be cut in two, and are not counted


@pytest.mark.parametrize("number", SLOWISH.values(), ids=SLOWISH)
def test_thousands_of_slowish_numbers_are_refused(number: str) -> None:
    assert not has_slow_numbers(_body(number, 1_900))
    assert has_slow_numbers(_body(number, 2_100))


def test_what_is_let_through_is_decoded_in_little_time() -> None:
    """The worst bodies of 200 KB: as many of each as are let through, the rest of the slowest numbers that are not counted."""
    for number in (*SLOW.values(), *SLOWISH.values(), *ORDINARY):
        count = 200_000 // (len(number) + 1)
        while has_slow_numbers(raw := b"[%b]" % ",".join([number] * count).encode()):
            count = count * 9 // 10
        assert least_cpu_time_s(partial(msgspec.json.decode, raw)) < 0.05, number


@pytest.mark.parametrize("number", ORDINARY)
def test_ordinary_numbers_are_never_too_many(number: str) -> None:
    assert count_slow_numbers(_body(number, 50_000)) == 0


TEXTS = {
    "base64": base64.b64encode(random_bytes(1_500_000)).decode(),
    "hexadecimal digits": random_bytes(1_000_000).hex(),
    "numbers in text": "1e300, " * 200_000,
    "JSON in a string": json.dumps([1e300] * 100_000),
    "quotes and backslashes": '\\"1e300' * 100_000,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_strings_are_not_searched_for_numbers(text: str) -> None:
    for padding in range(3):  # so that escapes are cut in two at the end of a step
        raw = json.dumps({"p" * padding: text, "n": 1e300}).encode()
        assert count_slow_numbers(raw) == 1 and not has_slow_numbers(raw)
        assert least_cpu_time_s(partial(has_slow_numbers, raw)) < 0.1


def test_counting_takes_little_time() -> None:
    for unit in (b"a", b"1", b"1.", b"e", b"0e", b'"",', b'\\"', b"\\\\", b'"1e300",', b"The quick brown fox. "):
        raw = b'{"a":[1e300,' + unit * (250_000 // len(unit))
        assert least_cpu_time_s(partial(has_slow_numbers, raw)) < 0.02, unit


numbers = st.one_of(st.sampled_from(["1e300", "2.5E+301", "7e-310"]), st.sampled_from(ORDINARY))
members = st.one_of(numbers, st.text(alphabet='a"\\1e30,:é\n', max_size=8).map(json.dumps))


@bounded
@given(items=st.lists(members, max_size=30))
def test_numbers_outside_of_strings_are_counted_as_a_parser_finds_them(items: list[str]) -> None:
    raw = f'{{"a":[{",".join(items)}]}}'.encode()
    expected = sum(isinstance(each, float) and (each > 1e99 or 0 < each < 1e-99) for each in json.loads(raw)["a"])
    assert count_slow_numbers(raw) == expected


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_api_refuses_them_before_it_decodes_them(dialect: str) -> None:
    body = _body("1e300", 40_000)

    def refuse() -> None:
        with pytest.raises(InvalidRequest, match="too many numbers that take long to read"):
            DIALECTS[dialect].parse_request(body)

    assert least_cpu_time_s(refuse) < 0.1  # decoding takes half a second


@pytest.mark.parametrize(
    ("numbers", "block_bytes"),
    [(40_000, 500), (40_000, 60_000), (90, 60_000)],
    ids=["one event in many reads", "one event in a few reads", "many events in one read"],
)
def test_streams_of_engines_are_refused_too(numbers: int, block_bytes: int) -> None:
    line = b'{"a":[%b]}' % b",".join([b"1e300"] * numbers)
    for decoder, wire in ((SSEDecoder(), b"data: %b\n\n" % line * 100), (NdjsonDecoder(), b"%b\n" % line * 100)):
        with pytest.raises(InvalidUpstreamResponse, match="too many numbers that take long to read"):
            for start in range(0, len(wire), block_bytes):
                decoder.feed(wire[start : start + block_bytes])


def test_bodies_of_feedback_and_of_admins_are_refused_too() -> None:
    def refuse() -> None:
        with pytest.raises(InvalidFeedback, match="too many numbers that take long to read"):
            parse_feedback(b'{"metric":"m","value":[%b]}' % b",".join([b"1e300"] * 40_000))
        with pytest.raises(InvalidRequest, match="too many numbers that take long to read"):
            parse_admin_body(_body("1e300", 40_000), dict)

    assert least_cpu_time_s(refuse) < 0.1
