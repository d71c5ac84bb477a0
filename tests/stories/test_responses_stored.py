"""Answers of /v1/responses that are read again, gone on from and deleted, by the official SDK."""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import openai
import pytest
import redis.asyncio
from openai.types.responses import FunctionToolParam, Response, ResponseFunctionToolCall, ResponseInputItemParam

from app.store import keys, teams
from tests.stories.looking import connections, database_url, family, stopped
from tests.stories.scripted import HELLO, Asked, ScriptedEngine, completion, streaming
from tests.stories.service import Service

RESPONSES = "/v1/responses"
MODELS = ["scripted", "vllm"]  # one that is asked in OpenAI chat, one that is asked in Responses
WEATHER: FunctionToolParam = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}


def asks(engine: ScriptedEngine) -> list[Asked]:
    """What the engine was asked, but for what the fleet asks of it now and then."""
    return [asked for asked in engine.asked if asked.body]


def heard(engine: ScriptedEngine) -> list[tuple[str, str]]:
    """What the engine was last told of who said what, whichever dialect it was asked in."""
    return [_told(each) for each in said_in(asks(engine)[-1])]


def said_in(asked: Asked) -> list[dict[str, Any]]:
    said = asked.body.get("messages") or asked.body.get("input", [])
    return [{"role": "user", "content": said}] if isinstance(said, str) else said


def _told(item: dict[str, Any]) -> tuple[str, str]:
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


async def counting(asked: Asked) -> None:
    """Answers "Answer N.", N being how often the user spoke; or calls, where it has a tool and nobody called it yet."""
    told = said_in(asked)
    said = f"Answer {len([each for each in told if each.get('role') == 'user'])}."
    calls = bool(asked.body.get("tools")) and told[-1].get("role") == "user"
    if asked.path != RESPONSES:
        call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        body = completion(None, tool_calls=[call]) if calls else completion(said)
        await asked.answer(200, json.dumps(body).encode())
        return
    content: list[Any] = [{"type": "output_text", "text": said, "annotations": []}]
    text = {"type": "message", "id": f"msg_{uuid.uuid4().hex}", "role": "assistant", "status": "completed", "content": content}
    call = {
        "type": "function_call",
        "id": f"fc_{uuid.uuid4().hex}",
        "call_id": "call_1",
        "name": "weather",
        "arguments": "{}",
        "status": "completed",
    }
    about = {"id": "resp_engine", "object": "response", "created_at": 1750000000, "status": "completed", "model": "engine-model"}
    await asked.answer(200, json.dumps({**about, "output": [call if calls else text]}).encode())


@pytest.fixture(autouse=True)
def scripted(engine: ScriptedEngine) -> ScriptedEngine:
    engine.script = counting
    return engine


@pytest.fixture
async def others(service: Service) -> AsyncGenerator[openai.AsyncOpenAI]:
    """An SDK with the key of another team."""
    key = await keys.create_key(database_url(service), "others")
    async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key=key, max_retries=0) as sdk:
        yield sdk


async def forget(service: Service, id: str) -> bool:
    """Takes an answer from Redis, as after a restart of everything, or an hour; whether it was there."""
    lines = (service.home / "run" / "servers").read_text().splitlines()
    url = dict(line.split("=", 1) for line in lines)["REDIS_URL"]
    async with redis.asyncio.Redis.from_url(url) as client:  # pyright: ignore[reportUnknownMemberType]
        return await client.delete(f"nx:r:{id.removeprefix('resp_')}") == 1


@pytest.mark.parametrize("model", MODELS)
async def test_an_engine_hears_all_that_was_said_before(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, model: str):
    first = await sdk.responses.create(model=model, instructions="Be brief.", input="One?")
    second = await sdk.responses.create(model=model, input=[{"role": "user", "content": "Two?"}], previous_response_id=first.id)
    third = await sdk.responses.create(model=model, input="Three?", previous_response_id=second.id)
    assert heard(engine) == [
        ("user", "One?"),
        ("assistant", "Answer 1."),
        ("user", "Two?"),
        ("assistant", "Answer 2."),
        ("user", "Three?"),
    ]
    assert (third.output_text, third.previous_response_id, first.previous_response_id) == ("Answer 3.", second.id, None)
    assert "previous_response_id" not in asks(engine)[-1].body


