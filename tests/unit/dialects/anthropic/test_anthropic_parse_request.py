"""Parsing Anthropic Messages and token counts: what is checked, how faults are named, what the gateway learns; errors; the host adapter."""

import json
from typing import Any

import pytest
from hypothesis import given

from providers.adapters.options import InvalidOption
from providers.canonical.errors import (
    BodyTooLarge,
    CallerCredentialRequired,
    CredentialRefused,
    InvalidRequest,
    LimitExceeded,
    NarthexError,
    NotAllowed,
    Overloaded,
    QuotaExhausted,
    TimedOut,
    Unavailable,
    UnknownModel,
    Unsupported,
    UpstreamFailed,
    UpstreamRejected,
)
from providers.canonical.raw_json import Body
from providers.canonical.token_estimate import FILE_TOKENS, IMAGE_TOKENS
from providers.dialects.anthropic_count_tokens import AnthropicCountTokens
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.hosted.anthropic.adapter import Anthropic
from tests.support.case_tables import failed_cases
from tests.support.request_translation import drop_nothing
from tests.support.strategies.chat_strategies import bounded, unknown_fields

DIALECT = AnthropicMessages()
COUNT_DIALECT = AnthropicCountTokens()

HI: dict[str, Any] = {"role": "user", "content": "Hi"}


def request_body(**more: Any) -> bytes:
    body: dict[str, Any] = {"model": "m", "max_tokens": 2000, "messages": [HI], **more}
    return json.dumps({key: value for key, value in body.items() if value is not ...}).encode()


def conversation_with(*blocks: dict[str, Any], role: str = "user") -> list[dict[str, Any]]:
    return [HI, {"role": role, "content": list(blocks)}]


TOOL: dict[str, Any] = {"name": "f", "input_schema": {"type": "object"}}
CALL: dict[str, Any] = {"type": "tool_use", "id": "c", "name": "f", "input": {}}


def tool_with(**more: Any) -> dict[str, Any]:
    return {**TOOL, **more}


