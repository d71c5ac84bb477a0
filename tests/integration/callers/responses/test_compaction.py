"""Compaction of conversations of Responses: by the model itself, at every kind of host that has none, and forwarded to OpenAI."""

import json
from typing import Any

import httpx2
import openai
import pytest

from app.gateway.emulation.compaction import PROMPT
from providers.canonical.chat import Text, ToolCall
from tests.conformance.situations import ALL, Situation
from tests.support.processes.service import Service
from tests.support.scripted_dialects import MODELS, respond_with
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

SUMMARY = "The user's cat is called Ada. 🐈"
SUMMARIZED = Situation(name="summary", parts=(Text(SUMMARY),))
ANSWER = Situation(name="answer", parts=(Text("Ada."),))
TRIGGER: Any = {"type": "compaction_trigger"}
CONVERSATION: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "My cat is called Ada."},
    {"role": "assistant", "content": "A fine name."},
    {"type": "function_call", "call_id": "call_1", "name": "now", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": "noon"},
]
TOOLS: Any = [{"type": "function", "name": "now", "parameters": {"type": "object"}, "strict": False}]
TARGETS = [*(MODELS[each] for each in ALL), "compacting-gemini", "compacting-bedrock", "compacting-vllm"]
OPENAI_ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}


@pytest.fixture(scope="module", autouse=True)
def models(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    one = f"http://127.0.0.1:{engines[0].port}"
    service.apply(f"""
        [providers]
        compacting-gemini = {{ adapter = "gemini", base_url = "{one}" }}
        compacting-bedrock = {{ adapter = "bedrock", base_url = "{one}" }}
        compacting-vllm = {{ adapter = "vllm", base_url = "{one}", options = {{ version = "0.32.0" }} }}
        compacting-openai = {{ adapter = "azure", base_url = "{one}" }}
        [models]
        compacting-gemini = {{ targets = [{{ provider = "compacting-gemini", model = "gemini-4-argon" }}] }}
        compacting-bedrock = {{ targets = [{{ provider = "compacting-bedrock", model = "us.amazon.nova-2-lite-v1:0" }}] }}
        compacting-vllm = {{ targets = [{{ provider = "compacting-vllm", model = "qwen" }}] }}
        compacting-openai = {{ targets = [{{ provider = "compacting-openai", model = "gpt-6.1-sol" }}] }}
    """)


def written(request: ReceivedRequest) -> str:
    return json.dumps(request.body, ensure_ascii=False)


def received(engine: ScriptedEngine) -> list[ReceivedRequest]:
    return [request for request in engine.requests if request.body]


@pytest.mark.parametrize("model", TARGETS)
async def test_compacted_conversation_goes_on_at_any_model(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, model: str):
    engine.script = respond_with(SUMMARIZED, ANSWER)
    compacted = await sdk.responses.compact(model=model, input=CONVERSATION, instructions="You are a vet.")
    assert compacted.object == "response.compaction" and compacted.usage.total_tokens == 29
    output: Any = [each.model_dump(exclude_none=True, warnings=False) for each in compacted.output]
    message, item = output
    assert (message["role"], message["content"][0]["text"]) == ("user", "My cat is called Ada.")
    assert item["type"] == "compaction" and item["id"].startswith("cmp_") and "Ada" not in item["encrypted_content"]
    asked = written(received(engine)[0])
    assert json.dumps(PROMPT)[1:-1] in asked and "A fine name." in asked and "noon" in asked and "You are a vet." in asked
    question: Any = {"role": "user", "content": "What is its name?"}
    other = TARGETS[(TARGETS.index(model) + 1) % len(TARGETS)]
    answer = await sdk.responses.create(model=other, input=[message, item, question])
    assert answer.output_text == "Ada."
    assert SUMMARY in written(received(engine)[1]) and "nxs1." not in written(received(engine)[1])


@pytest.mark.parametrize("model", TARGETS)
async def test_trigger_brings_one_compaction_in_a_stream(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, model: str):
    engine.script = respond_with(SUMMARIZED)
    async with sdk.responses.stream(model=model, input=[*CONVERSATION, TRIGGER], tools=TOOLS, store=False) as stream:
        events: list[Any] = [event async for event in stream]
    kinds = [event.type for event in events]
    assert kinds == [
        *("response.created", "response.in_progress", "response.compaction.compacting", "response.output_item.added"),
        *("response.output_item.done", "response.completed"),
    ]
    (item,) = events[-1].response.output
    assert item.type == "compaction" and events[2].item_id == item.id
    assert events[-1].response.usage.output_tokens == 9


async def test_compaction_is_recorded_and_charged_as_an_inference(client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine):
    engine.script = respond_with(SUMMARIZED)
    answer = await client.post("/v1/responses/compact", json={"model": "claude", "input": CONVERSATION})
    assert answer.status_code == 200 and answer.headers["x-narthex-emulated"] == "compaction_trigger"
    record = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (record["route"], record["input_tokens"], record["output_tokens"]) == ("openai_responses", 20, 9)
    missing = await client.get(f"/v1/responses/{answer.json()['id']}")
    assert missing.status_code == 404


async def test_stored_conversation_is_compacted_by_its_id(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    engine.script = respond_with(ANSWER, SUMMARIZED, ANSWER, ANSWER)
    first = await sdk.responses.create(model="claude", input="My cat is called Ada.")
    compacted = await sdk.responses.compact(model="claude", previous_response_id=first.id)
    assert [item.type for item in compacted.output] == ["message", "compaction"]
    beginning: Any = [item.model_dump(exclude_none=True, warnings=False) for item in compacted.output]
    again = await sdk.responses.create(model="claude", input=beginning)
    later = await sdk.responses.create(model="responses", previous_response_id=again.id, input="So?")
    assert later.output_text == "Ada." and SUMMARY in written(received(engine)[-1])


async def test_second_compaction_replaces_the_first_and_what_the_model_did(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = respond_with(SUMMARIZED, SUMMARIZED, ANSWER)
    body: dict[str, Any] = {"model": "claude", "input": CONVERSATION}
    first = (await client.post("/v1/responses/compact", json=body)).json()["output"]
    more = [{"role": "assistant", "content": "Still here."}, {"role": "user", "content": "And a dog."}]
    second = (await client.post("/v1/responses/compact", json={**body, "input": [*first, *more]})).json()["output"]
    assert [item.get("role") for item in second] == ["user", "user", None]
    await client.post("/v1/responses", json={**body, "input": [*CONVERSATION, *first[1:], *more, second[-1], *more[1:]]})
    asked = written(received(engine)[-1])
    assert asked.count(SUMMARY) == 1 and "Still here." not in asked and "A fine name." not in asked and "noon" not in asked
    assert asked.count("And a dog.") == 2 and "Be brief." in asked


async def test_openai_compacts_itself_and_gets_its_own_items_back(client: httpx2.AsyncClient, engine: ScriptedEngine):
    async def script(request: ReceivedRequest) -> None:
        usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
        answer = {
            "id": "resp_1",
            "object": "response",
            "status": "completed",
            "output": [OPENAI_ITEM],
            "model": "gpt-6.1-sol",
            "usage": usage,
        }
        await request.respond(200, json.dumps(answer).encode())

    engine.script = script
    answer = await client.post("/v1/responses/compact", json={"model": "compacting-openai", "input": CONVERSATION})
    assert answer.status_code == 200 and answer.json()["output"][-1] == OPENAI_ITEM
    await client.post("/v1/responses", json={"model": "compacting-openai", "input": answer.json()["output"]})
    first, second = received(engine)
    assert first.body["input"] == [*CONVERSATION, TRIGGER] and first.body["store"] is False
    assert second.body["input"] == answer.json()["output"]


async def test_summary_of_ours_never_reaches_openai_as_an_item(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = respond_with(SUMMARIZED, ANSWER)
    compacted = (await client.post("/v1/responses/compact", json={"model": "claude", "input": CONVERSATION})).json()["output"]
    await client.post("/v1/responses", json={"model": "compacting-openai", "input": compacted})
    assert SUMMARY in written(received(engine)[1]) and '"compaction"' not in written(received(engine)[1])


async def test_item_of_openai_is_refused_by_name_elsewhere(client: httpx2.AsyncClient):
    answer = await client.post("/v1/responses", json={"model": "claude", "input": [OPENAI_ITEM, *CONVERSATION[:2]]})
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, "input[0]")


async def test_summary_of_another_team_is_refused(client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine):
    engine.script = respond_with(SUMMARIZED)
    compacted = (await client.post("/v1/responses/compact", json={"model": "claude", "input": CONVERSATION})).json()["output"]
    other = {"authorization": f"Bearer {service.run('keys', 'create', '--team', 'strangers', '--quiet').stdout.strip()}"}
    answer = await client.post("/v1/responses", json={"model": "claude", "input": compacted}, headers=other)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_encrypted_content", "input[1]")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": [TRIGGER, *CONVERSATION]}, "input[0]"),
        ({"input": [TRIGGER]}, "input[0]"),
    ],
    ids=["not last", "alone"],
)
async def test_misplaced_trigger_is_refused(client: httpx2.AsyncClient, body: dict[str, Any], param: str):
    answer = await client.post("/v1/responses", json={"model": "claude", **body})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(("body", "param"), [({}, "input"), ({"input": "Hi", "stream": True}, "stream"), ({"input": 1}, "input")])
async def test_invalid_compaction_is_refused(client: httpx2.AsyncClient, body: dict[str, Any], param: str):
    answer = await client.post("/v1/responses/compact", json={"model": "claude", **body})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    "situation",
    [
        Situation(name="call", parts=(ToolCall("call_1", "now", "{}"),), finish="tool_calls"),
        Situation(name="cut off", parts=(Text("The user's"),), finish="length"),
    ],
    ids=["no summary", "cut off"],
)
async def test_response_without_a_whole_summary_is_an_error(client: httpx2.AsyncClient, engine: ScriptedEngine, situation: Situation):
    engine.script = respond_with(situation)
    answer = await client.post("/v1/responses", json={"model": "claude", "input": [*CONVERSATION, TRIGGER], "tools": TOOLS})
    assert answer.status_code == 502 and "summary" in answer.json()["error"]["message"]
