"""Rows: a recorded exchange as the tuples that go into Postgres."""

import datetime
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Literal, NamedTuple, cast

import msgspec
from msgspec import Struct
from sqlalchemy import Text

from app.domain.exchange import ChargedAttempt, Exchange
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from app.store.postgres.tables import record_columns

INT4_MAX = 2**31 - 1
MAX_COST_MICROUSD = 10**12  # a million dollars for one request, so that no hour's sum exceeds its column

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# Fields of Usage without a column of their own.
_USAGE_DETAILS = (
    "cache_written",
    "cache_written_hour",
    "audio_input",
    "audio_output",
    "image_input",
    "tier",
    "billed_input",
    "billed_output",
    "requests",
    "cache_written_12_hours",
    "region",
    "tool_uses",
)

_NO_USAGE_DETAILS = (None,) * len(_USAGE_DETAILS)

_read_usage_details = attrgetter(*_USAGE_DETAILS)
_to_dict = msgspec.structs.asdict
_json = msgspec.json.Encoder().encode


class PackedContent(NamedTuple):
    """The recorded content of an exchange, packed. None means that nothing is kept."""

    policy: Literal["full", "masked", "redacted", "none", "lost", "erased"]
    request: bytes | None = None
    response: bytes | None = None


def _attempts(exchange: Exchange) -> str | None:
    attempts = exchange.attempts
    served_at_once = (
        attempts[0].error is None and attempts[0].candidates is None
        if len(attempts) == 1
        else not attempts and exchange.served_provider is not None
    )
    return None if served_at_once else _jsonb([_to_dict(each) for each in attempts])


def _text_array(texts: tuple[str, ...]) -> list[str]:
    return [each.replace("\0", "") for each in texts]


def _usage_details(exchange: Exchange) -> str | None:
    values = _read_usage_details(exchange.usage)
    if values == _NO_USAGE_DETAILS:
        return None
    return _jsonb({name: value for name, value in zip(_USAGE_DETAILS, values, strict=True) if value is not None})


def _charges(charges: tuple[ChargedAttempt, ...]) -> str:
    """Returns the charges without what is null, which is most of a usage."""
    return _jsonb([{**_set_fields(each), "usage": _set_fields(each.usage)} for each in charges])


def _set_fields(struct: Struct) -> dict[str, Any]:
    return {name: value for name, value in _to_dict(struct).items() if value is not None and value != ()}


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


# Columns of an Assignment's fields.
_ASSIGNMENT = {
    "experiment": "experiment",
    "experiment_version": "version",
    "arm_probability": "probability",
    "not_enrolled": "not_enrolled",
    "experiment_unit": "unit",
    "episode_kind": "episode_kind",
}
# Columns of a ShadowRecord's fields. `content_team_id` of other origins is a field of the exchange.
_SHADOW = {
    "shadow": "name",
    "content_team_id": "team_id",
    "shadow_first_turn": "is_first_turn",
    "shadow_same": "is_same",
}
# The fields of columns with another name; all others have the column's name.
_FIELDS = {
    "received_at": "received_us",
    "input_tokens": "usage.input",
    "output_tokens": "usage.output",
    "cached_tokens": "usage.cached",
    "reasoning_tokens": "usage.reasoning",
    "usage_details": "usage",
    "erased_at": "id",
    **dict.fromkeys(_ASSIGNMENT, "assignment"),
    **dict.fromkeys(_SHADOW.keys() - {"content_team_id"}, "shadow"),
}
_CONVERTERS: Mapping[str, Callable[[Exchange], Any]] = {
    "attempts": _attempts,
    "usage_details": _usage_details,
    "erased_at": lambda _: None,  # set by app/recording/writer/late_erasure.py
}
_COLLECTIONS: Mapping[str, Callable[[Any], Any]] = {  # null when empty
    "dropped": _text_array,
    "emulated": _text_array,
    "tags": _jsonb,
    "charges": _charges,
}
_MAX_COUNTS = {
    **dict.fromkeys(("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"), INT4_MAX),
    "host_cost_microusd": MAX_COST_MICROUSD,
}
_MAX_CHARGES = {"charged_input": INT4_MAX, "charged_output": INT4_MAX, "cost_microusd": MAX_COST_MICROUSD}

_read_fields = attrgetter(*(_FIELDS.get(name, name) for name in INFERENCE_COLUMNS))
_received_at = INFERENCE_COLUMNS.index("received_at")
_text_positions = [position for position, column in enumerate(record_columns) if isinstance(column.type, Text)]
_bounded_positions = [
    (INFERENCE_COLUMNS.index(name), maximum, name in _MAX_CHARGES) for name, maximum in (_MAX_COUNTS | _MAX_CHARGES).items()
]
_collection_positions = [(INFERENCE_COLUMNS.index(name), convert) for name, convert in _COLLECTIONS.items()]
_assignment_positions = [INFERENCE_COLUMNS.index(name) for name in _ASSIGNMENT]
_read_assignment = attrgetter(*_ASSIGNMENT.values())
_shadow_positions = [INFERENCE_COLUMNS.index(name) for name in _SHADOW]
_read_shadow = attrgetter(*_SHADOW.values())
_converter_positions = [(INFERENCE_COLUMNS.index(name), convert) for name, convert in _CONVERTERS.items()]


def inference_row(exchange: Exchange) -> tuple[Any, ...]:
    """The row of an exchange, in the order of INFERENCE_COLUMNS. Raises ValueError or OverflowError for an invalid time.

    Values that Postgres cannot hold are adapted where nothing that matters is lost: NUL is removed from text, and a count
    beyond its column is stored as not reported.
    """
    row: list[Any] = [*_read_fields(exchange)]
    if exchange.assignment is not None:
        for position, value in zip(_assignment_positions, _read_assignment(exchange.assignment), strict=True):
            row[position] = value
    if exchange.shadow is not None:
        for position, value in zip(_shadow_positions, _read_shadow(exchange.shadow), strict=True):
            row[position] = value
    row[_received_at] = _EPOCH + datetime.timedelta(microseconds=exchange.received_us)
    for position in _text_positions:
        if (text := row[position]) is not None and "\0" in text:
            row[position] = text.replace("\0", "")
    for position, maximum, is_charge in _bounded_positions:
        if (amount := row[position]) is not None and not 0 <= amount <= maximum:
            # A charge that does not fit is still the most that was ever charged: without it the request would be free.
            row[position] = max(0, min(maximum, amount)) if is_charge else None
    for position, convert in _collection_positions:
        row[position] = convert(collection) if (collection := row[position]) else None
    for position, convert in _converter_positions:
        row[position] = convert(exchange)
    return tuple(row)


def content_row(id: str, content: PackedContent) -> tuple[Any, ...]:
    """The row of an exchange's content, in the order of CONTENT_COLUMNS."""
    return (id, *content)
