"""Stored responses of /v1/responses with the official SDK: they are read, continued, referenced and deleted."""

import json
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import openai
import pytest
import redis.asyncio
from openai.types.responses import FunctionToolParam, Response, ResponseFunctionToolCall, ResponseInputItemParam

from app.store.teams import keys, teams
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import connections, database_url, paused_processes, process_tree
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, completion, stream_script

RESPONSES = "/v1/responses"
MODELS = ["scripted", "vllm"]  # the first is served in OpenAI chat, the second in Responses
WEATHER: FunctionToolParam = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}


def non_probe_requests(engine: ScriptedEngine) -> list[ReceivedRequest]:
    """Returns the engine's requests without the health checks of the fleet, which have no body."""
    return [request for request in engine.requests if request.body]


def received_history(engine: ScriptedEngine) -> list[tuple[str, str]]:
    """The roles and texts of the engine's last request, in either dialect."""
    return [_role_and_text(each) for each in messages_of(non_probe_requests(engine)[-1])]


def messages_of(request: ReceivedRequest) -> list[dict[str, Any]]:
    messages = request.body.get("messages") or request.body.get("input", [])
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else messages


def _role_and_text(item: dict[str, Any]) -> tuple[str, str]:
    if "tool_calls" in item:
        return "calls", item["tool_calls"][0]["function"]["name"]
    match item.get("type"):
        case "function_call":
            return "calls", item["name"]
        case "function_call_output":
            return "tool", item["output"]
        case _:
            content = item["content"]
            return item["role"], content if isinstance(content, str) else "".join(part["text"] for part in content)


async def respond_counting(request: ReceivedRequest) -> None:
    """Responds "Answer N.", N being the number of user messages; or with a call, if there is a tool and the last message is the user's."""
    messages = messages_of(request)
    text = f"Answer {len([each for each in messages if each.get('role') == 'user'])}."
    calls = bool(request.body.get("tools")) and messages[-1].get("role") == "user"
    if request.path != RESPONSES:
        call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        body = completion(None, tool_calls=[call]) if calls else completion(text)
        await request.respond(200, json.dumps(body).encode())
        return
    content: list[Any] = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "id": f"msg_{uuid.uuid4().hex}", "role": "assistant", "status": "completed", "content": content}
    call = {
        "type": "function_call",
        "id": f"fc_{uuid.uuid4().hex}",
        "call_id": "call_1",
        "name": "weather",
        "arguments": "{}",
        "status": "completed",
    }
    response = {"id": "resp_engine", "object": "response", "created_at": 1750000000, "status": "completed", "model": "engine-model"}
    await request.respond(200, json.dumps({**response, "output": [call if calls else message]}).encode())


@pytest.fixture(autouse=True)
def counting_engine(engine: ScriptedEngine) -> ScriptedEngine:
    engine.script = respond_counting
    return engine


@pytest.fixture
async def other_team_sdk(service: Service) -> AsyncGenerator[openai.AsyncOpenAI]:
    """An SDK with the key of another team."""
    key = await keys.create_key(database_url(service), "others")
    async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key=key, max_retries=0) as sdk:
        yield sdk


async def delete_from_redis(service: Service, id: str) -> bool:
    """Removes a response from Redis, where it expires after an hour; returns whether it was there."""
    lines = (service.home / "run" / "servers").read_text().splitlines()
    url = dict(line.split("=", 1) for line in lines)["REDIS_URL"]
    async with redis.asyncio.Redis.from_url(url) as client:  # pyright: ignore[reportUnknownMemberType]
        return await client.delete(f"nx:r:{id.removeprefix('resp_')}") == 1


@pytest.mark.parametrize("model", MODELS)
async def test_call_that_got_no_result_is_answered_when_its_response_is_continued(
    sdk: openai.AsyncOpenAI, engine: ScriptedEngine, model: str
):
    first = await sdk.responses.create(model=model, input="One?", tools=[WEATHER])
    assert [item.type for item in first.output] == ["function_call"]
    second = await sdk.responses.with_raw_response.create(model=model, input="Never mind.", previous_response_id=first.id)
    roles = [role for role, _ in received_history(engine)]
    assert roles == ["user", "calls", "tool", "user"]
    assert "previous_response_id" in second.headers["x-narthex-dropped"]


@pytest.mark.parametrize("model", MODELS)
async def test_engine_receives_the_whole_conversation(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, model: str):
    first = await sdk.responses.create(model=model, instructions="Be brief.", input="One?")
    second = await sdk.responses.create(model=model, input=[{"role": "user", "content": "Two?"}], previous_response_id=first.id)
    third = await sdk.responses.create(model=model, input="Three?", previous_response_id=second.id)
    assert received_history(engine) == [
        ("user", "One?"),
        ("assistant", "Answer 1."),
        ("user", "Two?"),
        ("assistant", "Answer 2."),
        ("user", "Three?"),
    ]
    assert (third.output_text, third.previous_response_id, first.previous_response_id) == ("Answer 3.", second.id, None)
    assert "previous_response_id" not in non_probe_requests(engine)[-1].body


