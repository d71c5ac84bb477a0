"""What an engine said went wrong, in whichever shape it says it, as one of our errors."""

import email.utils
import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from providers.canonical.errors import (
    CredentialRefused,
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

# Credentials and account names that hosts put into their messages ("Incorrect API key provided: sk-ab**12", "organization org-...").
_CREDENTIAL_PATTERN = re.compile(
    r"(?<![A-Za-z0-9])(?:(?P<account>sk|pk|rk|nx|gsk|xai|hf|fw|csk|pplx|nvapi|org|proj|acct)[-_]|(?P<cloud>AIza|AKIA|ASIA|ya29))"
    r"(?P<rest>[A-Za-z0-9*_\-.]{3,}[A-Za-z0-9*_\-])"
    r"|(?i:\bbearer)\s+(?P<bearer>[A-Za-z0-9*_\-.~+/=]{7,}[A-Za-z0-9*_\-~+/=])"
    r"|(?P<long>[A-Za-z0-9_\-]{32,})"
)
# Capitals after small letters within a word, twice: rare in names, all but sure in keys.
_MIXED_CASE = re.compile(r"[a-z][A-Z].*[a-z][A-Z]")
_MAX_CHARS = 2000
# LMDeploy's proxy tells with status 200 what its nodes refused, FastAPI's `detail` included, and its own errors by these codes.
# Source: lmdeploy/serve/proxy/utils.py and proxy.py (0.16 and 0.18), read 2026-11.
_PROXY_ERROR_FIELDS = ("error_code", "detail")
_PROXY_CODE_STATUSES: Mapping[int, int] = {10400: 404, 10401: 503, 10402: 504}
_MAX_WAIT_S = 86_400.0
# Words of OpenAI's and its like for errors in answers that began with status 200, where nothing else names a status.
# Source: https://platform.openai.com/docs/guides/error-codes, read 2026-11.
_CODE_STATUSES: Mapping[str, int] = {
    "insufficient_quota": 429,
    "rate_limit_exceeded": 429,
    "content_filter": 400,
    "context_length_exceeded": 400,
    "invalid_request_error": 400,
}
# Words of hosts for accounts that have nothing left, of which a 429 may tell as well as of haste: OpenAI's and Azure's, Anthropic's,
# DeepSeek's and Together's. Sources: /reference/providers.md part 5; https://platform.openai.com/docs/guides/error-codes, read 2026-11.
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "enforced_spend_limit_reached", "billing_error"})
# Words for a key that is not accepted, which some say with 400: Google's and xAI's.
_INVALID_KEY_CODES = frozenset({"API_KEY_INVALID", "invalid_api_key"})
# Groq's words, with 400, for what its own model wrote amiss: another try may go better. Source: https://console.groq.com/docs/errors and
# /docs/tool-use, read 2026-11.
_UNPARSABLE_OUTPUT_CODES = frozenset({"tool_use_failed", "json_validate_failed", "output_parse_failed"})


def mask_credentials(text: str) -> str:
    """Text without anything that looks like a credential or an account, and not endless."""
    return _CREDENTIAL_PATTERN.sub(_mask_match, text[: 4 * _MAX_CHARS])[:_MAX_CHARS]


def _mask_match(match: re.Match[str]) -> str:
    """Words that people write are left: `org-level`, `Bearer authentication`, the names of models. Random letters are not words."""
    candidate = match["rest"] or match["bearer"] or match["long"]
    longest = max(re.split(r"[^A-Za-z0-9]", candidate), key=len)
    numbered = any(each.isdigit() for each in candidate)
    if match["long"]:
        secret = numbered and len(longest) >= (20 if len(candidate) >= 40 else 32)
    elif match["cloud"]:
        secret = len(candidate) >= 12
    else:
        secret = (
            "*" in candidate
            or len(candidate) >= 40
            or (len(candidate) >= 8 and (numbered or len(longest) >= 16 or _MIXED_CASE.search(candidate) is not None))
        )
    return "[masked]" if secret else match[0]


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    """The error for an answer with this status. Shapes of bodies: /reference/engines.md part 3.8, providers.md part 5; an unknown one

    never fails here. Its `said_code` is the host's own word, where there is one.
    """
    decoded = _decode_lenient(body)
    message, param = _message_and_param(body, decoded)
    codes = _error_codes(decoded)
    error = _upstream_error(
        status, mask_credentials(message) if message else f"The engine answered {status} without saying why.", param, codes
    )
    error.retry_after_s = read_retry_delay(headers, decoded)
    error.upstream_code = _printable(mask_credentials(codes[0]))[:100] or None if codes else None
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
            # TGI's own failing while it writes; nothing is wrong with what was asked.
            return UpstreamFailed(text, upstream_status=status)
        case 499:
            # An engine's own cancelling of a request (LMDeploy, Ollama): of nobody who waits here.
            return UpstreamFailed(text, upstream_status=status)
        case 408 | 504:
            return TimedOut(text, upstream_status=status)
        case 429 | 503 | 529:
            return Overloaded(text, upstream_status=status)
        case _ if 400 <= status < 500:
            return UpstreamRejected(text, upstream_status=status, param=param)
        case _:
            return UpstreamFailed(text, upstream_status=status)


