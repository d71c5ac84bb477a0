"""Functions: reached through the official SDKs, rendered by their variant, recorded, limited, and listed like models."""

import json
import time
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from tests.support.processes.service import Service
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, completion, stream_script

CHAT = "/v1/chat/completions"
HI: Any = [{"role": "user", "content": "Hi"}]
ADA: Any = {"narthex::input": {"system": {"name": "Ada"}}}


@pytest.fixture(scope="module")
def functions(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    one, two = (f"http://127.0.0.1:{engine.port}" for engine in engines)
    service.apply(f"""
        [providers]
        fn-one = {{ adapter = "openai", base_url = "{one}" }}
        fn-two = {{ adapter = "openai", base_url = "{two}" }}
        fn-claude = {{ adapter = "anthropic", base_url = "{one}" }}
        [models]
        fn-small = {{ targets = [{{ provider = "fn-one", model = "small" }}] }}
        fn-large = {{ targets = [{{ provider = "fn-two", model = "large" }}] }}
        fn-claude = {{ targets = [{{ provider = "fn-claude", model = "claude" }}] }}

        [functions.fn-answer]
        default = "terse"
        fallbacks = ["wordy"]
        description = "Answers."
        [functions.fn-answer.schemas.system]
        type = "object"
        properties.name.type = "string"
        required = ["name"]
        [functions.fn-answer.variants.terse]
        model = "fn-small"
        system_template = "Answer {{{{ name }}}} in one sentence."
        params = {{ temperature = 0.2, max_tokens = 50 }}
        [functions.fn-answer.variants.wordy]
        model = "fn-large"
        system_template = "Answer {{{{ name }}}} at length."
        [functions.fn-answer.variants.claude]
        model = "fn-claude"
        system_template = "Answer {{{{ name }}}} as Claude."

        [functions.fn-extract]
        type = "json"
        output_schema = {{ type = "object", properties = {{ a = {{ type = "integer" }} }}, required = ["a"], additionalProperties = false }}
        [functions.fn-extract.variants.only]
        model = "fn-small"
    """)


pytestmark = pytest.mark.usefixtures("functions")

PROMPTS = {"terse": "Answer Ada in one sentence.", "wordy": "Answer Ada at length."}


stream_hello = stream_script(*HELLO)


async def fail(request: ReceivedRequest) -> None:
    await request.respond(500, b'{"error": {"message": "broken"}}')


@pytest.mark.parametrize("name", ["fn-answer", "narthex::function_name::fn-answer", "tensorzero::function_name::fn-answer"])
async def test_chat_is_answered_by_the_default_variant(sdk: openai.AsyncOpenAI, service: Service, engine: ScriptedEngine, name: str):
    answer = await sdk.chat.completions.create(model=name, messages=HI, extra_body=ADA)
    assert answer.choices[0].message.content == "Hello."
    sent = engine.requests[-1].body
    assert sent == {
        **{"model": "small", "messages": [{"role": "system", "content": PROMPTS["terse"]}, *HI]},
        **{"temperature": 0.2, "max_tokens": 50},
    }
    row = await service.wait_for_record(answer.id)
    assert (row["model"], row["function"], row["variant"], row["served_model"]) == (name, "fn-answer", "terse", "small")
    async with service.admin_client() as admin:
        recorded = (await admin.get(f"/admin/v1/inferences/{answer.id}")).json()
    request = json.loads(recorded["content"]["request"])
    assert (request["messages"], request["narthex::input"]) == (HI, ADA["narthex::input"])


async def test_chat_is_streamed(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    engine.script = stream_hello
    stream = await sdk.chat.completions.create(model="fn-answer", messages=HI, extra_body=ADA, stream=True)
    assert "".join([each.choices[0].delta.content or "" async for each in stream if each.choices]) == "Hello."
    assert engine.requests[-1].body["messages"][0]["content"] == PROMPTS["terse"]


async def test_responses_reach_a_function_and_continue_it(sdk: openai.AsyncOpenAI, engine: ScriptedEngine):
    first = await sdk.responses.create(model="fn-answer", input="Hi", extra_body=ADA)
    assert first.output_text == "Hello." and first.instructions is None
    assert engine.requests[-1].body["messages"] == [{"role": "system", "content": PROMPTS["terse"]}, *HI]
    second = await sdk.responses.create(model="fn-answer", input="More", previous_response_id=first.id, extra_body=ADA)
    assert second.output_text == "Hello."
    assert [each["content"] for each in engine.requests[-1].body["messages"]] == [PROMPTS["terse"], "Hi", "Hello.", "More"]
    engine.script = stream_hello
    stream = await sdk.responses.create(model="fn-answer", input="Hi", extra_body=ADA, stream=True)
    assert "".join([each.delta async for each in stream if each.type == "response.output_text.delta"]) == "Hello."


async def test_messages_reach_a_function(claude: anthropic.AsyncAnthropic, engine: ScriptedEngine):
    answer = await claude.messages.create(model="fn-answer", messages=HI, max_tokens=9, extra_body=ADA)
    assert answer.content[0].type == "text" and answer.content[0].text == "Hello."
    assert engine.requests[-1].body["messages"] == [{"role": "system", "content": PROMPTS["terse"]}, *HI]
    assert engine.requests[-1].body["max_completion_tokens"] == 9
    engine.script = stream_hello
    async with claude.messages.stream(model="fn-answer", messages=HI, max_tokens=9, extra_body=ADA) as stream:
        assert await stream.get_final_text() == "Hello."


async def test_pinned_variant_of_another_dialect_serves(sdk: openai.AsyncOpenAI, service: Service, engine: ScriptedEngine):
    async def respond_as_claude(request: ReceivedRequest) -> None:
        message = {
            **{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "stop_sequence": None},
            **{"content": [{"type": "text", "text": "Bonjour."}], "usage": {"input_tokens": 3, "output_tokens": 2}},
        }
        await request.respond(200, json.dumps(message).encode())

    engine.script = respond_as_claude
    pins: Any = (
        {"extra_headers": {"x-narthex-variant": "claude"}, "extra_body": ADA},
        {"extra_body": {**ADA, "tensorzero::variant_name": "claude"}},
    )
    for pin in pins:
        create: Any = sdk.chat.completions.create
        answer: Any = await create(model="fn-answer", messages=HI, **pin)
        assert answer.choices[0].message.content == "Bonjour."
        assert (engine.requests[-1].path, engine.requests[-1].body["system"]) == ("/v1/messages", "Answer Ada as Claude.")
        assert (await service.wait_for_record(answer.id))["variant"] == "claude"
    with pytest.raises(openai.BadRequestError, match=r"has no variant 'none'\. It has: claude, terse, wordy"):
        await sdk.chat.completions.create(model="fn-answer", messages=HI, extra_headers={"x-narthex-variant": "none"}, extra_body=ADA)


@pytest.mark.parametrize("streamed", [False, True])
async def test_fallback_variant_has_a_prompt_of_its_own(
    client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine, second_engine: ScriptedEngine, streamed: bool
):
    engine.script = fail
    second_engine.script = stream_hello if streamed else ReceivedRequest.respond_completion
    answered = await client.post(CHAT, json={"model": "fn-answer", "messages": HI, "stream": streamed, **ADA})
    assert answered.status_code == 200, answered.text
    assert engine.requests[-1].body["messages"][0]["content"] == PROMPTS["terse"]
    received = second_engine.requests[-1].body
    assert received["messages"] == [{"role": "system", "content": PROMPTS["wordy"]}, *HI] and "temperature" not in received
    row = await service.wait_for_record(answered.headers["x-narthex-inference-id"])
    assert (row["variant"], row["served_model"], len(row["attempts"])) == ("terse", "large", 2)


async def test_json_function_demands_its_schema(sdk: openai.AsyncOpenAI, client: httpx2.AsyncClient, engine: ScriptedEngine):
    async def respond_json(request: ReceivedRequest) -> None:
        await request.respond(200, json.dumps(completion('{"a": 1}')).encode())

    engine.script = respond_json
    answer = await sdk.chat.completions.create(model="fn-extract", messages=HI)
    assert json.loads(answer.choices[0].message.content or "") == {"a": 1}
    format = engine.requests[-1].body["response_format"]
    assert (format["type"], format["json_schema"]["strict"], format["json_schema"]["schema"]["required"]) == ("json_schema", True, ["a"])
    engine.script = ReceivedRequest.respond_completion
    broken = await client.post(CHAT, json={"model": "fn-extract", "messages": HI})
    assert broken.status_code == 502 and engine.requests[-1].body["response_format"] == format


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (CHAT, {"messages": HI}, '"name" is a required property (at `narthex::input.system`)'),
        (CHAT, {"messages": [{"role": "system", "content": "x"}, *HI]}, "takes no text"),
        ("/v1/responses", {"input": "Hi", "narthex::input": {"system": {"name": 1}}}, '1 is not of type "string"'),
        ("/v1/messages", {"messages": HI, "max_tokens": 9}, '"name" is a required property'),
        ("/v1/completions", {"prompt": "Hi"}, "is a function, which answers chats"),
        ("/v1/embeddings", {"input": "Hi"}, "is a function, which answers chats"),
        ("/tokenize", {"prompt": "Hi"}, "is a function, which answers chats"),
    ],
)
async def test_request_that_a_function_does_not_take_is_a_400(
    client: httpx2.AsyncClient, engine: ScriptedEngine, path: str, body: dict[str, Any], message: str
):
    answer = await client.post(path, json={"model": "fn-answer", **body})
    assert answer.status_code == 400 and message in answer.json()["error"]["message"], answer.text
    assert ("type" in answer.json()) == (path == "/v1/messages") and not engine.requests


