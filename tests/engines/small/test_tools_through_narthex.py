"""Tools on the small engines: required tools are called with valid arguments in each API; unsupported tools are refused."""

import json
from typing import Any

import anthropic
import jsonschema
import openai
import pytest

from tests.engines.constraint_samples import BOOKING
from tests.engines.small.constraint_callers import HI
from tests.engines.tool_loops import TOOL_LOOPS
from tests.engines.vllm.running_vllm import Engine

pytestmark = pytest.mark.engines

# Only keywords that both schema converters support.
SEAT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"row": {"type": "string", "pattern": r"^\d{2}$"}, "side": {"enum": ["left", "right"]}},
    "required": ["row", "side"],
    "additionalProperties": False,
}
NAMED_TOOL_CHOICE = {"type": "function", "function": {"name": "seat"}}


def tool(name: str, parameters: dict[str, Any] = SEAT_SCHEMA, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "Does it.", "parameters": parameters, **more}}


def responses_tool(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name, "description": "Does it.", "parameters": SEAT_SCHEMA, "strict": True}


def assert_seat(arguments: str) -> None:
    jsonschema.validate(json.loads(arguments), SEAT_SCHEMA)


BOTH_LLAMACPP_ENGINES = pytest.mark.parametrize("engine", ["llamacpp", "llamacpp_python"])


@BOTH_LLAMACPP_ENGINES
@pytest.mark.parametrize("strict", [True, None], ids=["strict", "not strict"])
def test_named_tool_choice_calls_only_that_tool(request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str, strict: bool | None):
    request.getfixturevalue(engine)
    tools = [tool("book", BOOKING), tool("seat", strict=strict)]
    answer = caller.chat.completions.create(
        model=engine, messages=HI, extra_body={"tools": tools, "tool_choice": NAMED_TOOL_CHOICE, "max_tokens": 2000, "seed": 3}
    )
    calls: list[Any] = answer.choices[0].message.tool_calls or []
    assert {call.function.name for call in calls} == {"seat"}
    assert_seat(calls[0].function.arguments)


@BOTH_LLAMACPP_ENGINES
def test_streamed_tool_call_can_be_assembled(request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str):
    request.getfixturevalue(engine)
    extra = {"tools": [tool("seat", strict=True)], "tool_choice": NAMED_TOOL_CHOICE, "max_tokens": 2000, "seed": 3}
    with caller.chat.completions.create(model=engine, messages=HI, stream=True, extra_body=extra) as chunks:
        pieces: list[Any] = [piece for chunk in chunks for choice in chunk.choices for piece in choice.delta.tool_calls or ()]
    first = [piece for piece in pieces if piece.index == 0]
    assert "".join(piece.function.name or "" for piece in first) == "seat"
    assert_seat("".join(piece.function.arguments or "" for piece in first))


@BOTH_LLAMACPP_ENGINES
def test_required_tool_call_works_in_responses(request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str):
    request.getfixturevalue(engine)
    create: Any = caller.responses.create
    answer = create(model=engine, input="hi", tools=[responses_tool("seat")], tool_choice="required", max_output_tokens=2000)
    [call, *_] = [item for item in answer.output if item.type == "function_call"]
    assert call.name == "seat"
    assert_seat(call.arguments)


@BOTH_LLAMACPP_ENGINES
def test_named_tool_call_works_in_messages(request: pytest.FixtureRequest, anthropic_client: anthropic.Anthropic, engine: str):
    request.getfixturevalue(engine)
    create: Any = anthropic_client.messages.create
    tools = [{"name": "seat", "description": "Does it.", "input_schema": SEAT_SCHEMA, "strict": True}]
    answer = create(model=engine, messages=HI, tools=tools, tool_choice={"type": "tool", "name": "seat"}, max_tokens=2000)
    [call, *_] = [block for block in answer.content if block.type == "tool_use"]
    jsonschema.validate(call.input, SEAT_SCHEMA)


def test_required_tool_choice_is_obeyed_by_llamacpp(llamacpp: Engine, caller: openai.OpenAI):
    extra = {"tools": [tool("seat"), tool("book", BOOKING, strict=True)], "tool_choice": "required", "max_tokens": 4000, "seed": 3}
    calls: list[Any] = caller.chat.completions.create(model="llamacpp", messages=HI, extra_body=extra).choices[0].message.tool_calls or []
    assert calls
    for call in calls:
        jsonschema.validate(json.loads(call.function.arguments), {"seat": SEAT_SCHEMA, "book": BOOKING}[call.function.name])


@pytest.mark.parametrize("choice", ["required", NAMED_TOOL_CHOICE], ids=["required", "named"])
@pytest.mark.parametrize("streamed", [False, True])
def test_demanded_call_is_written_by_llamacpp_python_and_its_result_is_taken(
    llamacpp_python: Engine, caller: openai.OpenAI, choice: Any, streamed: bool
):
    """It has no choice among several tools, but it enforces the schema of a call."""
    tools = [tool("seat", strict=True), tool("book", BOOKING, strict=True)]
    fields: dict[str, Any] = {"tools": tools, "tool_choice": choice, "max_tokens": 4000, "seed": 3}
    create: Any = caller.chat.completions.create
    if streamed:
        with create(model="llamacpp_python", messages=HI, stream=True, extra_body=fields) as chunks:
            pieces = [piece for chunk in chunks for each in chunk.choices for piece in each.delta.tool_calls or ()]
        name = "".join(piece.function.name or "" for piece in pieces)
        id, arguments = pieces[0].id, "".join(piece.function.arguments or "" for piece in pieces)
    else:
        [call] = create(model="llamacpp_python", messages=HI, extra_body=fields).choices[0].message.tool_calls
        id, name, arguments = call.id, call.function.name, call.function.arguments
    jsonschema.validate(json.loads(arguments), {"seat": SEAT_SCHEMA, "book": BOOKING}[name])
    assert choice == "required" or name == "seat"
    called = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    turns: Any = [
        *HI,
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": id, "content": "Done."},
    ]
    raw = caller.chat.completions.with_raw_response.create(
        model="llamacpp_python", messages=turns, extra_body={"tools": tools, "max_tokens": 8}
    )
    assert raw.headers["x-narthex-emulated"] == "tools" and raw.parse().choices[0].finish_reason


