"""Engines whose chat template takes instructions in one first message only: a request is refused once, and then none is."""

import json
from typing import Any

import httpx2
import pytest

from providers.canonical.chat import Text
from tests.conformance.situations import Situation
from tests.support.processes.service import Service
from tests.support.scripted_dialects import respond_with
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

ANSWER = Situation(name="answer", parts=(Text("Hello."),))
MIDWAY: Any = [
    *({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "Tidy up."}),
    {"role": "system", "content": "In Welsh."},
]
SAID: Any = "Tidy up.\n\n<system>\nIn Welsh.\n</system>"
REQUESTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "system", "content": "Rules."}, *MIDWAY]}, "messages[4].role"),
    "messages": ("/v1/messages", {"max_tokens": 50, "system": "Rules.", "messages": MIDWAY}, "messages[3].role"),
    "responses": ("/v1/responses", {"instructions": "Rules.", "input": MIDWAY}, "input[3].role"),
}


@pytest.fixture(scope="module", autouse=True)
def models(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    one = f"http://127.0.0.1:{engines[0].port}"
    adapters = {"vllm": ("vllm", ""), "llamacpp": ("llamacpp", ""), "told": ("vllm", 'instructions = "first"')}
    lines = ["[providers]"]
    lines += [f'of-{name} = {{ adapter = "{of}", base_url = "{one}", options = {{ {more} }} }}' for name, (of, more) in adapters.items()]
    lines += ["[models]", 'template-native = { targets = [{ provider = "of-vllm", model = "native", dialect = "anthropic_messages" }] }']
    lines += [
        f'template-{api}-{name} = {{ targets = [{{ provider = "of-{name}", model = "for-{api}", dialect = "openai_chat" }}] }}'
        for api in REQUESTS
        for name in adapters
    ]
    service.apply("\n".join(lines))


async def strict(request: ReceivedRequest) -> None:
    """Refuses a system message after the beginning, as vLLM does with Qwen3.5 and later.

    Its Messages API puts `system` before what is in the messages.
    """
    messages = request.body.get("messages", [])
    if any(message["role"] in ("system", "developer") for message in messages[0 if request.path.endswith("/messages") else 1 :]):
        error = {"error": {"message": "System message must be at the beginning.", "type": "BadRequestError", "param": None, "code": 400}}
        return await request.respond(400, json.dumps(error).encode())
    await respond_with(ANSWER)(request)


async def strict_llamacpp(request: ReceivedRequest) -> None:
    messages = request.body.get("messages", [])
    if any(message["role"] == "system" for message in messages[1:]):
        message = (
            "\n------------\nWhile executing CallExpression at line 85, column 32 in source:\n...first %}↵   {{- raise_exception('Syst"
            "em message must be at the beginnin...\n                ^\nError: Jinja Exception: System message must be at the beginning."
        )
        return await request.respond(500, json.dumps({"error": {"code": 500, "message": message, "type": "server_error"}}).encode())
    await respond_with(ANSWER)(request)


@pytest.mark.parametrize("name", ["vllm", "llamacpp"])
@pytest.mark.parametrize("api", REQUESTS)
async def test_refused_instruction_becomes_text_of_the_user_and_later_ones_too(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, api: str, name: str
):
    engine.script = strict_llamacpp if name == "llamacpp" else strict
    path, fields, reported = REQUESTS[api]
    body = {"model": f"template-{api}-{name}", **fields}
    first = await client.post(path, json=body)
    assert first.status_code == 200 and "o." in first.text, first.text
    assert first.headers["x-narthex-dropped"] == reported
    last = engine.requests[-1].body["messages"]
    assert [message["role"] for message in last] == ["system", "user", "assistant", "user"] and last[-1]["content"] == SAID
    row = await service.wait_for_record(first.headers["x-narthex-inference-id"])
    assert row["dropped"] == [reported] and [each["status"] for each in row["attempts"]][-1] == 200 and len(row["attempts"]) == 2
    engine.requests.clear()
    for _ in range(3):  # on the same connection: the same worker
        again = await client.post(path, json=body)
        assert again.status_code == 200 and again.headers["x-narthex-dropped"] == reported
    assert [request.body["messages"][-1]["content"] for request in engine.requests] == [SAID] * 3


async def test_instruction_midway_in_the_engines_own_messages(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = strict
    path, fields, reported = REQUESTS["messages"]
    answer = await client.post(path, json={"model": "template-native", **fields})
    assert answer.status_code == 200 and answer.headers["x-narthex-dropped"] == reported, answer.text
    assert [request.path for request in engine.requests] == ["/v1/messages"] * 2
    sent = engine.requests[-1].body
    assert sent["system"] == "Rules." and sent["messages"] == [*MIDWAY[:2], {"role": "user", "content": SAID}]


@pytest.mark.parametrize("api", REQUESTS)
async def test_option_says_it_before_the_first_refusal(client: httpx2.AsyncClient, engine: ScriptedEngine, api: str):
    engine.script = strict
    path, fields, reported = REQUESTS[api]
    answer = await client.post(path, json={"model": f"template-{api}-told", **fields})
    assert answer.status_code == 200 and answer.headers["x-narthex-dropped"] == reported and len(engine.requests) == 1


async def test_large_history_is_put_in_order_as_well(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = strict
    turns = [
        message for at in range(2000) for message in ({"role": "user", "content": f"{at} {'x' * 300}"}, {"role": "system", "content": "S"})
    ]
    answer = await client.post("/v1/chat/completions", json={"model": "template-chat-told", "messages": turns})
    assert answer.status_code == 200, answer.text
    sent = engine.requests[-1].body["messages"]
    assert len(sent) == 2000 and all(message["role"] == "user" for message in sent)
    assert len(answer.headers["x-narthex-dropped"]) < 4000
