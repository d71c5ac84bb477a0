"""Words of engines for a failure, a limit and a filter: what each says to every caller, from every dialect, whole and streamed."""

import json
from collections.abc import Sequence
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from openai.types.responses import ResponseFailedEvent

from app.gateway.response_translation import translate
from providers.canonical.errors import (
    InvalidRequest,
    NarthexError,
    Overloaded,
    TimedOut,
    UnparsableModelOutput,
    UpstreamError,
    UpstreamFailed,
)
from providers.dialects.catalogue import CALLER_DIALECTS, CHAT_DIALECTS, ENGINE_DIALECTS
from tests.conformance.sdk_responses import FixedStreamTransport
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES
from tests.unit.dialects.test_unknown_endings import CHAT_CALLERS, ENDINGS, META, STOPS, WORD, endings, stream_bytes

FAILURES: dict[str, type[UpstreamError]] = {
    **dict.fromkeys(("network_error", "failed", "cancelled", "canceled", "error", "abort", "load", "USER_CANCEL"), UpstreamFailed),
    **dict.fromkeys(("timeout", "TIMEOUT", "timed-out"), TimedOut),
    "overloaded": Overloaded,
    "malformed_function_call": UnparsableModelOutput,
}
LIMITS = ("max_tokens", "max_output_tokens", "MAX_TOKENS", "token_limit", "model_context_window_exceeded", "model-length", "length")
FILTERS = ("content_filter", "content-filter", "contentFilter", "safety", "SAFETY", "sensitive", "refusal", "blocked")
LIMIT_SAYS = {
    "openai_chat": ("length", None),
    "openai_completions": ("length", None),
    "openai_responses": ("incomplete", "max_output_tokens"),
    "anthropic_messages": ("max_tokens", None),
}
FILTER_SAYS = {
    "openai_chat": ("content_filter", None),
    "openai_completions": ("content_filter", None),
    "openai_responses": ("incomplete", "content_filter"),
    "anthropic_messages": ("refusal", None),
}


def ending_with(target: str, word: str) -> tuple[Any, Sequence[Any]]:
    return json.loads(json.dumps(ENDINGS[target]).replace(WORD, word))


@pytest.mark.parametrize("caller", STOPS)
@pytest.mark.parametrize("target", ENDINGS)
def test_finish_reason_that_means_failure_is_an_error_for_every_caller(caller: str, target: str) -> None:
    caller_dialect, engine = CALLER_DIALECTS[caller], ENGINE_DIALECTS[target]
    for word, kind in FAILURES.items():
        whole, events = ending_with(target, word)
        with pytest.raises(kind) as caught:
            translate.translate_response(json.dumps(whole).encode(), caller_dialect, engine, META)
        assert caught.value.retry_elsewhere, word
        editor = translate.make_stream_editor(caller_dialect, engine, META, streamed=True)
        sent = editor.feed(stream_bytes(target, events))
        with pytest.raises(kind):
            editor.finish()
        assert b"Hello." in sent, f"{word}: what came before the failure is the caller's"
        assert not any(end in sent for end in (b"[DONE]", b"message_stop", b"response.completed", b"response.incomplete")), word


@pytest.mark.parametrize("caller", STOPS)
@pytest.mark.parametrize("target", ENDINGS)
def test_every_spelling_of_a_limit_or_a_filter_is_one(caller: str, target: str) -> None:
    for words, says, recorded in ((LIMITS, LIMIT_SAYS, "length"), (FILTERS, FILTER_SAYS, "content_filter")):
        for word in words:
            if caller == target == ANTHROPIC and word in ("model_context_window_exceeded", "refusal"):
                continue  # its own words, which stay
            ends = endings(caller, target, *ending_with(target, word))
            if caller == ANTHROPIC and word == "model_context_window_exceeded":
                assert {each[0] for each in ends} <= {"max_tokens", word}
            else:
                assert ends == [(*says[caller], recorded)] * 2, word


