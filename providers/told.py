"""What an engine said went wrong, in whichever shape it says it, as one of our errors."""

import email.utils
import re
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from providers.errors import CredentialRefused, Failed, Missing, Overloaded, Refused, TimedOut, UpstreamError

# Credentials and account names that hosts put into their messages ("Incorrect API key provided: sk-ab**12", "organization org-...").
_SECRETS = re.compile(
    r"\b(?:sk|pk|rk|nx|gsk|xai|hf|fw|csk|pplx|nvapi|AIza|AKIA|ASIA|ya29|org|proj|acct)[-_.]?[A-Za-z0-9*][A-Za-z0-9*_\-.]{7,}"
    r"|(?i:\bbearer\s+)\S+"
    r"|\b[A-Za-z0-9_\-]{40,}\b"
)
_LONGEST = 2000
NULL = msgspec.Raw(b"null")


def masked(text: str) -> str:
    """Text without anything that looks like a credential or an account, and not endless."""
    return _SECRETS.sub("[masked]", text[: 4 * _LONGEST])[:_LONGEST]


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
    if not flat and (error is None or error == NULL):
        return None
    if flat:
        code = msgspec.json.decode(body.get("code", NULL))
    else:
        code = _code(msgspec.json.decode(msgspec.json.encode(error)))
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return read_error(status, {}, msgspec.json.encode(body))


def read_retry_after(value: str | None) -> float | None:
    """Seconds to wait, from a number or a date. None if absent or unreadable."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _code(error: Any) -> Any:
    match error:
        case {"code": int(code)} | {"http_status_code": int(code)}:
            return code
        case _:
            return None


def _said(body: bytes) -> tuple[str, str | None]:
    """Message and param out of an object, a string, a list or plain text; HTML and emptiness say nothing."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        text = body[: 4 * _LONGEST].decode("utf-8", "replace").strip()
        return ("" if text.startswith("<") else text), None
    return _message(said), _param(said)


def _message(said: Any) -> str:
    match said:
        case str():
            return said
        case {"error": ({} | [] | str()) as inner} if inner:
            return _message(inner)
        case {"message": ({} | [] | str()) as inner} if inner:
            return _message(inner)
        case {"detail": inner} if inner:
            return _message(inner)
        case {"msg": str(text)}:
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
