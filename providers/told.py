"""What an engine said went wrong, in whichever shape it says it, as one of our errors."""

import email.utils
import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from providers.errors import CredentialRefused, Exhausted, Failed, Missing, Overloaded, Refused, TimedOut, Unparsed, UpstreamError
from providers.wire import NULL, UNREADABLE, mended

# Credentials and account names that hosts put into their messages ("Incorrect API key provided: sk-ab**12", "organization org-...").
_SUSPECTS = re.compile(
    r"(?<![A-Za-z0-9])(?:(?P<account>sk|pk|rk|nx|gsk|xai|hf|fw|csk|pplx|nvapi|org|proj|acct)[-_]|(?P<cloud>AIza|AKIA|ASIA|ya29))"
    r"(?P<rest>[A-Za-z0-9*_\-.]{3,}[A-Za-z0-9*_\-])"
    r"|(?i:\bbearer)\s+(?P<bearer>[A-Za-z0-9*_\-.~+/=]{7,}[A-Za-z0-9*_\-~+/=])"
    r"|(?P<long>[A-Za-z0-9_\-]{32,})"
)
# Capitals after small letters within a word, twice: rare in names, all but sure in keys.
_JUMPS = re.compile(r"[a-z][A-Z].*[a-z][A-Z]")
_LONGEST = 2000
# LMDeploy's proxy tells with status 200 what its nodes refused, FastAPI's `detail` included, and its own errors by these codes.
# Source: lmdeploy/serve/proxy/utils.py and proxy.py (0.16 and 0.18), read 2026-11.
_PROXYS_OWN = ("error_code", "detail")
_PROXYS_CODES: Mapping[int, int] = {10400: 404, 10401: 503, 10402: 504}
_LONGEST_WAIT_S = 86_400.0
# Words of OpenAI's and its like for errors in answers that began with status 200, where nothing else names a status.
# Source: https://platform.openai.com/docs/guides/error-codes, read 2026-11.
_STATUSES: Mapping[str, int] = {
    "insufficient_quota": 429,
    "rate_limit_exceeded": 429,
    "content_filter": 400,
    "context_length_exceeded": 400,
    "invalid_request_error": 400,
}
# Words of hosts for accounts that have nothing left, of which a 429 may tell as well as of haste: OpenAI's and Azure's, Anthropic's,
# DeepSeek's and Together's. Sources: /reference/providers.md part 5; https://platform.openai.com/docs/guides/error-codes, read 2026-11.
_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "enforced_spend_limit_reached", "billing_error"})
# Words for a key that is not accepted, which some say with 400: Google's and xAI's.
_KEY_REFUSED = frozenset({"API_KEY_INVALID", "invalid_api_key"})
# Groq's words, with 400, for what its own model wrote amiss: another try may go better. Source: https://console.groq.com/docs/errors and
# /docs/tool-use, read 2026-11.
_UNPARSED = frozenset({"tool_use_failed", "json_validate_failed", "output_parse_failed"})


def masked(text: str) -> str:
    """Text without anything that looks like a credential or an account, and not endless."""
    return _SUSPECTS.sub(_masked, text[: 4 * _LONGEST])[:_LONGEST]


def _masked(found: re.Match[str]) -> str:
    """Words that people write are left: `org-level`, `Bearer authentication`, the names of models. Random letters are not words."""
    rest = found["rest"] or found["bearer"] or found["long"]
    longest = max(re.split(r"[^A-Za-z0-9]", rest), key=len)
    numbered = any(each.isdigit() for each in rest)
    if found["long"]:
        secret = numbered and len(longest) >= (20 if len(rest) >= 40 else 32)
    elif found["cloud"]:
        secret = len(rest) >= 12
    else:
        secret = "*" in rest or len(rest) >= 40 or (len(rest) >= 8 and (numbered or len(longest) >= 16 or _JUMPS.search(rest) is not None))
    return "[masked]" if secret else found[0]


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    """The error for an answer with this status. Shapes of bodies: /reference/engines.md part 3.8, providers.md part 5; an unknown one

    never fails here. Its `said_code` is the host's own word, where there is one.
    """
    said = _decoded(body)
    message, param = _said(body, said)
    words = _words(said)
    error = _error(status, masked(message) if message else f"The engine answered {status} without saying why.", param, words)
    error.retry_after_s = read_wait(headers, said)
    error.said_code = _plain(masked(words[0]))[:100] or None if words else None
    return error


def _error(status: int, text: str, param: str | None, words: Sequence[str]) -> UpstreamError:
    if not _KEY_REFUSED.isdisjoint(words):
        return CredentialRefused(f"The engine refused the gateway's own credential: {text}", told=status, reason=text)
    if not _UNPARSED.isdisjoint(words):
        return Unparsed(text, told=status)
    match status:
        case 402:
            return Exhausted(text, told=status)
        case 429 if not _SPENT.isdisjoint(words):
            return Exhausted(text, told=status)
        case 401 | 403 | 407:
            return CredentialRefused(f"The engine refused the gateway's own credential: {text}", told=status, reason=text)
        case 404:
            return Missing(text, told=status, param=param)
        case 424:
            # TGI's own failing while it writes; nothing is wrong with what was asked.
            return Failed(text, told=status)
        case 499:
            # An engine's own cancelling of a request (LMDeploy, Ollama): of nobody who waits here.
            return Failed(text, told=status)
        case 408 | 504:
            return TimedOut(text, told=status)
        case 429 | 503 | 529:
            return Overloaded(text, told=status)
        case _ if 400 <= status < 500:
            return Refused(text, told=status, param=param)
        case _:
            return Failed(text, told=status)


