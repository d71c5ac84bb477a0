"""The encoding of an exchange's metadata in the spool: msgpack, as an array of its fields."""

from typing import Any, cast

import msgspec
from msgspec.structs import replace

from app.domain.exchange import Exchange

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Exchange).decode

# Names that earlier versions wrote, which a spool may still hold.
_RENAMED_OUTCOMES = {"hung_up": "disconnected", "cut": "aborted"}
_RENAMED_ERRORS = {
    "HungUp": "ClientDisconnected",
    "Cut": "Aborted",
    "Malformed": "InvalidRequest",
    "NoKey": "CallerCredentialRequired",
    "WrongMethod": "MethodNotAllowed",
    "TooLarge": "BodyTooLarge",
    "NotOffered": "OperationNotSupported",
    "KeyReused": "IdempotencyKeyReused",
    "LimitReached": "LimitExceeded",
    "NeverFits": "LimitUnsatisfiable",
    "Exhausted": "QuotaExhausted",
    "Failed": "UpstreamFailed",
    "Unparsed": "UnparsableModelOutput",
    "Garbled": "InvalidUpstreamResponse",
    "CutShort": "StreamTruncated",
    "NoToken": "TokenUnavailable",
    "NotServed": "RouteNotServed",
    "NotObeyed": "ConstraintViolation",
    "Ignored": "RequestIgnored",
    "Refused": "UpstreamRejected",
    "Missing": "UpstreamNotFound",
}
_OUTCOME = Exchange.__struct_fields__.index("outcome")


def encode_exchange(exchange: Exchange) -> bytes:
    """Encode an exchange. Half a surrogate pair from an engine's JSON, or a number beyond 64 bits, is replaced: the record is kept."""
    try:
        return _encode(exchange)
    except (UnicodeEncodeError, OverflowError):
        return _encode(_make_encodable(msgspec.to_builtins(exchange)))


def decode_exchange(encoded: bytes) -> Exchange:
    """Decode an exchange of this or an earlier version. Raises msgspec.DecodeError."""
    try:
        exchange = _decode(encoded)
    except msgspec.ValidationError:
        exchange = msgspec.convert(_upgrade(msgspec.msgpack.decode(encoded)), Exchange)
    return exchange if exchange.error is None and not exchange.attempts else _rename_errors(exchange)


def _upgrade(fields: Any) -> Any:
    """The fields of an exchange with today's name of its outcome; other values are left for validation."""
    values = cast("list[Any]", fields) if isinstance(fields, list) else []
    if len(values) <= _OUTCOME:
        return cast("Any", fields)
    values[_OUTCOME] = _renamed(_RENAMED_OUTCOMES, values[_OUTCOME])
    return values


def _rename_errors(exchange: Exchange) -> Exchange:
    attempts = tuple(
        replace(attempt, error=_RENAMED_ERRORS[attempt.error]) if attempt.error in _RENAMED_ERRORS else attempt
        for attempt in exchange.attempts
    )
    return replace(exchange, error=_RENAMED_ERRORS.get(exchange.error or "", exchange.error), attempts=attempts)


def _renamed(names: dict[str, str], value: Any) -> Any:
    return names.get(value, value) if isinstance(value, str) else value


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
