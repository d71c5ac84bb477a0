"""Anthropic: its recordings, and constructed cases for rate limits, refusals, citations and thinking sent back."""

from typing import Any

from providers.canonical.chat import ChatRequest
from tests.conformance.situations import CHAT, RESPONSES
from tests.replay.hosts.anthropic_messages_bodies import chat_of, normalize, situation_of
from tests.replay.hosts.host import ExpectedError, Host, NonChatRequest, ProviderTarget
from tests.replay.hosts.recordings import Recording, recordings

_COUNT = "31-count-tokens"


def _provider_target(recording: Recording) -> ProviderTarget:
    return ProviderTarget(adapter="anthropic", model=recording.request_body["model"])


def _chat(recording: Recording) -> ChatRequest | None:
    return None if recording.name == _COUNT else chat_of(recording)


def _token_count(recording: Recording) -> NonChatRequest | None:
    if recording.name != _COUNT:
        return None

    def check(response: Any) -> None:
        assert response == recording.body

    return NonChatRequest(
        "/v1/messages/count_tokens", {key: value for key, value in recording.request_body.items() if key != "model"}, check
    )


_FIELD_PATH_DIFFERS = "the error names the path in the caller's own API (tests/unit/profiles/test_claude_adapt_chat.py)"

HOSTS = (
    Host(
        folder="anthropic",
        recordings=recordings("anthropic"),
        provider_target=_provider_target,
        chat=_chat,
        non_chat=_token_count,
        expected=situation_of,
        normalize=normalize,
        # Added by the beta resources of its SDK; without effect by itself.
        normalize_path=lambda path: path.removesuffix("?beta=true"),
        expected_errors={
            "35-error-401": ExpectedError(502, "authentication_error"),
            "36-error-404": ExpectedError(404, "not_found_error"),
            "50-rate-limited": ExpectedError(429, "rate_limit_error"),
            "51-overloaded": ExpectedError(503, "overloaded_error"),
            "52-spend-limit": ExpectedError(429, "enforced_spend_limit_reached"),
            "53-no-credit": ExpectedError(502, "invalid_request_error"),
            "54-page-of-cloudflare": ExpectedError(413),
        },
        refused_params={
            "32-error-400-a": "temperature",
            "33-error-400-b": "tools.0.input_schema",
            "34-error-400-c": "tools.0.input_schema.type",
        },
        excluded_callers={
            (name, caller): _FIELD_PATH_DIFFERS for name in ("33-error-400-b", "34-error-400-c") for caller in (CHAT, RESPONSES)
        },
        missing_features={"embeddings": "it has no embeddings", "audio": "refused: it reads no audio"},
    ),
)
