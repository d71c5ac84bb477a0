"""OpenAI itself, and Azure: names of fields by model, addresses, credentials, and what errors mean."""

import json
from typing import Any

import pytest

from providers.adapters.provider import InvalidOption
from providers.canonical.errors import (
    CredentialRefused,
    Overloaded,
    QuotaExhausted,
    Unsupported,
    UpstreamFailed,
    UpstreamNotFound,
    UpstreamRejected,
)
from providers.canonical.events import assemble_response
from providers.catalogue import build_provider
from providers.dialects.openai_chat import OpenAIChat
from providers.dialects.openai_responses import OpenAIResponses
from providers.hosted.azure.adapter import Azure
from providers.hosted.openai.adapter import OpenAI, is_reasoning_model
from tests.laws.bending import bent
from tests.laws.chats import STAMP, told
from tests.laws.engine_fields import prepare

MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize("model", ["o1", "o4-mini", "gpt-5", "gpt-5.4-mini", "gpt-6-sol", "ft:o4-mini-2025:acme", "gpt-10"])
def test_models_that_reason_are_told_the_newer_name(model: str) -> None:
    assert is_reasoning_model(model)
    sent, dropped, _ = bent(OpenAI("o", {}), {"model": model, "messages": MESSAGES, "max_tokens": 5})
    assert (sent, dropped) == ({"model": model, "messages": MESSAGES, "max_completion_tokens": 5}, [])


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "omni", "gpt-4o-audio-preview", "theirs"])
def test_other_models_are_asked_as_the_caller_says(model: str) -> None:
    asked = {"model": model, "messages": MESSAGES, "max_tokens": 5, "temperature": 0.5}
    assert bent(OpenAI("o", {}), asked)[:2] == (asked, [])


def test_elsewhere_than_at_openai_names_of_models_tell_nothing() -> None:
    asked = {"model": "gpt-5", "messages": MESSAGES, "max_tokens": 5}
    assert bent(OpenAI("o", {}, None, "http://10.0.0.5:8000"), asked)[0] == asked
    assert OpenAI("o", {}, None, "https://eu.api.openai.com/v1").is_openai_host
    assert not OpenAI("o", {}, None, "https://api.openai.com.evil.example/v1").is_openai_host


def test_an_account_is_named_in_headers() -> None:
    provider = build_provider("openai", "o", {"organization": "org-1", "project": "proj_2"})
    wanted = [("authorization", "Bearer k"), ("openai-organization", "org-1"), ("openai-project", "proj_2")]
    assert provider.headers("k") == wanted
    with pytest.raises(InvalidOption, match="organization"):
        OpenAI("o", {"organization": "a\nb"})


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (429, "insufficient_quota", QuotaExhausted),
        (429, "rate_limit_exceeded", Overloaded),
        (404, "model_not_found", UpstreamNotFound),
        (401, "invalid_api_key", CredentialRefused),
    ],
)
def test_openais_own_word_for_an_error_is_kept(status: int, code: str, error: type[Exception]) -> None:
    body = json.dumps({"error": {"message": "m", "type": "t", "code": code}}).encode()
    read = OpenAI("o", {}).read_error(status, {}, body)
    assert (type(read), read.upstream_code) == (error, code)


def test_what_it_says_may_be_tried_again_is_nobodys_fault() -> None:
    body = b'{"error": {"message": "m", "type": "t", "code": "lock_timeout"}}'
    again = OpenAI("o", {}).read_error(409, {"x-should-retry": "true"}, body)
    assert (type(again), again.upstream_code, again.upstream_status) == (Overloaded, "lock_timeout", 409)
    assert type(OpenAI("o", {}).read_error(409, {"x-should-retry": "false"}, body)) is UpstreamRejected
    assert type(OpenAI("o", {}).read_error(404, {"x-should-retry": "true"}, body)) is UpstreamNotFound


