"""A host that has too much to do is told apart from the caller's own rate limit, in the words of each client's API."""

import json

import pytest

from providers.canonical.errors import Overloaded, QuotaExhausted, UpstreamError, UpstreamFailed
from providers.canonical.raw_json import Body
from providers.canonical.upstream_errors import find_error, read_error
from providers.catalogue import DIALECTS

OPENAI_LIKE = sorted(DIALECTS.keys() - {"anthropic_messages", "anthropic_count_tokens", "tensorzero_inference", "gemini"})


@pytest.mark.parametrize("status", [429, 503, 529])
def test_overload_has_the_type_and_code_that_each_client_knows(status: int):
    error = read_error(status, {"retry-after": "7"}, b'{"error": {"message": "busy", "type": "rate_limit_exceeded"}}')
    assert (type(error), error.status, error.retry_after_s) == (Overloaded, 429 if status == 429 else 503, 7)
    for name in OPENAI_LIKE:
        written = json.loads(DIALECTS[name].write_error(error))["error"]
        assert (written["type"], written["code"], written["message"]) == ("service_unavailable_error", "server_is_overloaded", "busy")
    for name in ("anthropic_messages", "anthropic_count_tokens"):
        expected = "rate_limit_error" if status == 429 else "overloaded_error"
        assert json.loads(DIALECTS[name].write_error(error))["error"]["type"] == expected
    frame = DIALECTS["openai_responses"].write_error_frame(error).partition(b"data: ")[2]
    assert json.loads(frame)["code"] == "server_is_overloaded"
    of_google = json.loads(DIALECTS["gemini"].write_error(error))["error"]
    assert (of_google["code"], of_google["status"]) == ((429, "RESOURCE_EXHAUSTED") if status == 429 else (503, "UNAVAILABLE"))


@pytest.mark.parametrize("status", [402, 429])
def test_exhausted_account_of_the_gateway_is_neither_an_overload_nor_a_limit_of_the_caller(status: int):
    error = read_error(status, {}, b'{"error": {"message": "no credit", "code": "insufficient_quota"}}')
    assert type(error) is QuotaExhausted
    written = json.loads(DIALECTS["openai_chat"].write_error(error))["error"]
    assert (written["type"], written["code"]) == ("backend_error", 429 if status == 429 else 502)
    assert json.loads(DIALECTS["anthropic_messages"].write_error(error))["error"]["type"] == "api_error"


def in_a_200(text: str) -> UpstreamError:
    error = find_error(Body.read(text.encode()))
    assert error is not None
    return error


def test_error_in_a_200_has_the_status_that_the_host_names_or_502():
    for code in ("server_is_overloaded", "slow_down"):
        assert type(in_a_200(f'{{"error": {{"message": "busy", "code": "{code}"}}}}')) is Overloaded
    assert in_a_200('{"error": {"message": "oh", "code": 500}}').status == 500
    unnamed = in_a_200('{"error": {"message": "oh"}}')
    assert (type(unnamed), unnamed.status) == (UpstreamFailed, 502)
