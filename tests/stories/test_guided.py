"""Stories of guided decoding: what cannot be obeyed costs no engine anything, and what was not obeyed reaches no caller."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from tests.stories.scripted import HELLO, Asked, ScriptedEngine, chunk, completion, streaming
from tests.stories.service import Service

HI = [{"role": "user", "content": "Hello"}]
PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": False}
BOMB = {"allOf": [{"anyOf": [{"properties": {f"a{a}{b}": {"const": b}}} for b in range(6)]} for a in range(12)]}
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


def deep(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


FIELDS = {"chat": "response_format.json_schema.schema", "responses": "text.format.schema", "messages": "output_config.format.schema"}
SCHEMAS = {"chat": in_chat, "responses": in_responses, "messages": in_messages}


@pytest.fixture(scope="module", autouse=True)
async def obeying(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> AsyncGenerator[None]:
    """Models of the first engine: guarded, of which nobody knows whether it obeys schemas, and obedient, of which it is said; twice (both

    engines, guarded) and caught (guarded, falling back to one at another price).
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
        obedient = {{ adapter = "openai", base_url = "{one}", options = {{ guided = "enforced" }} }}
        guided-vllm = {{ adapter = "vllm", base_url = "{one}", options = {{ version = "0.33.0" }} }}
        cheap = {{ adapter = "openai", base_url = "{one}" }}
        [[prices]]
        provider = "cheap"
        model = "engine-model"
        input = 1.0
        output = 1.0
        [models]
        twice = {{ targets = [{{ provider = "guarded", model = "engine-model", endpoints = ["{one}", "{two}"] }}] }}
        caught = {{ targets = [{{ provider = "guarded", model = "engine-model" }}], fallbacks = ["cheap"] }}
        left = {{ targets = [{{ provider = "guarded", model = "engine-model" }}] }}
        cheap = {{ targets = [{{ provider = "cheap", model = "engine-model" }}] }}
        guarded = {{ targets = [{{ provider = "guarded", model = "engine-model" }}] }}
        obedient = {{ targets = [{{ provider = "obedient", model = "engine-model" }}] }}
        guided-vllm = {{ targets = [{{ provider = "guided-vllm", model = "engine-model" }}] }}
    """)
    yield


def message_of(route: str, body: dict[str, Any]) -> str:
    """In the caller's shape."""
    if route == "messages":
        assert body["type"] == "error"
    else:
        assert {"message", "type", "code", "param"} <= body["error"].keys()
    return body["error"]["message"]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"properties": {"a": {"type": "strin"}}}, "properties.a.type"),
        ({"$ref": "https://elsewhere.test/person.json"}, "nothing is fetched"),
        ({"pattern": "(a"}, "pattern"),
        (BOMB, "too large"),
        (deep(200), "nested too deeply"),
        ({"type": "string", "maxLength": 10**9}, "maxLength"),
        ({"type": "string", "pattern": "^(?:a|[b-z]{1,400}){1,400}$"}, "pattern"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}}, "refers to itself"),
    ],
    ids=["type", "reference", "pattern", "products", "depth", "length", "repetition", "circle"],
)
async def test_a_bad_schema_is_told_before_any_engine_works(
    client: httpx.AsyncClient, engine: ScriptedEngine, route: str, schema: Any, fault: str
) -> None:
    path, body = ROUTES[route]
    for model in ("guarded", "obedient", "guided-vllm"):
        answer = await client.post(path, json={"model": model, **body, **SCHEMAS[route](schema)})
        assert answer.status_code == 400, answer.text
        assert fault in message_of(route, answer.json())
        assert FIELDS[route] in message_of(route, answer.json())
    assert engine.asked == []


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "fields",
    [
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
    ],
    ids=lambda fields: f"{fields!s:.60}",
)
async def test_a_bad_constraint_in_engines_words_is_told_before_any_engine_works(
    client: httpx.AsyncClient, engine: ScriptedEngine, route: str, fields: dict[str, Any]
) -> None:
    path, body = ROUTES[route]
    answer = await client.post(path, json={"model": "guided-vllm", **body, **fields})
    assert answer.status_code == 400, answer.text
    assert any(field in message_of(route, answer.json()) for field in fields)
    assert engine.asked == []


@pytest.mark.parametrize("route", ROUTES)
async def test_two_constraints_at_once_are_refused_by_both_their_names(
    client: httpx.AsyncClient, engine: ScriptedEngine, route: str
) -> None:
    path, body = ROUTES[route]
    answer = await client.post(path, json={"model": "guided-vllm", **body, **SCHEMAS[route](PERSON), "guided_regex": "a"})
    assert answer.status_code == 400, answer.text
    message = message_of(route, answer.json())
    assert "guided_regex" in message
    assert FIELDS[route].partition(".")[0] in message
    assert engine.asked == []


