"""Every answer and every event of a stream is what typed clients accept: closed enums, required fields, no null where there is none."""

import json
from typing import Any

import pytest
from anthropic.types import ErrorResponse
from pydantic import TypeAdapter

from app.api.callers.models import anthropic_model, openai_model
from app.gateway.routing.model_facts import ModelFacts, Pricing
from providers.canonical import errors
from providers.canonical.errors import NarthexError
from providers.canonical.events import response_events
from providers.dialect import ResponseMeta
from providers.dialects.catalogue import CALLER_DIALECTS, CHAT_DIALECTS
from tests.conformance.published_schemas import ANTHROPIC, OPENAI, schema_errors
from tests.conformance.response_cells import CELLS, Cell, caller_and_target, situation_name, translations
from tests.conformance.strict_shapes import ANTHROPIC_MODEL, COMPLETE, OPENAI_MODEL, STREAMED, response_errors, shape_errors
from tests.support.case_tables import one_test_per_group

META = ResponseMeta("01990000-0000-7000-8000-00000000000a", "01990000-0000-7000-8000-00000000000b", "a name", 1_790_000_000, True)
MODEL_FACTS = ModelFacts(1_790_000_000, 8192, ("chat", "tools"), Pricing("USD", 1_000_000, 0.5, 1.5))
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


@one_test_per_group(CELLS, group=caller_and_target, name=situation_name)
def test_response_has_the_shape_that_typed_clients_accept(cell: Cell) -> None:
    """Each combination of streamed and unstreamed is checked."""
    for mode, response, streamed in translations(cell):
        found = response_errors(cell.caller, response, streamed=streamed, written_by_engine=cell.caller == cell.target)
        assert found == [], mode


MESSAGE = {"role": "assistant", "content": "Hi", "refusal": None}
CHAT = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop", "logprobs": None}],
    "service_tier": None,
}
CHUNK = {
    "id": "1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}],
}
POSITION = {"item_id": "1", "output_index": 0, "content_index": 0}
EVENT: dict[str, Any] = {"type": "response.output_text.done", **POSITION, "text": "", "logprobs": []}
STOP = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 1}}


@pytest.mark.parametrize(
    ("shape", "value", "path", "wrong"),
    [
        (COMPLETE["openai_chat"], CHAT, ("service_tier",), ""),
        (COMPLETE["openai_chat"], CHAT, ("created",), 1.5),
        (COMPLETE["openai_chat"], CHAT, ("choices", 0, "finish_reason"), "eos_token"),
        (COMPLETE["openai_chat"], CHAT, ("choices", 0, "finish_reason"), None),
        (COMPLETE["openai_chat"], CHAT, ("choices", 0, "index"), 0.0),
        (COMPLETE["openai_chat"], CHAT, ("choices", 0, "message", "role"), "model"),
        (COMPLETE["openai_chat"], CHAT, ("choices", 0, "message", "refusal"), ...),
        (STREAMED["openai_chat"], CHUNK, ("choices", 0, "finish_reason"), ""),
        (STREAMED["openai_chat"], CHUNK, ("choices", 0, "delta"), None),
        (STREAMED["openai_chat"], CHUNK, ("object",), "chat.completion"),
        (STREAMED["openai_responses"], {**EVENT, "sequence_number": 1}, ("sequence_number",), ...),
        (STREAMED["openai_responses"], {**EVENT, "sequence_number": 1}, ("type",), "response.output_text.ended"),
        (STREAMED["anthropic_messages"], STOP, ("delta", "stop_reason"), "stop"),
        (STREAMED["anthropic_messages"], STOP, ("usage", "output_tokens"), ...),
    ],
)
def test_wrong_value_is_found(shape: Any, value: Any, path: tuple[Any, ...], wrong: Any) -> None:
    """Each of these values has reached callers of some gateway; `...` means that the field is missing."""
    changed = json.loads(json.dumps(value))
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    if wrong is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = wrong
    assert shape_errors(shape, value) == []
    assert shape_errors(shape, changed) != []


def _engine_response(dialect: str, tier: str) -> dict[str, Any]:
    match dialect:
        case "openai_chat":
            return {**CHAT, "service_tier": tier, "usage": USAGE}
        case "openai_completions":
            choice = {"index": 0, "text": "Hi", "finish_reason": "stop", "logprobs": None}
            return {"id": "1", "object": "text_completion", "created": 1, "model": "m", "choices": [choice], "service_tier": tier}
        case "openai_responses":
            return {
                "id": "1",
                "object": "response",
                "created_at": 1,
                "model": "m",
                "status": "completed",
                "output": [],
                "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
                "service_tier": tier,
            }
        case _:
            usage = {"input_tokens": 1, "output_tokens": 1, "service_tier": tier}
            content = [{"type": "text", "text": "Hi"}]
            return {
                "id": "1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": content,
                "stop_reason": "end_turn",
                "usage": usage,
            }


