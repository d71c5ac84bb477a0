"""Errors of engines: every shape becomes the right error, none breaks the reader, and no secret is passed on."""

import json
import string
import time
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.canonical.credential_masking import mask_credentials
from providers.canonical.errors import (
    CredentialRefused,
    Overloaded,
    TimedOut,
    UpstreamError,
    UpstreamFailed,
    UpstreamNotFound,
    UpstreamRejected,
)
from providers.canonical.raw_json import Body
from providers.canonical.upstream_errors import find_error, read_error, read_retry_after
from tests.support.strategies.chat_strategies import bounded

# Error bodies by engine, with the message and the field to read from them. Source: engines.md part 3.8, and vLLM 0.32 as seen.
ERROR_SHAPES: list[tuple[str, Any, str, str | None]] = [
    (
        "vllm",
        {"error": {"message": "temperature must be", "type": "BadRequestError", "param": "temperature", "code": 400}},
        "temperature must be",
        "temperature",
    ),
    ("vllm-401", {"error": "Unauthorized"}, "Unauthorized", None),
    ("fastapi", {"detail": "Not Found"}, "Not Found", None),
    ("fastapi-list", {"detail": [{"loc": ["body", "n"], "msg": "field required", "type": "missing"}]}, "field required", "n"),
    ("fastapi-path", {"detail": [{"loc": ["body", "messages", 0, "role"], "msg": "bad role"}]}, "bad role", "messages[0].role"),
    ("sglang", {"object": "error", "message": "queue is full", "type": "x", "param": None, "code": 503}, "queue is full", None),
    (
        "lmdeploy",
        {"message": "no session", "type": "invalid_request_error", "code": 400, "param": "session", "object": "error"},
        "no session",
        "session",
    ),
    ("tgi", {"error": "Input validation error", "error_type": "validation"}, "Input validation error", None),
    ("llamacpp", {"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_ctx": 8}}, "too long", None),
    ("ollama", {"error": {"message": "model not found", "type": "api_error", "param": None, "code": None}}, "model not found", None),
    ("ollama-native", {"error": "server busy"}, "server busy", None),
    ("llamacpp-python", {"error": {"message": "bad", "type": "t", "param": None, "code": "context_length_exceeded"}}, "bad", None),
    ("anthropic", {"type": "error", "error": {"type": "invalid_request_error", "message": "bad"}}, "bad", None),
    (
        "mistral",
        {"object": "error", "message": {"detail": [{"type": "t", "loc": ["body"], "msg": "extra inputs"}]}, "code": None},
        "extra inputs",
        None,
    ),
    ("xai", {"code": "invalid", "error": "Incorrect key"}, "Incorrect key", None),
    ("azure", {"statusCode": 429, "message": "Rate limit is exceeded."}, "Rate limit is exceeded.", None),
    ("gemini", [{"error": {"code": 400, "message": "bad key", "status": "INVALID"}}], "bad key", None),
    ("errors-in-a-list", {"error": [{"message": "first"}, {"message": "second"}]}, "first", None),
    ("unknown", {"fault": {"why": "x"}}, '{"fault":{"why":"x"}}', None),
    ("text", "just words", "just words", None),
]


@pytest.mark.parametrize(("body", "message", "param"), [each[1:] for each in ERROR_SHAPES], ids=[each[0] for each in ERROR_SHAPES])
def test_every_error_body_shape_is_read(body: Any, message: str, param: str | None) -> None:
    error = read_error(400, {}, json.dumps(body).encode())
    assert (type(error), error.status, error.message, error.param) == (UpstreamRejected, 400, message, param)


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b"[]", b"<html><body>502</body></html>", b" ", b"7", b"false", b'{"error":null}'])
def test_error_without_a_message_gets_a_default_message(body: bytes) -> None:
    assert read_error(500, {}, body).message in ("The engine responded with 500 and no message.", "7", "false", '{"error":null}')


