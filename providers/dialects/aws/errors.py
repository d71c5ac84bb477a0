"""Errors as AWS tells them: in an answer, in an exception of a stream, and around what a model's container said."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from providers.canonical import upstream_errors
from providers.canonical.errors import CredentialRefused, UpstreamError, UpstreamFailed, UpstreamNotFound
from providers.canonical.raw_json import DECODE_ERRORS

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
_CREDENTIAL_ERRORS = frozenset(
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
_STREAM_END_STATUSES: Mapping[str, int] = {"ModelInvocationTimeExceeded": 504, "StreamBroken": 502}
# Who asked, and account numbers, which messages and ARNs hold.
_ACCOUNT_PATTERN = re.compile(r"arn:aws[a-z-]*:(?:iam|sts):[^\s,;'\"]*|(?<![0-9A-Za-z])[0-9]{12}(?![0-9A-Za-z])")
_ENDPOINT_NOT_FOUND = re.compile(r"^Endpoint \S+ of account \S+ not found")


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    """The error of an answer: its word stands in a header, with an address after it, or in the body."""
    fields = _decode_lowercase(body)
    code = headers.get("x-amzn-errortype") or _text(fields, "__type") or _text(fields, "code")
    return _upstream_error(code, status, body, fields, upstream_errors.read_retry_after(headers.get("retry-after")))


def read_exception(code: str, body: bytes) -> UpstreamError:
    """The error of an exception within a stream."""
    return _upstream_error(code, 500, body, _decode_lowercase(body), None)


def _upstream_error(code: str, status: int, body: bytes, fields: Mapping[str, Any], retry_after_s: float | None) -> UpstreamError:
    code = code.partition(":")[0].rpartition("#")[2].strip()[:100]
    name = code.lower().removesuffix("exception")
    message = _text(fields, "message") or ("" if fields else body.decode("utf-8", "replace"))
    error = _container_error(fields) if name.startswith("model") else None
    if error is None:
        error = _aws_error(name, status, message, fields)
    if retry_after_s is not None:
        error.retry_after_s = retry_after_s
    error.upstream_code = code or error.upstream_code
    return error


def _aws_error(name: str, status: int, message: str, fields: Mapping[str, Any]) -> UpstreamError:
    text = _ACCOUNT_PATTERN.sub("[masked]", message)
    if name in _CREDENTIAL_ERRORS:
        # Of a wrong signature it tells, on lines of their own, all that should have been signed: a session's token too.
        reason = upstream_errors.mask_credentials(text.partition("\n")[0]) or "It did not say why."
        return CredentialRefused(f"The engine refused the gateway's own credential: {reason}", upstream_status=status, reason=reason)
    if _ENDPOINT_NOT_FOUND.match(message):  # SageMaker tells it as a ValidationError
        return UpstreamNotFound(upstream_errors.mask_credentials(text), upstream_status=404)
    return upstream_errors.read_error(
        _STREAM_END_STATUSES.get(_text(fields, "errorcode")) or _STATUSES.get(name, status), {}, text.encode()
    )


def _container_error(fields: Mapping[str, Any]) -> UpstreamError | None:
    """What a model's container answered, which AWS tells as an error of its own; None: it did not tell."""
    status = fields.get("originalstatuscode")
    if not isinstance(status, int) or not 400 <= status < 600:
        return None
    message = _text(fields, "originalmessage") or _text(fields, "message")
    error = upstream_errors.read_error(status, {}, _ACCOUNT_PATTERN.sub("[masked]", message).encode())
    # The container was asked as nobody, and by AWS: none of our credentials was refused.
    return UpstreamFailed(error.reason, upstream_status=status) if isinstance(error, CredentialRefused) else error


def _decode_lowercase(body: bytes) -> dict[str, Any]:
    """By names in small letters: some of its services write Message, others message. Empty for what is no JSON object."""
    try:
        fields: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except (*DECODE_ERRORS, msgspec.ValidationError):
        return {}
    return {key.lower(): value for key, value in fields.items()}


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""
