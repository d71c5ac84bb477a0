"""Rows: a recorded exchange as the tuples that go into Postgres."""

import datetime
from typing import Any, Literal, NamedTuple, cast

import msgspec

from app.domain import Exchange
from providers.canonical.chat import Usage

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
INT4_MAX = 2**31 - 1
MAX_COST_MICROUSD = 10**12  # a million dollars for one request; so that no hour's sum goes beyond its column

_json = msgspec.json.Encoder().encode

# What has no column of its own.
_EXTRA_USAGE_FIELDS = ("cache_written", "cache_written_hour", "audio_input", "audio_output", "image_input", "tier")


class PackedContent(NamedTuple):
    """What is kept of an ask and a reply, packed. None: nothing is."""

    policy: Literal["full", "redacted", "none", "lost"]
    request: bytes | None = None
    response: bytes | None = None


def inference_row(exchange: Exchange) -> tuple[Any, ...]:
    """In the order of the table's columns. Raises ValueError or OverflowError for a time that is none.

    What Postgres cannot hold is made holdable where that loses nothing that matters: NUL in text is dropped, a count of tokens beyond its
    column is told as not reported.
    """
    usage = exchange.usage
    return (
        exchange.id,
        exchange.episode_id,
        EPOCH + datetime.timedelta(microseconds=exchange.received_us),
        exchange.team_id,
        exchange.key_id,
        _text(exchange.route),
        _text(exchange.model),
        _text(exchange.function),
        _text(exchange.variant),
        _text(exchange.served_provider),
        _text(exchange.served_model),
        _text(exchange.endpoint),
        exchange.streamed,
        exchange.status,
        exchange.outcome,
        _text(exchange.finish_reason),
        _text(exchange.error),
        _text(exchange.message),
        _token_count(usage.input),
        _token_count(usage.output),
        _token_count(usage.cached),
        _token_count(usage.reasoning),
        exchange.duration_us,
        exchange.first_token_us,
        _attempts(exchange),
        [_text(each) for each in exchange.dropped] or None,
        _jsonb(exchange.tags) if exchange.tags else None,
        _text(exchange.end_user),
        _text(exchange.snapshot),
        _charge(exchange.charged_input, INT4_MAX),
        _charge(exchange.charged_output, INT4_MAX),
        None if exchange.cost_microusd is None else _charge(exchange.cost_microusd, MAX_COST_MICROUSD),
        _text(exchange.guided),
        _extra_usage(usage),
    )


def content_row(id: str, content: PackedContent) -> tuple[Any, ...]:
    """In the order of the table's columns."""
    return (id, *content)


def _extra_usage(usage: Usage) -> str | None:
    reported = {name: value for name in _EXTRA_USAGE_FIELDS if (value := getattr(usage, name)) is not None}
    return _jsonb(reported) if reported else None


def _text(value: str | None) -> str | None:
    return value.replace("\0", "") if value is not None and "\0" in value else value


def _token_count(tokens: int | None) -> int | None:
    return None if tokens is None or not 0 <= tokens <= INT4_MAX else tokens


def _charge(amount: int, maximum: int) -> int:
    """What does not fit is still the most that was ever charged: to leave it out of the sums would make it free."""
    return max(0, min(maximum, amount))


def _attempts(exchange: Exchange) -> str | None:
    attempts = exchange.attempts
    served_at_once = attempts[0].error is None if len(attempts) == 1 else not attempts and exchange.served_provider is not None
    return None if served_at_once else _jsonb([msgspec.structs.asdict(each) for each in attempts])


def _jsonb(value: Any) -> str:
    text = _json(value).decode()
    return _json(_without_nul(value)).decode() if "\\u0000" in text else text


def _without_nul(value: Any) -> Any:
    match value:
        case str():
            return value.replace("\0", "")
        case list() | tuple():
            return [_without_nul(each) for each in cast("list[Any]", value)]
        case dict():
            return {_without_nul(key): _without_nul(each) for key, each in cast("dict[Any, Any]", value).items()}
        case _:
            return value