@pytest.mark.parametrize(
    ("status", "kind", "expected_status", "retry_elsewhere"),
    [
        (400, UpstreamRejected, 400, False),
        (401, CredentialRefused, 502, True),
        (403, CredentialRefused, 502, True),
        (404, UpstreamNotFound, 404, True),
        (408, TimedOut, 504, True),
        (409, UpstreamRejected, 409, False),
        (413, UpstreamRejected, 413, False),
        (422, UpstreamRejected, 422, False),
        (429, Overloaded, 429, True),
        (500, UpstreamFailed, 500, True),
        (501, UpstreamFailed, 501, True),
        (502, UpstreamFailed, 502, True),
        (503, Overloaded, 503, True),
        (504, TimedOut, 504, True),
        (507, UpstreamFailed, 507, True),
        (520, UpstreamFailed, 502, True),
        (529, Overloaded, 503, True),
        (302, UpstreamFailed, 502, True),
    ],
)
def test_upstream_status_selects_the_error_class(
    status: int, kind: type[UpstreamError], expected_status: int, retry_elsewhere: bool
) -> None:
    error = read_error(status, {"retry-after": "7"}, b'{"error":{"message":"why"}}')
    assert (type(error), error.status, error.retry_elsewhere, error.upstream_status) == (kind, expected_status, retry_elsewhere, status)
    assert "why" in error.message
    if kind in (Overloaded, TimedOut, UpstreamFailed):
        assert error.retry_after_s == 7


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "detail", "msg", "code", "param", "object", "http_status_code", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@bounded
@given(st.one_of(st.binary(max_size=60), json_values.map(lambda value: json.dumps(value).encode())), st.integers(100, 999))
def test_any_error_body_is_read_without_failing(body: bytes, status: int) -> None:
    error = read_error(status, {}, body)
    assert error.message
    assert 400 <= error.status < 600


@bounded
@given(st.dictionaries(st.sampled_from(["error", "message", "detail", "code", "object", "choices"]), json_values))
def test_error_inside_a_200_response_is_found_in_any_json(value: dict[str, Any]) -> None:
    error = find_error(Body.read_response(json.dumps(value).encode()))
    is_proxy_error = "choices" not in value and value.get("detail") is not None
    has_error = value.get("error") not in (None, "", [], {}) and value["error"] is not False
    assert (error is None) == (value.get("object") != "error" and not has_error and not is_proxy_error)
    assert error is None or 400 <= error.status < 600


@pytest.mark.parametrize(
    "raw",
    [
        b'{"error":{"message":"\xff"}}',
        b'{"error":{"message":"\\ud83d"}}',
        b'{"error":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"error":' * 450 + b"1" + b"}" * 450,
        b'{"object":"error","code":"\\ud83d"}',
    ],
    ids=range(5),
)
def test_broken_unicode_and_deep_nesting_do_not_break_error_reading(raw: bytes) -> None:
    assert find_error(Body.read_response(raw)) is not None
    assert read_error(400, {}, raw).message


def test_error_message_is_truncated() -> None:
    assert len(read_error(400, {}, json.dumps({"error": "x " * 10**6}).encode()).message) <= 2000


@bounded
@given(
    st.one_of(
        st.text(max_size=30), st.floats().map(str), st.integers().map(str), st.integers(-(10**14), 10**11).map(lambda at: f"{at} GMT")
    )
)
def test_any_retry_after_is_read_as_finite_seconds_or_none(value: str) -> None:
    seconds = read_retry_after(value)
    assert seconds is None or 0 <= seconds < float("inf")


def test_retry_after_is_read_as_seconds_and_as_a_date() -> None:
    assert read_retry_after("2.5") == 2.5
    assert read_retry_after("-3") == 0
    assert read_retry_after(None) is None
    in_an_hour = read_retry_after(formatdate(time.time() + 3600, usegmt=True))
    assert in_an_hour is not None
    assert 3500 < in_an_hour <= 3601


def fixed_length_text(alphabet: str, size: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=size, max_size=size)


ALNUM = string.ascii_letters + string.digits
URLSAFE = ALNUM + "-_"
HEX = "0123456789abcdef"


def prefixed_keys(prefix: str, alphabet: str, size: int) -> st.SearchStrategy[str]:
    return fixed_length_text(alphabet, size).map(lambda rest: prefix + rest)


