"""The reasons for which a host refused a request, by its own words; docs/sources.md says whose they are."""

import json

import pytest

from providers.canonical.refusal_reasons import refusal_reason
from providers.canonical.upstream_errors import read_error


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "prompt is too long: 200001 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Input is too long for requested model.",
        "`inputs` tokens + `max_new_tokens` must be <= 2048. Given: 2000 `inputs` tokens and 100 `max_new_tokens`",
        "the request exceeds the available context size, try increasing it",
        "Requested tokens (5000) exceed context window of 4096",
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    ],
)
def test_prompt_that_is_too_long_is_recognised(message: str):
    assert refusal_reason(read_error(400, {}, json.dumps({"error": {"message": message}}).encode())) == "context_length"


@pytest.mark.parametrize(
    "error",
    [
        {"message": "no", "code": "content_filter"},
        {"message": "no", "code": "data_inspection_failed"},
        {"message": "Output blocked by content filtering policy"},
        {"message": "Content Exists Risk", "type": "invalid_request_error"},
        {"message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."},
    ],
)
def test_refused_content_is_recognised(error: dict[str, str]):
    assert refusal_reason(read_error(400, {}, json.dumps({"error": error}).encode())) == "content_refused"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "temperature must be at most 2"),
        (400, "max_tokens is too large: 99999. This model supports at most 16384 completion tokens."),
        (400, "Unknown field `content`."),
        (429, "You exceed your context length quota"),
        (500, "This model's maximum context length is 4096 tokens."),
    ],
)
def test_other_errors_have_no_such_reason(status: int, message: str):
    assert refusal_reason(read_error(status, {}, json.dumps({"error": {"message": message}}).encode())) is None
