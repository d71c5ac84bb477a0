"""Structured output: invalid constraints are refused before an upstream call, and responses that violate theirs reach no caller."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, chunk, completion, stream_script

HI = [{"role": "user", "content": "Hello"}]
PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": False}
EXPONENTIAL_SCHEMA = {"allOf": [{"anyOf": [{"properties": {f"a{a}{b}": {"const": b}}} for b in range(6)]} for a in range(12)]}
ROUTES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": HI}),
    "responses": ("/v1/responses", {"input": "Hello"}),
    "messages": ("/v1/messages", {"messages": HI, "max_tokens": 50}),
}


def in_chat(schema: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}}


def in_responses(schema: Any) -> dict[str, Any]:
    return {"text": {"format": {"type": "json_schema", "name": "person", "schema": schema}}}


def in_messages(schema: Any) -> dict[str, Any]:
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


def nested_schema(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


FIELDS = {"chat": "response_format.json_schema.schema", "responses": "text.format.schema", "messages": "output_config.format.schema"}
SCHEMAS = {"chat": in_chat, "responses": in_responses, "messages": in_messages}


@pytest.fixture(scope="module", autouse=True)
async def guided_models(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> AsyncGenerator[None]:
    """Models of the first engine: guarded, which may violate schemas, and obedient, which enforces them; twice (guarded, on both engines)
    and caught (guarded, with a fallback at another price); abandoned (as guarded, and it stops when the gateway leaves: for a test that
    reads its records); scarce (guarded, with one request a day).
    """
    one, two = (f"http://127.0.0.1:{engine.port}" for engine in engines)
    service.apply(f"""
        [[prices]]
        provider = "guarded"
        model = "engine-model"
        input = 2.0
        output = 10.0
        [providers]
        guarded = {{ adapter = "openai", base_url = "{one}" }}
        stopping = {{ adapter = "openai", base_url = "{one}", options = {{ stops_on_disconnect = "streams" }} }}
        obedient = {{ adapter = "openai", base_url = "{one}", options = {{ guided = "enforced" }} }}
        guided-vllm = {{ adapter = "vllm", base_url = "{one}", options = {{ version = "0.33.0" }} }}
        cheap = {{ adapter = "openai", base_url = "{one}" }}
        [[prices]]
        provider = "cheap"
        model = "engine-model"
        input = 1.0
        output = 1.0
        [[limits]]
        name = "scarce"
        scope = {{ model = "scarce" }}
        resource = "requests"
        amount = 1
        per = "day"
        [models]
        scarce = {{ targets = [{{ provider = "guarded", model = "engine-model" }}] }}
        twice = {{ targets = [{{ provider = "guarded", model = "engine-model", endpoints = ["{one}", "{two}"] }}] }}
        caught = {{ targets = [{{ provider = "guarded", model = "engine-model" }}], fallbacks = ["cheap"] }}
        abandoned = {{ targets = [{{ provider = "stopping", model = "engine-model" }}] }}
        cheap = {{ targets = [{{ provider = "cheap", model = "engine-model" }}] }}
        guarded = {{ targets = [{{ provider = "guarded", model = "engine-model" }}] }}
        obedient = {{ targets = [{{ provider = "obedient", model = "engine-model" }}] }}
        guided-vllm = {{ targets = [{{ provider = "guided-vllm", model = "engine-model" }}] }}
    """)
    yield


def message_of(route: str, body: dict[str, Any]) -> str:
    """The message of an error, after its shape was checked."""
    if route == "messages":
        assert body["type"] == "error"
    else:
        assert {"message", "type", "code", "param"} <= body["error"].keys()
    return body["error"]["message"]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"properties": {"a": {"type": "strin"}}}, "properties.a.type"),
        ({"$ref": "https://elsewhere.test/person.json"}, "nothing is fetched"),
        ({"pattern": "(a"}, "pattern"),
        (EXPONENTIAL_SCHEMA, "too large"),
        (nested_schema(200), "nested too deeply"),
        ({"type": "string", "maxLength": 10**9}, "maxLength"),
        ({"type": "string", "pattern": "^(?:a|[b-z]{1,400}){1,400}$"}, "pattern"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}}, "refers to itself"),
    ],
    ids=["type", "reference", "pattern", "products", "depth", "length", "repetition", "circle"],
)
async def test_invalid_schema_is_a_400_without_an_upstream_call(
    client: httpx2.AsyncClient, engine: ScriptedEngine, route: str, schema: Any, message: str
) -> None:
    path, body = ROUTES[route]
    for model in ("guarded", "obedient", "guided-vllm"):
        answer = await client.post(path, json={"model": model, **body, **SCHEMAS[route](schema)})
        assert answer.status_code == 400, answer.text
        assert message in message_of(route, answer.json())
        assert FIELDS[route] in message_of(route, answer.json())
    assert engine.requests == []


async def test_limits_are_reserved_before_a_constraint_is_checked_and_returned_if_it_is_invalid(
    client: httpx2.AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = text_script('{"name": "Ada"}')

    async def status_with(schema: Any) -> int:
        return (await client.post(ROUTES["chat"][0], json={"model": "scarce", "messages": HI, **in_chat(schema)})).status_code

    assert await status_with({"type": "nothing of the kind"}) == 400
    assert await status_with(PERSON) == 200
    assert await status_with({"type": "strange"}) == 429


async def test_header_for_unvalidated_responses_is_validated_itself(client: httpx2.AsyncClient, engine: ScriptedEngine) -> None:
    engine.script = text_script('{"name": "Ada"}')
    body = {"model": "guarded", "messages": HI, **in_chat(PERSON)}
    answer = await client.post(ROUTES["chat"][0], json=body, headers={"x-narthex-guided-unvalidated": "refuse"})
    assert (answer.status_code, answer.headers["x-narthex-guided"]) == (200, "validated")
    answer = await client.post(ROUTES["chat"][0], json=body, headers={"x-narthex-guided-unvalidated": "perhaps"})
    assert answer.status_code == 400 and "serve or refuse" in answer.json()["error"]["message"]


INVALID_ENGINE_FIELDS: tuple[dict[str, Any], ...] = (
    {"guided_regex": "(a"},
    {"regex": r"(a)\1"},
    {"guided_regex": ""},
    {"structured_outputs": {"regex": "a\0"}},
    {"guided_grammar": "start: nowhere"},
    {"ebnf": 'root ::= "a" nowhere'},
    {"grammar": "no grammar"},
    {"json_schema": {"type": "strin"}},
    {"guided_choice": ["a", ""]},
    {"structural_tag": {"nothing": 1}},
    {"guided_regex": "[a-z]{1,100000}"},
    {"guided_grammar": "root ::= root"},
    {"guided_grammar": 'root ::= ("a"{1000}){1000}'},
    {"guided_json": "[" * 9000},
    {"guided_regex": "a", "guided_choice": ["a"]},
    {"guided_json": PERSON, "guided_whitespace_pattern": "[a-z]"},
)


@pytest.mark.parametrize("route", ROUTES)
async def test_invalid_engine_constraint_field_is_a_400_without_an_upstream_call(
    client: httpx2.AsyncClient, engine: ScriptedEngine, route: str
) -> None:
    path, body = ROUTES[route]
    wrong: list[str] = []
    for fields in INVALID_ENGINE_FIELDS:
        answer = await client.post(path, json={"model": "guided-vllm", **body, **fields})
        if answer.status_code != 400 or not any(field in message_of(route, answer.json()) for field in fields):
            wrong.append(f"{fields!s:.60}: {answer.status_code} {answer.text}")
    assert wrong == []
    assert engine.requests == []


@pytest.mark.parametrize("route", ROUTES)
async def test_two_constraints_are_refused_naming_both_fields(client: httpx2.AsyncClient, engine: ScriptedEngine, route: str) -> None:
    path, body = ROUTES[route]
    answer = await client.post(path, json={"model": "guided-vllm", **body, **SCHEMAS[route](PERSON), "guided_regex": "a"})
    assert answer.status_code == 400, answer.text
    message = message_of(route, answer.json())
    assert "guided_regex" in message
    assert FIELDS[route].partition(".")[0] in message
    assert engine.requests == []


async def test_strict_tool_schema_is_checked(client: httpx2.AsyncClient, engine: ScriptedEngine) -> None:
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "strin"}}}
    answer = await client.post(ROUTES["chat"][0], json={"model": "obedient", "messages": HI, "tools": [tool]})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "tools[0].function.parameters.type"
    assert engine.requests == []


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("model", "guided"), [("guarded", "validated"), ("obedient", "enforced")])
async def test_guided_header_says_enforced_or_validated(
    client: httpx2.AsyncClient, engine: ScriptedEngine, route: str, model: str, guided: str
) -> None:
    engine.script = lambda request: request.respond_completion('{"name": "Ada"}')
    path, body = ROUTES[route]
    for _ in range(2):  # the second time the compiled schema is cached
        answer = await client.post(path, json={"model": model, **body, **SCHEMAS[route](PERSON)})
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-narthex-guided"] == guided
        assert '{\\"name\\": \\"Ada\\"}' in answer.text
    free = await client.post(path, json={"model": "guarded", **body})
    assert "x-narthex-guided" not in free.headers


async def test_whitespace_pattern_is_converted_to_a_regex_or_refused(client: httpx2.AsyncClient, engine: ScriptedEngine) -> None:
    fields = {"guided_json": PERSON, "guided_whitespace_pattern": "[ ]?"}
    answer = await client.post(ROUTES["chat"][0], json={"model": "guided-vllm", "messages": HI, **fields})
    assert answer.headers["x-narthex-guided"] == "converted"
    [request] = engine.requests
    assert request.body.keys() & {"guided_json", "guided_whitespace_pattern"} == set()
    assert request.body["structured_outputs"]["regex"].startswith('\\{(?:[ ]?)"name"')
    refused = await client.post(ROUTES["chat"][0], json={"model": "obedient", "messages": HI, **fields})
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "guided_whitespace_pattern")
    drop = {"x-narthex-drop": "guided_whitespace_pattern"}
    dropped = await client.post(ROUTES["chat"][0], json={"model": "obedient", "messages": HI, **fields}, headers=drop)
    assert (dropped.status_code, dropped.headers["x-narthex-dropped"]) == (200, "guided_whitespace_pattern")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", ROUTES)
async def test_response_violating_its_schema_is_withheld_and_charged(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, route: str, stream: bool
) -> None:
    engine.script = text_script("I'd rather not.")
    path, body = ROUTES[route]
    answer = await client.post(path, json={"model": "guarded", **body, **SCHEMAS[route](PERSON), "stream": stream})
    assert answer.status_code == 502, answer.text
    assert "rather" not in answer.text
    assert "failed validation: it is not JSON" in message_of(route, answer.json())
    if route != "messages":  # whose errors have no code
        assert answer.json()["error"]["code"] == "constraint_violation"
    assert len(engine.requests) == 1
    recorded = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (recorded["charged_input"], recorded["charged_output"]) == (3, 2)
    assert recorded["cost_microusd"] == 3 * 2 + 2 * 10


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", ROUTES)
async def test_guided_retries_header_repeats_the_request_with_feedback(
    client: httpx2.AsyncClient, engine: ScriptedEngine, route: str, stream: bool
) -> None:
    async def valid_on_second_attempt(request: ReceivedRequest) -> None:
        await text_script("I'd rather not." if len(engine.requests) == 1 else '{"name": "Ada"}')(request)

    engine.script = valid_on_second_attempt
    path, body = ROUTES[route]
    fields = {"model": "guarded", **body, **SCHEMAS[route](PERSON), "stream": stream}
    answer = await client.post(path, json=fields, headers={"x-narthex-guided-retries": "1"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-narthex-guided"] == "validated"
    assert "rather" not in answer.text
    assert "Ada" in answer.text
    first, second = engine.requests
    assert second.body["messages"][: len(first.body["messages"])] == first.body["messages"]
    failed, complaint = second.body["messages"][-2:]
    assert (failed["role"], complaint["role"]) == ("assistant", "user")
    assert "rather" in json.dumps(failed["content"])
    assert "not JSON" in json.dumps(complaint["content"])


@pytest.mark.parametrize("retries", [0, 1])
async def test_guided_retries_never_exceed_the_header(
    client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine, retries: int
) -> None:
    engine.script = second_engine.script = text_script("I'd rather not.")
    headers = {"x-narthex-guided-retries": str(retries)}
    answer = await client.post(ROUTES["chat"][0], json={"model": "twice", "messages": HI, **in_chat(PERSON)}, headers=headers)
    assert answer.status_code == 502
    assert len(engine.requests) + len(second_engine.requests) == 1 + retries


async def test_violating_response_is_charged_at_its_own_price_and_the_fallback_serves(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine
) -> None:
    async def valid_on_second_attempt(request: ReceivedRequest) -> None:
        await text_script("I'd rather not." if len(engine.requests) == 1 else '{"name": "Ada"}')(request)

    engine.script = valid_on_second_attempt
    answer = await client.post(ROUTES["chat"][0], json={"model": "caught", "messages": HI, **in_chat(PERSON)})
    assert (answer.status_code, answer.headers["x-narthex-served"]) == (200, "cheap/engine-model")
    recorded = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (recorded["charged_input"], recorded["charged_output"]) == (6, 4)
    assert recorded["cost_microusd"] == (3 * 2 + 2 * 10) + (3 + 2)


async def test_disconnect_during_a_buffered_response_is_charged_for_generated_tokens_where_the_host_stops(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine
) -> None:
    is_streamed = asyncio.Event()

    async def stream_until_disconnected(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(HELLO[0])
        for _ in range(20):
            request.send_event(chunk({"content": '"'}))
        await request.writer.drain()
        is_streamed.set()
        while not request.disconnected.is_set():
            request.send_chunk(b": no silence\n\n")
            await asyncio.sleep(0.1)

    engine.script = stream_until_disconnected
    body = {"model": "abandoned", "messages": HI, "stream": True, **in_chat(PERSON)}
    pending = asyncio.create_task(client.post(ROUTES["chat"][0], json=body))
    await is_streamed.wait()
    await asyncio.sleep(1)  # until the gateway has read it all
    pending.cancel()
    rows: list[Any] = []
    async with service.admin_client() as admin:

        async def is_recorded() -> bool:
            rows[:] = (await admin.get("/admin/v1/inferences?model=abandoned")).json()["data"]
            return bool(rows)

        await wait_until(is_recorded)
    assert (rows[0]["outcome"], rows[0]["charged_output"]) == ("disconnected", 5)  # 20 bytes, 4 to a token


@pytest.mark.parametrize(
    ("form", "param"),
    [
        ({"type": "json_schema", "name": "person", "strict": True, "schema": {"type": "strin"}}, "response_format.schema.type"),
        ({"type": "json_object", "schema": {"type": "strin"}}, "response_format.schema.type"),
        ({"type": "json", "value": {"type": "strin"}}, "response_format.value.type"),
        ({"type": "json_schema", "value": {"schema": {"type": "strin"}}}, "response_format.value.schema.type"),
        ({"type": "regex", "value": "(a"}, "response_format.value"),
        ({"type": "regex_schema", "regex_schema": "(a"}, "response_format.regex_schema"),
        ({"type": "form"}, "response_format"),
        ({"type": "regex_schema"}, "response_format"),
    ],
    ids=str,
)
async def test_invalid_response_format_of_any_form_is_refused_by_its_path(
    client: httpx2.AsyncClient, engine: ScriptedEngine, form: dict[str, Any], param: str
) -> None:
    answer = await client.post(ROUTES["chat"][0], json={"model": "guarded", "messages": HI, "response_format": form})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert engine.requests == []


async def test_schema_beside_its_type_is_sent_in_openai_form(client: httpx2.AsyncClient, engine: ScriptedEngine) -> None:
    engine.script = text_script('{"name": "Ada"}')
    form = {"type": "json_schema", "name": "person", "strict": True, "schema": PERSON}
    answer = await client.post(ROUTES["chat"][0], json={"model": "guarded", "messages": HI, "response_format": form})
    assert (answer.status_code, answer.headers["x-narthex-guided"]) == (200, "validated")
    [request] = engine.requests
    named = {"name": "person", "schema": PERSON, "strict": True}
    assert request.body["response_format"] == {"type": "json_schema", "json_schema": named}


async def test_echo_with_a_constraint_is_refused(client: httpx2.AsyncClient, engine: ScriptedEngine) -> None:
    engine.script = text_script('{"name": "Ada"}')
    fields = {"model": "guarded", "prompt": "Who?", "echo": True, "guided_json": PERSON}
    refused = await client.post("/v1/completions", json=fields)
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "echo")
    assert engine.requests == []


@pytest.mark.parametrize(("constraint", "field"), [({"json": {"not": {}}}, "json"), ({"regex": "a.b"}, "regex")], ids=str)
async def test_partially_covered_constraint_on_token_ids_is_refused(
    client: httpx2.AsyncClient, engine: ScriptedEngine, constraint: dict[str, Any], field: str
) -> None:
    fields = {"model": "guided-vllm", "token_ids": [1, 2], "sampling_params": {"max_tokens": 5, "structured_outputs": constraint}}
    refused = await client.post("/inference/v1/generate", json=fields)
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, f"sampling_params.structured_outputs.{field}")
    assert engine.requests == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", ROUTES)
async def test_idempotent_replay_and_record_keep_the_guided_value(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, route: str, stream: bool
) -> None:
    engine.script = text_script('{"name": "Ada"}')
    path, body = ROUTES[route]
    fields = {"model": "guarded", **body, **SCHEMAS[route](PERSON), "stream": stream}
    headers = {"idempotency-key": f"held-{route}-{stream}"}
    first, again = [await client.post(path, json=fields, headers=headers) for _ in range(2)]
    assert (first.status_code, again.status_code, again.headers.get("x-narthex-replayed")) == (200, 200, "true")
    assert (first.headers["x-narthex-guided"], again.headers["x-narthex-guided"]) == ("validated", "validated")
    assert again.content == first.content
    assert len(engine.requests) == 1
    assert (await service.wait_for_record(first.headers["x-narthex-inference-id"]))["structured_output"] == "validated"


async def test_every_choice_is_validated(client: httpx2.AsyncClient, engine: ScriptedEngine) -> None:
    texts = ['{"name": "Ada"}', '{"name": 1}']

    async def respond_twice(request: ReceivedRequest) -> None:
        body = completion(texts[0])
        other = completion(texts[1])["choices"][0]
        body["choices"].append({**other, "index": 1})
        await request.respond(200, json.dumps(body).encode())

    engine.script = respond_twice
    fields = {"model": "guarded", "messages": HI, "n": 2, **in_chat(PERSON)}
    assert (await client.post(ROUTES["chat"][0], json=fields)).status_code == 502
    texts[1] = '{"name": "Eve"}'
    answer = await client.post(ROUTES["chat"][0], json=fields)
    assert [choice["message"]["content"] for choice in answer.json()["choices"]] == texts


async def test_follow_up_response_is_validated_against_its_own_constraint(client: httpx2.AsyncClient, engine: ScriptedEngine) -> None:
    engine.script = text_script('{"name": "Ada"}')
    path, body = ROUTES["responses"]
    first = await client.post(path, json={"model": "guarded", **body, **in_responses(PERSON)})
    follow_up = {"model": "guarded", "input": "And again?", "previous_response_id": first.json()["id"]}
    request_count = len(engine.requests)
    refused = await client.post(path, json={**follow_up, **in_responses({"type": "strin"})})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "text.format.schema.type")
    assert len(engine.requests) == request_count
    valid = await client.post(path, json={**follow_up, **in_responses(PERSON)})
    assert (valid.status_code, valid.headers["x-narthex-guided"]) == (200, "validated")
    engine.script = text_script("I'd rather not.")
    assert (await client.post(path, json={**follow_up, **in_responses(PERSON)})).status_code == 502
    unconstrained = await client.post(path, json=follow_up)
    assert (unconstrained.status_code, unconstrained.headers.get("x-narthex-guided")) == (200, None)


@pytest.mark.parametrize("route", ROUTES)
async def test_validated_stream_is_complete_in_the_callers_event_format(
    client: httpx2.AsyncClient, engine: ScriptedEngine, route: str
) -> None:
    engine.script = text_script('{"name": "Ada"}')
    path, body = ROUTES[route]
    answer = await client.post(path, json={"model": "guarded", **body, **SCHEMAS[route](PERSON), "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-narthex-guided"] == "validated"
    ending = {"chat": "[DONE]", "responses": "response.completed", "messages": "message_stop"}[route]
    assert ending in answer.text
    assert "Ada" in answer.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", ROUTES)
async def test_truncated_response_passes_if_it_is_a_valid_prefix_and_reports_length(
    client: httpx2.AsyncClient, engine: ScriptedEngine, route: str, stream: bool
) -> None:
    engine.script = text_script('{"name": "A', "length")
    path, body = ROUTES[route]
    fields = {"model": "guarded", **body, **SCHEMAS[route](PERSON), "stream": stream}
    answer = await client.post(path, json=fields)
    assert answer.status_code == 200, answer.text
    assert {"chat": '"length"', "responses": '"max_output_tokens"', "messages": '"max_tokens"'}[route] in answer.text
    engine.script = text_script("Of course: {", "length")
    assert (await client.post(path, json=fields)).status_code == 502


async def test_tool_call_response_is_exempt_from_the_schema(client: httpx2.AsyncClient, engine: ScriptedEngine) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    engine.script = lambda request: request.respond(200, json.dumps(completion(None, tool_calls=[call])).encode())
    tools = [{"type": "function", "function": {"name": "f"}}]
    answer = await client.post(ROUTES["chat"][0], json={"model": "guarded", "messages": HI, "tools": tools, **in_chat(PERSON)})
    assert answer.json()["choices"][0]["finish_reason"] == "tool_calls"


def text_script(text: str, reason: str = "stop") -> Any:
    """Returns a script that answers with this text, streamed if the request wants that."""

    async def script(request: ReceivedRequest) -> None:
        if not request.body.get("stream"):
            body = completion(text)
            body["choices"][0]["finish_reason"] = reason
            await request.respond(200, json.dumps(body).encode())
            return
        half = len(text) // 2
        pieces = (HELLO[0], chunk({"content": text[:half]}), chunk({"content": text[half:]}), chunk({}, reason), HELLO[-1])
        await stream_script(*pieces)(request)

    return script