@pytest.mark.parametrize("model", MODELS)
async def test_the_result_of_a_call_is_told_alone(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, model: str):
    first = await sdk.responses.create(model=model, input="Weather?", tools=[WEATHER])
    (call,) = first.output
    assert isinstance(call, ResponseFunctionToolCall)
    second = await sdk.responses.create(
        model=model,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "Sunny."}],
        previous_response_id=first.id,
        tools=[WEATHER],
    )
    assert heard(engine) == [("user", "Weather?"), ("calls", "weather"), ("tool", "Sunny.")]
    third = await sdk.responses.create(model=model, input="Thanks.", previous_response_id=second.id)
    assert heard(engine)[1:] == [("calls", "weather"), ("tool", "Sunny."), ("assistant", second.output_text), ("user", "Thanks.")]
    listed = [item async for item in sdk.responses.input_items.list(third.id, order="asc")]
    assert [item.type for item in listed] == ["message", "function_call", "function_call_output", "message", "message"]


def named(*items: Any) -> list[ResponseInputItemParam]:
    """As the Vercel AI SDK says what was answered before."""
    return [{"type": "item_reference", "id": item.id} for item in items]


@pytest.mark.parametrize("model", MODELS)
async def test_items_of_earlier_answers_are_named_by_their_ids(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, model: str):
    first = await sdk.responses.create(model=model, input="Weather?", tools=[WEATHER])
    (call,) = first.output
    result: ResponseInputItemParam = {"type": "function_call_output", "call_id": "call_1", "output": "Sunny."}
    said: list[ResponseInputItemParam] = [{"role": "user", "content": "Weather?"}, *named(call), result]
    second = await sdk.responses.create(model=model, input=said, tools=[WEATHER])
    assert heard(engine) == [("user", "Weather?"), ("calls", "weather"), ("tool", "Sunny.")]
    bare: Any = {"id": second.output[0].id}
    third = await sdk.responses.create(model=model, input=[*said, bare, {"role": "user", "content": "Thanks."}])
    everything = [*heard(engine), ("assistant", third.output_text), ("user", "Bye.")]
    assert everything[1:4] == [("calls", "weather"), ("tool", "Sunny."), ("assistant", second.output_text)]
    await sdk.responses.create(model=model, input="Bye.", previous_response_id=third.id)
    assert heard(engine) == everything
    listed = [item async for item in sdk.responses.input_items.list(third.id, order="asc")]
    assert [item.type for item in listed] == ["message", "function_call", "function_call_output", "message", "message"]
    assert "item_reference" not in json.dumps([asked.body for asked in asks(engine)])


