"""Numbers in strings, and a user in a number, are read as what they say; anything else is refused by its path."""

import json
from typing import Any

import pytest

from providers.canonical.errors import InvalidRequest
from providers.catalogue import DIALECTS

MESSAGES = [{"role": "user", "content": "Hi"}]
CONTENT: dict[str, dict[str, Any]] = {
    "openai_chat": {"messages": MESSAGES},
    "openai_completions": {"prompt": "Hi"},
    "openai_responses": {"input": "Hi"},
    "anthropic_messages": {"messages": MESSAGES, "max_tokens": 5},
}


def parsed(dialect: str, **fields: Any) -> dict[str, Any]:
    request = DIALECTS[dialect].parse_request(json.dumps({"model": "m", **CONTENT[dialect], **fields}).encode())
    return json.loads(request.body.write())


@pytest.mark.parametrize("dialect", CONTENT)
@pytest.mark.parametrize(
    ("field", "sent", "read"),
    [("temperature", "0.7", 0.7), ("temperature", " 1 ", 1), ("top_p", "1.0", 1.0), ("top_k", "40", 40), ("stream", "true", True)],
)
def test_number_in_a_string_is_the_number(dialect: str, field: str, sent: str, read: float):
    if dialect == "openai_completions" and field == "top_k":
        return
    body = parsed(dialect, **{field: sent})
    assert body[field] == read
    assert type(body[field]) is type(read)


def test_token_limit_in_a_string_bounds_the_response():
    request = DIALECTS["openai_chat"].parse_request(b'{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":"100"}')
    assert request.output_tokens == 100


def test_user_that_is_a_number_is_a_name():
    assert parsed("openai_chat", user=123)["user"] == "123"


@pytest.mark.parametrize(
    ("field", "value"),
    [("temperature", "warm"), ("temperature", "1e9"), ("max_tokens", "1.5"), ("max_tokens", ""), ("stream", "yes"), ("temperature", "3")],
)
def test_other_texts_are_refused_by_their_field(field: str, value: str):
    with pytest.raises(InvalidRequest) as refusal:
        parsed("openai_chat", **{field: value})
    assert refusal.value.param == field


def test_scalars_within_other_fields_are_refused_by_their_path():
    with pytest.raises(InvalidRequest) as refusal:
        parsed("openai_chat", messages=[{"role": "user", "content": 5}], temperature="0.5")
    assert refusal.value.param == "messages[0].content"