async def test_variant_header_and_input_of_a_model_are_reported_as_dropped(client: httpx2.AsyncClient, engine: ScriptedEngine):
    answer = await client.post(CHAT, json={"model": "fn-small", "messages": HI, **ADA})
    assert (answer.status_code, answer.headers["x-narthex-dropped"]) == (200, "narthex::input")
    assert set(engine.requests[-1].body) == {"model", "messages"}
    of_function = await client.post(CHAT, json={"model": "fn-answer", "messages": HI, **ADA})
    assert "x-narthex-dropped" not in of_function.headers


async def test_native_api_of_tensorzero_reaches_functions(
    client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    sent = {"function_name": "fn-answer", "input": {"system": {"name": "Ada"}, "messages": HI}}
    answer = await client.post("/inference", json=sent)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["variant_name"], answer.json()["content"][0]["text"]) == ("terse", "Hello.")
    assert engine.requests[-1].body["messages"] == [{"role": "system", "content": PROMPTS["terse"]}, *HI]
    row = await service.wait_for_record(answer.json()["inference_id"])
    assert (row["function"], row["variant"]) == ("fn-answer", "terse")
    pinned = await client.post("/inference", json={**sent, "variant_name": "wordy"})
    assert pinned.json()["variant_name"] == "wordy" and second_engine.requests[-1].body["messages"][0]["content"] == PROMPTS["wordy"]
    engine.script = fail
    assert (await client.post("/inference", json=sent)).json()["variant_name"] == "wordy"
    refused = await client.post("/inference", json={**sent, "input": {"messages": HI}})
    assert refused.status_code == 400 and "required property" in refused.json()["error"]

    async def respond_json(request: ReceivedRequest) -> None:
        await request.respond(200, json.dumps(completion('{"a": 1}')).encode())

    engine.script = respond_json
    extracted = await client.post("/inference", json={"function_name": "fn-extract", "input": {"messages": HI}})
    assert extracted.json()["output"] == {"raw": '{"a": 1}', "parsed": {"a": 1}}, extracted.text