# The formats of the hosts' API keys. Hypothesis draws them, so keys that hardly look like one are tried too.
KEY_FORMATS = {
    "openai": prefixed_keys("sk-", ALNUM, 48),
    "openai-project": prefixed_keys("sk-proj-", ALNUM, 48),
    "openai-service": prefixed_keys("sk-svcacct-", ALNUM, 48),
    "openai-starred": fixed_length_text(ALNUM, 4).map(lambda end: f"sk-proj-{'*' * 20}{end}"),
    "openai-organisation": prefixed_keys("org-", ALNUM, 24),
    "openai-project-id": prefixed_keys("proj_", ALNUM, 24),
    "anthropic": fixed_length_text(ALNUM, 95).map(lambda rest: f"sk-ant-api03-{rest}AA"),
    "groq": prefixed_keys("gsk_", ALNUM, 52),
    "google": prefixed_keys("AIza", ALNUM, 35),
    "aws-id": prefixed_keys("AKIA", string.ascii_uppercase + string.digits, 16),
    "aws-session-id": prefixed_keys("ASIA", string.ascii_uppercase + string.digits, 16),
    "hugging-face": prefixed_keys("hf_", ALNUM, 34),
    "xai": prefixed_keys("xai-", ALNUM, 80),
    "fireworks": prefixed_keys("fw_", ALNUM, 24),
    "cerebras": prefixed_keys("csk-", string.ascii_lowercase + string.digits, 48),
    "perplexity": prefixed_keys("pplx-", ALNUM, 48),
    "openrouter": prefixed_keys("sk-or-v1-", HEX, 64),
    "nvidia": prefixed_keys("nvapi-", ALNUM, 64),
    "narthex": st.tuples(fixed_length_text(HEX, 12), fixed_length_text(URLSAFE, 43)).map(lambda parts: f"nx-{parts[0]}-{parts[1]}"),
    "together": fixed_length_text(HEX, 63).map(lambda rest: rest + "7"),
    "azure": fixed_length_text(HEX, 31).map(lambda rest: "7" + rest),
    "bearer": fixed_length_text(ALNUM, 20).map(lambda rest: f"Bearer {rest}"),
}


@pytest.mark.parametrize("kind", KEY_FORMATS)
def test_api_keys_of_every_vendor_format_are_masked(kind: str) -> None:
    @bounded
    @given(
        KEY_FORMATS[kind], st.sampled_from(["Incorrect API key provided: {}. Find yours", '"{}"', "key={}", "({})", "{}", "for {}, see"])
    )
    def check_masking(secret: str, sentence: str) -> None:
        shown = mask_credentials(sentence.format(secret))
        assert secret not in shown
        assert shown == sentence.format("[masked]")

    check_masking()


UNMASKED_TEXTS = [
    "The organization must be verified to use the model; see organization settings.",
    "The model `meta-llama/Llama-3.3-70B-Instruct-Turbo` does not exist.",
    "accounts/fireworks/models/llama4-maverick-instruct-basic",
    "meta-llama/Meta-Llama-3.1-405B-Instruct-Turbo-Quantized-FP8-dynamic-v2",
    "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8-tput",
    "01977ed9-7492-7b70-8347-955764f97b3d",
    "request req_011CQ, id chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
    "You need to use Bearer authentication; a bearer token is missing.",
    "project settings, projection, hf_hub_download, org-level permissions, sk-learn",
    "max_completion_tokens and completion_tokens_details.accepted_prediction_tokens",
    "this_is_a_rather_long_identifier_of_a_python_function_in_an_engine",
    "Sketching skeptical organisations' accounting, fwiw: task-oriented desk-bound risk-averse",
    "https://platform.openai.com/docs/guides/error-codes/api-errors",
]


@pytest.mark.parametrize("text", UNMASKED_TEXTS)
def test_ordinary_words_are_not_masked(text: str) -> None:
    assert mask_credentials(text) == text


@bounded
@given(st.uuids())
def test_uuids_are_not_masked(value: Any) -> None:
    assert mask_credentials(f"request {value} failed") == f"request {value} failed"


@bounded
@given(st.text(max_size=200))
def test_masking_is_idempotent_for_any_text(text: str) -> None:
    assert mask_credentials(mask_credentials(text)) == mask_credentials(text)


def test_deeply_nested_arrays_do_not_break_reading_the_upstream_code() -> None:
    """The depths are around the deepest that can be decoded, which depends on the caller's stack."""
    for depth in range(800, 1100):
        assert read_error(400, {}, b"[" * depth + b"]" * depth).upstream_code is None


def test_control_characters_are_removed_from_the_upstream_code() -> None:
    error = read_error(400, {}, b'{"error":{"code":"over\\u0000\\u001b[2J_loaded\\n"}}')
    assert error.upstream_code == "over[2J_loaded"
    assert read_error(400, {}, b'{"error":{"code":"\\u0007"}}').upstream_code is None