@pytest.mark.parametrize("caller", CHAT_CALLERS)
def test_openrouters_error_within_a_choice_is_the_error(caller: str) -> None:
    """Source: https://openrouter.ai/docs/api-reference/overview (StreamingChoice, NonStreamingChoice), read 2026-11."""
    error = {"code": 429, "message": "Too busy at the provider", "metadata": {"provider_name": "p"}}
    choice = {"index": 0, "finish_reason": "error", "native_finish_reason": "error", "error": error}
    chat = CHAT_DIALECTS["openai_chat"]
    whole = {"id": "x", "choices": [{**choice, "message": {"role": "assistant", "content": "Hel"}}]}
    with pytest.raises(Overloaded, match="Too busy at the provider") as caught:
        translate.translate_response(json.dumps(whole).encode(), CALLER_DIALECTS[caller], chat, META)
    assert caught.value.status == 429
    events = [
        {"id": "x", "choices": [{"index": 0, "delta": {"content": "Hel"}}]},
        {"id": "x", "choices": [{**choice, "delta": {"content": ""}}]},
    ]
    editor = translate.make_stream_editor(CALLER_DIALECTS[caller], chat, META, streamed=True)
    assert b"Hel" in editor.feed(stream_bytes("openai_chat", events))
    with pytest.raises(Overloaded, match="Too busy"):
        editor.finish()


ERRORS: tuple[tuple[NarthexError, str], ...] = (
    (UpstreamFailed("the model crashed"), "server_error"),
    (TimedOut("too slow"), "server_error"),
    (Overloaded("too much", upstream_status=429), "server_is_overloaded"),
    (InvalidRequest("no"), "invalid_prompt"),
)


@pytest.mark.parametrize("target", ENDINGS)
def test_failed_stream_of_responses_ends_with_response_failed_and_numbers_that_go_on(target: str) -> None:
    _, events = ENDINGS[target]
    for error, code in ERRORS:
        for length in (0, len(events) - 1):
            editor = translate.make_stream_editor(CALLER_DIALECTS["openai_responses"], ENGINE_DIALECTS[target], META, streamed=True)
            sent = editor.feed(stream_bytes(target, events[:length]).replace(b"data: [DONE]\n\n", b"")) + editor.write_failure(error)
            written = [json.loads(line[6:]) for line in sent.decode().split("\n") if line.startswith("data: ")]
            assert [each["type"] for each in written[:2]] == ["response.created", "response.in_progress"]
            numbers = [each["sequence_number"] for each in written]
            assert numbers == list(range(len(written)))
            last = written[-1]
            assert last["type"] == "response.failed" and last["response"]["status"] == "failed"
            assert last["response"]["error"] == {"code": code, "message": error.message}
            assert {each["response"]["id"] for each in written if "response" in each} == {"resp_ID"}
            assert None not in last["response"]["output"]


def failed_stream(caller: str, target: str) -> bytes:
    """Returns what a caller gets of a stream that the engine ends with `network_error`."""
    editor = translate.make_stream_editor(CALLER_DIALECTS[caller], ENGINE_DIALECTS[target], META, streamed=True)
    sent = editor.feed(stream_bytes(target, ending_with(target, "network_error")[1]))
    with pytest.raises(UpstreamFailed) as caught:
        editor.finish()
    return sent + (editor.write_failure(caught.value) or CALLER_DIALECTS[caller].write_error_frame(caught.value))


@pytest.mark.parametrize("target", [CHAT, RESPONSES, ANTHROPIC, "gemini", "bedrock_converse"])
def test_official_sdks_read_the_failure_of_a_stream(target: str) -> None:
    transport = FixedStreamTransport()
    client = httpx2.Client(transport=transport)
    sdk: Any = openai.OpenAI(api_key="key", base_url="http://narthex/v1", http_client=client, max_retries=0)
    transport.set_stream(failed_stream(RESPONSES, target))
    last = list(sdk.responses.create(model="m", input="Hello", stream=True))[-1]
    failed = ResponseFailedEvent.model_validate(last.model_dump(mode="json"))
    assert failed.response.status == "failed"
    assert failed.response.error is not None and "network_error" in failed.response.error.message
    transport.set_stream(failed_stream(CHAT, target))
    with pytest.raises(openai.APIError, match="network_error"):
        list(sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello"}], stream=True))
    claude: Any = anthropic.Anthropic(api_key="key", base_url="http://narthex", http_client=client, max_retries=0)
    transport.set_stream(failed_stream(ANTHROPIC, target))
    with pytest.raises(anthropic.APIError, match="network_error"):
        list(claude.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "Hello"}], stream=True))


@pytest.mark.parametrize("caller", [CHAT, RESPONSES, ANTHROPIC])
def test_other_callers_get_the_frame_of_their_own_api(caller: str) -> None:
    editor = translate.make_stream_editor(CALLER_DIALECTS[caller], ENGINE_DIALECTS["gemini"], META, streamed=True)
    frame = editor.write_failure(UpstreamFailed("x"))
    assert (frame == b"") == (caller != RESPONSES)
