"""Option `drop` of models and providers: fields go that a target cannot honour, reported, unless the caller says otherwise."""

import json
from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.scripted_engine import ScriptedEngine

CHAT = "/v1/chat/completions"
HI: Any = [{"role": "user", "content": "Hello!"}]
MESSAGE: Any = {
    **{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "stop_sequence": None},
    **{"content": [{"type": "text", "text": "Hello."}], "usage": {"input_tokens": 3, "output_tokens": 2}},
}
GRAMMAR = 'start: "a"'
FIELDS: Any = {"guided_grammar": GRAMMAR, "chat_template": "x"}


@pytest.fixture(scope="module")
def droppable_models(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    one = f"http://127.0.0.1:{engines[0].port}"
    service.apply(f"""
        [providers]
        dropping = {{ adapter = "openai", base_url = "{one}", drop = ["guided_grammar"] }}
        dropping-claude = {{ adapter = "anthropic", base_url = "{one}", drop = ["logit_bias"] }}
        [models]
        drops-all = {{ targets = [{{ provider = "first", model = "m" }}], drop = "all" }}
        drops-one = {{ targets = [{{ provider = "first", model = "m" }}], drop = ["guided_grammar"] }}
        drops-two = {{ targets = [{{ provider = "dropping", model = "m" }}], drop = ["chat_template"] }}
        drops-at-fallback = {{ targets = [{{ provider = "nowhere", model = "m" }}], fallbacks = ["drops-all"] }}
        drops-at-host = {{ targets = [{{ provider = "dropping-claude", model = "m" }}] }}
        drops-nothing = {{ targets = [{{ provider = "first", model = "m" }}] }}
        drops-later = {{ targets = [{{ provider = "first", model = "m" }}], drop = ["guided_grammar"] }}
        drops-nowhere = {{ targets = [{{ provider = "nowhere", model = "m" }}], drop = ["chat_template"], fallbacks = ["drops-later"] }}
        [models.drops-by-name]
        drop = ["chat_template"]
        experiment = {{ arms = {{ drops-nothing = 1, drops-one = 1, drops-nowhere = 1 }}, control = "drops-nothing" }}
        [models.drops-by-arm]
        experiment = {{ arms = {{ drops-nothing = 1, drops-one = 1, drops-nowhere = 1 }}, control = "drops-nothing" }}
        [models.drops-little]
        experiment = {{ arms = {{ drops-nothing = 1, drops-one = 1 }}, control = "drops-nothing" }}
        [functions.drops-by-variant]
        default = "strict"
        fallbacks = ["lenient"]
        [functions.drops-by-variant.variants]
        strict = {{ model = "drops-nothing" }}
        lenient = {{ model = "drops-all" }}
    """)


pytestmark = pytest.mark.usefixtures("droppable_models")


@pytest.mark.parametrize("model", ["drops-all", "drops-two", "drops-at-fallback"])
async def test_dropped_fields_are_left_out_and_reported(client: httpx2.AsyncClient, service: Service, engine: ScriptedEngine, model: str):
    answer = await client.post(CHAT, json={"model": model, "messages": HI, **FIELDS})
    assert answer.status_code == 200, answer.text
    assert set(engine.requests[-1].body) == {"model", "messages"}
    assert set(answer.headers["x-narthex-dropped"].split(", ")) == {"guided_grammar", "chat_template"}
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert set(row["dropped"]) == {"guided_grammar", "chat_template"}


@pytest.mark.parametrize(("model", "field"), [("scripted", "guided_grammar"), ("drops-one", "chat_template")])
async def test_field_that_nobody_names_is_refused(client: httpx2.AsyncClient, engine: ScriptedEngine, model: str, field: str):
    answer = await client.post(CHAT, json={"model": model, "messages": HI, field: FIELDS[field]})
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, field)
    assert f"`x-narthex-drop: {field}`" in answer.json()["error"]["message"] and not [each for each in engine.requests if each.body]


async def test_header_adds_to_the_operators_choice(client: httpx2.AsyncClient, engine: ScriptedEngine):
    body = {"model": "drops-one", "messages": HI, **FIELDS}
    answer = await client.post(CHAT, json=body, headers={"x-narthex-drop": "chat_template"})
    assert answer.status_code == 200 and set(answer.headers["x-narthex-dropped"].split(", ")) == {"guided_grammar", "chat_template"}
    assert set(engine.requests[-1].body) == {"model", "messages"}


