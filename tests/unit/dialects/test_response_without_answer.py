"""A 200 whose body is no answer is an upstream error in every dialect, so that another endpoint or target is tried."""

from collections.abc import Callable
from typing import Any

import pytest

from app.gateway.response_translation.response_streamer import ResponseStreamer
from app.gateway.response_translation.translate import translate_response
from app.gateway.response_translation.write_response import check_finished
from providers.canonical.errors import UpstreamError
from providers.catalogue import ROUTES
from providers.dialect import Dialect, EngineDialect, ResponseMeta
from providers.dialects.catalogue import CALLER_DIALECTS, CHAT_DIALECTS, ENGINE_DIALECTS

META = ResponseMeta("0", "0", "m", 1, True)
ERRORS = [
    b"{}",
    b'{"message":"Internal failure"}',
    b'{"detail":"Internal failure"}',
    b'{"message":null}',
    b'{"status":"ok"}',
    b'{"code":500,"msg":"Internal failure"}',
]
# Of the shape of a response, which holds none.
EMPTY_RESPONSES = [
    b'{"message":null,"done":true}',
    b'{"output":null}',
    b'{"content":null}',
    b'{"choices":[{"index":0,"message":null,"finish_reason":"stop"}]}',
    b'{"choices":[{"index":0,"finish_reason":"stop"}]}',
]


def _readers() -> dict[str, Callable[[bytes], Any]]:
    def same(dialect: Dialect) -> Callable[[bytes], Any]:
        return lambda raw: translate_response(raw, dialect, dialect, META)

    def translated(dialect: EngineDialect) -> Callable[[bytes], Any]:
        return lambda raw: check_finished(dialect.read_response(raw))

    readers = {f"edit {name}": same(dialect) for name, dialect in CALLER_DIALECTS.items()}
    return readers | {f"read {name}": translated(dialect) for name, dialect in ENGINE_DIALECTS.items()}


READERS = _readers()


@pytest.mark.parametrize("raw", [*ERRORS, *EMPTY_RESPONSES], ids=bytes.decode)
@pytest.mark.parametrize("reader", READERS)
def test_response_without_an_answer_is_an_upstream_error_to_be_tried_elsewhere(reader: str, raw: bytes):
    with pytest.raises(UpstreamError) as caught:
        READERS[reader](raw)
    assert caught.value.retry_elsewhere


@pytest.mark.parametrize("raw", ERRORS, ids=bytes.decode)
@pytest.mark.parametrize("name", ROUTES)
def test_response_of_an_engine_route_without_a_result_is_an_upstream_error(name: str, raw: bytes):
    with pytest.raises(UpstreamError) as caught:
        translate_response(raw, ROUTES[name], ROUTES[name], META)
    assert caught.value.retry_elsewhere


@pytest.mark.parametrize("name", ENGINE_DIALECTS)
def test_error_repeats_the_message_that_came_instead_of_an_answer(name: str):
    for raw in (b'{"message":"Internal failure"}', b'{"msg":"Internal failure"}'):
        streamer = ResponseStreamer(CHAT_DIALECTS["openai_chat"], ENGINE_DIALECTS[name], META)
        with pytest.raises(UpstreamError, match="Internal failure"):
            streamer.feed(raw)


USAGE = b'{"prompt_tokens":3,"completion_tokens":0,"total_tokens":3}'


def _end(reason: bytes, usage: bytes) -> bytes:
    return b'"finish_reason":%b}],"usage":%b}' % (reason, usage)


def _openai_answers(reason: bytes, usage: bytes) -> dict[str, list[bytes]]:
    end = _end(reason, usage)
    return {
        "openai_completions": [b'{"choices":[{"index":0,"text":%b,%b' % (text, end) for text in (b'""', b"null")],
        "openai_chat": [
            b'{"choices":[{"index":0,"message":{"role":"assistant","content":%b},%b' % (text, end) for text in (b"null", b'""', b"[]")
        ],
    }


@pytest.mark.parametrize("dialect", ["openai_completions", "openai_chat"])
def test_empty_response_with_usage_is_an_answer(dialect: str):
    chat = CHAT_DIALECTS[dialect]
    for raw in _openai_answers(b'"stop"', USAGE)[dialect]:
        assert translate_response(raw, chat, chat, META).finish_reason == "stop"
        assert check_finished(chat.read_response(raw)).choices[0].parts == ()


@pytest.mark.parametrize(
    ("reason", "usage"), [(b'"stop"', b"null"), (b'"stop"', b'{"prompt_tokens":0,"completion_tokens":0}'), (b"null", USAGE), (b'""', USAGE)]
)
@pytest.mark.parametrize("dialect", ["openai_completions", "openai_chat"])
def test_empty_response_without_usage_or_reason_is_tried_elsewhere(dialect: str, reason: bytes, usage: bytes):
    for raw in _openai_answers(reason, usage)[dialect]:
        for reader in (f"edit {dialect}", f"read {dialect}"):
            with pytest.raises(UpstreamError, match="empty") as caught:
                READERS[reader](raw)
            assert caught.value.retry_elsewhere


@pytest.mark.parametrize("reason", [b'"length"', b'"content_filter"', b'"sensitive"'])
@pytest.mark.parametrize("dialect", ["openai_completions", "openai_chat"])
def test_empty_response_that_was_cut_off_or_filtered_is_an_answer(dialect: str, reason: bytes):
    chat = CHAT_DIALECTS[dialect]
    for raw in _openai_answers(reason, b"null")[dialect]:
        assert translate_response(raw, chat, chat, META).finish_reason in ("length", "content_filter")
        assert check_finished(chat.read_response(raw)).choices[0].parts == ()