@pytest.mark.parametrize(
    ("code", "type_", "error"),
    [
        ("insufficient_quota", "insufficient_quota", QuotaExhausted),
        ("rate_limit_exceeded", "requests", Overloaded),
        ("content_filter", None, UpstreamRejected),
        (None, "invalid_request_error", UpstreamRejected),
        (None, "server_error", UpstreamFailed),
    ],
)
def test_an_error_within_a_stream_is_what_its_words_say(code: str | None, type_: str | None, error: type[Exception]) -> None:
    told_error = {"error": {"message": "m", "type": type_, "param": None, "code": code}}
    chat, responses = OpenAIChat(), OpenAIResponses()
    editor = chat.stream_editor(STAMP)
    editor.feed(b"data: %b\n\n" % json.dumps(told_error).encode())
    assert type(editor.failure) is error
    with pytest.raises(error):
        list(chat.stream_reader().feed(b"data: %b\n\n" % json.dumps(told_error).encode()))
    if code != "content_filter":
        event = {"type": "error", "sequence_number": 0, **told_error}
        with pytest.raises(error):
            list(responses.stream_reader().feed(b"event: error\ndata: %b\n\n" % json.dumps(event).encode()))


SPOKEN = {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}


def test_a_spoken_answer_is_for_callers_of_chat_and_refused_to_others_by_name() -> None:
    chat: dict[str, Any] = {"model": "m", "messages": MESSAGES, **SPOKEN}
    assert json.loads(prepare(OpenAI("o", {}), "openai_chat", json.dumps(chat).encode()).raw).items() >= SPOKEN.items()
    others: dict[str, dict[str, Any]] = {
        "openai_responses": {"model": "m", "input": "Hi", **SPOKEN},
        "anthropic_messages": {"model": "m", "messages": MESSAGES, "max_tokens": 9, **SPOKEN},
    }
    for caller, asked in others.items():
        with pytest.raises(Unsupported) as refused:
            prepare(OpenAI("o", {"dialects": ["openai_chat"]}), caller, json.dumps(asked).encode())
        assert refused.value.param in SPOKEN


@pytest.mark.parametrize(("option", "streamed"), [("only", False), ("never", True)])
def test_a_spoken_answer_is_not_made_a_stream_or_of_one(option: str, streamed: bool) -> None:
    chat: dict[str, Any] = {"model": "m", "messages": MESSAGES, "stream": streamed}
    host = OpenAI("o", {"stream": option})
    with pytest.raises(Unsupported) as refused:
        prepare(host, "openai_chat", json.dumps({**chat, **SPOKEN}).encode())
    assert refused.value.param == "modalities"
    for asked in ({**chat, "modalities": ["text"]}, {**chat, **SPOKEN, "stream": not streamed}):
        prepare(host, "openai_chat", json.dumps(asked).encode())


BASE = "http://127.0.0.1:9/some/prefix"


@pytest.mark.parametrize(
    ("options", "dialect", "address"),
    [
        ({}, "openai_chat", "/openai/v1/chat/completions"),
        ({}, "openai_responses", "/openai/v1/responses"),
        ({"api_version": "preview"}, "openai_chat", "/openai/v1/chat/completions?api-version=preview"),
        ({"api_version": "2024-10-21"}, "openai_chat", "/openai/deployments/my%2Fgpt/chat/completions?api-version=2024-10-21"),
        ({"api_version": "2024-10-21"}, "openai_embeddings", "/openai/deployments/my%2Fgpt/embeddings?api-version=2024-10-21"),
        ({"api_version": "2025-04-01-preview"}, "openai_responses", "/openai/v1/responses"),
        ({"api": "models"}, "openai_chat", "/models/chat/completions?api-version=2024-05-01-preview"),
    ],
)
def test_azures_addresses(options: dict[str, str], dialect: str, address: str) -> None:
    provider = Azure("az", options, None, BASE)
    for base in (BASE, BASE + "/", BASE + "/openai/v1"):
        assert str(provider.url(base, dialect, "my/gpt", stream=True)) == BASE + address
    of_portal = str(Azure("az", {"resource": "acme", **options}).url(Azure.default_base_url or "", dialect, "my/gpt"))
    host = "services.ai.azure.com" if "api" in options else "openai.azure.com"
    assert of_portal == f"https://acme.{host}{address}"


def test_azures_keys_and_tokens_go_in_headers_of_their_own() -> None:
    provider = Azure("az", {"resource": "acme"})
    assert provider.headers("0123abcd") == [("api-key", "0123abcd")]
    assert provider.headers("eyJh.eyJi.c2ln") == [("authorization", "Bearer eyJh.eyJi.c2ln")]
    assert provider.headers(None) == []