@pytest.mark.parametrize("api", TOOL_LOOPS)
def test_strict_call_and_its_result_are_a_loop_in_each_api(
    llamacpp: Engine, caller: openai.OpenAI, anthropic_client: anthropic.Anthropic, api: str
):
    TOOL_LOOPS[api](caller, anthropic_client, "llamacpp")


@pytest.mark.parametrize("engine", ["llamacpp", "llamacpp_python", "transformers"])
def test_tools_that_the_model_may_call_are_taken_in_each_api(
    request: pytest.FixtureRequest, caller: openai.OpenAI, anthropic_client: anthropic.Anthropic, engine: str
):
    request.getfixturevalue(engine)
    chat = caller.chat.completions.create(
        model=engine, messages=HI, extra_body={"tools": [tool("seat"), tool("book", BOOKING)], "max_tokens": 8}
    )
    assert chat.choices[0].finish_reason
    create: Any = caller.responses.create
    assert create(model=engine, input="hi", tools=[responses_tool("seat") | {"strict": False}], max_output_tokens=8).status
    create = anthropic_client.messages.create
    assert create(model=engine, messages=HI, tools=[{"name": "seat", "input_schema": SEAT_SCHEMA}], max_tokens=8).stop_reason


def test_demanded_call_that_was_cut_off_ends_with_length(transformers: Engine, caller: openai.OpenAI):
    """The model is random, so it calls nothing by itself; that a complete response without a call is an error is tested elsewhere."""
    fields = {"tools": [tool("seat")], "tool_choice": "required", "max_tokens": 20}
    raw = caller.chat.completions.with_raw_response.create(model="transformers", messages=HI, extra_body=fields)
    assert (raw.headers["x-narthex-emulated"], raw.parse().choices[0].finish_reason) == ("tool_choice", "length")


def test_several_choices_and_one_call_at_a_time_are_made_by_the_gateway(llamacpp: Engine, caller: openai.OpenAI):
    raw = caller.chat.completions.with_raw_response.create(model="llamacpp", messages=HI, n=3, max_tokens=5, seed=1)
    assert raw.headers["x-narthex-emulated"] == "n" and [choice.index for choice in raw.parse().choices] == [0, 1, 2]
    fields: dict[str, Any] = {"tools": [tool("seat", strict=True)], "tool_choice": "required", "parallel_tool_calls": False}
    raw = caller.chat.completions.with_raw_response.create(model="llamacpp", messages=HI, max_tokens=2000, seed=3, extra_body=fields)
    assert raw.headers["x-narthex-emulated"].startswith("parallel_tool_calls") and len(raw.parse().choices[0].message.tool_calls or ()) == 1


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("llamacpp", {"tools": [tool("a")], "guided_grammar": 'root ::= "a"'}, "tools"),
    ("llamacpp", {"tools": [{"type": "custom", "custom": {"name": "a"}}]}, "tools[0]"),
    ("llamacpp", {"min_tokens": 3}, "min_tokens"),
    ("llamacpp", {"tools": [tool("a")], "logprobs": True}, "logprobs"),
    ("llamacpp_python", {"tools": [tool("a")], "guided_grammar": 'root ::= "a"'}, "tools"),
    ("llamacpp_python", {"ignore_eos": True}, "ignore_eos"),
    (
        "llamacpp_python",
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]},
        "messages[0].content[0]",
    ),
    ("transformers", {"logprobs": True}, "logprobs"),
    ("transformers", {"presence_penalty": 1}, "presence_penalty"),
    ("transformers", {"ignore_eos": True}, "ignore_eos"),
    ("transformers", {"no_such_field": 1}, "no_such_field"),
]


@BOTH_LLAMACPP_ENGINES
def test_tool_choice_without_its_tool_is_a_400(request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str):
    request.getfixturevalue(engine)
    wrong: list[dict[str, Any]] = [
        {"tools": [tool("a")], "tool_choice": NAMED_TOOL_CHOICE},
        {"tool_choice": NAMED_TOOL_CHOICE},
        {"tool_choice": "required"},
    ]
    for fields in wrong:
        with pytest.raises(openai.BadRequestError) as refused:
            caller.chat.completions.create(model=engine, messages=HI, extra_body={"max_tokens": 4, **fields})
        assert refused.value.param == "tool_choice"


@pytest.mark.parametrize(("engine", "fields", "field"), REFUSED, ids=[f"{each[0]}-{each[2]}" for each in REFUSED])
def test_field_the_engine_would_ignore_is_refused_by_name(
    request: pytest.FixtureRequest, caller: openai.OpenAI, engine: str, fields: dict[str, Any], field: str
):
    request.getfixturevalue(engine)
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        caller.chat.completions.create(model=engine, messages=HI, extra_body={"max_tokens": 4, **fields})
    assert refused.value.param == field
    assert "x-narthex-served" not in refused.value.response.headers
