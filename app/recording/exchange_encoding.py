"""How an exchange's metadata is written down."""

from typing import Any, cast

import msgspec

from app.domain import Exchange

_encode = msgspec.msgpack.Encoder().encode


def encode_exchange(exchange: Exchange) -> bytes:
    """msgpack. Half a surrogate pair from an engine's JSON, or a number beyond 64 bits, may not cost the record: they are replaced."""
    try:
        return _encode(exchange)
    except (UnicodeEncodeError, OverflowError):
        return _encode(_make_encodable(msgspec.to_builtins(exchange)))


def _make_encodable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case int() if not isinstance(value, bool):
            return max(-(2**63), min(2**63 - 1, value))
        case list() | tuple():
            return [_make_encodable(each) for each in cast("list[Any]", value)]
        case dict():
            return {_make_encodable(key): _make_encodable(each) for key, each in cast("dict[Any, Any]", value).items()}
        case _:
            return value