@pytest.mark.parametrize("model", MODELS)
async def test_tool_result_alone_continues_the_conversation(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, model: str):
    first = await sdk.responses.create(model=model, input="Weather?", tools=[WEATHER])
    (call,) = first.output
    assert isinstance(call, ResponseFunctionToolCall)
    second = await sdk.responses.create(
        model=model,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "Sunny."}],
        previous_response_id=first.id,
        tools=[WEATHER],
    )
    assert received_history(engine) == [("user", "Weather?"), ("calls", "weather"), ("tool", "Sunny.")]
    third = await sdk.responses.create(model=model, input="Thanks.", previous_response_id=second.id)
    assert received_history(engine)[1:] == [
        ("calls", "weather"),
        ("tool", "Sunny."),
        ("assistant", second.output_text),
        ("user", "Thanks."),
    ]
    listed = [item async for item in sdk.responses.input_items.list(third.id, order="asc")]
    assert [item.type for item in listed] == ["message", "function_call", "function_call_output", "message", "message"]


def item_references(*items: Any) -> list[ResponseInputItemParam]:
    """Returns references to earlier output, as the Vercel AI SDK sends them."""
    return [{"type": "item_reference", "id": item.id} for item in items]


@pytest.mark.parametrize("model", MODELS)
async def test_item_references_resolve_to_earlier_output_items(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, model: str):
    first = await sdk.responses.create(model=model, input="Weather?", tools=[WEATHER])
    (call,) = first.output
    result: ResponseInputItemParam = {"type": "function_call_output", "call_id": "call_1", "output": "Sunny."}
    input_items: list[ResponseInputItemParam] = [{"role": "user", "content": "Weather?"}, *item_references(call), result]
    second = await sdk.responses.create(model=model, input=input_items, tools=[WEATHER])
    assert received_history(engine) == [("user", "Weather?"), ("calls", "weather"), ("tool", "Sunny.")]
    bare: Any = {"id": second.output[0].id}
    third = await sdk.responses.create(model=model, input=[*input_items, bare, {"role": "user", "content": "Thanks."}])
    everything = [*received_history(engine), ("assistant", third.output_text), ("user", "Bye.")]
    assert everything[1:4] == [("calls", "weather"), ("tool", "Sunny."), ("assistant", second.output_text)]
    await sdk.responses.create(model=model, input="Bye.", previous_response_id=third.id)
    assert received_history(engine) == everything
    listed = [item async for item in sdk.responses.input_items.list(third.id, order="asc")]
    assert [item.type for item in listed] == ["message", "function_call", "function_call_output", "message", "message"]
    assert "item_reference" not in json.dumps([request.body for request in non_probe_requests(engine)])


