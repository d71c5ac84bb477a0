"""OpenAI and Azure: field names by model, URLs, credentials, and error classes."""

import json
from typing import Any

import pytest

from providers.adapters.options import InvalidOption
from providers.adapters.provider import Provider
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
from providers.canonical.raw_json import Body
from providers.catalogue import build_provider
from providers.dialects.openai_chat import OpenAIChat
from providers.dialects.openai_responses import OpenAIResponses
from providers.hosted.azure.adapter import Azure
from providers.hosted.openai.adapter import OpenAI
from providers.profiles.gpt.token_limit import is_reasoning_model
from tests.support.adapted_body import adapt_body
from tests.support.field_handling import translate_body
from tests.support.strategies.chat_strategies import META, parse_sse_chunks

ENCRYPTED = "reasoning.encrypted_content"
MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize("model", ["o1", "o4-mini", "gpt-5", "gpt-5.4-mini", "gpt-6-sol", "ft:o4-mini-2025:acme", "gpt-10"])
def test_reasoning_models_get_max_completion_tokens(model: str) -> None:
    assert is_reasoning_model(model)
    sent, dropped, _ = adapt_body(OpenAI("o", {}), {"model": model, "messages": MESSAGES, "max_tokens": 5})
    assert (sent, dropped) == ({"model": model, "messages": MESSAGES, "max_completion_tokens": 5}, [])


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "omni", "gpt-4o-audio-preview", "custom-model"])
def test_other_models_keep_the_callers_max_tokens(model: str) -> None:
    fields = {"model": model, "messages": MESSAGES, "max_tokens": 5, "temperature": 0.5}
    assert adapt_body(OpenAI("o", {}), fields)[:2] == (fields, [])


def test_model_name_rules_apply_only_at_openai_hosts() -> None:
    fields = {"model": "gpt-5", "messages": MESSAGES, "max_tokens": 5}
    assert adapt_body(OpenAI("o", {}, None, "http://10.0.0.5:8000"), fields)[0] == fields
    assert OpenAI("o", {}, None, "https://eu.api.openai.com/v1").is_openai_host
    assert not OpenAI("o", {}, None, "https://api.openai.com.evil.example/v1").is_openai_host


STRICT_TOOL: dict[str, Any] = {
    "name": "f",
    "strict": True,
    "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
}
STRICT_REQUESTS: dict[str, dict[str, Any]] = {
    "openai_chat": {"messages": MESSAGES, "tools": [{"type": "function", "function": STRICT_TOOL}]},
    "openai_responses": {"input": "Hi", "tools": [{"type": "function", **STRICT_TOOL}]},
}


@pytest.mark.parametrize("dialect", STRICT_REQUESTS)
@pytest.mark.parametrize("adapter", ["openai", "auto"])
def test_unknown_server_is_not_trusted_with_strict_tools(adapter: str, dialect: str) -> None:
    options: dict[str, Any] = {"dialects": [dialect]}
    fields = {"model": "m", **STRICT_REQUESTS[dialect]}
    unknown = build_provider(adapter, "o", options, "http://10.0.0.5:8000")
    with pytest.raises(Unsupported) as refused:
        adapt_body(unknown, fields, dialect=dialect)
    assert refused.value.param is not None and refused.value.param.endswith("strict")
    trusted = build_provider(adapter, "o", {**options, "guided": "enforced"}, "http://10.0.0.5:8000")
    assert adapt_body(trusted, fields, dialect=dialect)[:2] == (fields, [])


@pytest.mark.parametrize("dialect", STRICT_REQUESTS)
def test_openai_itself_is_trusted_with_strict_tools(dialect: str) -> None:
    fields = {"model": "m", **STRICT_REQUESTS[dialect]}
    for address in (None, "https://eu.api.openai.com/v1"):
        assert adapt_body(OpenAI("o", {}, None, address), fields, dialect=dialect)[:2] == (fields, [])


def test_organization_and_project_are_sent_as_headers() -> None:
    provider = build_provider("openai", "o", {"organization": "org-1", "project": "proj_2"})
    expected = [("authorization", "Bearer k"), ("openai-organization", "org-1"), ("openai-project", "proj_2")]
    assert provider.headers("k") == expected
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
def test_openai_error_code_is_kept_and_classified(status: int, code: str, error: type[Exception]) -> None:
    body = json.dumps({"error": {"message": "m", "type": "t", "code": code}}).encode()
    read = OpenAI("o", {}).read_error(status, {}, body)
    assert (type(read), read.upstream_code) == (error, code)


