"""Caps on large requests: counted before the body is decoded, in time linear in its length."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.large_body.request_size import RequestCaps
from app.settings import Settings
from providers.canonical.errors import InvalidRequest
from tests.support.strategies.chat_strategies import bounded

CAPS = RequestCaps.of(Settings())
UNLIMITED = 10**9

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(alphabet='a"\\[]{},:é\n', max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(alphabet='ab"\\[{:,', max_size=3), inner, max_size=4)),
    max_leaves=30,
)


def _keys(value: Any) -> int:
    match value:
        case dict():
            return len(value) + sum(map(_keys, value.values()))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case list():
            return sum(map(_keys, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case _:
            return 0


def _depth(value: Any) -> int:
    match value:
        case dict():
            return 1 + max(map(_depth, value.values()), default=0)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case list():
            return 1 + max(map(_depth, value), default=0)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case _:
            return 0


def _is_refused(raw: bytes, **caps: int) -> bool:
    try:
        RequestCaps(**{name: caps.get(name, UNLIMITED) for name in RequestCaps.__struct_fields__}).check(raw)
    except InvalidRequest:
        return True
    return False


@bounded
@given(fields=st.dictionaries(st.text(alphabet='ab"\\[{:,', max_size=3), values, max_size=5), padding=st.integers(0, 3))
def test_keys_fields_and_levels_are_counted_as_a_parser_does(fields: dict[str, Any], padding: int) -> None:
    # Past a step's end, so that escapes and strings are cut in two.
    raw = json.dumps({"p": "\\" * (256 * 1024 - padding - 4), **fields}).encode()
    fields = {"p": "", **fields}
    keys, depth = _keys(fields), _depth(fields)
    assert not _is_refused(raw, max_keys=keys, max_depth=depth, max_fields=len(fields))
    assert _is_refused(raw, max_keys=keys - 1)
    assert _is_refused(raw, max_depth=depth - 1)
    assert _is_refused(raw, max_fields=len(fields) - 1)


def _request(**fields: str) -> bytes:
    return b'{"model":"m",' + b",".join(b'"%b":%b' % (name.encode(), value.encode()) for name, value in fields.items()) + b"}"


MESSAGE = '{"role":"user","content":"a"}'


def _list_of(item: str, count: int) -> str:
    return "[" + ",".join([item] * count) + "]"


@pytest.mark.parametrize(
    ("make_body", "found", "setting", "param"),
    [
        (lambda: _request(messages=_list_of(MESSAGE, 10_001)), "10001 `messages`", "NARTHEX_MAX_MESSAGES", "messages"),
        (lambda: _request(input=_list_of(MESSAGE, 10_001)), "10001 `input`", "NARTHEX_MAX_MESSAGES", "input"),
        (
            lambda: _request(messages='[{"role":"user","content":' + _list_of('{"type":"text"}', 20_001) + "}]"),
            "20001 content parts",
            "NARTHEX_MAX_CONTENT_PARTS",
            "messages",
        ),
        (
            lambda: _request(messages="[" + MESSAGE + "]", tools=_list_of('{"type":"function"}', 2_001)),
            "2001 `tools`",
            "NARTHEX_MAX_TOOLS",
            "tools",
        ),
        (lambda: _request(messages="[" + MESSAGE + "]", x="[" * 600 + "]" * 600), "601 levels", "NARTHEX_MAX_DEPTH", None),
        (lambda: _request(messages="[" + MESSAGE + "]", x=_list_of("1", 1_200_000)), "values", "NARTHEX_MAX_VALUES", None),
        (lambda: _request(**{f"k{number}": "1" for number in range(3_000)}), "fields", "NARTHEX_MAX_FIELDS", None),
        (lambda: _request(messages=_list_of(MESSAGE, 900_000)), "keys of objects", "NARTHEX_MAX_KEYS", None),
        (lambda: _request(**{f"k{number}": "1" for number in range(1_500_000)}), "keys of objects", "NARTHEX_MAX_KEYS", None),
    ],
    ids=["messages", "input", "parts", "tools", "depth", "values", "fields", "25 MB of messages", "1.5 million keys"],
)
def test_body_over_a_cap_is_refused_at_once(make_body: Callable[[], bytes], found: str, setting: str, param: str | None) -> None:
    raw = make_body()
    started_at = time.process_time()
    with pytest.raises(InvalidRequest) as raised:
        CAPS.check(raw)
    # Decoding and translating the largest takes 5 to 20 s.
    assert time.process_time() - started_at < 1
    assert found in raised.value.message and setting in raised.value.message and raised.value.param == param


@pytest.mark.parametrize(
    "make_body",
    [
        lambda: _request(messages=_list_of(MESSAGE, 10_000), tools=_list_of('{"type":"function"}', 2_000)),
        lambda: _request(messages=json.dumps([{"role": "user", "content": '{"a":[1,2,{"b":"\\\\"}],' * 100_000}])),
        lambda: _request(input=_list_of("1", 900_000)),
        lambda: b'{"model":"m","messages":[' + b"]" * 200_000,
        lambda: b'{"model":"m","x":"' + b'\\"' * 200_000,
    ],
    ids=["at the caps", "JSON in a string", "token ids", "unbalanced", "open string"],
)
def test_body_within_the_caps_is_left_to_the_parser(make_body: Callable[[], bytes]) -> None:
    CAPS.check(make_body())


def test_counting_takes_time_in_proportion_to_the_body() -> None:
    def seconds(raw: bytes) -> float:
        started_at = time.process_time()
        CAPS.check(raw)
        return time.process_time() - started_at

    for piece in (b'\\"', b"\\\\", b"[{", b"a"):
        small, large = (b'{"model":"m","x":"' + piece * count + b'"}' for count in (400_000, 4_000_000))
        assert seconds(large) < 30 * min(seconds(small) for _ in range(3)) + 0.05


@pytest.mark.parametrize("field", ["metadata", "tensorzero::tags"])
def test_tags_that_are_too_many_to_keep_are_refused_before_they_are_decoded(field: str):
    def body(count: int, value: str) -> bytes:
        return json.dumps({"model": "m", "messages": [], field: {f"k{n}": value for n in range(count)}, "x": [{"a": 0}] * 11_000}).encode()

    CAPS.check(body(64, 'a"\\' * 100))
    with pytest.raises(InvalidRequest, match="At most 64 tags"):
        CAPS.check(body(65, "a"))