async def test_schemas_of_strict_tools_are_checked_too(client: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "strin"}}}
    answer = await client.post(ROUTES["chat"][0], json={"model": "obedient", "messages": HI, "tools": [tool]})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "tools[0].function.parameters.type"
    assert engine.asked == []


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("model", "how"), [("guarded", "validated"), ("obedient", "enforced")])
async def test_callers_are_told_how_it_was_held(
    client: httpx.AsyncClient, engine: ScriptedEngine, route: str, model: str, how: str
) -> None:
    engine.script = lambda asked: asked.whole('{"name": "Ada"}')
    path, body = ROUTES[route]
    for _ in range(2):  # the second time it is known
        answer = await client.post(path, json={"model": model, **body, **SCHEMAS[route](PERSON)})
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-narthex-guided"] == how
        assert '{\\"name\\": \\"Ada\\"}' in answer.text
    free = await client.post(path, json={"model": "guarded", **body})
    assert "x-narthex-guided" not in free.headers


async def test_white_space_is_held_by_a_regex_where_the_engine_obeys_those(client: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    fields = {"guided_json": PERSON, "guided_whitespace_pattern": "[ ]?"}
    answer = await client.post(ROUTES["chat"][0], json={"model": "guided-vllm", "messages": HI, **fields})
    assert answer.headers["x-narthex-guided"] == "converted"
    [asked] = engine.asked
    assert asked.body.keys() & {"guided_json", "guided_whitespace_pattern"} == set()
    assert asked.body["structured_outputs"]["regex"].startswith('\\{(?:[ ]?)"name"')
    refused = await client.post(ROUTES["chat"][0], json={"model": "obedient", "messages": HI, **fields})
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "guided_whitespace_pattern")
    let_go = {"x-narthex-drop": "guided_whitespace_pattern"}
    dropped = await client.post(ROUTES["chat"][0], json={"model": "obedient", "messages": HI, **fields}, headers=let_go)
    assert (dropped.status_code, dropped.headers["x-narthex-dropped"]) == (200, "guided_whitespace_pattern")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", ROUTES)