INVALID_REQUESTS: list[tuple[bytes, str | None, str | None]] = [
    (request_body(max_tokens=...), "max_tokens", "max_tokens: Field required"),
    (request_body(messages=...), "messages", "messages: Field required"),
    (request_body(model=...), "model", "model: Field required"),
    (request_body(messages=[]), "messages", None),
    (request_body(max_tokens=-1), "max_tokens", None),
    (request_body(max_tokens="nine"), "max_tokens", "max_tokens: Expected `int`, got `str`"),
    (request_body(messages=[{"content": "Hi"}]), "messages.0.role", "messages.0.role: Field required"),
    (request_body(messages=[HI, {"role": "user"}]), "messages.1.content", "messages.1.content: Field required"),
    (request_body(messages=[{"role": "tool", "content": "Hi"}]), "messages.0.role", None),
    (
        request_body(messages=conversation_with({"type": "text"})),
        "messages.1.content.0.text",
        "messages.1.content.0.text: Field required",
    ),
    (request_body(messages=conversation_with({"type": "text", "text": 1})), "messages.1.content.0.text", None),
    (
        request_body(messages=conversation_with({"text": "Hi"})),
        "messages.1.content.0.type",
        "messages.1.content.0.type: Field required",
    ),
    (request_body(messages=conversation_with({"type": "image"})), "messages.1.content.0.source", None),
    (request_body(messages=conversation_with({"type": "image", "source": {"type": "url"}})), "messages.1.content.0.source.url", None),
    (request_body(messages=conversation_with({"type": "image", "source": {"type": "ftp"}})), "messages.1.content.0.source.type", None),
    (request_body(messages=conversation_with({"type": "image", "source": "x"})), "messages.1.content.0.source", None),
    (
        request_body(messages=conversation_with({"type": "document", "source": {"type": "base64", "data": ""}})),
        "messages.1.content.0.source.media_type",
        None,
    ),
    (
        request_body(messages=conversation_with({"type": "document", "source": {"type": "file"}})),
        "messages.1.content.0.source.file_id",
        None,
    ),
    (request_body(messages=conversation_with({"type": "tool_result", "content": "x"})), "messages.1.content.0.tool_use_id", None),
    (
        request_body(
            messages=conversation_with(
                {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "image", "source": {"type": "url"}}]}
            )
        ),
        "messages.1.content.0.content.0.source.url",
        None,
    ),
    (
        request_body(messages=conversation_with({"type": "tool_result", "tool_use_id": "c", "content": [CALL]})),
        "messages.1.content.0.content.0.type",
        "messages.1.content.0.content.0.type: `tool_use` blocks cannot be in a `tool_result`",
    ),
    (
        request_body(messages=conversation_with(CALL)),
        "messages.1.content.0.type",
        "messages.1.content.0.type: `tool_use` blocks can only be in `assistant` messages",
    ),
    (request_body(messages=conversation_with({**CALL, "input": "{}"}, role="assistant")), "messages.1.content.0.input", None),
    (
        request_body(messages=conversation_with({"type": "tool_result", "tool_use_id": "c"}, role="assistant")),
        "messages.1.content.0.type",
        None,
    ),
    (
        request_body(messages=conversation_with({"type": "text", "text": "Hi", "cache_control": {"type": "for ever"}})),
        "messages.1.content.0.cache_control.type",
        None,
    ),
    (request_body(system=[{"type": "image"}]), "system.0.type", None),
    (request_body(system=[{"type": "text"}]), "system.0.text", None),
    (request_body(system=1), "system", None),
    (request_body(temperature=1.5), "temperature", None),
    (request_body(top_p=-1), "top_p", None),
    (request_body(stop_sequences="x"), "stop_sequences", None),
    (request_body(metadata={"user_id": 1}), "metadata.user_id", None),
    (request_body(tools=[{"name": "f"}]), "tools.0.input_schema", "tools.0.input_schema: Field required"),
    (request_body(tools=[{"input_schema": {}}]), "tools.0.name", None),
    (request_body(tools=[tool_with(name="f g")]), "tools.0.name", None),
    (request_body(tools=[TOOL, TOOL]), "tools.1.name", None),
    (request_body(tools=[tool_with(input_schema={"type": "string"})]), "tools.0.input_schema.type", None),
    (request_body(tool_choice={"type": "required"}), "tool_choice.type", None),
    (request_body(tool_choice={"type": "tool"}), "tool_choice.name", "tool_choice.name: Field required"),
    (request_body(thinking={"type": "on"}), "thinking.type", None),
    (request_body(thinking={"type": "enabled"}), "thinking.budget_tokens", "thinking.budget_tokens: Field required"),
    (request_body(thinking={"type": "enabled", "budget_tokens": 1023}), "thinking.budget_tokens", None),
    (request_body(thinking={"type": "enabled", "budget_tokens": 2000}), "thinking.budget_tokens", None),
    (request_body(output_config={"format": {"type": "json_object"}}), "output_config.format.type", None),
    (request_body(output_config={"format": {"type": "json_schema"}}), "output_config.format.schema", None),
    (request_body(output_config={"effort": "some"}), "output_config.effort", None),
    (request_body(episode_id=""), "episode_id", None),
    (b"{", None, None),
    (b"[]", None, None),
]


def test_invalid_request_names_the_parameter_as_anthropic_does() -> None:
    def check(raw: bytes, param: str | None, message: str | None) -> None:
        with pytest.raises(InvalidRequest) as refused:
            DIALECT.parse_request(raw)
        assert refused.value.param == param
        assert message is None or refused.value.message == message

    assert failed_cases(check, INVALID_REQUESTS) == []


