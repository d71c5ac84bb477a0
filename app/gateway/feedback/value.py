"""The value of feedback: one of its metric's kind, as JSON that PostgreSQL can store."""

import math
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from app.domain.experiments import MetricConfig, MetricKind
from app.gateway.feedback.invalid_feedback import InvalidFeedback
from app.recording.spool.feedback_records import has_nul

MAX_COMMENT_CHARS = 16_384
MAX_DEMONSTRATION_BYTES = 256 * 1024  # as JSON
# What masks it, stores it and writes it to data sets goes into it level by level, each within calls of its own.
MAX_DEMONSTRATION_LEVELS = 100


def read_value(raw: msgspec.Raw | msgspec.UnsetType, name: str, metric: MetricConfig) -> str:
    """Returns the value as JSON that Postgres can store.

    Raises InvalidFeedback if it is not one of the metric.
    """
    if raw is msgspec.UNSET:
        raise InvalidFeedback(f"`value` is required. {_expected(name, metric)}", param="value", code="wrong_value")
    size_bytes = len(memoryview(raw))
    if metric.kind == "demonstration" and size_bytes > MAX_DEMONSTRATION_BYTES:
        raise InvalidFeedback(f"The value has {size_bytes} bytes. {_expected(name, metric)}", param="value", code="wrong_value")
    try:
        value = msgspec.json.decode(raw)
        encoded = msgspec.json.encode(value).decode()
    except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError):
        raise InvalidFeedback(f"The value cannot be stored. {_expected(name, metric)}", param="value", code="wrong_value") from None
    if not _is_valid(value, metric.kind):
        raise InvalidFeedback(f"{_expected(name, metric)} {_got(value)}", param="value", code="wrong_value")
    if _has_more_levels(value, MAX_DEMONSTRATION_LEVELS):
        message = f"`value` is nested too deeply: objects and lists may be within each other {MAX_DEMONSTRATION_LEVELS} times."
        raise InvalidFeedback(message, param="value", code="wrong_value")
    if "\\u0000" in encoded and has_nul(value):
        raise InvalidFeedback("`value` holds a NUL character (\\u0000), which cannot be stored.", param="value", code="wrong_value")
    return encoded


def _is_valid(value: Any, kind: MetricKind) -> bool:
    match kind:
        case "boolean":
            return isinstance(value, bool)
        case "float":
            return isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)
        case "comment":
            return isinstance(value, str) and 0 < len(value) <= MAX_COMMENT_CHARS
        case "demonstration":
            return bool(value) and isinstance(value, str | dict | list)


def _has_more_levels(value: Any, levels: int) -> bool:
    level = [value]
    for _ in range(levels + 1):
        level = [inner for each in level if isinstance(each, dict | list) for inner in _within(cast("dict[str, Any] | list[Any]", each))]
    return bool(level)


def _within(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _expected(name: str, metric: MetricConfig) -> str:
    expected = {
        "boolean": "true or false",
        "float": "a finite number",
        "comment": f"a text of 1 to {MAX_COMMENT_CHARS} characters",
        "demonstration": f"a text, an object or a list, not empty, of at most {MAX_DEMONSTRATION_BYTES // 1024} KiB",
    }
    return f"{name} is a {metric.kind}: its value is {expected[metric.kind]}."


def _got(value: Any) -> str:
    match value:
        case None | True | False:
            return f"It was {msgspec.json.encode(value).decode()}."
        case int() | float():
            return "It was a number."
        case str():
            return f"It was a text of {len(value)} characters."
        case list():
            return f"It was a list of {len(cast('list[Any]', value))} items."
        case _:
            return "It was an object."
