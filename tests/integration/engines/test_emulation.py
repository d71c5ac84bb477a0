"""The gateway itself does what a target cannot, through the whole service: stop sequences, one call, several choices, prompts.

Other requests are refused with the names of the models that would take them.
"""

import asyncio
import contextlib
import json
from typing import Any

import httpx2
import openai
import pytest

from app.domain import uuid7
from tests.integration.limits.test_charges_after_disconnect import record_after
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk, completion, stream_script

HI: Any = [{"role": "user", "content": "Hi"}]
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}} for name in ("one", "two")
]
CALLS = [
    {"index": at, "id": f"c{at}", "type": "function", "function": {"name": name, "arguments": "{}"}}
    for at, name in enumerate(("one", "two"))
]
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


@pytest.fixture(scope="module", autouse=True)
async def models(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    """mini: takes no stop sequences, and streams alone. lmdeploy: one choice. sglang: several calls all the same. chats: no completions."""
    url = f"http://127.0.0.1:{engines[0].port}"
    service.apply(f"""
        [providers]
        emulated-mini = {{ adapter = "mini_sglang", base_url = "{url}" }}
        emulated-lmdeploy = {{ adapter = "lmdeploy", base_url = "{url}", options = {{ version = "0.12.0" }} }}
        emulated-goes-on = {{ adapter = "mini_sglang", base_url = "{url}", options = {{ stops_on_disconnect = "never" }} }}
        emulated-sglang = {{ adapter = "sglang", base_url = "{url}" }}
        emulated-unknown = {{ adapter = "openai", base_url = "{url}/v1" }}
        emulated-chats = {{ adapter = "groq", base_url = "{url}/v1", options = {{ stream = "only" }} }}
        [models]
        chats = {{ targets = [{{ provider = "emulated-chats", model = "engine-model" }}] }}
        mini = {{ targets = [{{ provider = "emulated-mini", model = "engine-model" }}] }}
        unknown = {{ targets = [{{ provider = "emulated-unknown", model = "engine-model" }}] }}
        lmdeploy = {{ targets = [{{ provider = "emulated-lmdeploy", model = "engine-model" }}] }}
        goes-on = {{ targets = [{{ provider = "emulated-goes-on", model = "engine-model" }}] }}
        sglang = {{ targets = [{{ provider = "emulated-sglang", model = "engine-model" }}] }}
    """)


def text_stream(*pieces: str, reason: str = "length") -> Any:
    return stream_script(
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": piece}) for piece in pieces),
        chunk({}, reason),
        chunk(None, usage=USAGE),
    )


@pytest.mark.parametrize("streamed", [True, False])
async def test_response_ends_at_a_stop_sequence_that_the_engine_never_saw(
    sdk: openai.AsyncOpenAI, engine: ScriptedEngine, service: Service, streamed: bool
):
    engine.script = text_stream("Let me look.\nObs", "ervation: it", " is raining", " cats and dogs")
    if streamed:
        stream = await sdk.chat.completions.create(
            model="mini", messages=HI, stop=["\nObservation:"], stream=True, stream_options={"include_usage": True}
        )
        chunks = [each async for each in stream]
        text = "".join(choice.delta.content or "" for each in chunks for choice in each.choices)
        reasons = [choice.finish_reason for each in chunks for choice in each.choices if choice.finish_reason]
        usage = next(each.usage for each in chunks if each.usage)
        id = chunks[0].id
    else:
        response = await sdk.chat.completions.with_raw_response.create(model="mini", messages=HI, stop=["\nObservation:"])
        assert response.headers["x-narthex-emulated"] == "stop"
        parsed: Any = response.parse()
        text, reasons, usage, id = parsed.choices[0].message.content, [parsed.choices[0].finish_reason], parsed.usage, parsed.id
    assert (text, reasons) == ("Let me look.", ["stop"])
    assert usage is not None and usage.completion_tokens > 0 and getattr(usage, "estimated", False)
    assert "stop" not in engine.requests[-1].body
    record = await service.wait_for_record(id)
    assert (record["emulated"], record["dropped"], record["charge_basis"]) == (["stop"], None, "received")


@pytest.mark.parametrize("streamed", [True, False])
async def test_one_call_is_passed_on_where_the_engine_makes_several(sdk: Any, engine: ScriptedEngine, service: Service, streamed: bool):
    async def respond(request: ReceivedRequest) -> None:
        if request.body.get("stream"):
            await stream_script(chunk({"role": "assistant", "tool_calls": CALLS}), chunk({}, "tool_calls"), chunk(None, usage=USAGE))(
                request
            )
        else:
            await request.respond(200, json.dumps(completion(None, tool_calls=CALLS)).encode())

    engine.script = respond
    fields: Any = {"model": "sglang", "messages": HI, "tools": TOOLS, "parallel_tool_calls": False}
    if streamed:
        chunks = [each async for each in await sdk.chat.completions.create(**fields, stream=True)]
        calls = [call for each in chunks for choice in each.choices for call in choice.delta.tool_calls or () if call.id]
        names, id = [call.function and call.function.name for call in calls], chunks[0].id
    else:
        response = await sdk.chat.completions.with_raw_response.create(**fields)
        assert response.headers["x-narthex-emulated"] == "parallel_tool_calls (1 withheld)"
        parsed: Any = response.parse()
        names, id = [call.function.name for call in parsed.choices[0].message.tool_calls or ()], parsed.id
    assert names == ["one"] and "parallel_tool_calls" not in engine.requests[-1].body
    assert (await service.wait_for_record(id))["emulated"] == ["parallel_tool_calls (1 withheld)"]


@pytest.mark.parametrize("streamed", [True, False])
async def test_several_choices_are_several_requests(sdk: Any, engine: ScriptedEngine, service: Service, streamed: bool):
    async def respond(request: ReceivedRequest) -> None:
        text = f"seed {request.body['seed']}"
        if request.body.get("stream"):
            await stream_script(chunk({"role": "assistant", "content": text}), chunk({}, "stop"), chunk(None, usage=USAGE))(request)
        else:
            await request.respond_completion(text)

    engine.script = respond
    fields: Any = {"model": "lmdeploy", "messages": HI, "n": 3, "seed": 1}
    if streamed:
        texts = ["", "", ""]
        usages: list[Any] = []
        id = ""
        async for each in await sdk.chat.completions.create(**fields, stream=True, stream_options={"include_usage": True}):
            id = each.id
            usages += [each.usage] if each.usage else []
            for choice in each.choices:
                texts[choice.index] += choice.delta.content or ""
        (usage,) = usages
    else:
        response = await sdk.chat.completions.with_raw_response.create(**fields)
        assert response.headers["x-narthex-emulated"] == "n"
        parsed: Any = response.parse()
        texts, usage, id = [choice.message.content or "" for choice in parsed.choices], parsed.usage, parsed.id
    assert texts == ["seed 1", "seed 2", "seed 3"] and usage is not None and (usage.prompt_tokens, usage.completion_tokens) == (9, 6)
    assert len(engine.requests) == 3 and not any("n" in request.body for request in engine.requests)
    record = await service.wait_for_record(id)
    assert (record["emulated"], record["charged_input"], record["charged_output"], record["charge_basis"]) == (["n"], 9, 6, "reported")


async def test_failure_of_one_choice_is_the_failure_of_the_request(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    async def respond(request: ReceivedRequest) -> None:
        if request.body["seed"] == 2:
            await request.respond(400, b'{"message": "too long", "object": "error"}')
        else:
            await request.respond_completion("Hi")

    engine.script = respond
    with pytest.raises(openai.BadRequestError, match="too long"):
        await sdk.chat.completions.create(model="lmdeploy", messages=HI, n=3, seed=1)


async def test_choices_that_came_are_charged_when_another_fails_and_the_failed_request_is_named(
    sdk: openai.AsyncOpenAI, engine: ScriptedEngine, service: Service
):
    async def respond(request: ReceivedRequest) -> None:
        if request.body["seed"] == 2:
            await wait_until(lambda: answered == {1, 3})
            await request.respond(500, b'{"message": "broken", "object": "error"}', "x-request-id: second\r\n")
        else:
            await request.respond(200, json.dumps(completion("Hi")).encode(), f"x-request-id: {request.body['seed']}\r\n")
            answered.add(request.body["seed"])

    answered: set[int] = set()
    engine.script = respond
    with pytest.raises(openai.InternalServerError, match="broken") as failed:
        await sdk.chat.completions.create(model="lmdeploy", messages=HI, n=3, seed=1)
    body: Any = failed.value.body
    assert body["details"]["provider_request_id"] == "second"
    record = await service.wait_for_record(failed.value.response.headers["x-narthex-inference-id"])
    assert record["attempts"][0]["request_id"] == "second"
    assert (record["charged_input"], record["charged_output"], record["charge_basis"]) == (6, 4, "reported")


async def test_disconnect_before_the_first_choice_is_charged_for_each_request_that_was_sent(service: Service, engine: ScriptedEngine):
    async def respond(request: ReceivedRequest) -> None:
        await asyncio.wait_for(request.disconnected.wait(), 60)

    engine.script = respond
    body = {"model": "lmdeploy", "messages": HI, "max_tokens": 10}
    charged: list[int] = []
    for n in (1, 3):
        engine.requests.clear()
        first_id = uuid7.mint()
        async with service.client() as client:
            pending = asyncio.create_task(client.post("/v1/chat/completions", json={**body, "n": n}))
            await wait_until(lambda n=n: len(engine.requests) == n)
            pending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await pending
        charged.append((await record_after(service, first_id))["charged_input"])
    assert charged[0] > 0 and charged[1] == 3 * charged[0]


async def test_usage_that_no_choice_reports_is_estimated_for_each(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, service: Service):
    engine.script = stream_script(chunk({"role": "assistant", "content": "Hi"}), chunk({}, "stop"))
    one = await sdk.chat.completions.create(model="mini", messages=HI)
    three = await sdk.chat.completions.create(model="mini", messages=HI, n=3)
    assert one.usage is not None and three.usage is not None
    assert 3 * one.usage.prompt_tokens <= three.usage.prompt_tokens < 4 * one.usage.prompt_tokens  # the body is longer by its `n`
    record = await service.wait_for_record(three.id)
    assert (record["charged_input"], record["charged_output"]) == (three.usage.prompt_tokens, 3)
    assert record["charge_basis"] == "received"


@pytest.mark.parametrize("streamed", [True, False])
async def test_response_cut_at_a_host_that_goes_on_is_charged_what_was_reserved(
    sdk: openai.AsyncOpenAI, engine: ScriptedEngine, service: Service, streamed: bool
):
    async def respond(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(chunk({"role": "assistant", "content": "one two three"}))
        await asyncio.wait_for(request.disconnected.wait(), 60)

    engine.script = respond
    if streamed:
        stream = await sdk.chat.completions.create(model="goes-on", messages=HI, stop="two", max_tokens=500, stream=True)
        (id,) = {each.id async for each in stream}
    else:
        id = (await sdk.chat.completions.create(model="goes-on", messages=HI, stop="two", max_tokens=500)).id
    record = await service.wait_for_record(id)
    assert (record["outcome"], record["charged_output"], record["charge_basis"]) == ("answered", 500, "reserved")


async def test_caller_who_leaves_ends_all_requests(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    async def respond(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(chunk({"role": "assistant", "content": "a"}))
        await asyncio.wait_for(request.disconnected.wait(), 60)

    engine.script = respond
    stream = await sdk.chat.completions.create(model="lmdeploy", messages=HI, n=3, stream=True)
    async for _ in stream:
        if len(engine.requests) == 3:
            break
    await stream.close()
    for request in engine.requests:
        await asyncio.wait_for(request.disconnected.wait(), 30)


def call_stream(*pieces: str) -> Any:
    return stream_script(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"))


@pytest.mark.parametrize("streamed", [True, False])
async def test_tools_reach_an_engine_that_has_none_in_its_prompt(sdk: Any, engine: ScriptedEngine, service: Service, streamed: bool):
    engine.script = call_stream("Let me look.\n<tool", '_call>\n{"name": "one", "argu', 'ments": {"city": "Ulm"}}\n</tool_call>')
    fields: Any = {"model": "mini", "messages": HI, "tools": TOOLS}
    if streamed:
        chunks = [each async for each in await sdk.chat.completions.create(**fields, stream=True)]
        deltas = [choice.delta for each in chunks for choice in each.choices]
        text = "".join(delta.content or "" for delta in deltas)
        calls = [call.function for delta in deltas for call in delta.tool_calls or ()]
        called = "".join(call.name or "" for call in calls), "".join(call.arguments or "" for call in calls)
        reasons, id = [choice.finish_reason for each in chunks for choice in each.choices if choice.finish_reason], chunks[0].id
    else:
        response = await sdk.chat.completions.with_raw_response.create(**fields)
        assert response.headers["x-narthex-emulated"] == "tools"
        parsed: Any = response.parse()
        (choice,) = parsed.choices
        (call,) = choice.message.tool_calls
        text, called, reasons, id = choice.message.content, (call.function.name, call.function.arguments), [choice.finish_reason], parsed.id
    assert (text, called, reasons) == ("Let me look.", ("one", '{"city": "Ulm"}'), ["tool_calls"])
    body = engine.requests[-1].body
    assert "tools" not in body and body["messages"][0]["role"] == "system" and '"one"' in body["messages"][0]["content"]
    assert (await service.wait_for_record(id))["emulated"] == ["tools"]


async def test_tool_loop_of_messages_runs_on_an_engine_without_tools(claude: Any, engine: ScriptedEngine):
    async def respond(request: ReceivedRequest) -> None:
        has_result = "Sunny." in request.body["messages"][-1]["content"]
        await (text_stream("It is sunny.") if has_result else call_stream('<tool_call>{"name": "weather", "arguments": {}}'))(request)

    engine.script = respond
    tools = [{"name": "weather", "input_schema": {"type": "object"}}]
    turns: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    async with claude.messages.stream(model="mini", max_tokens=100, messages=turns, tools=tools) as stream:
        first = await stream.get_final_message()
    (call,) = first.content
    assert (first.stop_reason, call.type, call.name, call.input) == ("tool_use", "tool_use", "weather", {})
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "Sunny."}
    turns += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = await claude.messages.create(model="mini", max_tokens=100, messages=turns, tools=tools)
    assert second.content[0].text == "It is sunny."
    assert [message["role"] for message in engine.requests[-1].body["messages"]] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize("streamed", [True, False])
async def test_demanded_call_is_checked_and_repaired_where_the_engine_has_no_tools(sdk: Any, engine: ScriptedEngine, streamed: bool):
    async def respond(request: ReceivedRequest) -> None:
        answers = {1: "I would rather not.", 2: '{"name": "three", "arguments": {}}', 3: '{"name": "two", "arguments": {}}'}
        await call_stream(answers[len(engine.requests)])(request)

    engine.script = respond
    fields: Any = {"model": "mini", "messages": HI, "tools": TOOLS, "tool_choice": "required", "stream": streamed}
    with pytest.raises(openai.APIStatusError, match="it calls no tool"):
        await sdk.chat.completions.create(**fields)
    engine.requests.clear()
    response = await sdk.chat.completions.with_raw_response.create(**fields, extra_headers={"x-narthex-guided-retries": "2"})
    assert response.headers["x-narthex-emulated"] == "tool_choice, tools" and response.headers["x-narthex-guided"] == "validated"
    if streamed:
        deltas = [choice.delta for each in [each async for each in response.parse()] for choice in each.choices]
        names = [call.function.name for delta in deltas for call in delta.tool_calls or () if call.function.name]
    else:
        names = [call.function.name for call in response.parse().choices[0].message.tool_calls]
    assert names == ["two"] and len(engine.requests) == 3
    assert "it calls no tool" in engine.requests[1].body["messages"][-1]["content"]


@pytest.mark.parametrize("streamed", [True, False])
async def test_output_format_is_demanded_and_repaired_where_the_engine_has_none(
    sdk: Any, engine: ScriptedEngine, service: Service, streamed: bool
):
    async def respond(request: ReceivedRequest) -> None:
        answers = {1: ["Gladly: ", "{}"], 2: ["```json\n", '{"city": "Ulm"}', "\n```"]}
        await text_stream(*answers[len(engine.requests)], reason="stop")(request)

    engine.script = respond
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    response_format = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema}}
    fields: Any = {"model": "mini", "messages": HI, "response_format": response_format, "stream": streamed}
    with pytest.raises(openai.APIStatusError, match="response_format"):
        await sdk.chat.completions.create(**fields)
    engine.requests.clear()
    response = await sdk.chat.completions.with_raw_response.create(**fields, extra_headers={"x-narthex-guided-retries": "1"})
    assert response.headers["x-narthex-emulated"] == "response_format" and response.headers["x-narthex-guided"] == "validated"
    if streamed:
        chunks = [each async for each in response.parse()]
        text, id = "".join(choice.delta.content or "" for each in chunks for choice in each.choices), chunks[0].id
    else:
        parsed: Any = response.parse()
        text, id = parsed.choices[0].message.content, parsed.id
    assert text == '{"city": "Ulm"}'
    first, second = (request.body["messages"] for request in engine.requests)
    assert json.dumps(schema) in json.dumps(json.loads(first[0]["content"].partition("\n")[2])) and second[0] == first[0]
    assert second[-2]["content"] == "Gladly: {}"
    record = await service.wait_for_record(id)
    assert (record["emulated"], record["structured_output"]) == (["response_format"], "validated")


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("model", ["lmdeploy", "mini"])
async def test_functions_of_older_clients_are_tools_and_their_call_a_function_call(
    sdk: Any, engine: ScriptedEngine, model: str, streamed: bool
):
    async def respond(request: ReceivedRequest) -> None:
        if model == "mini":
            written = "".join(f'<tool_call>{{"name": "{name}", "arguments": {{}}}}</tool_call>' for name in ("one", "two"))
            await call_stream(written)(request)
        elif request.body.get("stream"):
            await stream_script(chunk({"role": "assistant", "tool_calls": CALLS}), chunk({}, "tool_calls"))(request)
        else:
            await request.respond(200, json.dumps(completion(None, tool_calls=CALLS)).encode())

    engine.script = respond
    turns: list[Any] = [*HI, {"role": "assistant", "content": None, "function_call": {"name": "one", "arguments": "{}"}}]
    turns += [{"role": "function", "name": "one", "content": "Result."}]
    fields: Any = {"model": model, "messages": turns, "functions": [tool["function"] for tool in TOOLS]}
    if streamed:
        chunks = [each async for each in await sdk.chat.completions.create(**fields, stream=True)]
        deltas = [choice.delta for each in chunks for choice in each.choices]
        called = [(delta.function_call.name, delta.function_call.arguments) for delta in deltas if delta.function_call]
        others = [call.function.name for delta in deltas for call in delta.tool_calls or () if call.function.name]
        reasons = [choice.finish_reason for each in chunks for choice in each.choices if choice.finish_reason]
    else:
        (choice,) = (await sdk.chat.completions.create(**fields)).choices
        called = [(choice.message.function_call.name, choice.message.function_call.arguments)]
        others, reasons = [call.function.name for call in choice.message.tool_calls], [choice.finish_reason]
    assert "".join(name or "" for name, _ in called) == "one" and "".join(arguments or "" for _, arguments in called) == "{}"
    assert (others, reasons) == (["two"], ["function_call"])
    body = engine.requests[-1].body
    assert "functions" not in body
    if model == "lmdeploy":
        assert [tool["function"]["name"] for tool in body["tools"]] == ["one", "two"]
        assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("streamed", [True, False])
async def test_completion_reaches_a_host_that_has_chats_alone(sdk: Any, engine: ScriptedEngine, streamed: bool):
    engine.script = text_stream("Once", " upon")
    fields: Any = {"model": "chats", "prompt": "Tell me a story.", "max_tokens": 20}
    if streamed:
        text = "".join([choice.text async for each in await sdk.completions.create(**fields, stream=True) for choice in each.choices])
    else:
        response = await sdk.completions.with_raw_response.create(**fields)
        assert response.headers["x-narthex-emulated"] == "prompt"
        text = response.parse().choices[0].text
    assert text == "Once upon"
    assert engine.requests[-1].body["messages"] == [{"role": "user", "content": "Tell me a story."}]


async def test_several_prompts_for_a_host_that_has_chats_alone_are_answered_in_order(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    async def respond(request: ReceivedRequest) -> None:
        await text_stream(request.body["messages"][0]["content"].upper())(request)

    engine.script = respond
    response = await sdk.completions.create(model="chats", prompt=["a", "b", "c"], max_tokens=5)
    assert [(choice.index, choice.text) for choice in response.choices] == [(0, "A"), (1, "B"), (2, "C")]
    assert response.usage is not None and response.usage.prompt_tokens == 9


async def test_fields_that_cannot_be_emulated_are_refused_by_name(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        await sdk.completions.create(model="mini", prompt="Hi", max_tokens=5, stop=["x"], echo=True)
    assert refused.value.param in ("echo", "stop")
    assert engine.requests == []


STRICT: Any = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}


@pytest.mark.parametrize("model", ["lmdeploy", "unknown"])
@pytest.mark.parametrize("streamed", [True, False])
async def test_calls_of_strict_tools_are_validated_and_repaired_where_the_engine_may_ignore_strict(
    sdk: Any, engine: ScriptedEngine, service: Service, streamed: bool, model: str
):
    async def respond(request: ReceivedRequest) -> None:
        arguments = '{"city": 5}' if len(engine.requests) == 1 else '{"city": "Ulm"}'
        call = {"index": 0, "id": "c", "type": "function", "function": {"name": "weather", "arguments": arguments}}
        if request.body.get("stream"):
            await stream_script(chunk({"role": "assistant", "tool_calls": [call]}), chunk({}, "tool_calls"), chunk(None, usage=USAGE))(
                request
            )
        else:
            await request.respond(200, json.dumps(completion(None, tool_calls=[call])).encode())

    engine.script = respond
    tool = {"type": "function", "function": {"name": "weather", "strict": True, "parameters": STRICT}}
    fields: Any = {"model": model, "messages": HI, "tools": [tool]}
    with pytest.raises(openai.APIStatusError, match="failed validation"):
        await sdk.chat.completions.create(**fields, stream=streamed)
    engine.requests.clear()
    headers = {"x-narthex-guided-retries": "1"}
    response = await sdk.chat.completions.with_raw_response.create(**fields, stream=streamed, extra_headers=headers)
    assert response.headers["x-narthex-emulated"] == "tools[0].function.strict" and response.headers["x-narthex-guided"] == "validated"
    if streamed:
        chunks = [each async for each in response.parse()]
        arguments = "".join(call.function.arguments for each in chunks for call in each.choices[0].delta.tool_calls or ()) if chunks else ""
    else:
        arguments = response.parse().choices[0].message.tool_calls[0].function.arguments
    assert json.loads(arguments) == {"city": "Ulm"} and len(engine.requests) == 2


async def test_tokens_that_no_host_counts_are_estimated(client: httpx2.AsyncClient, engine: ScriptedEngine, service: Service):
    body = {"model": "mini", "messages": [{"role": "user", "content": "word " * 300}]}
    answer = await client.post("/v1/messages/count_tokens", json=body)
    assert answer.status_code == 200 and answer.headers["x-narthex-emulated"] == "input_tokens", answer.text
    assert 300 <= answer.json()["input_tokens"] <= 700
    assert engine.requests == []
    record = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (record["emulated"], record["served_provider"], record["charged_input"]) == (["input_tokens"], None, 0)


@pytest.mark.parametrize(
    ("usable", "named"),
    [
        (("mini", "lmdeploy", "sglang"), "Of the models that this key may use, these take it: sglang."),
        (("mini",), "No other model that this key may use takes the request as it is."),
    ],
)
async def test_refusal_names_the_models_of_the_key_that_take_the_request(
    service: Service, engine: ScriptedEngine, usable: tuple[str, ...], named: str
):
    restricted = [word for model in usable for word in ("--model", model)]
    created = await asyncio.to_thread(service.run, "keys", "create", "--team", "few models", *restricted, "--quiet")
    async with service.client(headers={"authorization": f"Bearer {created.stdout.strip()}"}) as client:
        refused = await client.post("/v1/chat/completions", json={"model": "mini", "messages": HI, "logit_bias": {"1": 5}})
    error = refused.json()["error"]
    assert (refused.status_code, error["param"]) == (422, "logit_bias")
    assert error["message"].endswith(named) and "`x-narthex-drop: logit_bias`" in error["message"] and "option `drop`" in error["message"]
    assert engine.requests == []
