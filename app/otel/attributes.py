"""Attributes as OTLP's messages."""

from collections.abc import Mapping, Sequence

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue

Value = str | bool | int | float | Sequence[str]
_MAX_CHARS = 1024
_INT64 = 2**63


def to_attributes(values: Mapping[str, Value | None]) -> list[KeyValue]:
    """Returns the values as attributes, without those that are None.

    Text is cut, and numbers beyond 64 bits are left out: engines report whatever they like.
    """
    made = ((key, _value(value)) for key, value in values.items() if value is not None)
    return [KeyValue(key=key, value=value) for key, value in made if value is not None]


def _value(value: Value) -> AnyValue | None:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value) if -_INT64 <= value < _INT64 else None
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=_text(value))
        case _:
            return AnyValue(array_value=ArrayValue(values=[AnyValue(string_value=_text(each)) for each in value]))


def _text(text: str) -> str:
    # Half a surrogate pair from an engine's JSON is no text that a message can hold.
    return text[:_MAX_CHARS].encode("utf-8", "replace").decode()