async def test_functions_are_listed_like_models(service: Service, client: httpx2.AsyncClient):
    listed = {each["id"]: each for each in (await client.get("/v1/models")).json()["data"]}
    created = listed["fn-answer"].pop("created")
    assert abs(created - time.time()) < 3_600 and listed["fn-answer"] == {"id": "fn-answer", "object": "model", "owned_by": "narthex"}
    assert (await client.get("/v1/models/fn-extract")).json()["id"] == "fn-extract"
    assert (await client.get("/v1/limits", params={"model": "fn-answer"})).status_code == 200
    preview = (await client.post("/v1/limits/preview", json={"model": "fn-answer", "messages": HI, **ADA})).json()
    assert (preview["model"], preview["reserves"]["output_tokens"]) == ("fn-small", 50)


async def test_limit_of_a_function_counts_whichever_variant_answers_and_no_model(service: Service, engine: ScriptedEngine):
    service.apply("""
        [functions.fn-counted]
        default = "one"
        variants = { one = { model = "fn-small" }, two = { model = "sandbox" } }
        [[limits]]
        name = "fn-counted"
        scope = { function = "fn-counted", team = "each" }
        resource = "requests"
        amount = 3
        per = "day"
        [[limits]]
        name = "fn-each"
        scope = { function = "each" }
        resource = "requests"
        amount = 1000
        per = "hour"
    """)
    async with service.client() as client:
        for variant in ("one", "two", "two"):
            body = {"model": "narthex::function_name::fn-counted", "messages": HI, "max_tokens": 5}
            answer = await client.post(CHAT, json=body, headers={"x-narthex-variant": variant})
            assert answer.status_code == 200, answer.text
        refused = await client.post(CHAT, json={"model": "fn-counted", "messages": HI})
        assert refused.status_code == 429 and "fn-counted" in refused.json()["error"]["message"], refused.text
        preview = (await client.post("/v1/limits/preview", json={"model": "fn-counted", "messages": HI})).json()
        assert preview["refused_by"] == "fn-counted"
        assert (await client.post(CHAT, json={"model": "sandbox", "messages": HI})).status_code == 200
        states = {each["rule"]: each for each in (await client.get("/v1/limits", params={"model": "fn-counted"})).json()["data"]}
        assert states["fn-counted"]["remaining"] == 0 and states["fn-each"]["remaining"] == 1000 - 3
        of_model = (await client.get("/v1/limits", params={"model": "sandbox"})).json()["data"]
        assert not {"fn-counted", "fn-each"} & {each["rule"] for each in of_model}
    rule = '[[limits]]\nname = "x"\nresource = "requests"\namount = 1\nper = "day"\nscope = '
    unknown = service.run("apply", "-", "--yes", stdin=rule + '{ function = "fn-none" }')
    assert "scope.function: there is no function 'fn-none'. There are: " in unknown.stderr
    as_model = service.run("apply", "-", "--yes", stdin=rule + '{ model = "fn-counted" }')
    assert """It is a function: { function = "fn-counted" }.""" in as_model.stderr


