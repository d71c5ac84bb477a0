"""Reads an engine's error, in whichever shape it comes, as one of our UpstreamErrors.

Shapes of the bodies: docs/sources.md#engine-errors and docs/sources.md#host-errors.
"""

import email.utils
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from providers.canonical.credential_masking import mask_credentials
from providers.canonical.errors import (
    CredentialRefused,
    InvalidUpstreamResponse,
    Overloaded,
    QuotaExhausted,
    TimedOut,
    UnparsableModelOutput,
    UpstreamError,
    UpstreamFailed,
    UpstreamNotFound,
    UpstreamRejected,
)
from providers.canonical.raw_json import DECODE_ERRORS, NULL, repair_unicode
from providers.canonical.template_errors import names_template_rule

# Of an error's body: what is read. A longer one repeats the request, and is read as text; decoding takes up to 10 ms for this size.
MAX_ERROR_BYTES = 64 * 1024
# Of an error that is not JSON: the text that is read.
_MAX_TEXT_BYTES = 8_000
_NO_ERRORS = (b"null", b'""', b"{}", b"[]", b"false")
# Of the place that a validation error of FastAPI names.
_MAX_LOCATION_STEPS = 20
_MAX_STEP_CHARS = 100
# Of the message in a response that is no answer.
_MAX_QUOTED_CHARS = 500
# LMDeploy's proxy forwards the errors of its nodes with status 200, FastAPI's `detail` included; its own errors have these codes.
# Source: lmdeploy/serve/proxy/utils.py and proxy.py (0.16 and 0.18), read 2026-11.
_PROXY_ERROR_FIELDS = ("error_code", "detail")
_PROXY_CODE_STATUSES: Mapping[int, int] = {10400: 404, 10401: 503, 10402: 504}
_MAX_WAIT_S = 86_400.0
_MAX_CODE_CHARS = 100
# Codes of OpenAI and compatible hosts, for errors in a response that began with status 200 and that name no status.
# Source: https://platform.openai.com/docs/guides/error-codes, read 2026-11.
_CODE_STATUSES: Mapping[str, int] = {
    "insufficient_quota": 429,
    "rate_limit_exceeded": 429,
    "content_filter": 400,
    "context_length_exceeded": 400,
    "invalid_request_error": 400,
    "server_is_overloaded": 503,
    "slow_down": 503,
}
# Of an error in a response that began with status 200 and that names none: the caller gets no 500 that the host did not send.
UNNAMED_STATUS = 502
# Codes for an account without credit, which hosts send with 429 as they do for rate limits: those of OpenAI and Azure, Anthropic,
# DeepSeek and Together. Sources: docs/sources.md#host-errors; https://platform.openai.com/docs/guides/error-codes, read 2026-11.
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "enforced_spend_limit_reached", "billing_error"})
# Codes for an invalid key, which Google and xAI send with 400.
_INVALID_KEY_CODES = frozenset({"API_KEY_INVALID", "invalid_api_key"})
# Groq's codes, sent with 400, for invalid output of its model: a retry may succeed. Sources: https://console.groq.com/docs/errors and
# /docs/tool-use, read 2026-11.
_UNPARSABLE_OUTPUT_CODES = frozenset({"tool_use_failed", "json_validate_failed", "output_parse_failed"})


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    """The error for a response with this status; never fails, whatever the body. `upstream_code` is the host's own code, if any."""
    decoded = _decode_lenient(body)
    message, param = _message_and_param(body, decoded)
    codes = _error_codes(decoded)
    error = _upstream_error(
        status, mask_credentials(message) if message else f"The engine responded with {status} and no message.", param, codes
    )
    error.retry_after_s = read_retry_delay(headers, decoded)
    error.upstream_code = _printable(mask_credentials(codes[0]))[:_MAX_CODE_CHARS] or None if codes else None
    return error