def test_x_should_retry_decides_whether_a_409_counts_as_overloaded() -> None:
    body = b'{"error": {"message": "m", "type": "t", "code": "lock_timeout"}}'
    retryable = OpenAI("o", {}).read_error(409, {"x-should-retry": "true"}, body)
    assert (type(retryable), retryable.upstream_code, retryable.upstream_status) == (Overloaded, "lock_timeout", 409)
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
def test_stream_error_is_classified_by_its_code_and_type(code: str | None, type_: str | None, error: type[Exception]) -> None:
    error_body = {"error": {"message": "m", "type": type_, "param": None, "code": code}}
    chat, responses = OpenAIChat(), OpenAIResponses()
    editor = chat.stream_editor(META)
    editor.feed(b"data: %b\n\n" % json.dumps(error_body).encode())
    assert type(editor.failure) is error
    with pytest.raises(error):
        list(chat.stream_reader().feed(b"data: %b\n\n" % json.dumps(error_body).encode()))
    if code != "content_filter":
        event = {"type": "error", "sequence_number": 0, **error_body}
        with pytest.raises(error):
            list(responses.stream_reader().feed(b"event: error\ndata: %b\n\n" % json.dumps(event).encode()))


AUDIO_OUTPUT = {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}


def test_audio_output_is_sent_for_openai_chat_and_refused_for_other_dialects() -> None:
    chat: dict[str, Any] = {"model": "m", "messages": MESSAGES, **AUDIO_OUTPUT}
    assert json.loads(translate_body(OpenAI("o", {}), "openai_chat", json.dumps(chat).encode()).raw).items() >= AUDIO_OUTPUT.items()
    others: dict[str, dict[str, Any]] = {
        "openai_responses": {"model": "m", "input": "Hi", **AUDIO_OUTPUT},
        "anthropic_messages": {"model": "m", "messages": MESSAGES, "max_tokens": 9, **AUDIO_OUTPUT},
    }
    for caller, fields in others.items():
        with pytest.raises(Unsupported) as refused:
            translate_body(OpenAI("o", {"dialects": ["openai_chat"]}), caller, json.dumps(fields).encode())
        assert refused.value.param in AUDIO_OUTPUT


@pytest.mark.parametrize(("option", "streamed"), [("only", False), ("never", True)])
def test_audio_output_is_refused_if_stream_and_whole_must_be_converted(option: str, streamed: bool) -> None:
    chat: dict[str, Any] = {"model": "m", "messages": MESSAGES, "stream": streamed}
    host = OpenAI("o", {"stream": option})
    with pytest.raises(Unsupported) as refused:
        translate_body(host, "openai_chat", json.dumps({**chat, **AUDIO_OUTPUT}).encode())
    assert refused.value.param == "modalities"
    for fields in ({**chat, "modalities": ["text"]}, {**chat, **AUDIO_OUTPUT, "stream": not streamed}):
        translate_body(host, "openai_chat", json.dumps(fields).encode())


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
def test_azure_url_depends_on_api_and_api_version(options: dict[str, str], dialect: str, address: str) -> None:
    provider = Azure("az", options, None, BASE)
    for base in (BASE, BASE + "/", BASE + "/openai/v1"):
        assert str(provider.url(base, dialect, "my/gpt", stream=True)) == BASE + address
    resource_url = str(Azure("az", {"resource": "acme", **options}).url(Azure.default_base_url or "", dialect, "my/gpt"))
    host = "services.ai.azure.com" if "api" in options else "openai.azure.com"
    assert resource_url == f"https://acme.{host}{address}"


def test_azure_api_keys_and_tokens_use_different_headers() -> None:
    provider = Azure("az", {"resource": "acme"})
    assert provider.headers("0123abcd") == [("api-key", "0123abcd")]
    assert provider.headers("eyJh.eyJi.c2ln") == [("authorization", "Bearer eyJh.eyJi.c2ln")]
    assert provider.headers(None) == []


@pytest.mark.parametrize("options", [{"resource": "a/b"}, {"resource": ""}, {"api": "chat"}, {"api_version": "1&x=2"}, {"nonsense": 1}])
def test_azure_invalid_option_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidOption):
        Azure("az", options)


def test_azure_needs_a_resource_or_an_address() -> None:
    assert Azure("az", {}).base_url_required_reason is not None
    assert Azure("az", {"resource": "acme"}).base_url_required_reason is None
    assert OpenAI("o", {}).base_url_required_reason is None


@pytest.mark.parametrize("options", [{"resource": "acme"}, {"api": "models"}])
def test_azure_receives_audio_input_unchanged(options: dict[str, str]) -> None:
    audio_message = {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}]}
    request = {"model": "m", "messages": [audio_message]}
    assert json.loads(translate_body(Azure("az", options), "openai_chat", json.dumps(request).encode()).raw) == request


def test_foundry_models_get_max_tokens_except_openais_reasoning_models() -> None:
    foundry = Azure("az", {"api": "models"})
    assert foundry.spoken_dialects == ("openai_chat", "openai_embeddings")
    assert adapt_body(foundry, {"model": "grok-4", "messages": MESSAGES, "max_completion_tokens": 5})[0]["max_tokens"] == 5
    assert adapt_body(foundry, {"model": "gpt-5", "messages": MESSAGES, "max_completion_tokens": 5})[0]["max_completion_tokens"] == 5
    assert adapt_body(Azure("az", {}), {"model": "gpt-5", "messages": MESSAGES, "max_tokens": 5})[0]["max_completion_tokens"] == 5


