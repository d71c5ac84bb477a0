"""Errors of AWS: of a response, of an exception in a stream, and of a model's container behind AWS."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from providers.canonical import upstream_errors
from providers.canonical.credential_masking import mask_credentials
from providers.canonical.errors import CredentialRefused, UpstreamError, UpstreamFailed, UpstreamNotFound
from providers.canonical.raw_json import DECODE_ERRORS

# The status of an exception, by its name in lower case without "exception": in a stream exceptions have no status.
# Sources: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html and
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_ResponseStream.html, and botocore's service models; read 2026-11.
_STATUSES: Mapping[str, int] = {
    "throttling": 429,
    "toomanyrequests": 429,
    # Sent with 400. The quota is the account's, so that a credential of another account may still work.
    "servicequotaexceeded": 429,
    # Sent with 429. The model is still being loaded, so that the credential needs no cooldown.
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
# Sent with 403, some with 400: https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html, read 2026-11.
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
# Principals and account numbers, which messages and ARNs contain.
_ACCOUNT_PATTERN = re.compile(r"arn:aws[a-z-]*:(?:iam|sts):[^\s,;'\"]*|(?<![0-9A-Za-z])[0-9]{12}(?![0-9A-Za-z])")
_ENDPOINT_NOT_FOUND = re.compile(r"^Endpoint \S+ of account \S+ not found")


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
    """The error of a response. Its code is in a header, with a URL after it, or in the body."""
    fields = _decode_lowercase(body)
    code = headers.get("x-amzn-errortype") or _text(fields, "__type") or _text(fields, "code")
    return _upstream_error(code, status, body, fields, upstream_errors.read_retry_after(headers.get("retry-after")))


def read_exception(code: str, body: bytes) -> UpstreamError:
    """The error of an exception in a stream."""
    return _upstream_error(code, upstream_errors.UNNAMED_STATUS, body, _decode_lowercase(body), None)


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
        # After a wrong signature the following lines repeat all that should have been signed, a session token included.
        reason = mask_credentials(text.partition("\n")[0]) or "It did not say why."
        return CredentialRefused(f"The engine refused the gateway's own credential: {reason}", upstream_status=status, reason=reason)
    if _ENDPOINT_NOT_FOUND.match(message):  # SageMaker sends a ValidationError
        return UpstreamNotFound(mask_credentials(text), upstream_status=404)
    return upstream_errors.read_error(
        _STREAM_END_STATUSES.get(_text(fields, "errorcode")) or _STATUSES.get(name, status), {}, text.encode()
    )


def _container_error(fields: Mapping[str, Any]) -> UpstreamError | None:
    """The error of a model's container, which AWS wraps into its own. None if there is none."""
    status = fields.get("originalstatuscode")
    if not isinstance(status, int) or not 400 <= status < 600:
        return None
    message = _text(fields, "originalmessage") or _text(fields, "message")
    error = upstream_errors.read_error(status, {}, _ACCOUNT_PATTERN.sub("[masked]", message).encode())
    # AWS calls the container without our credential, so that it cannot have refused that.
    return UpstreamFailed(error.reason, upstream_status=status) if isinstance(error, CredentialRefused) else error


def _decode_lowercase(body: bytes) -> dict[str, Any]:
    """The fields by lower-case names: some services write Message, others message. Empty if the body is not a JSON object."""
    try:
        fields: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    except (*DECODE_ERRORS, msgspec.ValidationError):
        return {}
    return {key.lower(): value for key, value in fields.items()}


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""