async def test_key_of_a_function_reaches_no_model(service: Service, engine: ScriptedEngine):
    made = json.loads(service.run("keys", "create", "--team", "fn-team", "--model", "fn-answer", "--json").stdout)
    async with service.client(headers={"authorization": f"Bearer {made['key']}"}) as restricted:
        assert [each["id"] for each in (await restricted.get("/v1/models")).json()["data"]] == ["fn-answer"]
        assert (await restricted.post(CHAT, json={"model": "fn-answer", "messages": HI, **ADA})).status_code == 200
        for name in ("fn-small", "fn-extract", "narthex::function_name::fn-extract"):
            refused = await restricted.post(CHAT, json={"model": name, "messages": HI})
            assert (refused.status_code, refused.json()["error"]["param"]) == (403, "model")
            assert "This key may use: fn-answer." in refused.json()["error"]["message"]
        assert (await restricted.get("/v1/models/fn-extract")).status_code == 404


async def test_limit_of_a_model_counts_what_functions_send_to_it(service: Service, engine: ScriptedEngine, second_engine: ScriptedEngine):
    one, two = engine, second_engine
    service.apply(f"""
        [providers]
        fn-limited = {{ adapter = "openai", base_url = "http://127.0.0.1:{one.port}" }}
        fn-free = {{ adapter = "openai", base_url = "http://127.0.0.1:{two.port}" }}
        [models]
        fn-limited = {{ targets = [{{ provider = "fn-limited", model = "m" }}] }}
        fn-free = {{ targets = [{{ provider = "fn-free", model = "m" }}] }}
        [functions.fn-alone]
        variants.only.model = "fn-limited"
        [functions.fn-backed]
        default = "broken"
        fallbacks = ["only"]
        variants.broken.model = "fn-free"
        variants.only.model = "fn-limited"
        [[limits]]
        name = "fn-limit"
        scope = {{ model = "fn-limited" }}
        resource = "requests"
        amount = 3
        per = "hour"
    """)
    two.script = fail
    async with service.client() as client:

        async def status(model: str) -> int:
            return (await client.post(CHAT, json={"model": model, "messages": HI})).status_code

        assert [await status(model) for model in ("fn-alone", "fn-limited", "fn-backed")] == [200, 200, 200]
        assert await status("fn-alone") == 429 and len(one.requests) == 3
        refused = await client.post(CHAT, json={"model": "fn-backed", "messages": HI})
        assert refused.status_code in (429, 500, 502) and len(one.requests) == 3


