"""What an engine said went wrong, in whichever shape it says it, as one of our errors."""

import email.utils
import math
import re
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from providers.errors import CredentialRefused, Failed, Missing, Overloaded, Refused, TimedOut, UpstreamError
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
    """The error for an answer with this status. Shapes of bodies: /reference/engines.md part 3.8; an unknown one never fails here."""
    message, param = _said(body)
    text = masked(message) if message else f"The engine answered {status} without saying why."
    retry_after_s = read_retry_after(headers.get("retry-after"))
    match status:
        case 401 | 403 | 407:
            return CredentialRefused(f"The engine refused the gateway's own credential: {text}", told=status)
        case 404:
            return Missing(text, told=status, param=param)
        case 424:
            # TGI's own failing while it writes; nothing is wrong with what was asked.
            return Failed(text, told=status, retry_after_s=retry_after_s)
        case 499:
            # An engine's own cancelling of a request (LMDeploy, Ollama): of nobody who waits here.
            return Failed(text, told=status, retry_after_s=retry_after_s)
        case 408 | 504:
            return TimedOut(text, told=status, retry_after_s=retry_after_s)
        case 429 | 503 | 529:
            return Overloaded(text, told=status, retry_after_s=retry_after_s)
        case _ if 400 <= status < 500:
            return Refused(text, told=status, param=param)
        case _:
            return Failed(text, told=status, retry_after_s=retry_after_s)


def error_in(body: Mapping[str, Any]) -> UpstreamError | None:
    """The error that an answer with status 200 holds, in a frame of a stream or in its body; None if it holds none."""
    error = body.get("error")
    flat = body.get("object") == msgspec.Raw(b'"error"')
    of_proxy = "choices" not in body and any(body.get(key, NULL) != NULL for key in _PROXYS_OWN)
    if not (flat or of_proxy) and (error is None or error == NULL):
        return None
    raw = msgspec.json.encode(body)
    code = _code(_decoded(raw))
    return read_error(code if 400 <= code < 600 else 500, {}, raw)


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
        case {"code": int(code)} | {"http_status_code": int(code)}:
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


def _said(body: bytes) -> tuple[str, str | None]:
    """Message and param out of an object, a string, a list or plain text; HTML and emptiness say nothing."""
    said = _decoded(body)
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