@bounded
@given(unknown_fields.map(lambda more: {key: value for key, value in more.items() if key != "citations"}))
def test_unknown_fields_pass_and_the_body_keeps_the_callers_bytes(more: dict[str, Any]) -> None:
    content = [{"type": "text", "text": "Hi", **more}, {"type": "a new one", **more}]
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": content, **more}], "tools": [tool_with(**more)], **more}
    raw = json.dumps(body).encode()
    assert json.loads(DIALECT.parse_request(raw).body.write()) == body
    assert bytes(DIALECT.parse_request(raw).body["messages"]) in raw


def test_parsed_request_carries_model_stream_tokens_user_tags_and_episode() -> None:
    tagged = {"tensorzero::tags": {"a": "b"}, "tensorzero::episode_id": "e", "metadata": {"user_id": "u"}}
    request = DIALECT.parse_request(request_body(stream=True, **tagged))
    assert (request.dialect, request.model, request.stream, request.wants_usage, request.choices) == (
        "anthropic_messages",
        "m",
        True,
        True,
        1,
    )
    assert (request.output_tokens, request.end_user, request.tags, request.episode_id) == (2000, "u", {"a": "b"}, "e")
    count_request = COUNT_DIALECT.parse_request(request_body(max_tokens=...))
    assert (count_request.dialect, count_request.stream, count_request.output_tokens, count_request.choices) == (
        "anthropic_count_tokens",
        False,
        0,
        1,
    )


def test_token_count_is_never_streamed() -> None:
    with pytest.raises(InvalidRequest) as refused:
        COUNT_DIALECT.parse_request(request_body(max_tokens=..., stream=True))
    assert refused.value.param == "stream"
    body = Body(model="m", stream=True)
    COUNT_DIALECT.prepare_upstream_body(body, True, include_usage=True)
    assert body == {"model": "m"}


@pytest.mark.parametrize("dialect", [DIALECT, COUNT_DIALECT])
def test_thread_is_refused_with_the_error_code_that_official_sdks_recover_from(dialect: AnthropicMessages | AnthropicCountTokens) -> None:
    """Their toolRunner goes by `error.details.error_code` (anthropic-sdk-typescript 1.11, ThreadState.recoversFrom)."""
    with pytest.raises(InvalidRequest) as refused:
        dialect.parse_request(request_body(thread={"type": "create"}))
    error_body = json.loads(dialect.write_error(refused.value))["error"]
    assert (refused.value.status, error_body["param"]) == (400, "thread")
    assert error_body["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    assert dialect.parse_request(request_body(thread=None)).model == "m"


def test_interleaved_thinking_budget_may_exceed_max_tokens() -> None:
    assert DIALECT.parse_request(request_body(thinking={"type": "enabled", "budget_tokens": 9000}, tools=[TOOL])).output_tokens == 2000


def test_media_input_tokens_are_estimated_by_table_at_any_depth() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 30_000}}
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A" * 30_000}}
    text_document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "A" * 30_000}}
    content_document = {"type": "document", "source": {"type": "content", "content": [image]}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [image]}
    for blocks, media, text in [
        ([image], IMAGE_TOKENS, 0),
        ([document], FILE_TOKENS, 0),
        ([result], IMAGE_TOKENS, 0),
        ([text_document], 0, 10_000),
        ([content_document], IMAGE_TOKENS, 0),
    ]:
        tokens = DIALECT.parse_request(request_body(messages=[{"role": "user", "content": blocks}])).input_tokens
        assert media + text <= tokens <= media + text + 150


