"""Detectors: they find what their definition finds, in time that grows with the text and no faster, whatever is in it."""

import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.domain.callers import Detector, MaskConfig
from app.recording.content.detectors import FINDERS
from app.recording.content.masking import Found, compile_rules, join_overlapping, mask_json
from tests.support.simulated import detectors_by_definition

Span = tuple[int, int]
NUMBER = [
    "0",
    "00",
    "+",
    "+49",
    "030",
    "1234567",
    "415",
    "555",
    "2671",
    "1",
    "12",
    " ",
    " ",
    "-",
    ".",
    "(",
    ")",
    "/",
    ":",
    "\u00a0",
    "a",
    "_",
]
PIECES: Mapping[Detector, Sequence[str]] = {
    "card": ["4111", "1111", "1112", "3782", "822463", "10005", " ", " ", "-", "a", "1", "_", "4111111111111111", "411111", "5555", "4444"],
    "iban": ["DE", "89", "3704", "0044", "0532", "0130", "00", " ", " ", "GB29NWBK60161331926819", "no93", "8601", "1117", "947", "a", "_"],
    "ip_address": ["1", "25", "255", "256", ".", ".", ":", "::", "a", "fe80", "beef1", "9", " ", "_", "1.2.3.4", "-"],
    "email": ["a", "@", "b", ".", "co", "com", "é", "ü@ä", "-", "_", " ", "1", "%", "\u2019", "\u00a0", "abcdefghijklmnopqrstuvwxyz", "”"],
}


def spans(found: Iterable[Span]) -> list[Span]:
    return [(each.begin, each.end) for each in join_overlapping([Found(begin, end, "rule") for begin, end in found])]


def texts(pieces: Sequence[str], most: int = 14) -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(pieces), max_size=most).map(lambda chosen: "".join(chosen).encode())


@pytest.mark.parametrize("detector", PIECES)
@given(st.data())
@settings(max_examples=500, deadline=None)
def test_detector_finds_what_its_definition_finds(detector: Detector, data: st.DataObject) -> None:
    text = data.draw(texts(PIECES[detector]))
    assert spans(FINDERS[detector](text)) == spans(detectors_by_definition.FINDERS[detector](text))


SECRET = [
    "sk-",
    "a",
    "abcdefghijklmnopqrst",
    "gho_",
    "-",
    ".",
    "eyJ",
    "SG.",
    "-----BEGIN ",
    "PRIVATE KEY-----",
    "x://",
    ":",
    "@",
    "/",
    " ",
    "AKIA",
]


@given(texts([*SECRET, "ABCDEFGHIJKLMNOP", "é"]))
@settings(max_examples=1_000, deadline=None)
def test_all_secrets_of_the_definition_are_found(text: bytes) -> None:
    assert covers(spans(FINDERS["secret"](text)), spans(detectors_by_definition.FINDERS["secret"](text)))


@given(texts(NUMBER, 10))
@settings(max_examples=2_000, deadline=None)
def test_all_phones_of_the_definition_are_found(text: bytes) -> None:
    """Numbers in brackets that begin with 00 are left out, which the definition reads as a national 0, and those that begin with a lone
    0 within a row. The definition looks at 17 digits in a row of numbers, from wherever the last one ended.
    """
    assume(b"(00" not in text and not re.search(rb"[0-9 .()/\xa0-] \(?0(?![0-9])", text))
    assume(all(len(re.findall(rb"[0-9]", run)) < 15 for run in re.split(rb"[^0-9 .()/\xc2\xa0-]", text)))
    expected = [(begin + (text[begin] == 0x28), end) for begin, end in spans(detectors_by_definition.FINDERS["phone"](text))]
    assert covers(spans(FINDERS["phone"](text)), expected)


@pytest.mark.parametrize("text", [b"0 00 1234567 2671", b"0 00 2671(00123 00 -/", b"12 0 030 1234567 123 4"])
def test_number_that_begins_within_another_row_is_found(text: bytes) -> None:
    assert covers(spans(FINDERS["phone"](text)), spans(detectors_by_definition.FINDERS["phone"](text)))


def covers(found: Sequence[Span], expected: Sequence[Span]) -> bool:
    return all(any(begin <= first and last <= end for begin, end in found) for first, last in expected)


def test_phones_in_a_long_row_of_numbers_are_found() -> None:
    numbers = ["030 1234567", "040 7654321", "+49 30 1112223", "415-555-2671"] * 5
    masked = compile_rules(MaskConfig(("phone",))).mask("; ".join(numbers))
    assert masked == "; ".join(["[masked: phone]"] * 20)
    assert not re.search(r"\d{4}", compile_rules(MaskConfig(("phone",))).mask(" ".join(numbers)))