def _upstream_error(status: int, text: str, param: str | None, codes: Sequence[str]) -> UpstreamError:
    if not _INVALID_KEY_CODES.isdisjoint(codes):
        return CredentialRefused(f"The engine refused the gateway's own credential: {text}", upstream_status=status, reason=text)
    if not _UNPARSABLE_OUTPUT_CODES.isdisjoint(codes):
        return UnparsableModelOutput(text, upstream_status=status)
    match status:
        case 402:
            return QuotaExhausted(text, upstream_status=status)
        case 429 if not _QUOTA_CODES.isdisjoint(codes):
            return QuotaExhausted(text, upstream_status=status)
        case 401 | 403 | 407:
            return CredentialRefused(f"The engine refused the gateway's own credential: {text}", upstream_status=status, reason=text)
        case 404:
            return UpstreamNotFound(text, upstream_status=status, param=param)
        case 424:
            # TGI failed while generating; the request is not at fault.
            return UpstreamFailed(text, upstream_status=status)
        case 499:
            # The engine cancelled the request by itself (LMDeploy, Ollama): our caller is still waiting.
            return UpstreamFailed(text, upstream_status=status)
        case 408 | 504:
            return TimedOut(text, upstream_status=status)
        case 500 if names_template_rule(text):
            return UpstreamRejected(text, upstream_status=400)
        case 429 | 503 | 529:
            return Overloaded(text, upstream_status=status)
        case _ if 400 <= status < 500:
            return UpstreamRejected(text, upstream_status=status, param=param)
        case _:
            return UpstreamFailed(text, upstream_status=status)


def is_error(value: Any) -> bool:
    """Whether the undecoded value of a field `error` reports one: some engines send an empty one with each response."""
    return bytes(value).strip() not in _NO_ERRORS if isinstance(value, msgspec.Raw) else bool(value)


def find_error(body: Mapping[str, Any]) -> UpstreamError | None:
    """The error in a response with status 200, in its body or in a frame of its stream; None if there is none."""
    error = body.get("error")
    is_flat = body.get("object") == msgspec.Raw(b'"error"')
    is_proxy_error = "choices" not in body and any(body.get(key, NULL) != NULL for key in _PROXY_ERROR_FIELDS)
    if not (is_flat or is_proxy_error) and (error is None or not is_error(error)):
        return None
    raw = msgspec.json.encode(body)
    decoded = _decode_lenient(raw)
    status = _status_in(decoded)
    if not 400 <= status < 600:
        status = next((_CODE_STATUSES[error_code] for error_code in _error_codes(decoded) if error_code in _CODE_STATUSES), UNNAMED_STATUS)
    return read_error(status, {}, raw)


def add_upstream_message(error: InvalidUpstreamResponse, raw: bytes) -> InvalidUpstreamResponse:
    """The error with what a response says that is no answer, such as {"message": "Internal failure"}; else as it is."""
    match _decode_lenient(raw) if len(raw) <= _MAX_TEXT_BYTES else None:
        case {"message": str(text)} | {"msg": str(text)} | {"detail": str(text)} if text:
            error.message = f"{error.message} It says: {mask_credentials(text)[:_MAX_QUOTED_CHARS]}"
            error.args = (error.message,)
        case _:
            pass
    return error


def read_retry_delay(headers: Mapping[str, str], decoded: Any) -> float | None:
    """Seconds to wait: from Azure's `retry-after-ms`, else the standard `retry-after`, else Google's RetryInfo. None: not reported."""
    wait_ms = read_retry_after(headers.get("retry-after-ms"))
    if wait_ms is not None:
        return wait_ms / 1000
    wait_s = read_retry_after(headers.get("retry-after"))
    return _google_retry_delay(decoded) if wait_s is None else wait_s


def _google_retry_delay(decoded: Any) -> float | None:
    """The `retryDelay` of google.rpc.RetryInfo, such as "34.4s". Source: https://cloud.google.com/apis/design/errors, read 2026-11."""
    for each in _details(_error_object(decoded)):
        delay = each.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            return read_retry_after(delay[:-1])
    return None


def _error_codes(decoded: Any) -> list[str]:
    """The host's own codes for an error, the most specific first: reasons and codes before types."""
    error = _error_object(decoded)
    detail_codes = [each.get(key) for each in _details(error) for key in ("reason", "error_code")]
    found = [*detail_codes, *(error.get(key) for key in ("code", "status", "type", "error_type", "ErrorCode"))]
    # A number of three digits only repeats the status.
    return [each for each in map(_code_text, found) if each and not (len(each) == 3 and each.isdecimal())]


def _code_text(value: Any) -> str:
    """A string or a number as a string; empty for anything else."""
    if isinstance(value, str):
        return value[:_MAX_CODE_CHARS]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _printable(text: str) -> str:
    """The text without control characters, which a terminal or a log would interpret."""
    return "".join(each for each in text if each.isprintable())


