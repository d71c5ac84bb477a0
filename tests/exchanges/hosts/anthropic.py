"""The recordings of Anthropic itself, and cases of our own for what they lack: limits, refusals, citations, thinking given back."""

from typing import Any

from providers.canonical.chat import ChatRequest
from tests.conformance.situations import CHAT, RESPONSES
from tests.exchanges.hosts.host import Host, Plain, Reached, Refusal
from tests.exchanges.hosts.plain_anthropic import alike, chat_of, situation_of
from tests.exchanges.hosts.recordings import Recording, recordings

_COUNT = "31-count-tokens"


def _reached(recording: Recording) -> Reached:
    return Reached(adapter="anthropic", model=recording.asked["model"])


def _chat(recording: Recording) -> ChatRequest | None:
    return None if recording.name == _COUNT else chat_of(recording)


def _counted(recording: Recording) -> Plain | None:
    if recording.name != _COUNT:
        return None

    def check(told: Any) -> None:
        assert told == recording.body

    return Plain("/v1/messages/count_tokens", {key: value for key, value in recording.asked.items() if key != "model"}, check)


_ELSEWHERE = "the fault is told at the place of the caller's own API (tests/laws/test_anthropic_hosted.py)"

HOSTS = (
    Host(
        folder="anthropic",
        recordings=recordings("anthropic"),
        reached=_reached,
        chat=_chat,
        plain=_counted,
        expected=situation_of,
        alike=alike,
        # Its SDK's beta resources put it there; it asks for nothing by itself.
        path=lambda path: path.removesuffix("?beta=true"),
        refusals={
            "35-error-401": Refusal(502, "authentication_error"),
            "36-error-404": Refusal(404, "not_found_error"),
            "50-rate-limited": Refusal(429, "rate_limit_error"),
            "51-overloaded": Refusal(503, "overloaded_error"),
            "52-spend-limit": Refusal(429, "enforced_spend_limit_reached"),
            "53-no-credit": Refusal(502, "invalid_request_error"),
            "54-page-of-cloudflare": Refusal(413),
        },
        refused_here={
            "32-error-400-a": "temperature",
            "33-error-400-b": "tools.0.input_schema",
            "34-error-400-c": "tools.0.input_schema.type",
        },
        unsaid={(name, caller): _ELSEWHERE for name in ("33-error-400-b", "34-error-400-c") for caller in (CHAT, RESPONSES)},
        lacks={"embeddings": "it has none", "audio": "it does not hear: refused with 422"},
    ),
)