@pytest.mark.parametrize("model", ["drops-all", "drops-two"])
async def test_none_restores_the_refusal_and_hints_still_go(client: httpx2.AsyncClient, engine: ScriptedEngine, model: str):
    none = {"x-narthex-drop": "none"}
    refused = await client.post(CHAT, json={"model": model, "messages": HI, "guided_grammar": GRAMMAR}, headers=none)
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "guided_grammar")
    assert not [each for each in engine.requests if each.body]
    hint = await client.post(CHAT, json={"model": model, "messages": HI, "guided_decoding_backend": "xgrammar"}, headers=none)
    assert (hint.status_code, hint.headers["x-narthex-dropped"]) == (200, "guided_decoding_backend")


@pytest.mark.parametrize(
    ("model", "arm", "fields", "dropped"),
    [
        ("drops-by-name", "drops-nothing", ["chat_template"], {"chat_template"}),
        ("drops-by-name", "drops-one", FIELDS, {"chat_template", "guided_grammar"}),  # its own, and that of the model that is named
        ("drops-by-arm", "drops-one", ["guided_grammar"], {"guided_grammar"}),
        ("drops-by-arm", "drops-nowhere", FIELDS, {"chat_template", "guided_grammar"}),  # its own, and its fallback's
        ("drops-by-variant", "lenient", FIELDS, {"chat_template", "guided_grammar"}),
        ("drops-by-variant", "strict", FIELDS, {"chat_template", "guided_grammar"}),  # it refuses, and the other variant serves
    ],
)
async def test_drop_of_the_named_model_and_of_the_one_that_serves_hold(
    client: httpx2.AsyncClient, engine: ScriptedEngine, model: str, arm: str, fields: Any, dropped: set[str]
):
    body = {"model": model, "messages": HI, **{field: FIELDS[field] for field in fields}}
    answer = await client.post(CHAT, json=body, headers={"x-narthex-variant": arm})
    assert answer.status_code == 200, answer.text
    assert set(answer.headers["x-narthex-dropped"].split(", ")) == dropped
    assert set(engine.requests[-1].body) == {"model", "messages"}


async def test_drop_of_one_arm_does_not_hold_for_another(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine):
    body = {"model": "drops-little", "messages": HI}
    pinned = {"x-narthex-variant": "drops-nothing"}
    answer = await client.post(CHAT, json={**body, "guided_grammar": GRAMMAR}, headers=pinned)
    assert (answer.status_code, answer.headers["x-narthex-served-variant"]) == (200, "drops-one"), answer.text
    # Models of other files may take the field, too: this key may use none of them.
    created = service.run("keys", "create", "--team", "drops-of-arms", "--model", "drops-*", "--quiet")
    restricted = {**pinned, "authorization": f"Bearer {created.stdout.strip()}"}
    refused = await client.post(CHAT, json={**body, **FIELDS}, headers=restricted)
    assert refused.status_code == 422 and "drops-all, drops-by-name" in refused.json()["error"]["message"], refused.text


async def test_none_beside_a_field_is_a_400(client: httpx2.AsyncClient):
    answer = await client.post(CHAT, json={"model": "drops-all", "messages": HI}, headers={"x-narthex-drop": "none, seed"})
    assert answer.status_code == 400 and "`none` cannot stand beside others" in answer.json()["error"]["message"]


@pytest.mark.parametrize(("headers", "status"), [({}, 200), ({"x-narthex-drop": "none"}, 422)])
async def test_drop_of_a_provider_holds_where_the_request_is_translated(
    client: httpx2.AsyncClient, engine: ScriptedEngine, headers: dict[str, str], status: int
):
    engine.script = lambda request: request.respond(200, json.dumps(MESSAGE).encode())
    answer = await client.post(
        CHAT, json={"model": "drops-at-host", "messages": HI, "max_tokens": 5, "logit_bias": {"5": 1}}, headers=headers
    )
    assert answer.status_code == status, answer.text
    assert answer.headers.get("x-narthex-dropped") == ("logit_bias" if status == 200 else None)
    assert status == 422 or "logit_bias" not in engine.requests[-1].body
