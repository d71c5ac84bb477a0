"""An inference's detail: messages of whichever API, media, every attempt; content policies and roles are obeyed."""

import asyncio
import base64
import json
import uuid
from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service

PATH = "/admin/v1/inferences"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


def chat(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"model": "sandbox", "messages": [{"role": "user", "content": [{"type": "text", "text": "A secret word."}, *parts]}]}


def image(media_type: str = "image/png", content: bytes = PNG) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{base64.b64encode(content).decode()}"}}


async def detail(admin: httpx2.AsyncClient, id: str, **query: Any) -> dict[str, Any]:
    answer = await admin.get(f"{PATH}/{id}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("stream", [False, True])
async def test_messages_of_each_api_are_the_same(service: Service, stream: bool):
    bodies = {
        "/v1/chat/completions": {"messages": [{"role": "user", "content": "A secret word."}]},
        "/v1/responses": {"input": "A secret word."},
        "/v1/messages": {"messages": [{"role": "user", "content": "A secret word."}], "max_tokens": 50},
    }
    async with service.client() as caller, service.admin_client() as admin:
        for path, body in bodies.items():
            answer = await caller.post(path, json={"model": "sandbox", "stream": stream, **body})
            assert answer.status_code == 200, answer.text
            id = answer.headers["x-narthex-inference-id"]
            await service.wait_for_record(id)
            found = await detail(admin, id, content="messages")
            assert found["content"] == {"policy": "full", "request": None, "response": None}
            messages = found["messages"]
            assert messages["problems"] == [] and messages["new_from"] == 0
            [asked] = messages["input"]
            assert asked["parts"] == [{"kind": "text", "text": "A secret word.", "characters": 14, "is_json": False}]
            [said] = messages["output"]
            assert said["role"] == "assistant" and said["parts"][-1]["kind"] == "text" and said["parts"][-1]["text"]
            [attempt] = found["made_attempts"]
            assert found["attempts_count"] == 1 and (attempt["provider"], attempt["status"], attempt["error"]) == ("sandbox", 200, None)
            assert 0 <= attempt["started_us"] <= found["duration_us"]


async def test_commands_print_messages(service: Service):
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
    async with service.client() as caller:
        answer = await caller.post("/v1/chat/completions", json={**chat(image()), "tools": [tool], "tool_choice": "required"})
    id = answer.headers["x-narthex-inference-id"]
    record = await service.wait_for_record(id)
    shown = service.run("inferences", "show", id)
    assert shown.returncode == 0, shown.stderr
    for text in (id, "sandbox/sandbox  ", "served", "user:\n    A secret word.\n    [image image/png", "→ get_weather({", "  [tool_calls]"):
        assert text in shown.stdout, shown.stdout
    assert any(reason["sentence"] in shown.stdout for reason in record["why"])
    assert "request, as it was sent:\n{" in service.run("inferences", "show", id, "--content", "raw").stdout
    assert "A secret word." not in service.run("inferences", "show", id, "--content", "none").stdout
    assert json.loads(service.run("inferences", "show", id, "--json").stdout)["messages"]["tools"][0]["name"] == "get_weather"
    turns = service.run("episode", record["episode_id"], "--text").stdout
    assert "    A secret word." in turns and "→ get_weather({" in turns, turns
    assert "Put options after the command" in service.run("inferences", "--team", "x", "show", id).stderr


async def test_content_is_chosen_and_parts_are_cut(service: Service):
    async with service.client() as caller, service.admin_client() as admin:
        id = (await caller.post("/v1/chat/completions", json=chat())).headers["x-narthex-inference-id"]
        record = await service.wait_for_record(id)
        assert record["content"]["request"] and record["messages"] is None, "the raw content, as ever"
        both = await detail(admin, id, content="both", max_characters=3)
        assert both["content"] == record["content"]
        assert both["messages"]["input"][0]["parts"][0] == {"kind": "text", "text": "A s", "characters": 14, "is_json": False}
        none = await detail(admin, id, content="none")
        assert none["messages"] is None and none["content"] == {"policy": "full", "request": None, "response": None}
        for wrong, param in (({"content": "all"}, "content"), ({"max_characters": 0}, "max_characters")):
            answer = await admin.get(f"{PATH}/{id}", params=wrong)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_media_are_read_by_number_and_nothing_in_them_can_run(service: Service):
    async with service.client() as caller, service.admin_client() as admin:
        sent = await caller.post("/v1/chat/completions", json=chat(image(), image("image/svg+xml", SVG)))
        id = sent.headers["x-narthex-inference-id"]
        await service.wait_for_record(id)
        parts = (await detail(admin, id, content="messages"))["messages"]["input"][0]["parts"]
        assert [part["number"] for part in parts[1:]] == [1, 2] and parts[1]["size_bytes"] == len(PNG)
        shown = await admin.get(f"{PATH}/{id}/media/1")
        assert (shown.content, shown.headers["content-type"], shown.headers["content-disposition"]) == (PNG, "image/png", "inline")
        assert "sandbox" in shown.headers["content-security-policy"] and shown.headers["x-content-type-options"] == "nosniff"
        svg = await admin.get(f"{PATH}/{id}/media/2")
        assert (
            svg.content == SVG
            and svg.headers["content-type"] == "application/octet-stream"
            and svg.headers["content-disposition"].startswith("attachment")
        )
        for number in ("0", "3", "x", "9" * 30):
            assert (await admin.get(f"{PATH}/{id}/media/{number}")).status_code == 404


async def test_policies_and_roles_hide_what_was_written(service: Service):
    team = f"messages-{uuid.uuid4().hex[:8]}"
    async with service.admin_client() as admin, service.keyless_client() as client:
        found: dict[str, dict[str, Any]] = {}
        for policy in ("redacted", "none"):
            key = (await admin.post("/admin/v1/keys", json={"team": f"{team}-{policy}", "content": policy})).json()["key"]
            sent = await client.post("/v1/chat/completions", json=chat(image()), headers={"authorization": f"Bearer {key}"})
            id = sent.headers["x-narthex-inference-id"]
            await service.wait_for_record(id)
            answer = await admin.get(f"{PATH}/{id}", params={"content": "messages"})
            assert "secret" not in answer.text and base64.b64encode(PNG).decode() not in answer.text
            found[policy] = {**answer.json(), "id": id}
            assert PNG not in (await admin.get(f"{PATH}/{id}/media/1")).content
        assert found["redacted"]["messages"]["input"][0]["role"] == "user"
        assert found["none"]["messages"]["input"] == []
        seen = found["redacted"]["id"]
        tokens: dict[str, dict[str, str]] = {}
        for name, role in (("viewer", {"role": "viewer"}), ("other", {"role": "owner", "team": f"{team}-none"})):
            account = f"{team}-{name}"
            assert (await admin.post("/admin/v1/service-accounts", json={"name": account, "roles": [role]})).status_code == 201
            token = (await admin.post(f"/admin/v1/service-accounts/{account}/tokens")).json()["token"]
            tokens[name] = {"authorization": f"Bearer {token}"}
        hidden = await client.get(f"{PATH}/{seen}", params={"content": "both"}, headers=tokens["viewer"])
        assert hidden.json()["messages"] is None and hidden.json()["content"] is None and hidden.json()["content_hidden"]
        assert (await client.get(f"{PATH}/{seen}/media/1", headers=tokens["viewer"])).status_code == 403
        for path in (f"{PATH}/{seen}", f"{PATH}/{seen}/media/1"):
            assert (await client.get(path, headers=tokens["other"])).status_code == 404


async def test_nothing_is_shown_of_a_response_that_its_caller_deleted(service: Service):
    async with service.client() as caller, service.admin_client() as admin:
        parts = [{"type": "input_text", "text": "A secret word."}, {"type": "input_image", "image_url": image()["image_url"]["url"]}]
        sent = await caller.post("/v1/responses", json={"model": "sandbox", "input": [{"role": "user", "content": parts}]})
        id = sent.headers["x-narthex-inference-id"]
        await service.wait_for_record(id)
        assert (await detail(admin, id, content="both"))["messages"]["input"]
        assert (await admin.get(f"{PATH}/{id}/media/1")).content == PNG
        assert (await caller.delete(f"/v1/responses/{sent.json()['id']}")).status_code == 200
        shown = await detail(admin, id, content="both")
        assert (shown["content"], shown["messages"], shown["content_hidden"]) == (None, None, False)
        assert (await admin.get(f"{PATH}/{id}/media/1")).status_code == 404


async def test_a_timeline_has_what_is_new_in_each_turn(service: Service):
    name = f"turns-{uuid.uuid4().hex[:8]}"
    async with service.client(headers={"x-narthex-episode-id": name}) as caller, service.admin_client() as admin:
        messages: list[dict[str, Any]] = []
        for text in ("First.", "Second."):
            messages.append({"role": "user", "content": text})
            answer = await caller.post("/v1/chat/completions", json={"model": "sandbox", "messages": messages})
            messages.append(answer.json()["choices"][0]["message"])
            await service.wait_for_record(answer.headers["x-narthex-inference-id"])
        path = f"/admin/v1/episodes/{name}/timeline"
        turns = (await admin.get(path, params={"content": "messages"})).json()["inferences"]
        assert [[part["text"] for each in turn["messages"]["input"] for part in each["parts"]] for turn in turns] == [
            ["First."],
            ["Second."],
        ]
        assert [turn["messages"]["omitted"] for turn in turns] == [0, 2]
        assert [turn["messages"]["output"][0]["parts"][-1]["text"] for turn in turns] == [each["content"] for each in messages[1::2]]
        cut = (await admin.get(path, params={"content": "messages", "max_characters": 2})).json()["inferences"][0]
        assert cut["messages"]["input"][0]["parts"][0] == {"kind": "text", "text": "Fi", "characters": 6, "is_json": False}
        assert [turn["messages"] for turn in (await admin.get(path)).json()["inferences"]] == [None, None]
        account = {"name": f"{name}-viewer", "roles": [{"role": "viewer"}]}
        assert (await admin.post("/admin/v1/service-accounts", json=account)).status_code == 201
        token = (await admin.post(f"/admin/v1/service-accounts/{name}-viewer/tokens")).json()["token"]
        async with service.keyless_client() as client:
            hidden = await client.get(path, params={"content": "messages"}, headers={"authorization": f"Bearer {token}"})
            assert [turn["messages"] for turn in hidden.json()["inferences"]] == [None, None] and hidden.json()["content_hidden"]


async def test_reasons_say_why_it_was_slow_dear_sent_there_and_why_it_failed(service: Service):
    async with service.client() as caller, service.admin_client() as admin:
        sent = await caller.post("/v1/chat/completions", json=chat())
        await service.wait_for_record(sent.headers["x-narthex-inference-id"])
        found = await detail(admin, sent.headers["x-narthex-inference-id"], content="none")
        why = {each["about"]: each for each in found["why"]}
        assert list(why) == ["latency", "cost", "route"]
        assert why["latency"]["evidence"]["duration_us"] == found["duration_us"] and why["latency"]["sentence"]
        assert why["cost"]["evidence"]["cost_microusd"] == found["cost_microusd"]
        assert why["route"]["sentence"].startswith("sandbox/sandbox is the target of sandbox that came first")
        dying = await caller.post("/v1/chat/completions", json={**chat(), "model": "sandbox-dies"})
        assert dying.status_code == 502
        await service.wait_for_record(dying.headers["x-narthex-inference-id"])
        failed = await detail(admin, dying.headers["x-narthex-inference-id"], content="none")
        [end] = [each for each in failed["why"] if each["about"] == "end"]
        assert end["salient"] and "status 502" in end["sentence"] and end["evidence"]["outcome"] == "failed"


async def test_slow_readers_of_messages_hold_no_connection(service: Service):
    """The pool of the admin API has six connections, and twelve read a request of many parts at once."""
    many = [{"type": "text", "text": "x"} for _ in range(19_000)]
    async with service.client() as caller, service.admin_client() as admin:
        sent = await caller.post("/v1/chat/completions", json={"model": "sandbox", "messages": [{"role": "user", "content": many}]})
        assert sent.status_code == 200, sent.text
        id = sent.headers["x-narthex-inference-id"]
        await service.wait_for_record(id)
        readers = [asyncio.create_task(admin.get(f"{PATH}/{id}", params={"content": "messages"})) for _ in range(12)]
        others = 0
        while not all(each.done() for each in readers):
            assert (await admin.get("/admin/v1/teams", params={"limit": 1})).status_code == 200
            others += 1
        assert {each.result().status_code for each in readers} <= {200, 503} and others > 3