def _error_object(decoded: Any) -> Mapping[str, Any]:
    """The object that describes the error: the body, its `error`, or the first item of an array; empty if there is none."""
    while isinstance(decoded, list):  # any depth: recursion would hit its limit
        listed = cast(list[Any], decoded)
        decoded = listed[0] if listed else None
    if not isinstance(decoded, dict):
        return {}
    error = cast(dict[str, Any], decoded)
    inner = error.get("error")
    return cast(dict[str, Any], inner) if isinstance(inner, dict) else error


def _details(error: Mapping[str, Any]) -> list[dict[str, Any]]:
    details = error.get("details")
    listed = cast(list[Any], details) if isinstance(details, list) else [details]
    return [cast(dict[str, Any], each) for each in listed if isinstance(each, dict)]


def read_retry_after(value: str | None) -> float | None:
    """Seconds to wait, from a number or a date, at most a day. None if absent or invalid."""
    if not value:
        return None
    try:
        seconds = float(value)
        return min(max(0.0, seconds), _MAX_WAIT_S) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        return min(max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time()), _MAX_WAIT_S)
    except (ValueError, OverflowError):
        return None


def _status_in(decoded: Any) -> int:
    """The HTTP status that an error names, as a number or a string; 0 if it names none."""
    match decoded:
        case {"error": {} as inner}:
            return _status_in(inner)  # pyright: ignore[reportUnknownArgumentType]
        case {"code": int(code)} | {"http_status_code": int(code)} | {"status_code": int(code)}:
            return code
        case {"code": str(code)} if len(code) == 3 and code.isdecimal():
            return int(code)
        case {"error_code": int(code)}:
            return _PROXY_CODE_STATUSES.get(code, 0)
        case {"detail": [*_]}:
            return 422
        case _:
            return 0


def _decode_lenient(raw: bytes) -> Any:
    """Decoded JSON, after repair_unicode() if need be; None if it is not JSON, or longer than MAX_ERROR_BYTES."""
    if len(raw) > MAX_ERROR_BYTES:
        return None
    for attempt in (raw, repair_unicode(raw)):
        try:
            return msgspec.json.decode(attempt)
        except DECODE_ERRORS:
            continue
    return None


def _message_and_param(body: bytes, decoded: Any) -> tuple[str, str | None]:
    """The message and param of an object, a string, a list or plain text; an empty message for HTML and empty bodies."""
    if decoded is None:
        text = body[:_MAX_TEXT_BYTES].decode("utf-8", "replace").strip()
        return ("" if text.startswith("<") or text == "null" else text), None
    try:
        return _message(decoded), _param(decoded)
    except RecursionError:
        return "", None


def _message(decoded: Any) -> str:
    match decoded:
        case str():
            return decoded
        case {"error": ({} | [*_] | str()) as inner} if inner:
            return _message(inner)
        case {"message": str(text), "metadata": {"raw": str(raw)}} if raw:  # OpenRouter, about the host behind it
            return f"{text}: {raw}"
        case {"message": ({} | [*_] | str()) as inner} if inner:
            return _message(inner)
        case {"detail": inner} if inner:
            return _message(inner)
        case {"msg": str(text)} | {"error_code": int(), "text": str(text)}:
            return text
        case [first, *_]:
            return _message(first)
        case {} if decoded:
            return msgspec.json.encode(decoded).decode()
        case _:
            return ""


def _param(decoded: Any) -> str | None:
    match decoded:
        case {"error": {"param": str(param)}} | {"param": str(param)}:
            return param
        case {"detail": [{"loc": [*location]}, *_]} | {"message": {"detail": [{"loc": [*location]}, *_]}}:
            return _location_path(location)
        case _:
            return None


def _location_path(location: list[Any]) -> str | None:
    """FastAPI's ["body", "messages", 0, "role"] as messages[0].role; None for the body as a whole."""
    path = ""
    for step in location[1 if location[:1] == ["body"] else 0 :][:_MAX_LOCATION_STEPS]:
        match step:
            case int():
                path += f"[{step}]"
            case str():
                path += f".{step[:_MAX_STEP_CHARS]}" if path else step[:_MAX_STEP_CHARS]
            case _:
                break
    return path or None