@pytest.mark.parametrize("stream", [True, False])
def test_prepared_body_sets_stream_as_upstream_needs_it(stream: bool) -> None:
    body = Body(model="m", stream=not stream)
    DIALECT.prepare_upstream_body(body, stream, include_usage=True)
    assert body == ({"model": "m", "stream": True} if stream else {"model": "m"})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidRequest("x", param="messages.0"), "invalid_request_error"),
        (CallerCredentialRequired("x"), "authentication_error"),
        (NotAllowed("x"), "permission_error"),
        (UnknownModel("x"), "not_found_error"),
        (BodyTooLarge("x"), "request_too_large"),
        (Unsupported("x", param="seed"), "invalid_request_error"),
        (LimitExceeded("x", code="requests", details={"rule": "r"}, retry_after_s=1, headers=[]), "rate_limit_error"),
        (Overloaded("x", upstream_status=529), "overloaded_error"),
        (Overloaded("x", upstream_status=429), "rate_limit_error"),
        (QuotaExhausted("x", upstream_status=429), "api_error"),
        (QuotaExhausted("x", upstream_status=402), "api_error"),
        (Unavailable("x"), "overloaded_error"),
        (TimedOut("x"), "timeout_error"),
        (UpstreamFailed("x", upstream_status=500), "api_error"),
        (CredentialRefused("x", upstream_status=401), "api_error"),
        (UpstreamRejected("x", upstream_status=402), "billing_error"),
        (UpstreamRejected("x", upstream_status=409), "invalid_request_error"),
    ],
)
def test_errors_are_written_in_the_anthropic_envelope(error: NarthexError, kind: str) -> None:
    body = json.loads(DIALECT.write_error(error))
    assert (body["type"], body["error"]["type"], body["error"]["message"]) == ("error", kind, "x")
    gateway_fields = {"code": error.code, "param": error.param, "details": error.details}
    assert {key: body["error"].get(key) for key in gateway_fields} == gateway_fields
    assert DIALECT.write_error_frame(error) == b"event: error\ndata: " + DIALECT.write_error(error) + b"\n\n"
    assert COUNT_DIALECT.write_error(error) == DIALECT.write_error(error)


def test_host_urls_and_headers_match_the_anthropic_api() -> None:
    host = Anthropic("claude", {})
    assert str(host.url("https://api.anthropic.com", "anthropic_messages")) == "https://api.anthropic.com/v1/messages"
    assert str(host.url("https://api.anthropic.com/v1", "anthropic_count_tokens")) == "https://api.anthropic.com/v1/messages/count_tokens"
    # Vendors that speak Anthropic's API below a path of their own (DeepSeek, Fireworks), and engines that do (vLLM).
    for base in ("https://api.deepseek.com/anthropic", "https://api.fireworks.ai/inference/v1", "http://127.0.0.1:8000/"):
        root = base.removesuffix("/").removesuffix("/v1")
        assert str(host.url(base, "anthropic_messages")) == f"{root}/v1/messages"
        assert str(host.url(base, "anthropic_count_tokens")) == f"{root}/v1/messages/count_tokens"
    assert host.headers("key") == [("x-api-key", "key"), ("anthropic-version", "2023-06-01")]
    assert host.headers(None) == [("anthropic-version", "2023-06-01")]
    assert Anthropic("claude", {"anthropic_beta": ["a", "b"]}).headers(None)[1:] == [("anthropic-beta", "a,b")]


@pytest.mark.parametrize(
    ("dialect", "max_tokens", "sent"),
    [
        ("anthropic_messages", ..., 8192),
        ("anthropic_messages", None, 8192),
        ("anthropic_messages", 5, 5),
        ("anthropic_count_tokens", ..., ...),
    ],
)
def test_missing_max_tokens_is_filled_in_except_for_token_counts(dialect: str, max_tokens: Any, sent: Any) -> None:
    body = Body.read(request_body(max_tokens=max_tokens))
    assert Anthropic("claude", {}).adapt_request(body, dialect, drop_nothing).dropped == []
    assert json.loads(body.write()).get("max_tokens", ...) == sent


def test_default_max_tokens_is_a_provider_option() -> None:
    body = Body(model="m")
    Anthropic("claude", {"max_tokens": 64_000}).adapt_request(body, "anthropic_messages", drop_nothing)
    assert body["max_tokens"] == 64_000


@pytest.mark.parametrize("options", [{"max_tokens": 0}, {"max_tokens": "9"}, {"max_tokens": True}, {"anthropic_beta": "x"}, {"colour": 1}])
def test_invalid_provider_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        Anthropic("claude", options)