def repeat(unit: str) -> Callable[[int], bytes]:
    return lambda size: (unit.encode() * (size // len(unit) + 1))[:size]


def table(size: int) -> bytes:
    return b" ".join(b"%d" % number for number in range(size // 4))[:size]


HOSTILE: Mapping[str, Callable[[int], bytes]] = {
    "table": table,
    **{
        unit: repeat(unit)
        for unit in (
            *("1 ", "12 34 ", "01 2345 ", "00 ", "0 ", "+1 23 45 ", "(0) ", "2024-01-02 03:04:05, ", "0.123456789, ", "4", "01.02.2024 "),
            *(
                "4111 1111 1111 1112 ",
                "4111 1111 1111 1111 ",
                "4111-1111-",
                "4111111111111,",
                "4000 4001 ",
                "030 1234567 ",
                "415-555-2671 ",
            ),
            *(
                "sk-aaaaaaaaaaaaaaaa.",
                ".sk-aaaaaaaaaaaaaaaa",
                "eyJ-gho_aaaaaaaaaaaaaaaaaaaa-",
                "SG.gho_aaaaaaaaaaaaaaaaaaaa-",
                "eyJaaaaaaaa.",
            ),
            *(
                "-----BEGIN PRIVATE KEY-----a ",
                "-----BEGIN A",
                "-----BEGIN PRIVATE KEY-----(",
                "-----END ",
                "a://",
                "a://b:c",
                "a://:",
                "a://b:c@",
            ),
            *("a@b.cc ", "a@b.cc", "a@b.c", "@", "a.", "a@a.aa1", "ä@ä.ää", "a@b.", "a@", "@a.", " @a.bc", "\u2019@a.bc", "’@ä.bc"),
            *("DE89 3704 0044 0532 0130 00 ", "DE89370400440532013001 ", "DE12", "NO12 AAAA ", "DE12AAAA"),
            *("1.2.3.4 ", "1.2.3.", "1:2:3:4:5:6:7:", "::1", "a:", "a::b ", "1:1::1:1 ", "12345.1.1.1"),
        )
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_time_grows_with_the_text_and_no_faster(name: str) -> None:
    """Eight times the text takes about eight times as long; with the square it would be 64 times."""
    size = 15_000
    for detector, find in FINDERS.items():
        once = eightfold = float("inf")
        for _ in range(6):  # the least: of a busy machine, the others measure that
            once, eightfold = min(once, processor_s(find, HOSTILE[name](size))), min(eightfold, processor_s(find, HOSTILE[name](8 * size)))
            if eightfold < 20 * once or eightfold < 0.02:
                break
        assert eightfold < 20 * once or eightfold < 0.02, detector
        assert eightfold < 1.0, detector


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_repeated_text_takes_the_square_of_its_length(data: st.DataObject) -> None:
    """Four times the text takes four times as long, whatever is repeated; with the square it would be 16 times."""
    detector = data.draw(st.sampled_from(list(FINDERS)))
    pieces = {"secret": SECRET, "phone": NUMBER, **PIECES}[detector]
    unit = data.draw(st.lists(st.sampled_from(pieces), min_size=1, max_size=5).map("".join))
    find, size, fourfold = FINDERS[detector], 60_000, 0.0
    for _ in range(6):  # as above
        fourfold = processor_s(find, repeat(unit)(4 * size))
        if fourfold < 0.1 or fourfold < 9 * processor_s(find, repeat(unit)(size)):
            return
    raise AssertionError(f"{detector} takes {fourfold:.2f} s for {4 * size} bytes of {unit!r}")


def processor_s(find: Callable[[bytes], Iterable[object]], text: bytes) -> float:
    began = time.thread_time()
    for _ in find(text):
        pass
    return time.thread_time() - began


TABLES: Mapping[str, bytes] = {
    "digits": b"1 " * 100_000,
    "table": table(200_000),
    "log": b"2024-01-02 03:04:05, 12.50; " * 7_000,
    "fractions": b", ".join(b"0.%09d" % (number * 7919 % 10**9) for number in range(15_000)),
    "amounts": b"\n".join(b"%d.%02d,%d,%d" % (number, number % 100, 7 * number, number % 13) for number in range(12_000)),
    "zeros_in_brackets": b"(0) " * 50_000,
}


SENTENCE = "The quick brown fox jumps over the lazy dog, and then it rests. "


def is_about_as_fast(find: Callable[[bytes], Iterable[object]], text: bytes, other: bytes) -> bool:
    """Returns whether a byte of the text takes less than eight times as long as one of the other.

    Machines differ by half in this ratio, so that it finds only what became slow by far; the calls that are counted find the rest.
    Both are measured by turns, two or more, as the machine may have other work.
    """
    taken_s = other_s = float("inf")
    for turn in range(10):
        taken_s, other_s = min(taken_s, processor_s(find, text)), min(other_s, processor_s(find, other))
        if turn and taken_s / len(text) < 8 * other_s / len(other):
            return True
    return False


def count_calls(find: Callable[[bytes], Iterable[object]], text: bytes) -> int:
    """Returns how many functions, in Python and in C, are called: the same number on every machine."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        find(text)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("name", TABLES)
def test_numbers_are_masked_about_as_fast_as_other_text(name: str) -> None:
    """The slowest are tables, which take 3.4 to 4.4 times as long, and a call for every six bytes (2026-11)."""
    rules, text = compile_rules(MaskConfig()), SENTENCE.encode() * 3_000

    assert is_about_as_fast(rules.find, TABLES[name], text)
    assert count_calls(rules.find, TABLES[name]) < (len(TABLES[name]) / 5 if name == "table" else 150)


@pytest.mark.parametrize(("item", "calls"), [(7, 0), (0.25, 0), ([1, 2.5, 3], 4)], ids=["integers", "fractions", "rows"])
def test_lists_of_numbers_are_masked_about_as_fast_as_lists_of_text(item: object, calls: int) -> None:
    """Those of integers take 2.7 to 4 times as long and no call for a number; a sentence takes ten calls (2026-11)."""
    rules = compile_rules(MaskConfig())
    body = msgspec.json.encode({"model": "m", "input": [item] * 200_000})
    text = msgspec.json.encode({"model": "m", "input": [SENTENCE] * 10_000})

    def mask(encoded: bytes) -> list[bytes]:
        return [mask_json(encoded, rules)]

    assert is_about_as_fast(mask, body, text)
    some = msgspec.json.encode({"model": "m", "input": [item] * 2_000})
    assert count_calls(mask, some) <= 2_000 * calls + 100
    assert mask_json(body, rules) == body
