"""Asks of Anthropic's Messages and its count of tokens: what is checked, how faults are named, what the road learns; errors; the host."""

import json
from typing import Any

import pytest
from hypothesis import given

from providers.adapters.provider import InvalidOption
from providers.canonical.errors import (
    BodyTooLarge,
    CallerCredentialRequired,
    CredentialRefused,
    InvalidRequest,
    LimitExceeded,
    NarthexError,
    NotAllowed,
    Overloaded,
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
from tests.laws.chats import bounded, unknown

DIALECT = AnthropicMessages()
COUNT = AnthropicCountTokens()

HI: dict[str, Any] = {"role": "user", "content": "Hi"}


def asking(**more: Any) -> bytes:
    body: dict[str, Any] = {"model": "m", "max_tokens": 2000, "messages": [HI], **more}
    return json.dumps({key: value for key, value in body.items() if value is not ...}).encode()


def saying(*blocks: dict[str, Any], role: str = "user") -> list[dict[str, Any]]:
    return [HI, {"role": role, "content": list(blocks)}]


TOOL: dict[str, Any] = {"name": "f", "input_schema": {"type": "object"}}
CALL: dict[str, Any] = {"type": "tool_use", "id": "c", "name": "f", "input": {}}


def named(**more: Any) -> dict[str, Any]:
    return {**TOOL, **more}


@pytest.mark.parametrize(
    ("raw", "param", "message"),
    [
        (asking(max_tokens=...), "max_tokens", "max_tokens: Field required"),
        (asking(messages=...), "messages", "messages: Field required"),
        (asking(model=...), "model", "model: Field required"),
        (asking(messages=[]), "messages", None),
        (asking(max_tokens=-1), "max_tokens", None),
        (asking(max_tokens="9"), "max_tokens", "max_tokens: Expected `int`, got `str`"),
        (asking(messages=[{"content": "Hi"}]), "messages.0.role", "messages.0.role: Field required"),
        (asking(messages=[HI, {"role": "user"}]), "messages.1.content", "messages.1.content: Field required"),
        (asking(messages=[{"role": "tool", "content": "Hi"}]), "messages.0.role", None),
        (asking(messages=saying({"type": "text"})), "messages.1.content.0.text", "messages.1.content.0.text: Field required"),
        (asking(messages=saying({"type": "text", "text": 1})), "messages.1.content.0.text", None),
        (asking(messages=saying({"text": "Hi"})), "messages.1.content.0.type", "messages.1.content.0.type: Field required"),
        (asking(messages=saying({"type": "image"})), "messages.1.content.0.source", None),
        (asking(messages=saying({"type": "image", "source": {"type": "url"}})), "messages.1.content.0.source.url", None),
        (asking(messages=saying({"type": "image", "source": {"type": "ftp"}})), "messages.1.content.0.source.type", None),
        (asking(messages=saying({"type": "image", "source": "x"})), "messages.1.content.0.source", None),
        (
            asking(messages=saying({"type": "document", "source": {"type": "base64", "data": ""}})),
            "messages.1.content.0.source.media_type",
            None,
        ),
        (asking(messages=saying({"type": "document", "source": {"type": "file"}})), "messages.1.content.0.source.file_id", None),
        (asking(messages=saying({"type": "tool_result", "content": "x"})), "messages.1.content.0.tool_use_id", None),
        (
            asking(messages=saying({"type": "tool_result", "tool_use_id": "c", "content": [{"type": "image", "source": {"type": "url"}}]})),
            "messages.1.content.0.content.0.source.url",
            None,
        ),
        (
            asking(messages=saying({"type": "tool_result", "tool_use_id": "c", "content": [CALL]})),
            "messages.1.content.0.content.0.type",
            "messages.1.content.0.content.0.type: `tool_use` blocks cannot be in a `tool_result`",
        ),
        (
            asking(messages=saying(CALL)),
            "messages.1.content.0.type",
            "messages.1.content.0.type: `tool_use` blocks can only be in `assistant` messages",
        ),
        (asking(messages=saying({**CALL, "input": "{}"}, role="assistant")), "messages.1.content.0.input", None),
        (asking(messages=saying({"type": "tool_result", "tool_use_id": "c"}, role="assistant")), "messages.1.content.0.type", None),
        (
            asking(messages=saying({"type": "text", "text": "Hi", "cache_control": {"type": "for ever"}})),
            "messages.1.content.0.cache_control.type",
            None,
        ),
        (asking(system=[{"type": "image"}]), "system.0.type", None),
        (asking(system=[{"type": "text"}]), "system.0.text", None),
        (asking(system=1), "system", None),
        (asking(temperature=1.5), "temperature", None),
        (asking(top_p=-1), "top_p", None),
        (asking(stop_sequences="x"), "stop_sequences", None),
        (asking(metadata={"user_id": 1}), "metadata.user_id", None),
        (asking(tools=[{"name": "f"}]), "tools.0.input_schema", "tools.0.input_schema: Field required"),
        (asking(tools=[{"input_schema": {}}]), "tools.0.name", None),
        (asking(tools=[named(name="f g")]), "tools.0.name", None),
        (asking(tools=[TOOL, TOOL]), "tools.1.name", None),
        (asking(tools=[named(input_schema={"type": "string"})]), "tools.0.input_schema.type", None),
        (asking(tool_choice={"type": "required"}), "tool_choice.type", None),
        (asking(tool_choice={"type": "tool"}), "tool_choice.name", "tool_choice.name: Field required"),
        (asking(thinking={"type": "on"}), "thinking.type", None),
        (asking(thinking={"type": "enabled"}), "thinking.budget_tokens", "thinking.budget_tokens: Field required"),
        (asking(thinking={"type": "enabled", "budget_tokens": 1023}), "thinking.budget_tokens", None),
        (asking(thinking={"type": "enabled", "budget_tokens": 2000}), "thinking.budget_tokens", None),
        (asking(output_config={"format": {"type": "json_object"}}), "output_config.format.type", None),
        (asking(output_config={"format": {"type": "json_schema"}}), "output_config.format.schema", None),
        (asking(output_config={"effort": "some"}), "output_config.effort", None),
        (asking(episode_id=""), "episode_id", None),
        (b"{", None, None),
        (b"[]", None, None),
    ],
)
def test_what_is_wrong_is_named_as_anthropic_names_it(raw: bytes, param: str | None, message: str | None) -> None:
    with pytest.raises(InvalidRequest) as refused:
        DIALECT.parse_request(raw)
    assert refused.value.param == param
    assert message is None or refused.value.message == message


@bounded
@given(unknown.map(lambda more: {key: value for key, value in more.items() if key != "citations"}))
def test_unknown_fields_pass_and_the_body_stays_the_callers_bytes(more: dict[str, Any]) -> None:
    content = [{"type": "text", "text": "Hi", **more}, {"type": "a new one", **more}]
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": content, **more}], "tools": [named(**more)], **more}
    raw = json.dumps(body).encode()
    assert json.loads(DIALECT.parse_request(raw).body.write()) == body
    assert bytes(DIALECT.parse_request(raw).body["messages"]) in raw


def test_what_the_road_learns() -> None:
    tagged = {"tensorzero::tags": {"a": "b"}, "tensorzero::episode_id": "e", "metadata": {"user_id": "u"}}
    ask = DIALECT.parse_request(asking(stream=True, **tagged))
    assert (ask.dialect, ask.model, ask.stream, ask.wants_usage, ask.choices) == ("anthropic_messages", "m", True, True, 1)
    assert (ask.output_tokens, ask.end_user, ask.tags, ask.episode_id) == (2000, "u", {"a": "b"}, "e")
    count = COUNT.parse_request(asking(max_tokens=...))
    assert (count.dialect, count.stream, count.output_tokens, count.choices) == ("anthropic_count_tokens", False, 0, 1)


def test_a_count_is_never_streamed() -> None:
    with pytest.raises(InvalidRequest) as refused:
        COUNT.parse_request(asking(max_tokens=..., stream=True))
    assert refused.value.param == "stream"
    body = Body(model="m", stream=True)
    COUNT.prepare_upstream_body(body, True, tell_usage=True)
    assert body == {"model": "m"}


@pytest.mark.parametrize("dialect", [DIALECT, COUNT])
def test_a_thread_is_refused_so_that_official_clients_ask_again_without(dialect: AnthropicMessages | AnthropicCountTokens) -> None:
    """Their toolRunner goes by `error.details.error_code` (anthropic-sdk-typescript 1.11, ThreadState.recoversFrom)."""
    with pytest.raises(InvalidRequest) as refused:
        dialect.parse_request(asking(thread={"type": "create"}))
    told = json.loads(dialect.write_error(refused.value))["error"]
    assert (refused.value.status, told["param"]) == (400, "thread")
    assert told["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    assert dialect.parse_request(asking(thread=None)).model == "m"


def test_thinking_between_calls_may_have_more_tokens_than_one_answer() -> None:
    assert DIALECT.parse_request(asking(thinking={"type": "enabled", "budget_tokens": 9000}, tools=[TOOL])).output_tokens == 2000


def test_media_count_by_a_table_wherever_they_stand() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 30_000}}
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A" * 30_000}}
    written = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "A" * 30_000}}
    made = {"type": "document", "source": {"type": "content", "content": [image]}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [image]}
    for blocks, media, text in [
        ([image], IMAGE_TOKENS, 0),
        ([document], FILE_TOKENS, 0),
        ([result], IMAGE_TOKENS, 0),
        ([written], 0, 10_000),
        ([made], IMAGE_TOKENS, 0),
    ]:
        tokens = DIALECT.parse_request(asking(messages=[{"role": "user", "content": blocks}])).input_tokens
        assert media + text <= tokens <= media + text + 150


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_is_made_one_for_a_stream_or_for_a_whole_answer(stream: bool) -> None:
    body = Body(model="m", stream=not stream)
    DIALECT.prepare_upstream_body(body, stream, tell_usage=True)
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
        (Unavailable("x"), "overloaded_error"),
        (TimedOut("x"), "timeout_error"),
        (UpstreamFailed("x", upstream_status=500), "api_error"),
        (CredentialRefused("x", upstream_status=401), "api_error"),
        (UpstreamRejected("x", upstream_status=402), "billing_error"),
        (UpstreamRejected("x", upstream_status=409), "invalid_request_error"),
    ],
)
def test_errors_are_told_in_anthropics_envelope(error: NarthexError, kind: str) -> None:
    told = json.loads(DIALECT.write_error(error))
    assert (told["type"], told["error"]["type"], told["error"]["message"]) == ("error", kind, "x")
    ours = {"code": error.code, "param": error.param, "details": error.details}
    assert {key: told["error"].get(key) for key in ours} == ours
    assert DIALECT.write_error_frame(error) == b"event: error\ndata: " + DIALECT.write_error(error) + b"\n\n"
    assert COUNT.write_error(error) == DIALECT.write_error(error)


def nothing(_: str) -> bool:
    return False


def test_the_host_is_spoken_to_as_it_wants() -> None:
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
    ("dialect", "said", "sent"),
    [
        ("anthropic_messages", ..., 8192),
        ("anthropic_messages", None, 8192),
        ("anthropic_messages", 5, 5),
        ("anthropic_count_tokens", ..., ...),
    ],
)
def test_the_host_demands_max_tokens(dialect: str, said: Any, sent: Any) -> None:
    body = Body.read(asking(max_tokens=said))
    assert Anthropic("claude", {}).adapt_request(body, dialect, nothing).dropped == []
    assert json.loads(body.write()).get("max_tokens", ...) == sent


def test_what_max_tokens_is_filled_in_is_an_option() -> None:
    body = Body(model="m")
    Anthropic("claude", {"max_tokens": 64_000}).adapt_request(body, "anthropic_messages", nothing)
    assert body["max_tokens"] == 64_000


@pytest.mark.parametrize("options", [{"max_tokens": 0}, {"max_tokens": "9"}, {"max_tokens": True}, {"anthropic_beta": "x"}, {"colour": 1}])
def test_options_that_cannot_be_taken_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        Anthropic("claude", options)