def _engine_events(dialect: str, tier: str) -> list[dict[str, Any]]:
    whole = _engine_response(dialect, tier)
    match dialect:
        case "openai_chat":
            return [
                {**CHUNK, "service_tier": tier},
                {**CHUNK, "service_tier": tier, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            ]
        case "openai_completions":
            return [whole]
        case "openai_responses":
            return [{"type": f"response.{status}", "response": {**whole, "status": status}} for status in ("in_progress", "completed")]
        case _:
            start: Any = {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
            return [start, STOP, {"type": "message_stop"}]


@pytest.mark.parametrize("tier", ["", "on_demand"])
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_completions", "openai_responses", "anthropic_messages"])
def test_service_tier_that_no_api_has_reaches_no_caller(dialect: str, tier: str) -> None:
    """The tier is removed even where the engine speaks the caller's own API."""
    edited = CALLER_DIALECTS[dialect].edit_response(json.dumps(_engine_response(dialect, tier)).encode(), META).raw
    editor = CALLER_DIALECTS[dialect].stream_editor(META)
    done = b"data: [DONE]\n\n" if dialect in ("openai_chat", "openai_completions") else b""
    wire = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in _engine_events(dialect, tier)) + done
    stream = editor.feed(wire) + editor.finish()
    for body, streamed in ((edited, False), (stream, True)):
        assert response_errors(dialect, body, streamed=streamed, written_by_engine=True) == []
        assert json.dumps(tier).encode() not in body.replace(b'"system_fingerprint":""', b"")


@pytest.mark.parametrize("caller", ["openai_chat", "openai_responses", "openai_completions"])
def test_logprobs_of_a_completion_have_the_shape_that_typed_clients_accept(caller: str) -> None:
    columns = {"tokens": ["Hi"], "token_logprobs": [-0.5], "top_logprobs": [{"Hi": -0.5, "Ho": -1.5}], "text_offset": [0]}
    choice = {"index": 0, "text": "Hi", "finish_reason": "stop", "logprobs": columns}
    body = {"id": "1", "object": "text_completion", "created": 1, "model": "m", "choices": [choice], "usage": USAGE}
    completions, dialect = CHAT_DIALECTS["openai_completions"], CHAT_DIALECTS[caller]
    response = completions.read_response(json.dumps(body).encode())
    writer = dialect.stream_writer(META)
    stream = b"".join([writer.feed(event) for event in response_events(response)]) + writer.finish()
    assert response_errors(caller, dialect.write_response(response, META), streamed=False) == []
    assert response_errors(caller, stream, streamed=True) == []


def test_embeddings_and_counts_have_the_shape_that_typed_clients_accept() -> None:
    embeddings = {"data": [{"embedding": [0.5], "index": 0}], "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}
    uncounted = {"data": [{"embedding": [0.5]}]}
    answers = [("openai_embeddings", embeddings), ("openai_embeddings", uncounted), ("anthropic_count_tokens", {"input_tokens": 3})]
    for dialect, body in answers:
        edited = CALLER_DIALECTS[dialect].edit_response(json.dumps(body).encode(), META)
        assert response_errors(dialect, edited.raw, streamed=False) == []


def test_models_have_the_shape_that_typed_clients_accept() -> None:
    assert shape_errors(OPENAI_MODEL, openai_model("a name", MODEL_FACTS)) == []
    assert shape_errors(ANTHROPIC_MODEL, anthropic_model("a name", MODEL_FACTS)) == []


def _all_errors() -> list[NarthexError]:
    """Returns one error of each class whose constructor takes just a message."""
    found: list[NarthexError] = []
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, NarthexError):
            try:
                found.append(kind("A message."))
            except TypeError:
                continue
    return found


@pytest.mark.parametrize("error", _all_errors(), ids=lambda error: type(error).__name__)
def test_error_has_the_shape_that_typed_clients_accept(error: NarthexError) -> None:
    """The shape holds but for OpenAI's `code`, which is the status: the hosted gateway documents a number."""
    ours = json.loads(CALLER_DIALECTS["openai_chat"].write_error(error))
    with_text = {"error": {**ours["error"], "code": str(ours["error"]["code"])}}
    assert schema_errors(OPENAI, "ErrorResponse", with_text, lenient=False) == []
    anthropic = json.loads(CALLER_DIALECTS["anthropic_messages"].write_error(error))
    if error.status == 413:
        assert anthropic["error"]["type"] == "request_too_large"  # documented, and not in the types of the SDK
        return
    TypeAdapter(ErrorResponse).validate_python(anthropic, strict=True)
    assert schema_errors(ANTHROPIC, "ErrorResponse", anthropic, lenient=True) == []