@pytest.mark.parametrize("options", [{"resource": "a/b"}, {"resource": ""}, {"api": "chat"}, {"api_version": "1&x=2"}, {"nonsense": 1}])
def test_azure_refuses_options_that_cannot_be_meant(options: dict[str, object]) -> None:
    with pytest.raises(InvalidOption):
        Azure("az", options)


def test_azure_is_made_an_address_of_its_resource_or_must_be_told_one() -> None:
    assert Azure("az", {}).base_url_required_reason is not None
    assert Azure("az", {"resource": "acme"}).base_url_required_reason is None
    assert OpenAI("o", {}).base_url_required_reason is None


@pytest.mark.parametrize("options", [{"resource": "acme"}, {"api": "models"}])
def test_azure_hears_sounds_in_chat_as_they_came(options: dict[str, str]) -> None:
    sound = {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}]}
    asked = {"model": "m", "messages": [sound]}
    assert json.loads(prepare(Azure("az", options), "openai_chat", json.dumps(asked).encode()).raw) == asked


def test_foundrys_models_are_told_the_older_name_but_openais() -> None:
    foundry = Azure("az", {"api": "models"})
    assert foundry.spoken_dialects == ("openai_chat", "openai_embeddings")
    assert bent(foundry, {"model": "grok-4", "messages": MESSAGES, "max_completion_tokens": 5})[0]["max_tokens"] == 5
    assert bent(foundry, {"model": "gpt-5", "messages": MESSAGES, "max_completion_tokens": 5})[0]["max_completion_tokens"] == 5
    assert bent(Azure("az", {}), {"model": "gpt-5", "messages": MESSAGES, "max_tokens": 5})[0]["max_completion_tokens"] == 5


def test_what_azure_filters_is_the_callers_to_know() -> None:
    told_error = {
        "message": "The response was filtered.",
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True, "severity": "high"}}},
    }
    error = Azure("az", {}).read_error(400, {}, json.dumps({"error": told_error}).encode())
    assert (type(error), error.upstream_code, error.param) == (UpstreamRejected, "content_filter", "prompt")


def test_azure_says_when_to_come_back_in_milliseconds() -> None:
    body = b'{"error": {"code": "RateLimitReached", "message": "m"}}'
    error = Azure("az", {}).read_error(429, {"retry-after": "3", "retry-after-ms": "2500"}, body)
    assert (type(error), error.retry_after_s, error.upstream_code) == (Overloaded, 2.5, "RateLimitReached")
    missing = Azure("az", {}).read_error(404, {}, b'{"error": {"code": "DeploymentNotFound", "message": "m"}}')
    assert (type(missing), missing.upstream_code) == (UpstreamNotFound, "DeploymentNotFound")


def test_azures_first_chunk_of_filters_begins_no_answer() -> None:
    first = {"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": [{"prompt_index": 0}]}
    chunks = [first, {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}]
    raw = b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in chunks) + b"data: [DONE]\n\n"
    chat = OpenAIChat()
    for at in range(len(raw)):
        editor = chat.stream_editor(STAMP)
        frames = told(editor.feed(raw[:at]) + editor.feed(raw[at:]) + editor.finish())
        assert [frame["object"] for frame in frames] == ["chat.completion.chunk"] * 2
        assert frames[0]["prompt_filter_results"] == [{"prompt_index": 0}]
    reader = chat.stream_reader()
    (choice,) = assemble_response([*reader.feed(raw), *reader.finish()]).choices
    assert choice.finish_reason == "stop"


def test_what_azures_filter_found_later_comes_with_a_delta_as_every_choice_does() -> None:
    found: dict[str, Any] = {
        "index": 0,
        "finish_reason": None,
        "content_filter_results": {"hate": {"filtered": False}},
        "content_filter_offsets": {},
    }
    said: list[dict[str, Any]] = [
        {"index": 0, "delta": {"content": "Hi"}},
        found,
        {"index": 0, "delta": {}, "finish_reason": "stop"},
        found,
    ]
    raw = b"".join(b"data: %b\n\n" % json.dumps({"choices": [each]}).encode() for each in said)
    editor = OpenAIChat().stream_editor(STAMP)
    frames = told(editor.feed(raw) + editor.finish())
    assert [frame["choices"][0]["delta"] for frame in frames] == [{"content": "Hi"}, {}, {}, {}]
    assert frames[1]["choices"][0]["content_filter_results"] == found["content_filter_results"]
    assert editor.finish_reason == "stop"
