"""Errors of Anthropic: each becomes the right error with its retry-after and its code, in streams too."""

import json
from typing import Any

import pytest

from providers.canonical.errors import (
    CredentialRefused,
    Overloaded,
    QuotaExhausted,
    UpstreamError,
    UpstreamFailed,
    UpstreamNotFound,
    UpstreamRejected,
)
from providers.canonical.events import Event, PartDelta
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.hosted.anthropic.adapter import Anthropic

HOST = Anthropic("claude", {})


def read_error(status: int, body: Any, **headers: str) -> UpstreamError:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return HOST.read_error(status, {name.replace("_", "-"): value for name, value in headers.items()}, raw)


def error_body(kind: str, message: str = "x", **extra: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message, **extra}, "request_id": "req_1"}


LOW_CREDIT = "Your credit balance is too low to access the Anthropic API."
USAGE_LIMIT = "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."
HTML_PAGE = "<!DOCTYPE html><html><title>Attention Required! | Cloudflare</title></html>"


@pytest.mark.parametrize(
    ("error", "kind", "status", "code"),
    [
        (read_error(400, error_body("invalid_request_error"), x_should_retry="false"), UpstreamRejected, 400, "invalid_request_error"),
        (read_error(400, error_body("invalid_request_error", LOW_CREDIT)), QuotaExhausted, 502, "invalid_request_error"),
        (read_error(400, error_body("invalid_request_error", USAGE_LIMIT)), QuotaExhausted, 502, "invalid_request_error"),
        (read_error(401, error_body("authentication_error")), CredentialRefused, 502, "authentication_error"),
        (read_error(402, error_body("billing_error")), QuotaExhausted, 502, "billing_error"),
        (read_error(403, error_body("permission_error")), CredentialRefused, 502, "permission_error"),
        (read_error(403, HTML_PAGE), UpstreamFailed, 502, None),
        (read_error(404, error_body("not_found_error", "model: x")), UpstreamNotFound, 404, "not_found_error"),
        (read_error(409, error_body("invalid_request_error"), x_should_retry="true"), Overloaded, 503, "invalid_request_error"),
        (read_error(413, HTML_PAGE), UpstreamRejected, 413, None),
        (read_error(429, error_body("rate_limit_error"), retry_after="7"), Overloaded, 429, "rate_limit_error"),
        (read_error(429, error_body("rate_limit_error"), x_should_retry="false"), QuotaExhausted, 429, "rate_limit_error"),
        (
            read_error(429, error_body("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"})),
            QuotaExhausted,
            429,
            "enforced_spend_limit_reached",
        ),
        (read_error(500, error_body("api_error")), UpstreamFailed, 500, "api_error"),
        (read_error(520, HTML_PAGE), UpstreamFailed, 502, None),
        (read_error(529, error_body("overloaded_error")), Overloaded, 503, "overloaded_error"),
    ],
)
def test_anthropic_error_maps_to_its_kind_status_and_code(error: UpstreamError, kind: type[UpstreamError], status: int, code: str | None):
    assert (type(error), error.status, error.upstream_code) == (kind, status, code)


def test_retry_after_is_kept():
    assert read_error(429, error_body("rate_limit_error"), retry_after="7").retry_after_s == 7
    assert read_error(409, error_body("invalid_request_error"), x_should_retry="true", retry_after="3").retry_after_s == 3


@pytest.mark.parametrize(
    ("kind", "error"),
    [("overloaded_error", Overloaded), ("api_error", UpstreamFailed), ("rate_limit_error", Overloaded), ("billing_error", QuotaExhausted)],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_error_event_is_raised_after_all_earlier_stream_events(kind: str, error: type[UpstreamError], size: int):
    events = [
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 8, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
        error_body(kind),
    ]
    stream = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events).encode()
    reader = AnthropicMessages().stream_reader()
    received: list[Event] = []
    with pytest.raises(error) as raised:
        for start in range(0, len(stream), size):
            for event in reader.feed(stream[start : start + size]):
                received.append(event)
    assert type(raised.value) is error and raised.value.upstream_code == kind
    assert [event.text for event in received if isinstance(event, PartDelta)] == ["Hel"]