def test_azure_content_filter_error_is_refused_with_its_code() -> None:
    error_body = {
        "message": "The response was filtered.",
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True, "severity": "high"}}},
    }
    error = Azure("az", {}).read_error(400, {}, json.dumps({"error": error_body}).encode())
    assert (type(error), error.upstream_code, error.param) == (UpstreamRejected, "content_filter", "prompt")


def test_azure_retry_after_ms_is_preferred_and_error_codes_are_kept() -> None:
    body = b'{"error": {"code": "RateLimitReached", "message": "m"}}'
    error = Azure("az", {}).read_error(429, {"retry-after": "3", "retry-after-ms": "2500"}, body)
    assert (type(error), error.retry_after_s, error.upstream_code) == (Overloaded, 2.5, "RateLimitReached")
    missing = Azure("az", {}).read_error(404, {}, b'{"error": {"code": "DeploymentNotFound", "message": "m"}}')
    assert (type(missing), missing.upstream_code) == (UpstreamNotFound, "DeploymentNotFound")


def test_azure_prompt_filter_chunk_passes_through_wherever_the_stream_is_cut() -> None:
    first = {"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": [{"prompt_index": 0}]}
    chunks = [first, {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}]
    raw = b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in chunks) + b"data: [DONE]\n\n"
    chat = OpenAIChat()
    for at in range(len(raw)):
        editor = chat.stream_editor(META)
        frames = parse_sse_chunks(editor.feed(raw[:at]) + editor.feed(raw[at:]) + editor.finish())
        assert [frame["object"] for frame in frames] == ["chat.completion.chunk"] * 2
        assert frames[0]["prompt_filter_results"] == [{"prompt_index": 0}]
    reader = chat.stream_reader()
    (choice,) = assemble_response([*reader.feed(raw), *reader.finish()]).choices
    assert choice.finish_reason == "stop"


def test_azure_late_content_filter_choice_gets_an_empty_delta() -> None:
    filter_result: dict[str, Any] = {
        "index": 0,
        "finish_reason": None,
        "content_filter_results": {"hate": {"filtered": False}},
        "content_filter_offsets": {},
    }
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": {"content": "Hi"}},
        filter_result,
        {"index": 0, "delta": {}, "finish_reason": "stop"},
        filter_result,
    ]
    raw = b"".join(b"data: %b\n\n" % json.dumps({"choices": [each]}).encode() for each in choices)
    editor = OpenAIChat().stream_editor(META)
    frames = parse_sse_chunks(editor.feed(raw) + editor.finish())
    assert [frame["choices"][0]["delta"] for frame in frames] == [{"content": "Hi"}, {}, {}, {}]
    assert frames[1]["choices"][0]["content_filter_results"] == filter_result["content_filter_results"]
    assert editor.finish_reason == "stop"


def _sent_include(provider: Provider, model: str, **fields: Any) -> Any:
    body = Body(json.loads(json.dumps({"model": model, "input": "Hi", **fields})))
    OpenAIResponses().prepare_upstream_body(body, False, include_usage=True)
    provider.set_model(body, "openai_responses", model, False)
    return body.get("include")


@pytest.mark.parametrize("include", [None, [ENCRYPTED]])
def test_encrypted_reasoning_is_requested_only_of_models_that_reason(include: list[str] | None) -> None:
    azure = Azure("a", {"resource": "r"})
    for provider, model, expected in (
        (OpenAI("o", {}), "gpt-5.4-mini", [ENCRYPTED]),
        (OpenAI("o", {}), "gpt-4o-mini", None),
        (OpenAI("o", {}, None, "http://10.0.0.5:8000"), "gpt-4o-mini", [ENCRYPTED]),
        (azure, "gpt-5", [ENCRYPTED]),
        (azure, "gpt-35-turbo", None),
        (azure, "gpt-4.1", None),
        (azure, "the-company-model", [ENCRYPTED]),
    ):
        assert _sent_include(provider, model, include=include) == expected, model
    assert _sent_include(OpenAI("o", {}), "gpt-4o", include=[ENCRYPTED, "other"]) == ["other"]


def test_refusal_to_encrypt_reasoning_is_followed_by_the_same_body_without_it() -> None:
    raw = json.dumps({"model": "m", "input": "Hi", "include": ["other", ENCRYPTED]}).encode()
    provider = OpenAI("o", {})
    refusal = provider.read_error(400, {}, b'{"error": {"message": "Encrypted content is not supported with this model."}}')
    sent = provider.body_after_refusal(refusal, "openai_responses", raw)
    assert sent is not None and json.loads(sent) == {"model": "m", "input": "Hi", "include": ["other"]}
    assert provider.body_after_refusal(refusal, "openai_responses", sent) is None
    other = provider.read_error(400, {}, b'{"error": {"message": "Unknown model."}}')
    assert provider.body_after_refusal(other, "openai_responses", raw) is None
