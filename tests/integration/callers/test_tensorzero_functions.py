"""TensorZero's native API: functions with templates, tools and schemas, and feedback."""

from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, stream_script

HI: Any = {"messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(scope="module", autouse=True)
def functions(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    one, two = (f"http://127.0.0.1:{engine.port}" for engine in engines)
    service.apply(f"""
        [providers]
        tzf-one = {{ adapter = "openai", base_url = "{one}" }}
        tzf-two = {{ adapter = "openai", base_url = "{two}" }}
        [models]
        tzf-small = {{ targets = [{{ provider = "tzf-one", model = "small" }}] }}
        tzf-large = {{ targets = [{{ provider = "tzf-two", model = "large" }}] }}
        [functions.tzf-answer]
        default = "terse"
        fallbacks = ["wordy"]
        tool_choice = "auto"
        tools = [{{ name = "look_up", description = "Looks up.", parameters = {{ type = "object" }} }}]
        [functions.tzf-answer.schemas]
        system = {{ type = "object", properties = {{ name = {{ type = "string" }} }}, required = ["name"] }}
        greet = {{ type = "object", properties = {{ whom = {{ type = "string" }} }}, required = ["whom"] }}
        [functions.tzf-answer.variants.terse]
        model = "tzf-small"
        system_template = "Answer {{{{ name }}}} in one sentence."
        templates = {{ greet = "Greet {{{{ whom }}}}." }}
        params = {{ temperature = 0.2, max_tokens = 50, stop = "END" }}
        [functions.tzf-answer.variants.wordy]
        model = "tzf-large"
        system_template = "Answer {{{{ name }}}} at length."
        templates = {{ greet = "Greet {{{{ whom }}}} warmly." }}
        [functions.tzf-extract]
        type = "json"
        output_schema = {{ type = "object", properties = {{ a = {{ type = "integer" }} }}, required = ["a"], additionalProperties = false }}
        [functions.tzf-extract.variants.only]
        model = "tzf-small"
        [metrics.tzf-helpful]
        kind = "boolean"
        level = "inference"
        optimize = "max"
    """)


async def _infer(client: httpx2.AsyncClient, function: str = "tzf-answer", **fields: Any) -> httpx2.Response:
    body = {"function_name": function, "input": {"system": {"name": "Ada"}, **HI}, **fields}
    return await client.post("/inference", json=body)


async def test_function_renders_its_templates_and_sets_its_fields(client: httpx2.AsyncClient, engine: ScriptedEngine):
    greet: Any = {"type": "template", "name": "greet", "arguments": {"whom": "Bob"}}
    own: Any = {"type": "function", "name": "add", "description": "Adds.", "parameters": {"type": "object"}, "strict": False}
    content: Any = [{"type": "text", "text": "Please."}, greet]
    response = await _infer(
        client, input={"system": {"name": "Ada"}, "messages": [{"role": "user", "content": content}]}, additional_tools=[own]
    )
    body, sent = response.json(), engine.requests[0].body
    assert response.status_code == 200, body
    assert (body["variant_name"], body["content"]) == ("terse", [{"type": "text", "text": "Hello."}])
    assert sent["messages"][0] == {"role": "system", "content": "Answer Ada in one sentence."}
    assert [part["text"] for part in sent["messages"][1]["content"]] == ["Please.", "Greet Bob."]
    assert (sent["temperature"], sent["stop"]) == (0.2, ["END"])
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["look_up", "add"]
    allowed = await _infer(client, additional_tools=[own], allowed_tools=["look_up", "add"])
    assert allowed.status_code == 200, allowed.text


async def test_variant_is_pinned_and_parameters_of_the_request_come_first(
    client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    pinned = await _infer(client, variant_name="wordy", params={"chat_completion": {"temperature": 0.9}})
    assert pinned.json()["variant_name"] == "wordy", pinned.text
    assert second_engine.requests[0].body["messages"][0]["content"] == "Answer Ada at length."
    await _infer(client, params={"chat_completion": {"temperature": 0.9}})
    assert engine.requests[0].body["temperature"] == 0.9
    assert (await _infer(client, variant_name="none")).status_code == 400


@pytest.mark.parametrize("path", ["/inference", "/v1/chat/completions"])
async def test_body_and_header_must_name_the_same_variant(client: httpx2.AsyncClient, second_engine: ScriptedEngine, path: str):
    messages = HI["messages"]
    body: Any = {"function_name": "tzf-answer", "input": {"system": {"name": "Ada"}, "messages": messages}, "variant_name": "wordy"}
    if path != "/inference":
        of_function = {"narthex::input": {"system": {"name": "Ada"}}, "tensorzero::variant_name": "wordy"}
        body = {"model": "tensorzero::function_name::tzf-answer", "messages": messages, **of_function}
    same = await client.post(path, json=body, headers={"x-narthex-variant": "wordy"})
    assert (same.status_code, len(second_engine.requests)) == (200, 1), same.text
    other = await client.post(path, json=body, headers={"x-narthex-variant": "terse"})
    assert other.status_code == 400 and "x-narthex-variant" in other.text and "wordy" in other.text, other.text


async def test_fallback_variant_names_itself(client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine):
    async def fail(request: ReceivedRequest) -> None:
        await request.respond(500, b'{"error": {"message": "broken"}}')

    engine.script = fail
    response = await _infer(client)
    assert response.json()["variant_name"] == "wordy" and len(second_engine.requests) == 1, response.text


async def test_json_function_answers_with_its_output(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = lambda request: request.respond_completion('{"a": 1}')
    response = await client.post("/inference", json={"function_name": "tzf-extract", "input": HI})
    assert response.json()["output"] == {"raw": '{"a": 1}', "parsed": {"a": 1}}, response.text
    assert engine.requests[0].body["response_format"]["json_schema"]["schema"]["required"] == ["a"]


async def test_function_streams(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = stream_script(*HELLO)
    response = await _infer(client, stream=True)
    assert '"variant_name":"terse"' in response.text and response.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"function_name": "no-such-function"}, 404),
        ({"input": HI}, 400),
        ({"allowed_tools": ["look_up", "no-such-tool"]}, 400),
        ({"input": {"system": {"name": "Ada"}, "messages": [{"role": "user", "content": {"x": 1}}]}}, 400),
    ],
)
async def test_wrong_call_of_a_function_is_refused(client: httpx2.AsyncClient, fields: Any, status: int):
    response = await _infer(client, **fields)
    assert response.status_code == status and isinstance(response.json()["error"], str), response.text


async def test_feedback_is_accepted_checked_and_refused(client: httpx2.AsyncClient, engine: ScriptedEngine):
    inference = (await _infer(client)).json()["inference_id"]
    as_client: dict[str, Any] = {"episode_id": None, "inference_id": inference, "internal": False, "tags": {}, "dryrun": None}
    sent = await client.post("/feedback", json={**as_client, "metric_name": "tzf-helpful", "value": True})
    assert sent.status_code == 200 and set(sent.json()) == {"feedback_id"}, sent.text
    checked = await client.post("/feedback", json={**as_client, "metric_name": "tzf-helpful", "value": False, "dryrun": True})
    assert checked.status_code == 200
    wrongs: list[dict[str, Any]] = [
        {"metric_name": "no-such-metric", "value": True},
        {"metric_name": "tzf-helpful", "value": "yes"},
        {"dryrun": 5},
    ]
    for wrong in wrongs:
        refused = await client.post("/feedback", json={**as_client, **wrong})
        assert refused.status_code == 400 and isinstance(refused.json()["error"], str), refused.text
