"""Errors as AWS tells them: its words have their meaning whatever the status, and a container's own error is taken out of AWS's."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.canonical.errors import (
    CredentialRefused,
    Overloaded,
    TimedOut,
    UpstreamError,
    UpstreamFailed,
    UpstreamNotFound,
    UpstreamRejected,
)
from providers.dialects.aws.errors import read_error, read_exception
from tests.support.chat_strategies import bounded

SUFFIX = ":http://internal.amazon.com/coral/com.amazon.coral.service/"


@pytest.mark.parametrize(
    ("status", "word", "kind", "shown"),
    [
        (403, "UnrecognizedClientException", CredentialRefused, 502),
        (403, "ExpiredTokenException", CredentialRefused, 502),
        (400, "InvalidSignatureException", CredentialRefused, 502),
        (400, "ExpiredTokenException", CredentialRefused, 502),
        (429, "ThrottlingException", Overloaded, 429),
        (400, "ThrottlingException", Overloaded, 429),
        (400, "ServiceQuotaExceededException", Overloaded, 429),
        (429, "ModelNotReadyException", Overloaded, 503),
        (503, "ServiceUnavailable", Overloaded, 503),
        (408, "ModelTimeoutException", TimedOut, 504),
        (424, "ModelErrorException", UpstreamFailed, 502),
        (404, "ResourceNotFoundException", UpstreamNotFound, 404),
        (400, "ValidationException", UpstreamRejected, 400),
        (500, "InternalServerException", UpstreamFailed, 502),
        (530, "InternalDependencyException", UpstreamFailed, 502),
    ],
)
@pytest.mark.parametrize("where", ["header", "type", "code"])
def test_aws_error_code_is_mapped_wherever_it_appears(status: int, word: str, kind: type[UpstreamError], shown: int, where: str) -> None:
    headers = {"x-amzn-errortype": word + SUFFIX} if where == "header" else {}
    body = {"message": "Why."} | ({"__type": "com.amazon.coral#" + word} if where == "type" else {"code": word} if where == "code" else {})
    error = read_error(status, headers, json.dumps(body).encode())
    assert (type(error), error.status, error.upstream_code) == (kind, shown, word)
    assert "Why." in error.message


def container_error_body(status: Any, message: Any) -> bytes:
    fields = {"ErrorCode": "CLIENT_ERROR_FROM_MODEL", "Message": "Received client error from primary", "OriginalStatusCode": status}
    return json.dumps({**fields, "OriginalMessage": message, "LogStreamArn": "arn:aws:logs:eu-west-1:123456789012:log"}).encode()


@pytest.mark.parametrize(
    ("status", "message", "kind", "shown", "told"),
    [
        (
            422,
            '{"error":"Input validation error: `top_p` must be < 1","error_type":"validation"}',
            UpstreamRejected,
            422,
            "`top_p` must be < 1",
        ),
        (429, '{"error":"Model is overloaded","error_type":"overloaded"}', Overloaded, 429, "Model is overloaded"),
        (424, '{"error":"Request failed during generation"}', UpstreamFailed, 502, "Request failed during generation"),
        (500, "it broke", UpstreamFailed, 502, "it broke"),
        (403, '{"detail":"no"}', UpstreamFailed, 502, "no"),
        (404, '{"error":{"message":"The model does not exist."}}', UpstreamNotFound, 404, "The model does not exist."),
        (0, "never", UpstreamFailed, 502, "Received client error from primary"),
        (None, None, UpstreamFailed, 502, "Received client error from primary"),
    ],
)
def test_sagemaker_container_error_is_unwrapped(status: Any, message: Any, kind: type[UpstreamError], shown: int, told: str) -> None:
    error = read_error(424, {"x-amzn-errortype": "ModelError"}, container_error_body(status, message))
    assert (type(error), error.status) == (kind, shown)
    assert told in error.message and "123456789012" not in error.message


def test_missing_endpoint_is_not_found_and_hides_the_account_id() -> None:
    body = b'{"Message":"Endpoint gone of account 123456789012 not found."}'
    error = read_error(400, {"x-amzn-errortype": "ValidationError"}, body)
    assert isinstance(error, UpstreamNotFound) and error.retry_elsewhere and "123456789012" not in error.message


def test_credential_errors_hide_the_identity_and_the_signed_string() -> None:
    identity_message = "User: arn:aws:sts::123456789012:assumed-role/gateway/i-1 is not authorized to perform: bedrock:InvokeModel"
    signature_message = (
        "The request signature we calculated does not match.\n\nThe Canonical String should have been\n'x-amz-security-token:the-token'"
    )
    for word, message in (("AccessDeniedException", identity_message), ("InvalidSignatureException", signature_message)):
        error = read_error(403, {"x-amzn-errortype": word}, json.dumps({"message": message}).encode())
        assert isinstance(error, CredentialRefused)
        assert not any(secret in error.message + error.reason for secret in ("gateway/i-1", "123456789012", "the-token"))
        assert message.partition("\n")[0][-15:] in error.message


@bounded
@given(st.integers(400, 599), st.one_of(st.binary(max_size=30), st.recursive(st.none() | st.text(max_size=5), st.lists).map(json.dumps)))
def test_any_error_body_becomes_an_upstream_error(status: int, body: bytes | str) -> None:
    raw = body if isinstance(body, bytes) else body.encode()
    assert isinstance(read_error(status, {}, raw), UpstreamError)
    assert isinstance(read_exception("", raw), UpstreamError)
