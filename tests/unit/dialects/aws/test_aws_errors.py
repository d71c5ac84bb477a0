"""AWS errors: the code decides whatever the status, and the error of a SageMaker container is unwrapped."""

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
from tests.support.case_tables import failed_cases
from tests.support.strategies.chat_strategies import bounded

SUFFIX = ":http://internal.amazon.com/coral/com.amazon.coral.service/"


# (upstream status, code, error, status for the caller)
ERROR_CODES: list[tuple[int, str, type[UpstreamError], int]] = [
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
    (500, "InternalServerException", UpstreamFailed, 500),
    (530, "InternalDependencyException", UpstreamFailed, 502),
]


def test_aws_error_code_is_mapped_wherever_it_appears() -> None:
    """The code may be in the header or in either field of the body."""

    def check(where: str, upstream_status: int, code: str, kind: type[UpstreamError], status: int) -> None:
        headers = {"x-amzn-errortype": code + SUFFIX} if where == "header" else {}
        fields = {"header": {}, "type": {"__type": "com.amazon.coral#" + code}, "code": {"code": code}}[where]
        error = read_error(upstream_status, headers, json.dumps({"message": "Why.", **fields}).encode())
        assert (type(error), error.status, error.upstream_code) == (kind, status, code)
        assert "Why." in error.message

    assert failed_cases(check, [(where, *case) for where in ("header", "type", "code") for case in ERROR_CODES]) == []


def container_error_body(status: Any, message: Any) -> bytes:
    fields = {"ErrorCode": "CLIENT_ERROR_FROM_MODEL", "Message": "Received client error from primary", "OriginalStatusCode": status}
    return json.dumps({**fields, "OriginalMessage": message, "LogStreamArn": "arn:aws:logs:eu-west-1:123456789012:log"}).encode()


@pytest.mark.parametrize(
    ("original_status", "message", "kind", "status", "text"),
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
        (500, "it broke", UpstreamFailed, 500, "it broke"),
        (403, '{"detail":"no"}', UpstreamFailed, 502, "no"),
        (404, '{"error":{"message":"The model does not exist."}}', UpstreamNotFound, 404, "The model does not exist."),
        (0, "never", UpstreamFailed, 502, "Received client error from primary"),
        (None, None, UpstreamFailed, 502, "Received client error from primary"),
    ],
)
def test_sagemaker_container_error_is_unwrapped(
    original_status: Any, message: Any, kind: type[UpstreamError], status: int, text: str
) -> None:
    error = read_error(424, {"x-amzn-errortype": "ModelError"}, container_error_body(original_status, message))
    assert (type(error), error.status) == (kind, status)
    assert text in error.message and "123456789012" not in error.message


def test_missing_endpoint_is_not_found_and_hides_the_account_id() -> None:
    body = b'{"Message":"Endpoint gone of account 123456789012 not found."}'
    error = read_error(400, {"x-amzn-errortype": "ValidationError"}, body)
    assert isinstance(error, UpstreamNotFound) and error.retry_elsewhere and "123456789012" not in error.message


def test_credential_errors_hide_the_identity_and_the_signed_string() -> None:
    identity_message = "User: arn:aws:sts::123456789012:assumed-role/gateway/i-1 is not authorized to perform: bedrock:InvokeModel"
    signature_message = (
        "The request signature we calculated does not match.\n\nThe Canonical String should have been\n'x-amz-security-token:the-token'"
    )
    for code, message in (("AccessDeniedException", identity_message), ("InvalidSignatureException", signature_message)):
        error = read_error(403, {"x-amzn-errortype": code}, json.dumps({"message": message}).encode())
        assert isinstance(error, CredentialRefused)
        assert not any(secret in error.message + error.reason for secret in ("gateway/i-1", "123456789012", "the-token"))
        assert message.partition("\n")[0][-15:] in error.message


@bounded
@given(st.integers(400, 599), st.one_of(st.binary(max_size=30), st.recursive(st.none() | st.text(max_size=5), st.lists).map(json.dumps)))
def test_any_error_body_becomes_an_upstream_error(status: int, body: bytes | str) -> None:
    raw = body if isinstance(body, bytes) else body.encode()
    assert isinstance(read_error(status, {}, raw), UpstreamError)
    assert isinstance(read_exception("", raw), UpstreamError)