def as_overload(error: UpstreamError) -> Overloaded:
    """For what a host means by it, whatever its status says."""
    overload = Overloaded(error.message, told=error.told, retry_after_s=error.retry_after_s)
    overload.said_code = error.said_code
    return overload


def error_in(body: Mapping[str, Any]) -> UpstreamError | None:
    """The error that an answer with status 200 holds, in a frame of a stream or in its body; None if it holds none."""
    error = body.get("error")
    flat = body.get("object") == msgspec.Raw(b'"error"')
    of_proxy = "choices" not in body and any(body.get(key, NULL) != NULL for key in _PROXYS_OWN)
    if not (flat or of_proxy) and (error is None or error == NULL):
        return None
    raw = msgspec.json.encode(body)
    said = _decoded(raw)
    code = _code(said)
    if not 400 <= code < 600:
        code = next((_STATUSES[word] for word in _words(said) if word in _STATUSES), 500)
    return read_error(code, {}, raw)


def read_wait(headers: Mapping[str, str], said: Any) -> float | None:
    """Seconds to wait, by the finest word there is: Azure's milliseconds, the standard's header, Google's RetryInfo. None: not told."""
    wait_ms = read_retry_after(headers.get("retry-after-ms"))
    if wait_ms is not None:
        return wait_ms / 1000
    wait_s = read_retry_after(headers.get("retry-after"))
    return _retry_delay(said) if wait_s is None else wait_s


def _retry_delay(said: Any) -> float | None:
    """Source: google.rpc.RetryInfo (https://cloud.google.com/apis/design/errors, read 2026-11): a duration such as "34.4s"."""
    for each in _details(_told(said)):
        delay = each.get("retryDelay")
        if isinstance(delay, str) and delay.endswith("s"):
            return read_retry_after(delay[:-1])
    return None


def _words(said: Any) -> list[str]:
    """The host's own words for an error, the most telling first: reasons and codes before types."""
    told = _told(said)
    deep = [each.get(key) for each in _details(told) for key in ("reason", "error_code")]
    found = [*deep, *(told.get(key) for key in ("code", "status", "type", "error_type", "ErrorCode"))]
    # A number that only says the status again is no word.
    return [each for each in map(_word, found) if each and not (len(each) == 3 and each.isdecimal())]


def _word(said: Any) -> str:
    return said if isinstance(said, str) else str(said) if isinstance(said, int) and not isinstance(said, bool) else ""


def _plain(word: str) -> str:
    """Without what a terminal or a log would obey."""
    return "".join(each for each in word if each.isprintable())


def _told(said: Any) -> Mapping[str, Any]:
    """What tells of the error, be it in an object, in `error` of one, or in an array of one; empty if nothing does."""
    while isinstance(said, list):  # however deep: no recursion, for whose depth there is a limit
        listed = cast(list[Any], said)
        said = listed[0] if listed else None
    if not isinstance(said, dict):
        return {}
    told = cast(dict[str, Any], said)
    inner = told.get("error")
    return cast(dict[str, Any], inner) if isinstance(inner, dict) else told


def _details(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    details = told.get("details")
    listed = cast(list[Any], details) if isinstance(details, list) else [details]
    return [cast(dict[str, Any], each) for each in listed if isinstance(each, dict)]


def read_retry_after(value: str | None) -> float | None:
    """Seconds to wait, from a number or a date. None if absent or unreadable."""
    if not value:
        return None
    try:
        seconds = float(value)
        return min(max(0.0, seconds), _LONGEST_WAIT_S) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        return min(max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time()), _LONGEST_WAIT_S)
    except (ValueError, OverflowError):
        return None


def _code(said: Any) -> int:
    """The HTTP status that an error names, as a number or in digits; 0 if none."""
    match said:
        case {"error": {} as inner}:
            return _code(inner)  # pyright: ignore[reportUnknownArgumentType]
        case {"code": int(code)} | {"http_status_code": int(code)} | {"status_code": int(code)}:
            return code
        case {"code": str(code)} if len(code) == 3 and code.isdecimal():
            return int(code)
        case {"error_code": int(code)}:
            return _PROXYS_CODES.get(code, 0)
        case {"detail": [*_]}:
            return 422
        case _:
            return 0


def _decoded(raw: bytes) -> Any:
    """JSON as Python, half surrogates and broken UTF-8 mended; None if it is none."""
    for attempt in (raw, mended(raw)):
        try:
            return msgspec.json.decode(attempt)
        except UNREADABLE:
            continue
    return None


def _said(body: bytes, said: Any) -> tuple[str, str | None]:
    """Message and param out of an object, a string, a list or plain text; HTML and emptiness say nothing."""
    if said is None:
        text = body[: 4 * _LONGEST].decode("utf-8", "replace").strip()
        return ("" if text.startswith("<") or text == "null" else text), None
    try:
        return _message(said), _param(said)
    except RecursionError:
        return "", None


def _message(said: Any) -> str:
    match said:
        case str():
            return said
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
        case {} if said:
            return msgspec.json.encode(said).decode()
        case _:
            return ""


def _param(said: Any) -> str | None:
    match said:
        case {"error": {"param": str(param)}} | {"param": str(param)}:
            return param
        case _:
            return None