async def test_item_reference_is_resolved_from_records_without_redis(service: Service, sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    first = await sdk.responses.create(model="scripted", input="One?")
    assert await delete_from_redis(service, first.id)
    await sdk.responses.create(model="scripted", input=[*item_references(*first.output), {"role": "user", "content": "Two?"}])
    assert received_history(engine) == [("assistant", "Answer 1."), ("user", "Two?")]


async def test_missing_item_reference_is_a_400_without_an_upstream_call(
    service: Service, sdk: openai.AsyncOpenAI, other_team_sdk: openai.AsyncOpenAI, engine: ScriptedEngine
):
    own = await sdk.responses.create(model="scripted", input="One?")
    native = await sdk.responses.create(model="vllm", input="One?")
    gone = await sdk.responses.create(model="scripted", input="One?")
    await sdk.responses.delete(gone.id)
    unstored = [await sdk.responses.create(model=model, input="One?", store=False) for model in MODELS]
    before = len(non_probe_requests(engine))

    async def assert_not_found(client: openai.AsyncOpenAI, id: str) -> None:
        with pytest.raises(
            openai.BadRequestError, match=f"Item with id '{id}' not found. Send the item itself, or set `store` to"
        ) as refused:
            await client.responses.create(model="scripted", input=[{"type": "item_reference", "id": id}])
        assert (refused.value.param, refused.value.type) == ("input", "invalid_request_error")

    for id in ("msg_of_nobody", _item_id(own)[:-1] + "f", "x" * 300, *(_item_id(each) for each in (gone, *unstored))):
        await assert_not_found(sdk, id)
    for answer in (own, native):
        await assert_not_found(other_team_sdk, _item_id(answer))
    assert len(non_probe_requests(engine)) == before


def _item_id(answer: Response) -> str:
    id = answer.output[0].id
    assert id is not None
    return id


async def test_ambiguous_item_id_is_refused(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    async def respond_with_same_item_id(request: ReceivedRequest) -> None:
        text: dict[str, Any] = {
            "type": "message",
            "id": "msg_again",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a", "annotations": []}],
        }
        await request.respond(200, json.dumps({"id": "resp", "object": "response", "status": "completed", "output": [text]}).encode())

    engine.script = respond_with_same_item_id
    answers = [await sdk.responses.create(model="vllm", input="One?") for _ in range(3)]
    with pytest.raises(openai.BadRequestError, match="several items this id"):
        await sdk.responses.create(model="vllm", input=item_references(*answers[-1].output))


async def test_stored_response_is_readable_at_once_from_every_worker(service: Service, sdk: openai.AsyncOpenAI):
    created = await sdk.responses.create(model="scripted", input="One?", metadata={"for": "later"})
    async with connections(service, 6) as callers:
        answers = [await caller.get(f"{RESPONSES}/{created.id}") for caller in callers]
    assert {answer.status_code for answer in answers} == {200} and len({answer.content for answer in answers}) == 1
    assert (await sdk.responses.retrieve(created.id)).to_dict() == created.to_dict()


async def test_streamed_response_is_stored_like_any_other(service: Service, sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    engine.script = stream_script(*HELLO)
    events = [event async for event in await sdk.responses.create(model="scripted", input="One?", stream=True)]
    last = events[-1]
    assert last.type == "response.completed"
    assert (await sdk.responses.retrieve(last.response.id)).to_dict() == last.response.to_dict()
    assert await delete_from_redis(service, last.response.id)
    assert (await sdk.responses.retrieve(last.response.id)).to_dict() == last.response.to_dict()
    engine.script = respond_counting
    await sdk.responses.create(model="scripted", input="Two?", previous_response_id=last.response.id)
    assert received_history(engine) == [("user", "One?"), ("assistant", "Hello."), ("user", "Two?")]


async def test_response_evicted_from_redis_is_read_from_records(service: Service, sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    first = await sdk.responses.create(model="scripted", input="One?")
    second = await sdk.responses.create(model="scripted", input="Two?", previous_response_id=first.id)
    for each in (first, second):
        assert await delete_from_redis(service, each.id)
        assert (await sdk.responses.retrieve(each.id)).to_dict() == each.to_dict()
    assert (await sdk.responses.create(model="scripted", input="Three?", previous_response_id=second.id)).output_text == "Answer 3."


async def test_input_items_are_paginated(sdk: openai.AsyncOpenAI):
    first = await sdk.responses.create(model="scripted", input=[{"role": "user", "content": text} for text in "abc"])
    last = await sdk.responses.create(model="scripted", input="d", previous_response_id=first.id)
    page = await sdk.responses.input_items.list(last.id, limit=2)
    assert len(page.data) == 2 and page.has_more
    newest_first = [item.id async for item in page]
    oldest_first = [item async for item in sdk.responses.input_items.list(last.id, order="asc", include=["reasoning.encrypted_content"])]
    texts = [part.text for item in oldest_first if item.type == "message" for part in item.content if hasattr(part, "text")]  # pyright: ignore
    assert texts == ["a", "b", "c", first.output_text, "d"]
    assert newest_first == [item.id for item in oldest_first][::-1] and len(set(newest_first)) == 5
    after = await sdk.responses.input_items.list(last.id, order="asc", after=str(newest_first[1]))
    assert [item.id for item in after.data] == newest_first[:1] and not after.has_more


async def test_deleted_response_is_not_found(service: Service, sdk: openai.AsyncOpenAI):
    created = await sdk.responses.create(model="scripted", input="One?")
    async with service.client() as client:
        deleted = await client.delete(f"{RESPONSES}/{created.id}")
    assert deleted.json() == {"id": created.id, "object": "response", "deleted": True}
    await assert_unknown(sdk, created.id)
    with pytest.raises(openai.NotFoundError):
        await sdk.responses.delete(created.id)


async def test_input_that_cannot_be_decoded_is_a_400_to_list(client: httpx2.AsyncClient, engine: ScriptedEngine):
    item = b'{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "x": 1e400}'
    output = b'{"type": "function_call_output", "call_id": "c", "output": "x"}'
    created = await client.post(RESPONSES, content=b'{"model": "scripted", "input": [%b, %b]}' % (item, output))
    assert created.status_code == 200, created.text
    listed = await client.get(f"{RESPONSES}/{created.json()['id']}/input_items")
    assert listed.status_code == 400 and "cannot be read" in listed.json()["error"]["message"]


async def test_response_of_another_team_is_not_found(sdk: openai.AsyncOpenAI, other_team_sdk: openai.AsyncOpenAI):
    created = await sdk.responses.create(model="scripted", input="One?")
    await assert_unknown(other_team_sdk, created.id)
    with pytest.raises(openai.NotFoundError):
        await other_team_sdk.responses.delete(created.id)
    assert (await sdk.responses.retrieve(created.id)).id == created.id


async def test_response_with_store_false_is_not_found(service: Service, sdk: openai.AsyncOpenAI):
    created = await sdk.responses.create(model="scripted", input="One?", store=False)
    await assert_unknown(sdk, created.id)
    await service.wait_for_record(created.id.removeprefix("resp_"))
    await assert_unknown(sdk, created.id)


async def assert_unknown(sdk: openai.AsyncOpenAI, id: str, message: str = "") -> None:
    for operation in (sdk.responses.retrieve(id), sdk.responses.input_items.list(id), sdk.responses.cancel(id)):
        with pytest.raises(openai.NotFoundError) as unknown:
            await operation
        error: Any = unknown.value.body
        assert error["message"].startswith(f"Response with id '{id}' not found.") and error["type"] == "invalid_request_error"
        assert message in error["message"]
    with pytest.raises(openai.BadRequestError) as refused:
        await sdk.responses.create(model="scripted", input="Two?", previous_response_id=id)
    error = refused.value.body
    assert (error["code"], error["param"]) == ("previous_response_not_found", "previous_response_id")
    assert error["message"].startswith(f"Previous response with id '{id}' not found.") and message in error["message"]


async def test_invalid_response_id_is_not_found(sdk: openai.AsyncOpenAI):
    await assert_unknown(sdk, "resp_123")


async def test_team_without_stored_content_gets_not_found_with_the_reason(service: Service):
    key = await keys.create_key(database_url(service), "discreet")
    await teams.set_team(database_url(service), "discreet", content="none")
    async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key=key, max_retries=0) as sdk:
        answer = await sdk.responses.create(model="scripted", input="One?")
        assert answer.output_text == "Answer 1."
        await assert_unknown(sdk, answer.id, "are not stored")


async def test_cancel_and_stream_retrieval_are_refused_for_foreground_responses(client: httpx2.AsyncClient, sdk: openai.AsyncOpenAI):
    created = await sdk.responses.create(model="scripted", input="One?")
    with pytest.raises(openai.BadRequestError, match="background"):
        await sdk.responses.cancel(created.id)
    with pytest.raises(openai.BadRequestError, match="background"):
        await sdk.responses.retrieve(created.id, stream=True)


@pytest.mark.parametrize(
    ("path", "param"),
    [
        ("/input_items?limit=0", "limit"),
        ("/input_items?limit=101", "limit"),
        ("/input_items?order=up", "order"),
        ("/input_items?after=msg_none", "after"),
        ("/input_items?include[]=everything", "include"),
        ("/input_items?limt=3", "limt"),
        ("?limit=3", "limit"),
        ("?stream=perhaps", "stream"),
    ],
)
async def test_invalid_query_parameters_are_400(client: httpx2.AsyncClient, sdk: openai.AsyncOpenAI, path: str, param: str):
    created = await sdk.responses.create(model="scripted", input="One?")
    refused = await client.get(f"{RESPONSES}/{created.id}{path}")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


async def test_stored_responses_work_without_redis_except_deletion(service: Service, sdk: openai.AsyncOpenAI):
    with paused_processes(service.pid("valkey")):
        first = await sdk.responses.create(model="scripted", input="One?")
        assert (await sdk.responses.retrieve(first.id)).to_dict() == first.to_dict()
        second = await sdk.responses.create(model="scripted", input="Two?", previous_response_id=first.id)
        assert second.output_text == "Answer 2."
        with pytest.raises(openai.InternalServerError, match="cannot be deleted at the moment"):
            await sdk.responses.delete(first.id)


async def test_recent_responses_are_readable_without_postgres(service: Service, sdk: openai.AsyncOpenAI):
    async def is_redis_used() -> bool:
        return await delete_from_redis(service, (await sdk.responses.create(model="scripted", input="Zero?")).id)

    # Then this worker knows the key, and has noticed that Redis is back.
    await wait_until(is_redis_used)
    with paused_processes(*process_tree(service.pid("postgres"))):
        first = await sdk.responses.create(model="scripted", input="One?")
        assert (await sdk.responses.retrieve(first.id)).to_dict() == first.to_dict()
        second = await sdk.responses.create(model="scripted", input="Two?", previous_response_id=first.id)
        assert second.output_text == "Answer 2."