def as_overload(error: UpstreamError) -> Overloaded:
    """For what a host means by it, whatever its status says."""
    overload = Overloaded(error.message, upstream_status=error.upstream_status, retry_after_s=error.retry_after_s)
    overload.upstream_code = error.upstream_code
    return overload


def find_error(body: Mapping[str, Any]) -> UpstreamError | None:
    """The error that an answer with status 200 holds, in a frame of a stream or in its body; None if it holds none."""
    error = body.get("error")
    is_flat = body.get("object") == msgspec.Raw(b'"error"')
    is_proxy_error = "choices" not in body and any(body.get(key, NULL) != NULL for key in _PROXY_ERROR_FIELDS)
    if not (is_flat or is_proxy_error) and (error is None or error == NULL):
        return None
    raw = msgspec.json.encode(body)
    decoded = _decode_lenient(raw)
    status = _status_in(decoded)
    if not 400 <= status < 600:
        status = next((_CODE_STATUSES[error_code] for error_code in _error_codes(decoded) if error_code in _CODE_STATUSES), 500)
    return read_error(status, {}, raw)


def read_retry_delay(headers: Mapping[str, str], decoded: Any) -> float | None:
    """Seconds to wait, by the finest word there is: Azure's milliseconds, the standard's header, Google's RetryInfo. None: not told."""
    wait_ms = read_retry_after(headers.get("retry-after-ms"))
    if wait_ms is not None:
        return wait_ms / 1000
    wait_s = read_retry_after(headers.get("retry-after"))
    return _google_retry_delay(decoded) if wait_s is None else wait_s


def _google_retry_delay(decoded: Any) -> float | None:
    """Source: google.rpc.RetryInfo (https://cloud.google.com/apis/design/errors, read 2026-11): a duration such as "34.4s"."""
    for each in _details(_error_object(decoded)):
        delay = each.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            return read_retry_after(delay[:-1])
    return None


def _error_codes(decoded: Any) -> list[str]:
    """The host's own words for an error, the most telling first: reasons and codes before types."""
    error = _error_object(decoded)
    detail_codes = [each.get(key) for each in _details(error) for key in ("reason", "error_code")]
    found = [*detail_codes, *(error.get(key) for key in ("code", "status", "type", "error_type", "ErrorCode"))]
    # A number that only says the status again is no word.
    return [each for each in map(_code_text, found) if each and not (len(each) == 3 and each.isdecimal())]


def _code_text(value: Any) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _printable(text: str) -> str:
    """Without what a terminal or a log would obey."""
    return "".join(each for each in text if each.isprintable())


def _error_object(decoded: Any) -> Mapping[str, Any]:
    """What tells of the error, be it in an object, in `error` of one, or in an array of one; empty if nothing does."""
    while isinstance(decoded, list):  # however deep: no recursion, for whose depth there is a limit
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
    """Seconds to wait, from a number or a date. None if absent or unreadable."""
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
    """The HTTP status that an error names, as a number or in digits; 0 if none."""
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
    """JSON as Python, half surrogates and broken UTF-8 mended; None if it is none."""
    for attempt in (raw, repair_unicode(raw)):
        try:
            return msgspec.json.decode(attempt)
        except DECODE_ERRORS:
            continue
    return None


def _message_and_param(body: bytes, decoded: Any) -> tuple[str, str | None]:
    """Message and param out of an object, a string, a list or plain text; HTML and emptiness say nothing."""
    if decoded is None:
        text = body[: 4 * _MAX_CHARS].decode("utf-8", "replace").strip()
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
        case {"message": str(text), "metadata": {"raw": str(raw)}} if raw:  # OpenRouter, of the host that it asked
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
        case _:
            return None