async def test_an_answer_that_does_not_obey_reaches_nobody_and_is_charged_for(
    service: Service, client: httpx.AsyncClient, engine: ScriptedEngine, route: str, stream: bool
) -> None:
    engine.script = says("I'd rather not.")
    path, body = ROUTES[route]
    answer = await client.post(path, json={"model": "guarded", **body, **SCHEMAS[route](PERSON), "stream": stream})
    assert answer.status_code == 502, answer.text
    assert "rather" not in answer.text
    assert "was not seen to: it is not JSON" in message_of(route, answer.json())
    if route != "messages":  # whose errors have no code
        assert answer.json()["error"]["code"] == "constraint_not_obeyed"
    assert len(engine.asked) == 1
    recorded = await service.recorded(answer.headers["x-narthex-inference-id"])
    assert (recorded["charged_input"], recorded["charged_output"]) == (3, 2)
    assert recorded["cost_microusd"] == 3 * 2 + 2 * 10


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", ROUTES)
async def test_a_caller_may_have_it_asked_for_again(client: httpx.AsyncClient, engine: ScriptedEngine, route: str, stream: bool) -> None:
    async def better_the_second_time(asked: Asked) -> None:
        await says("I'd rather not." if len(engine.asked) == 1 else '{"name": "Ada"}')(asked)

    engine.script = better_the_second_time
    path, body = ROUTES[route]
    fields = {"model": "guarded", **body, **SCHEMAS[route](PERSON), "stream": stream}
    answer = await client.post(path, json=fields, headers={"x-narthex-guided-retries": "1"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-narthex-guided"] == "validated"
    assert "rather" not in answer.text
    assert "Ada" in answer.text
    first, second = engine.asked
    assert second.body["messages"][: len(first.body["messages"])] == first.body["messages"]
    failed, complaint = second.body["messages"][-2:]
    assert (failed["role"], complaint["role"]) == ("assistant", "user")
    assert "rather" in json.dumps(failed["content"])
    assert "not JSON" in json.dumps(complaint["content"])


@pytest.mark.parametrize("retries", [0, 1])
async def test_no_more_answers_are_made_than_the_caller_allows(
    client: httpx.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine, retries: int
) -> None:
    engine.script = second_engine.script = says("I'd rather not.")
    headers = {"x-narthex-guided-retries": str(retries)}
    answer = await client.post(ROUTES["chat"][0], json={"model": "twice", "messages": HI, **in_chat(PERSON)}, headers=headers)
    assert answer.status_code == 502
    assert len(engine.asked) + len(second_engine.asked) == 1 + retries


async def test_what_was_not_obeyed_is_paid_to_whoever_made_it_and_another_target_is_tried(
    service: Service, client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    async def better_the_second_time(asked: Asked) -> None:
        await says("I'd rather not." if len(engine.asked) == 1 else '{"name": "Ada"}')(asked)

    engine.script = better_the_second_time
    answer = await client.post(ROUTES["chat"][0], json={"model": "caught", "messages": HI, **in_chat(PERSON)})
    assert (answer.status_code, answer.headers["x-narthex-served"]) == (200, "cheap/engine-model")
    recorded = await service.recorded(answer.headers["x-narthex-inference-id"])
    assert (recorded["charged_input"], recorded["charged_output"]) == (6, 4)
    assert recorded["cost_microusd"] == (3 * 2 + 2 * 10) + (3 + 2)


async def test_who_hangs_up_on_an_answer_that_is_held_pays_for_what_was_written(
    service: Service, client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    async def on_and_on(asked: Asked) -> None:
        asked.begin_stream()
        asked.frame(HELLO[0])
        for _ in range(20):
            asked.frame(chunk({"content": '"'}))
        await asked.left.wait()

    engine.script = on_and_on
    with pytest.raises(httpx.ReadTimeout):
        await client.post(ROUTES["chat"][0], json={"model": "left", "messages": HI, "stream": True, **in_chat(PERSON)}, timeout=0.5)
    async with httpx.AsyncClient(base_url=service.url, headers={"authorization": f"Bearer {service.admin_key}"}) as admin:
        rows: list[Any] = []
        async with asyncio.timeout(15):
            while not rows:
                await asyncio.sleep(0.1)
                rows = (await admin.get("/admin/v1/inferences?model=left")).json()["data"]
    assert (rows[0]["outcome"], rows[0]["charged_output"]) == ("hung_up", 20)


@pytest.mark.parametrize(
    ("form", "fault"),
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
async def test_every_form_of_a_response_format_is_read_or_refused(
    client: httpx.AsyncClient, engine: ScriptedEngine, form: dict[str, Any], fault: str
) -> None:
    answer = await client.post(ROUTES["chat"][0], json={"model": "guarded", "messages": HI, "response_format": form})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, fault)
    assert engine.asked == []


async def test_a_schema_beside_its_type_is_asked_for_in_openais_words(client: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    engine.script = says('{"name": "Ada"}')
    form = {"type": "json_schema", "name": "person", "strict": True, "schema": PERSON}
    answer = await client.post(ROUTES["chat"][0], json={"model": "guarded", "messages": HI, "response_format": form})
    assert (answer.status_code, answer.headers["x-narthex-guided"]) == (200, "validated")
    [asked] = engine.asked
    named = {"name": "person", "schema": PERSON, "strict": True}
    assert asked.body["response_format"] == {"type": "json_schema", "json_schema": named}


async def test_an_answer_that_begins_with_its_prompt_is_not_promised(client: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    engine.script = says('{"name": "Ada"}')
    fields = {"model": "guarded", "prompt": "Who?", "echo": True, "guided_json": PERSON}
    refused = await client.post("/v1/completions", json=fields)
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "echo")
    assert engine.asked == []


@pytest.mark.parametrize(("said", "fault"), [({"json": {"not": {}}}, "json"), ({"regex": "a.b"}, "regex")], ids=str)
async def test_what_an_engine_holds_in_part_and_nobody_can_look_at_is_refused(
    client: httpx.AsyncClient, engine: ScriptedEngine, said: dict[str, Any], fault: str
) -> None:
    fields = {"model": "guided-vllm", "token_ids": [1, 2], "sampling_params": {"max_tokens": 5, "structured_outputs": said}}
    refused = await client.post("/inference/v1/generate", json=fields)
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, f"sampling_params.structured_outputs.{fault}")
    assert engine.asked == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", ROUTES)
async def test_a_retry_of_the_request_is_told_how_it_was_held_and_so_is_the_record(
    service: Service, client: httpx.AsyncClient, engine: ScriptedEngine, route: str, stream: bool
) -> None:
    engine.script = says('{"name": "Ada"}')
    path, body = ROUTES[route]
    fields = {"model": "guarded", **body, **SCHEMAS[route](PERSON), "stream": stream}
    headers = {"idempotency-key": f"held-{route}-{stream}"}
    first, again = [await client.post(path, json=fields, headers=headers) for _ in range(2)]
    assert (first.status_code, again.status_code, again.headers.get("x-narthex-replayed")) == (200, 200, "true")
    assert (first.headers["x-narthex-guided"], again.headers["x-narthex-guided"]) == ("validated", "validated")
    assert again.content == first.content
    assert len(engine.asked) == 1
    assert (await service.recorded(first.headers["x-narthex-inference-id"]))["guided"] == "validated"


async def test_each_of_several_answers_is_looked_at(client: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    texts = ['{"name": "Ada"}', '{"name": 1}']

    async def two(asked: Asked) -> None:
        told = completion(texts[0])
        other = completion(texts[1])["choices"][0]
        told["choices"].append({**other, "index": 1})
        await asked.answer(200, json.dumps(told).encode())

    engine.script = two
    fields = {"model": "guarded", "messages": HI, "n": 2, **in_chat(PERSON)}
    assert (await client.post(ROUTES["chat"][0], json=fields)).status_code == 502
    texts[1] = '{"name": "Eve"}'
    answer = await client.post(ROUTES["chat"][0], json=fields)
    assert [choice["message"]["content"] for choice in answer.json()["choices"]] == texts


async def test_an_ask_that_goes_on_from_an_answer_is_held_to_its_own_constraint(client: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    engine.script = says('{"name": "Ada"}')
    path, body = ROUTES["responses"]
    first = await client.post(path, json={"model": "guarded", **body, **in_responses(PERSON)})
    onward = {"model": "guarded", "input": "And again?", "previous_response_id": first.json()["id"]}
    asked = len(engine.asked)
    refused = await client.post(path, json={**onward, **in_responses({"type": "strin"})})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "text.format.schema.type")
    assert len(engine.asked) == asked
    held = await client.post(path, json={**onward, **in_responses(PERSON)})
    assert (held.status_code, held.headers["x-narthex-guided"]) == (200, "validated")
    engine.script = says("I'd rather not.")
    assert (await client.post(path, json={**onward, **in_responses(PERSON)})).status_code == 502
    free = await client.post(path, json=onward)
    assert (free.status_code, free.headers.get("x-narthex-guided")) == (200, None)


@pytest.mark.parametrize("route", ROUTES)
async def test_a_stream_that_is_looked_at_is_told_whole_in_the_callers_frames(
    client: httpx.AsyncClient, engine: ScriptedEngine, route: str
) -> None:
    engine.script = says('{"name": "Ada"}')
    path, body = ROUTES[route]
    answer = await client.post(path, json={"model": "guarded", **body, **SCHEMAS[route](PERSON), "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-narthex-guided"] == "validated"
    ending = {"chat": "[DONE]", "responses": "response.completed", "messages": "message_stop"}[route]
    assert ending in answer.text
    assert "Ada" in answer.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", ROUTES)
async def test_an_answer_that_was_cut_off_may_be_a_beginning_and_says_that_it_was_cut_off(
    client: httpx.AsyncClient, engine: ScriptedEngine, route: str, stream: bool
) -> None:
    engine.script = says('{"name": "A', "length")
    path, body = ROUTES[route]
    fields = {"model": "guarded", **body, **SCHEMAS[route](PERSON), "stream": stream}
    answer = await client.post(path, json=fields)
    assert answer.status_code == 200, answer.text
    assert {"chat": '"length"', "responses": '"max_output_tokens"', "messages": '"max_tokens"'}[route] in answer.text
    engine.script = says("Of course: {", "length")
    assert (await client.post(path, json=fields)).status_code == 502


async def test_a_call_is_another_answer_than_the_one_that_was_constrained(client: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    engine.script = lambda asked: asked.answer(200, json.dumps(completion(None, tool_calls=[call])).encode())
    tools = [{"type": "function", "function": {"name": "f"}}]
    answer = await client.post(ROUTES["chat"][0], json={"model": "guarded", "messages": HI, "tools": tools, **in_chat(PERSON)})
    assert answer.json()["choices"][0]["finish_reason"] == "tool_calls"


def says(text: str, reason: str = "stop") -> Any:
    """Whole or as a stream, as it is asked."""

    async def script(asked: Asked) -> None:
        if not asked.body.get("stream"):
            told = completion(text)
            told["choices"][0]["finish_reason"] = reason
            await asked.answer(200, json.dumps(told).encode())
            return
        half = len(text) // 2
        pieces = (HELLO[0], chunk({"content": text[:half]}), chunk({"content": text[half:]}), chunk({}, reason), HELLO[-1])
        await streaming(*pieces)(asked)

    return script
