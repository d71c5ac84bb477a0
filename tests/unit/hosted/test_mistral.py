"""Mistral: OpenAI's chat in Mistral's fields, nothing that it does not document, and tool call ids in its format."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.routing import Target
from providers.canonical.chat import Reasoning, Text, Usage
from providers.canonical.errors import CredentialRefused, Overloaded, Unsupported, UpstreamError, UpstreamNotFound, UpstreamRejected
from providers.canonical.events import Event, assemble_response
from providers.canonical.raw_json import Body
from providers.dialects.openai_chat import OpenAIChat
from providers.dialects.openai_embeddings import OpenAIEmbeddings
from providers.hosted.mistral.adapter import Mistral
from providers.profiles.mistral import ToolCallIds
from tests.support.adapted_body import adapt_body
from tests.support.request_translation import drop_everything, drop_nothing, translate_request
from tests.support.strategies.chat_strategies import META, bounded, byte_splits, chunk, chunk_choice, parse_sse_chunks

MISTRAL = Mistral("it", {})
HI = {"role": "user", "content": "Hi"}
DIALECT = OpenAIChat()


def adapted_request(*messages: Any, drop: bool = False, **fields: Any) -> tuple[dict[str, Any], list[str]]:
    body, dropped, _ = adapt_body(MISTRAL, {"messages": [*messages] or [HI], **fields}, drop_everything if drop else drop_nothing)
    return body, dropped


def adapted_messages(*messages: Any) -> tuple[list[Any], list[str]]:
    body, dropped = adapted_request(*messages)
    return body["messages"], dropped


REQUEST_CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"seed": 7, "max_completion_tokens": 5}, {"random_seed": 7, "max_tokens": 5}),
    ({"max_tokens": 5, "stop": ["a"], "n": 2, "tool_choice": "any"}, {"max_tokens": 5, "stop": ["a"], "n": 2, "tool_choice": "any"}),
    ({"reasoning_effort": "none"}, {"reasoning_effort": "none"}),
    (
        {"prompt_mode": "reasoning", "safe_prompt": True, "guardrails": []},
        {"prompt_mode": "reasoning", "safe_prompt": True, "guardrails": []},
    ),
    (
        {"prompt_cache_key": "k", "metadata": {"a": "b"}, "min_tokens": 3},
        {"prompt_cache_key": "k", "metadata": {"a": "b"}, "min_tokens": 3},
    ),
    # Neutral values are left out silently.
    ({"logprobs": False, "top_k": -1, "logit_bias": {}, "verbosity": "medium", "store": False}, {}),
    (
        {"tools": [{"type": "function", "function": {"name": "now"}}]},
        {"tools": [{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}]},
    ),
]


@pytest.mark.parametrize(("fields", "sent"), REQUEST_CASES)
def test_request_fields_are_written_as_mistral_names_them(fields: dict[str, Any], sent: dict[str, Any]):
    body, dropped = adapted_request(**fields)
    del body["messages"]
    assert (body, dropped) == (sent, [])


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 2, "logprobs": None}, "top_logprobs"),
        ({"logit_bias": {"1": 2}}, "logit_bias"),
        ({"top_k": 5}, "top_k"),
        ({"temperature": 1.6}, "temperature"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0]"),
        ({"regex": "a"}, "regex"),
    ],
)
def test_unsupported_field_is_refused_by_name(fields: dict[str, Any], param: str):
    with pytest.raises(Unsupported) as refused:
        adapted_request(**fields)
    assert refused.value.param == param and param in adapted_request(**fields, drop=True)[1]


def test_hints_are_reported_and_low_reasoning_effort_becomes_high():
    body, dropped = adapted_request(user="u", service_tier="flex", safety_identifier="s", reasoning_effort="low")
    assert body.keys() == {"messages", "reasoning_effort"} and body["reasoning_effort"] == "high"
    assert sorted(dropped) == ["reasoning_effort", "safety_identifier", "service_tier", "user"]


def test_messages_that_need_no_change_are_sent_byte_for_byte():
    raw = b'{"model":"m","messages": [ {"role":"user", "content":"Hi"} ]}'
    request = DIALECT.parse_request(raw)
    assert b'"messages":[ {"role":"user", "content":"Hi"} ]' in translate_request(request, MISTRAL, Target("it", "host-model")).raw


def test_stream_is_requested_without_stream_options():
    request = DIALECT.parse_request(
        json.dumps({"model": "m", "messages": [HI], "stream": True, "stream_options": {"include_usage": True}}).encode()
    )
    body = json.loads(translate_request(request, MISTRAL, Target("it", "host-model")).raw)
    assert (body["stream"], "stream_options" in body, body["model"]) == (True, False, "host-model")


def test_roles_and_media_are_converted_and_message_names_are_refused():
    pdf = "data:application/pdf;base64,JVBERi0="
    parts = [
        {"type": "text", "text": "What?", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "file", "file": {"file_data": pdf, "filename": "a.pdf"}},
        {"type": "file", "file": {"file_data": "JVBERi0="}},
        {"type": "file", "file": {"file_id": "f1"}},
        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
    ]
    messages, dropped = adapted_messages({"role": "developer", "content": "Be brief"}, {"role": "user", "content": parts})
    assert messages[0]["role"] == "system"
    assert messages[1]["content"] == [
        {"type": "text", "text": "What?"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "document_url", "document_url": pdf, "document_name": "a.pdf"},
        {"type": "document_url", "document_url": pdf},
        {"type": "file", "file_id": "f1"},
        {"type": "input_audio", "input_audio": "UklG"},
    ]
    assert dropped == ["messages[1].content[0].cache_control"]


def test_names_of_participants_are_written_into_the_text():
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    messages, dropped = adapted_messages(
        {"role": "user", "content": "Hi", "name": "Ann"},
        {"role": "assistant", "content": "Hello.", "name": "Bot"},
        {"role": "user", "content": [image, {"type": "text", "text": "What?"}], "name": "Bob"},
    )
    texts = [messages[0]["content"], messages[1]["content"], messages[2]["content"][1]["text"]]
    assert texts == ["Ann said:\nHi", "Hello.", "Bob said:\nWhat?"] and dropped == ["messages[1].name"]
    assert not any("name" in message for message in messages)
    with pytest.raises(Unsupported) as refused:
        adapted_messages({"role": "user", "content": [image], "name": "Ann"})
    assert refused.value.param == "messages[0].name"


def assistant_with_call(id: str, **more: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}, **more}],
    }


def test_assistant_reasoning_is_sent_back_as_thinking_content():
    assistant_message = {
        **assistant_with_call("gRgYUmPLP"),
        "content": "Hi.",
        "reasoning_content": "Hm.",
        "annotations": [],
        "audio": None,
        "content_chunks": [1],
    }
    messages, dropped = adapted_messages(HI, assistant_message, {"role": "assistant", "content": None, "refusal": "No."})
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True}
    assert messages[1]["content"] == [thinking, {"type": "text", "text": "Hi."}]
    assert messages[1].keys() == {"role", "content", "tool_calls"} and messages[1]["tool_calls"][0]["id"] == "gRgYUmPLP"
    assert messages[2]["content"] == [{"type": "text", "text": "No."}]
    assert dropped == ["messages[1].content_chunks"]


@pytest.mark.parametrize("content", ["", None, []])
def test_empty_assistant_message_is_omitted_unless_it_has_calls(content: Any):
    """Mistral refuses one that has neither content nor calls."""
    again = {"role": "user", "content": "Again?"}
    assert adapted_messages(HI, {"role": "assistant", "content": content}, again) == ([HI, again], [])
    assert adapted_messages(HI, {**assistant_with_call("gRgYUmPLP"), "content": content})[0][1]["tool_calls"][0]["id"] == "gRgYUmPLP"


def test_thought_signatures_of_other_hosts_are_dropped_and_reported():
    messages, dropped = adapted_messages(HI, assistant_with_call("c", extra_content={"google": {"thought_signature": "x"}}))
    assert messages[1]["tool_calls"][0].keys() == {"id", "type", "function"}
    assert dropped == ["messages[1].tool_calls[0].extra_content"]


def test_call_ids_match_their_results_and_an_assistant_message_precedes_the_user():
    result = {"role": "tool", "tool_call_id": "call_01", "content": "2", "name": "f"}
    messages, _ = adapted_messages(HI, assistant_with_call("call_01"), result, {"role": "user", "content": "So?"})
    id = messages[1]["tool_calls"][0]["id"]
    assert re.fullmatch("[A-Za-z0-9]{9}", id) and messages[2] == {**result, "tool_call_id": id}
    assert [each["role"] for each in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert adapted_messages(HI, assistant_with_call("call_01"), result)[0][1]["tool_calls"][0]["id"] == id


@bounded
@given(st.lists(st.text(max_size=12) | st.from_regex(r"[A-Za-z0-9]{9}", fullmatch=True), max_size=8))
def test_minted_call_ids_are_valid_and_distinct_and_valid_ids_are_kept(call_ids: list[str]):
    ids = ToolCallIds(call_ids)
    minted = {id: ids.replacement(id) for id in call_ids}
    assert all(re.fullmatch("[A-Za-z0-9]{9}", each) for each in minted.values()) and len(set(minted.values())) == len(set(call_ids))
    assert all(minted[id] == id for id in call_ids if re.fullmatch("[A-Za-z0-9]{9}", id))


def test_colliding_call_ids_are_minted_again():
    (first,) = (ToolCallIds(["a"]).replacement("a"),)
    assert ToolCallIds(["a", first]).replacement(first) == first != ToolCallIds(["a", first]).replacement("a")


THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}, {"type": "reference", "reference_ids": [1]}], "closed": True}
CONTENT: list[Any] = [
    THINKING,
    {"type": "text", "text": "It is"},
    {"type": "reference", "reference_ids": [0]},
    {"type": "text", "text": " so."},
]


def response_bytes(content: Any) -> bytes:
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "prompt_audio_seconds": None, "service_tier": "standard", "num_cached_tokens": 3}
    choice = {"index": 0, "message": {"role": "assistant", "content": content, "tool_calls": None}, "finish_reason": "model_length"}
    return json.dumps({"id": "x", "object": "chat.completion", "model": "m", "created": 5, "choices": [choice], "usage": usage}).encode()


def test_content_list_of_a_whole_response_becomes_openai_text_and_reasoning():
    edited = DIALECT.edit_response(response_bytes(CONTENT), META)
    message = json.loads(edited.raw)["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"], message["content_chunks"]) == ("It is so.", "Hm", CONTENT)
    assert "content_chunks" not in json.loads(DIALECT.edit_response(response_bytes(CONTENT[:2]), META).raw)["choices"][0]["message"]
    assert json.loads(DIALECT.edit_response(response_bytes([THINKING]), META).raw)["choices"][0]["message"]["content"] is None
    assert (edited.finish_reason, edited.usage) == ("length", Usage(5, 7, cached=3))
    assert json.loads(edited.raw)["usage"]["prompt_tokens_details"] == {"cached_tokens": 3}


CHUNKS = [
    chunk([chunk_choice(role="assistant", content="")]),
    chunk([chunk_choice(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}])], p="abc"),
    chunk(
        [
            chunk_choice(
                content=[{"type": "thinking", "thinking": [{"type": "text", "text": "."}], "closed": True}, {"type": "text", "text": "It"}]
            )
        ]
    ),
    chunk([chunk_choice(content=" is")], p="abcdef"),
    chunk([chunk_choice(content=" so.")], p="ab"),
    # A tool call in two pieces, the first of them without an index.
    chunk([chunk_choice(tool_calls=[{"id": "7QjFNcS8z", "function": {"name": "add", "arguments": '{"a": '}}])]),
    chunk([chunk_choice(tool_calls=[{"id": "7QjFNcS8z", "function": {"name": "", "arguments": "1}"}, "index": 0}])]),
    chunk([chunk_choice(0, "tool_calls", content="")], usage={"prompt_tokens": 5, "completion_tokens": 7, "service_tier": "priority"}),
]
STREAM = b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in CHUNKS) + b"data: [DONE]\n\n"


@bounded
@given(st.data())
def test_stream_of_mixed_lists_and_texts_becomes_openai_deltas(data: st.DataObject):
    editor = DIALECT.stream_editor(META)
    edited = b"".join([editor.feed(block) for block in data.draw(byte_splits(STREAM))]) + editor.finish()
    deltas = [each["choices"][0]["delta"] for each in parse_sse_chunks(edited)]
    assert all(isinstance(each.get("content", ""), str) for each in deltas)
    assert "".join(each.get("content", "") for each in deltas) == "It is so."
    assert "".join(each.get("reasoning_content", "") for each in deltas) == "Hm."
    assert [each["tool_calls"][0].get("function", {}).get("name") for each in deltas if "tool_calls" in each] == ["add", None]
    assert editor.usage == Usage(5, 7, tier="priority")


def test_stream_is_read_into_reasoning_text_and_a_tool_call():
    reader = DIALECT.stream_reader()
    response = assemble_response([*reader.feed(STREAM), *reader.finish()])
    reasoning, text, call = response.choices[0].parts
    assert reasoning == Reasoning("Hm.")
    assert [getattr(each, key) for each, key in ((text, "text"), (call, "id"), (call, "arguments"))] == [
        "It is so.",
        "7QjFNcS8z",
        '{"a": 1}',
    ]


FAILURES: list[tuple[dict[str, Any], str]] = [
    ({"object": "error", "message": "Service unavailable.", "type": "internal_server_error", "param": None, "code": "1700"}, "unavailable"),
    (chunk([chunk_choice(0, "error", content="")], usage={"prompt_tokens": 5, "completion_tokens": 7}), "aborted its response"),
]


@pytest.mark.parametrize(("failure", "message"), FAILURES)
def test_stream_error_is_raised_after_the_parts_before_it(failure: Any, message: str):
    stream = b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in (*CHUNKS[:4], failure))
    reader = DIALECT.stream_reader()
    received: list[Event] = []
    with pytest.raises(UpstreamError, match=message):
        for event in reader.feed(stream):
            received.append(event)
    assert assemble_response(received).choices[0].parts[-1] == Text("It is")


def test_retry_after_of_a_429_is_kept():
    body = json.dumps({"object": "error", "message": "Requests rate limit exceeded", "type": "rate_limited", "code": "1300"}).encode()
    assert MISTRAL.read_error(429, {"retry-after": "7"}, body).retry_after_s == 7


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (400, {"object": "error", "message": "Invalid model: x", "type": "invalid_model", "code": "1500"}, UpstreamNotFound, "1500"),
        (
            400,
            {"object": "error", "message": "Unexpected role", "type": "invalid_request_message_order", "code": "3230"},
            UpstreamRejected,
            "3230",
        ),
        (401, {"detail": "Invalid API Key"}, CredentialRefused, None),
        (
            422,
            {"detail": [{"loc": ["body", "x"], "msg": "Extra inputs are not permitted", "type": "extra_forbidden"}]},
            UpstreamRejected,
            None,
        ),
        (429, {"object": "error", "message": "Requests rate limit exceeded", "type": "rate_limited", "code": "1300"}, Overloaded, "1300"),
    ],
)
def test_errors_are_classified_by_status_and_code(status: int, body: Any, kind: type[UpstreamError], code: str | None):
    error = MISTRAL.read_error(status, {}, json.dumps(body).encode())
    assert (type(error), error.upstream_status) == (kind, status) and code in (None, error.upstream_code)
    assert any(word in error.message for word in ("Invalid", "Unexpected", "Extra", "limit"))


@pytest.mark.parametrize(
    ("format", "how"),
    [
        ({"type": "json_object"}, "enforced"),
        ({"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}, "strict": True}}, "enforced"),
        ({"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}, "validated"),
    ],
)
def test_json_object_and_strict_schemas_are_trusted_and_others_validated(format: Any, how: str):
    body, _, constraint_plan = adapt_body(MISTRAL, {"messages": [HI], "response_format": format})
    assert constraint_plan is not None and (constraint_plan.enforcement, body["response_format"]) == (how, format)


def test_embedding_dimensions_become_output_dimension():
    request = OpenAIEmbeddings().parse_request(
        json.dumps({"model": "m", "input": ["a"], "dimensions": 2, "encoding_format": "base64", "user": "u"}).encode()
    )
    translated = translate_request(request, MISTRAL, Target("it", "codestral-embed"))
    assert json.loads(translated.raw) == {"model": "codestral-embed", "input": ["a"], "output_dimension": 2} and translated.dropped == [
        "user"
    ]
    for unsupported in ({"input": [1, 2]}, {"messages": [HI]}):
        with pytest.raises(Unsupported):
            MISTRAL.adapt_request(Body.read(json.dumps(unsupported).encode()), "openai_embeddings", drop_nothing)


def test_urls_are_below_v1():
    assert str(MISTRAL.url("http://127.0.0.1:9/some/prefix", "openai_chat")) == "http://127.0.0.1:9/some/prefix/v1/chat/completions"
    assert str(MISTRAL.url("https://api.mistral.ai/v1", "openai_embeddings")) == "https://api.mistral.ai/v1/embeddings"


def test_logprobs_are_sent_when_the_operator_accepts_them():
    body, dropped, _ = adapt_body(
        Mistral("it", {"accepts": ["logprobs", "top_logprobs"]}), {"messages": [HI], "logprobs": True, "top_logprobs": 2}
    )
    assert (body["logprobs"], body["top_logprobs"], dropped) == (True, 2, [])
