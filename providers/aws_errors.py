"""Errors as AWS tells them: in an answer, in an exception of a stream, and around what a model's container said."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from providers import told
from providers.errors import CredentialRefused, Failed, Missing, UpstreamError
from providers.wire import UNREADABLE

# What the word of an exception means as a status, for in a stream it comes without one: in small letters, "exception" left out.
# Sources: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html and
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_ResponseStream.html, and botocore's service models; read 2026-11.
_STATUSES: Mapping[str, int] = {
    "throttling": 429,
    "toomanyrequests": 429,
    # Told with 400: it is the account that has no more, and another credential's may.
    "servicequotaexceeded": 429,
    # Told with 429: it is a model that is still being loaded, and no credential has to rest for it.
    "modelnotready": 503,
    "serviceunavailable": 503,
    "internalserver": 500,
    "internalfailure": 500,
    "internalstreamfailure": 500,
    "internaldependency": 530,
    "modeltimeout": 408,
    "modelerror": 424,
    "modelstreamerror": 424,
    "validation": 400,
    "validationerror": 400,
    "resourcenotfound": 404,
}
# Told with 403, some with 400: https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html, read 2026-11.
_REFUSED = frozenset(
    {
        "accessdenied",
        "expiredtoken",
        "incompletesignature",
        "invalidclienttokenid",
        "invalidsignature",
        "missingauthenticationtoken",
        "notauthorized",
        "optinrequired",
        "requestexpired",
        "signaturedoesnotmatch",
        "unrecognizedclient",
    }
)
# Why a container's stream ended (`ErrorCode` of SageMaker's ModelStreamError).
_ENDINGS: Mapping[str, int] = {"ModelInvocationTimeExceeded": 504, "StreamBroken": 502}
# Who asked, and account numbers, which messages and ARNs hold.
_ACCOUNT = re.compile(r"arn:aws[a-z-]*:(?:iam|sts):[^\s,;'\"]*|(?<![0-9A-Za-z])[0-9]{12}(?![0-9A-Za-z])")
_NOT_THERE = re.compile(r"^Endpoint \S+ of account \S+ not found")


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    """The error of an answer: its word stands in a header, with an address after it, or in the body."""
    said = _decoded(body)
    word = headers.get("x-amzn-errortype") or _text(said, "__type") or _text(said, "code")
    return _error(word, status, body, said, told.read_retry_after(headers.get("retry-after")))


def read_exception(word: str, body: bytes) -> UpstreamError:
    """The error of an exception within a stream."""
    return _error(word, 500, body, _decoded(body), None)


def _error(word: str, status: int, body: bytes, said: Mapping[str, Any], retry_after_s: float | None) -> UpstreamError:
    word = word.partition(":")[0].rpartition("#")[2].strip()[:100]
    name = word.lower().removesuffix("exception")
    message = _text(said, "message") or ("" if said else body.decode("utf-8", "replace"))
    error = _of_container(said) if name.startswith("model") else None
    if error is None:
        error = _of_aws(name, status, message, said)
    if retry_after_s is not None:
        error.retry_after_s = retry_after_s
    error.said_code = word or error.said_code
    return error


def _of_aws(name: str, status: int, message: str, said: Mapping[str, Any]) -> UpstreamError:
    text = _ACCOUNT.sub("[masked]", message)
    if name in _REFUSED:
        # Of a wrong signature it tells, on lines of their own, all that should have been signed: a session's token too.
        reason = told.masked(text.partition("\n")[0]) or "It did not say why."
        return CredentialRefused(f"The engine refused the gateway's own credential: {reason}", told=status, reason=reason)
    if _NOT_THERE.match(message):  # SageMaker tells it as a ValidationError
        return Missing(told.masked(text), told=404)
    return told.read_error(_ENDINGS.get(_text(said, "errorcode")) or _STATUSES.get(name, status), {}, text.encode())


def _of_container(said: Mapping[str, Any]) -> UpstreamError | None:
    """What a model's container answered, which AWS tells as an error of its own; None: it did not tell."""
    status = said.get("originalstatuscode")
    if not isinstance(status, int) or not 400 <= status < 600:
        return None
    message = _text(said, "originalmessage") or _text(said, "message")
    error = told.read_error(status, {}, _ACCOUNT.sub("[masked]", message).encode())
    # The container was asked as nobody, and by AWS: none of our credentials was refused.
    return Failed(error.reason, told=status) if isinstance(error, CredentialRefused) else error


def _decoded(body: bytes) -> dict[str, Any]:
    """By names in small letters: some of its services write Message, others message. Empty for what is no JSON object."""
    try:
        said: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except (*UNREADABLE, msgspec.ValidationError):
        return {}
    return {key.lower(): value for key, value in said.items()}


def _text(said: Mapping[str, Any], key: str) -> str:
    value = said.get(key)
    return value if isinstance(value, str) else ""