async def test_what_we_minted_is_found_in_the_records_too(service: Service, sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    first = await sdk.responses.create(model="scripted", input="One?")
    assert await forget(service, first.id)
    await sdk.responses.create(model="scripted", input=[*named(*first.output), {"role": "user", "content": "Two?"}])
    assert heard(engine) == [("assistant", "Answer 1."), ("user", "Two?")]


async def test_an_item_that_is_not_there_is_told_and_reaches_no_engine(
    service: Service, sdk: openai.AsyncOpenAI, others: openai.AsyncOpenAI, engine: ScriptedEngine
):
    ours = await sdk.responses.create(model="scripted", input="One?")
    native = await sdk.responses.create(model="vllm", input="One?")
    gone = await sdk.responses.create(model="scripted", input="One?")
    await sdk.responses.delete(gone.id)
    unstored = [await sdk.responses.create(model=model, input="One?", store=False) for model in MODELS]
    before = len(asks(engine))

    async def assert_not_found(client: openai.AsyncOpenAI, id: str) -> None:
        with pytest.raises(
            openai.BadRequestError, match=f"Item with id '{id}' not found. Send the item itself, or set `store` to"
        ) as refused:
            await client.responses.create(model="scripted", input=[{"type": "item_reference", "id": id}])
        assert (refused.value.param, refused.value.type) == ("input", "invalid_request_error")

    for id in ("msg_of_nobody", _id(ours)[:-1] + "f", "x" * 300, *(_id(each) for each in (gone, *unstored))):
        await assert_not_found(sdk, id)
    for answer in (ours, native):
        await assert_not_found(others, _id(answer))
    assert len(asks(engine)) == before


def _id(answer: Response) -> str:
    id = answer.output[0].id
    assert id is not None
    return id


async def test_an_id_that_an_engine_gave_twice_names_nothing(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    async def repeating(asked: Asked) -> None:
        text: dict[str, Any] = {
            "type": "message",
            "id": "msg_again",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a", "annotations": []}],
        }
        await asked.answer(200, json.dumps({"id": "resp", "object": "response", "status": "completed", "output": [text]}).encode())

    engine.script = repeating
    answers = [await sdk.responses.create(model="vllm", input="One?") for _ in range(3)]
    with pytest.raises(openai.BadRequestError, match="several items this id"):
        await sdk.responses.create(model="vllm", input=named(*answers[-1].output))


async def test_every_worker_tells_it_at_once_as_it_was_answered(service: Service, sdk: openai.AsyncOpenAI):
    made = await sdk.responses.create(model="scripted", input="One?", metadata={"for": "later"})
    async with connections(service, 6) as callers:
        told = [await caller.get(f"{RESPONSES}/{made.id}") for caller in callers]
    assert {answer.status_code for answer in told} == {200} and len({answer.content for answer in told}) == 1
    assert (await sdk.responses.retrieve(made.id)).to_dict() == made.to_dict()


async def test_a_streamed_one_is_kept_like_any_other(service: Service, sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    engine.script = streaming(*HELLO)
    events = [event async for event in await sdk.responses.create(model="scripted", input="One?", stream=True)]
    last = events[-1]
    assert last.type == "response.completed"
    assert (await sdk.responses.retrieve(last.response.id)).to_dict() == last.response.to_dict()
    assert await forget(service, last.response.id)
    assert (await sdk.responses.retrieve(last.response.id)).to_dict() == last.response.to_dict()
    engine.script = counting
    await sdk.responses.create(model="scripted", input="Two?", previous_response_id=last.response.id)
    assert heard(engine) == [("user", "One?"), ("assistant", "Hello."), ("user", "Two?")]


async def test_what_redis_has_forgotten_the_records_tell(service: Service, sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    first = await sdk.responses.create(model="scripted", input="One?")
    second = await sdk.responses.create(model="scripted", input="Two?", previous_response_id=first.id)
    for each in (first, second):
        assert await forget(service, each.id)
        assert (await sdk.responses.retrieve(each.id)).to_dict() == each.to_dict()
    assert (await sdk.responses.create(model="scripted", input="Three?", previous_response_id=second.id)).output_text == "Answer 3."


async def test_the_input_of_a_conversation_is_told_in_pages(sdk: openai.AsyncOpenAI):
    first = await sdk.responses.create(model="scripted", input=[{"role": "user", "content": text} for text in "abc"])
    last = await sdk.responses.create(model="scripted", input="d", previous_response_id=first.id)
    page = await sdk.responses.input_items.list(last.id, limit=2)
    assert len(page.data) == 2 and page.has_more
    newest_first = [item.id async for item in page]
    oldest_first = [item async for item in sdk.responses.input_items.list(last.id, order="asc", include=["reasoning.encrypted_content"])]
    said = [part.text for item in oldest_first if item.type == "message" for part in item.content if hasattr(part, "text")]  # pyright: ignore
    assert said == ["a", "b", "c", first.output_text, "d"]
    assert newest_first == [item.id for item in oldest_first][::-1] and len(set(newest_first)) == 5
    after = await sdk.responses.input_items.list(last.id, order="asc", after=str(newest_first[1]))
    assert [item.id for item in after.data] == newest_first[:1] and not after.has_more


async def test_a_deleted_one_is_told_to_nobody(service: Service, sdk: openai.AsyncOpenAI):
    made = await sdk.responses.create(model="scripted", input="One?")
    async with service.client() as client:
        told = await client.delete(f"{RESPONSES}/{made.id}")
    assert told.json() == {"id": made.id, "object": "response", "deleted": True}
    await assert_unknown(sdk, made.id)
    with pytest.raises(openai.NotFoundError):
        await sdk.responses.delete(made.id)


async def test_another_teams_is_not_there(sdk: openai.AsyncOpenAI, others: openai.AsyncOpenAI):
    made = await sdk.responses.create(model="scripted", input="One?")
    await assert_unknown(others, made.id)
    with pytest.raises(openai.NotFoundError):
        await others.responses.delete(made.id)
    assert (await sdk.responses.retrieve(made.id)).id == made.id


async def test_what_was_not_to_be_stored_is_not_there(service: Service, sdk: openai.AsyncOpenAI):
    made = await sdk.responses.create(model="scripted", input="One?", store=False)
    await assert_unknown(sdk, made.id)
    await service.recorded(made.id.removeprefix("resp_"))
    await assert_unknown(sdk, made.id)


async def assert_unknown(sdk: openai.AsyncOpenAI, id: str, says: str = "") -> None:
    for asking in (sdk.responses.retrieve(id), sdk.responses.input_items.list(id), sdk.responses.cancel(id)):
        with pytest.raises(openai.NotFoundError) as unknown:
            await asking
        told: Any = unknown.value.body
        assert told["message"].startswith(f"Response with id '{id}' not found.") and told["type"] == "invalid_request_error"
        assert says in told["message"]
    with pytest.raises(openai.BadRequestError) as refused:
        await sdk.responses.create(model="scripted", input="Two?", previous_response_id=id)
    told = refused.value.body
    assert (told["code"], told["param"]) == ("previous_response_not_found", "previous_response_id")
    assert told["message"].startswith(f"Previous response with id '{id}' not found.") and says in told["message"]


async def test_an_id_that_is_none_is_unknown(sdk: openai.AsyncOpenAI):
    await assert_unknown(sdk, "resp_123")


async def test_a_team_whose_content_is_not_kept_is_told_so(service: Service):
    key = await keys.create_key(database_url(service), "discreet")
    await teams.set_team(database_url(service), "discreet", "none")
    async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key=key, max_retries=0) as sdk:
        answer = await sdk.responses.create(model="scripted", input="One?")
        assert answer.output_text == "Answer 1."
        await assert_unknown(sdk, answer.id, "is not kept")


async def test_what_only_background_responses_can_is_refused(client: httpx.AsyncClient, sdk: openai.AsyncOpenAI):
    made = await sdk.responses.create(model="scripted", input="One?")
    with pytest.raises(openai.BadRequestError, match="background"):
        await sdk.responses.cancel(made.id)
    with pytest.raises(openai.BadRequestError, match="background"):
        await sdk.responses.retrieve(made.id, stream=True)


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
async def test_parameters_that_are_none_are_400(client: httpx.AsyncClient, sdk: openai.AsyncOpenAI, path: str, param: str):
    made = await sdk.responses.create(model="scripted", input="One?")
    refused = await client.get(f"{RESPONSES}/{made.id}{path}")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


async def test_a_redis_that_is_away_costs_a_moment(service: Service, sdk: openai.AsyncOpenAI):
    with stopped(service.pid("valkey")):
        first = await sdk.responses.create(model="scripted", input="One?")
        assert (await sdk.responses.retrieve(first.id)).to_dict() == first.to_dict()
        second = await sdk.responses.create(model="scripted", input="Two?", previous_response_id=first.id)
        assert second.output_text == "Answer 2."
        with pytest.raises(openai.InternalServerError, match="cannot be deleted at the moment"):
            await sdk.responses.delete(first.id)


async def test_without_postgres_what_was_just_answered_is_there(service: Service, sdk: openai.AsyncOpenAI):
    # This worker knows the key, and does not rest from a Redis that was away.
    while not await forget(service, (await sdk.responses.create(model="scripted", input="Zero?")).id):
        await asyncio.sleep(0.1)
    with stopped(*family(service.pid("postgres"))):
        first = await sdk.responses.create(model="scripted", input="One?")
        assert (await sdk.responses.retrieve(first.id)).to_dict() == first.to_dict()
        second = await sdk.responses.create(model="scripted", input="Two?", previous_response_id=first.id)
        assert second.output_text == "Answer 2."
