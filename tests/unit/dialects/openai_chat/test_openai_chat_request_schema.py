"""Parsing OpenAI chat requests: documented values are accepted, wrong types are refused by path, unknown fields pass."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.canonical.errors import InvalidRequest
from providers.dialects.openai_chat import OpenAIChat
from tests.support.case_tables import failed_cases
from tests.support.strategies.chat_strategies import bounded

REQUEST: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}}

# Each documented field: valid values of each documented type, and invalid values.
DOCUMENTED: dict[str, tuple[list[Any], list[Any]]] = {
    "temperature": ([0, 0.7, 2], ["hot", 2.1, -0.1, True, []]),
    "max_tokens": ([1, 4096], [0, -1, 1.5, "nine", {}]),
    "max_completion_tokens": ([1, 4096], [0, 1.5, "9.5"]),
    "top_p": ([0, 0.5, 1], [1.1, -1, "x"]),
    "frequency_penalty": ([-2, 0.0, 2], [2.5, -3, "x"]),
    "presence_penalty": ([-2, 0.0, 2], [2.5, -3, "x"]),
    "seed": ([0, -1, 2**63], [1.5, "1.5"]),
    "stream": ([True, False], ["yes", 1, 0]),
    "n": ([1, 5], [0, "two", 1.5]),
    "stop": (["END", ["a", "b"]], [1, [1], {}]),
    "logprobs": ([True, False], [5, "yes"]),
    "top_logprobs": ([0, 20], ["five", 1.5]),
    "logit_bias": ([{}, {"50256": -100, "1": 0.5}], [{"1": "x"}, [1], 3]),
    "response_format": (
        [
            {"type": "text"},
            {"type": "json_object"},
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
            {"type": "structural_tag", "format": {"type": "any_text"}},
        ],
        ["json", {}, {"type": 1}, {"type": "json_schema", "json_schema": {"schema": 5}}],
    ),
    "tools": (
        [
            [TOOL],
            [{"type": "function", "function": {"name": "f"}}],
            [{"type": "custom", "custom": {"name": "c"}}],
            [{"function": {"name": "f"}}],
        ],
        [TOOL, [1], [{"type": 1}], [{"type": "function", "function": {}}]],
    ),
    "tool_choice": (
        [
            "auto",
            "none",
            "required",
            {"type": "function", "function": {"name": "f"}},
            {"type": "allowed_tools", "allowed_tools": {}},
        ],
        [1, [], {"type": "function", "function": "f"}],
    ),
    "parallel_tool_calls": ([True, False], ["no", 1]),
    "chat_template": (["{{ messages }}"], [1, {}]),
    "chat_template_kwargs": ([{}, {"enable_thinking": True, "n": [1]}], ["x", [1]]),
    "mm_processor_kwargs": ([{}, {"num_crops": 4}], ["x", [1]]),
    "guided_json": ([SCHEMA, {}, json.dumps(SCHEMA), True], [1, [SCHEMA]]),
    "guided_regex": (["[0-9]+"], [1, ["x"]]),
    "guided_choice": ([["yes", "no"]], [[], "yes", [1], {"a": "b"}]),
    "guided_grammar": (['root ::= "a"'], [1, {}]),
    "structural_tag": (["{}", {"format": {}}], [1, ["x"]]),
    "guided_decoding_backend": (["xgrammar"], [1, {}]),
    "guided_whitespace_pattern": (["[ ]?"], [1, {}]),
    "structured_outputs": ([{"json": SCHEMA}, {}], ["x", [1]]),
    "user": (["u"], [True, {}]),
    "metadata": ([{}, {"team": "a"}], [{"n": 1}, "x", ["x"]]),
    "service_tier": (["auto"], [1]),
    "store": ([True], ["x"]),
    "reasoning_effort": (["low"], [1, {}]),
    "episode_id": (["01990000-0000-7000-8000-00000000000b"], [1, {}, ""]),
    "tensorzero::episode_id": (["01990000-0000-7000-8000-00000000000b"], [1, {}, ""]),
    "tensorzero::tags": ([{}, {"a": "b"}], [{"a": 1}, "x"]),
}
VALID = [(field, value) for field, (valid, _) in DOCUMENTED.items() for value in [*valid, None]]
INVALID = [(field, value) for field, (_, invalid) in DOCUMENTED.items() for value in invalid]


def parse(body: Any) -> Any:
    return OpenAIChat().parse_request(json.dumps(body).encode())


def test_documented_field_is_accepted_and_kept() -> None:
    def check(field: str, value: Any) -> None:
        assert parse({**REQUEST, field: value}).body.value(field) == value

    assert failed_cases(check, VALID) == []


def test_tool_choice_without_a_type_names_a_function() -> None:
    named = {"function": {"name": "f"}}
    assert parse({**REQUEST, "tool_choice": named}).body.value("tool_choice") == {**named, "type": "function"}


def test_wrongly_typed_field_is_refused_by_path() -> None:
    def check(field: str, value: Any) -> None:
        with pytest.raises(InvalidRequest) as refused:
            parse({**REQUEST, field: value})
        named = "episode_id" if value == "" else field
        assert refused.value.param is not None
        assert refused.value.param.startswith(named)
        assert f"`{named}" in refused.value.message
        assert refused.value.status == 400

    assert failed_cases(check, INVALID) == []


CONTENT = [
    "text",
    None,
    [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "https://example.com/a.jpg", "detail": "low"}}],
    [{"type": "image_url", "image_url": "data:image/png;base64,AAAA"}],
    [{"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}}],
    [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}],
    [{"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}],
    [{"type": "refusal", "refusal": "no"}],
]


def test_documented_message_content_is_accepted_for_every_role() -> None:
    def check(role: str, content: Any) -> None:
        messages: list[Any] = [
            {"role": role, "content": content, "name": None, "tool_call_id": "a", "reasoning_content": None, "cache_control": {}}
        ]
        if role == "tool":
            call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            messages.insert(0, {"role": "assistant", "content": None, "tool_calls": [call]})
        assert parse({**REQUEST, "messages": messages}).body.value("messages") == messages

    roles = ("system", "developer", "user", "assistant", "tool")
    assert failed_cases(check, [(role, content) for role in roles for content in CONTENT]) == []


def test_conversation_with_tool_calls_is_accepted() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "no JSON"}}
    messages = [
        {"role": "assistant", "tool_calls": [call, {**call, "id": "b", "index": 1}]},
        {"role": "tool", "content": [{"type": "text", "text": "42"}], "tool_call_id": "a"},
        {"role": "tool", "content": "43", "tool_call_id": "b"},
        {"role": "assistant", "content": None, "tool_calls": None, "function_call": None},
    ]
    assert parse({**REQUEST, "messages": messages}).body.value("messages") == messages


INVALID_MESSAGES: list[tuple[Any, str]] = [
    ([], "messages"),
    (5, "messages"),
    (None, "messages"),
    (["Hi"], "messages[0]"),
    ([{"role": "user", "content": 5}], "messages[0].content"),
    ([{"content": "x"}], "messages[0]"),
    ([{"role": "user", "content": [{"text": "x"}]}], "messages[0].content[0]"),
    ([{"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "text", "text": 1}]}], "messages[1].content[0].text"),
    (
        [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}],
        "messages[0].tool_calls[0].function.arguments",
    ),
]


@pytest.mark.parametrize(("messages", "path"), INVALID_MESSAGES, ids=str)
def test_invalid_message_is_refused_by_path(messages: Any, path: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse({"model": "m", "messages": messages})
    assert refused.value.param == path


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@bounded
@given(st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), max_size=8), values, max_size=4), st.booleans())
def test_unknown_fields_are_kept_byte_for_byte(fields: dict[str, Any], escaped: bool) -> None:
    """Escapes, numbers and white space are kept as they were written, too."""
    unknown = {f"x_{key}": json.dumps(value, indent=1, ensure_ascii=escaped) for key, value in fields.items()}
    raw = (
        json.dumps(REQUEST)[:-1].encode()
        + b"".join(f", {json.dumps(key)}: {value}".encode("utf-8", "replace") for key, value in unknown.items())
        + b"}"
    )
    body = OpenAIChat().parse_request(raw).body
    for key, value in unknown.items():
        assert bytes(body[key]) == value.encode("utf-8", "replace")
    assert json.loads(body.write()) == json.loads(raw)


@bounded
@given(st.one_of(st.binary(max_size=40), values.map(lambda value: json.dumps(value).encode())))
def test_arbitrary_bytes_are_refused_as_an_invalid_request(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        OpenAIChat().parse_request(raw)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "ends too early (byte 0)"),
        (b'{"model": "m"', "ends too early (byte 13)"),
        (b'{"model": m}', "(byte 10)"),
        (b"[1]", "must be a JSON object"),
        (b'{"model":"m"}', "missing required field `messages`"),
        (b'{"model":"\xff","messages":[]}', "not UTF-8"),
        (b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}', "half a surrogate pair (byte 51)"),
        (b'{"model":"m","messages":[{"role":"user","content":"a"}],"x":' + b"[" * 100_000, "nested too deeply"),
    ],
    ids=range(8),
)
def test_parse_error_says_what_is_wrong_and_where(raw: bytes, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        OpenAIChat().parse_request(raw)
    assert message in refused.value.message


def test_parsed_request_exposes_what_the_gateway_needs() -> None:
    request = parse(
        {**REQUEST, "stream": True, "stream_options": {"include_usage": True}, "user": "u", "metadata": {"a": "b"}, "episode_id": "E"}
    )
    assert (request.model, request.stream, request.wants_usage, request.episode_id, request.tags, request.end_user) == (
        "m",
        True,
        True,
        "E",
        {"a": "b"},
        "u",
    )
    assert parse({**REQUEST, "metadata": {"a": "b"}, "tensorzero::tags": {"c": "d"}}).tags == {"c": "d"}
    bare = parse({**REQUEST, "stream": None, "stream_options": None, "user": None, "metadata": None})
    assert (bare.stream, bare.wants_usage, bare.episode_id, bare.tags, bare.end_user) == (False, False, None, {}, None)


def test_stream_options_without_stream_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="stream_options"):
        parse({**REQUEST, "stream_options": {"include_usage": True}})


def test_two_episode_fields_must_agree() -> None:
    same_episode = {"episode_id": "AB", "tensorzero::episode_id": "AB"}
    assert parse({**REQUEST, **same_episode}).episode_id == "AB"
    with pytest.raises(InvalidRequest, match="different episodes"):
        parse({**REQUEST, **same_episode, "episode_id": "ab"})