async def test_functions_are_changed_and_rendered_over_http(service: Service):
    async with service.admin_client() as admin:
        path = "/admin/v1/functions/fn-http"
        made = await admin.post(
            "/admin/v1/functions", json={"name": "fn-http", "variants": {"a": {"model": "fn-small", "system_template": "Be kind."}}}
        )
        assert made.status_code == 201, made.text
        match = {"if-match": made.headers["etag"]}
        changed = await admin.patch(
            path, json={"variants": {"b": {"model": "fn-large"}}, "default": "a", "fallbacks": ["b"]}, headers=match
        )
        assert changed.status_code == 200 and set(changed.json()["variants"]) == {"a", "b"}, changed.text
        assert (await admin.patch(path, json={"default": "b"}, headers=match)).status_code == 412
        broken = await admin.patch(path, json={"variants": {"b": {"system_template": "{{ x"}}}, headers={"if-match": "*"})
        assert broken.status_code == 400
        assert "functions.fn-http.variants.b.system_template, line 1: `{{` is not closed" in broken.json()["error"]["message"]
        rendered = await admin.post(f"{path}/render", json={"request": {"messages": HI}})
        assert rendered.json() == {
            **{"function": "fn-http", "variant": "a", "model": "fn-small", "dialect": "openai_chat"},
            **{"input_tokens": rendered.json()["input_tokens"]},
            "request": {"model": "fn-small", "messages": [{"role": "system", "content": "Be kind."}, *HI]},
        }
        of_claude = await admin.post(f"{path}/render", params={"dialect": "anthropic_messages"}, json={})
        assert of_claude.json()["request"]["system"] == "Be kind."
        refused = await admin.post(f"{path}/render", json={"request": {"messages": [{"role": "system", "content": "x"}]}})
        assert refused.status_code == 400 and "takes no text" in refused.json()["error"]["message"]
        used = await admin.delete("/admin/v1/models/fn-large", headers={"if-match": "*"})
        assert used.status_code == 409 and "functions.fn-http.variants.b" in used.json()["error"]["message"]
        events = (await admin.get("/admin/v1/audit", params={"resource": "function", "name": "fn-http"})).json()["data"]
        assert [event["action"] for event in events] == ["update", "create"]
        assert (await admin.delete(path, headers={"if-match": "*"})).status_code == 200


async def test_preview_beyond_the_memory_for_templates_is_a_422_that_names_the_bound(service: Service):
    items = {"type": "object", "properties": {"items": {"type": "array"}, "n": {"type": "integer"}}, "required": ["items", "n"]}
    variant = {"model": "fn-small", "system_template": "{{ items * n }}"}
    async with service.admin_client() as admin:
        made = await admin.post(
            "/admin/v1/functions", json={"name": "fn-multiplies", "variants": {"a": variant}, "schemas": {"system": items}}
        )
        assert made.status_code == 201, made.text

        async def render(n: int) -> httpx2.Response:
            given = {"narthex::input": {"system": {"items": ["x" * 100_000 if n > 9 else "x"], "n": n}}, "messages": HI}
            return await admin.post("/admin/v1/functions/fn-multiplies/render", json={"request": given})

        assert (await render(3)).json()["request"]["messages"][0]["content"] == "['x', 'x', 'x']"
        refused = await render(50_000_000)
        assert refused.status_code == 422 and "512 MiB of memory" in refused.json()["error"]["message"], refused.text
        assert (await admin.delete("/admin/v1/functions/fn-multiplies", headers={"if-match": "*"})).status_code == 200


def test_commands_list_show_and_render_functions(service: Service, tmp_path: Path):
    listed = json.loads(service.run("functions", "--json").stdout)["functions"]
    assert {"fn-answer", "fn-extract"} <= {each["name"] for each in listed}
    assert "fn-answer" in service.run("functions", "list").stdout
    shown = service.run("functions", "show", "fn-answer").stdout
    assert "terse (serves by default): fn-small" in shown and "Answer {{ name }} in one sentence." in shown
    rendered = json.loads(service.run("functions", "render", "fn-answer", "--input", '{"system": {"name": "Ada"}}', "--json").stdout)
    assert rendered["request"]["messages"][0] == {"role": "system", "content": PROMPTS["terse"]}
    (tmp_path / "request.json").write_text(json.dumps({"input": "Hi", **ADA}))
    arguments = ("--variant", "wordy", "--dialect", "openai_responses", "--input", f"@{tmp_path / 'request.json'}", "--json")
    assert json.loads(service.run("functions", "render", "fn-answer", *arguments).stdout)["request"]["instructions"] == PROMPTS["wordy"]
    for wrong, message in (("{}", '"name" is a required property'), ("[", "--input must be a JSON object"), ("@/none", "cannot be read")):
        refused = service.run("functions", "render", "fn-answer", "--input", wrong)
        assert refused.returncode == 1 and message in refused.stderr
    assert "There is no function 'none'" in service.run("functions", "show", "none").stderr
