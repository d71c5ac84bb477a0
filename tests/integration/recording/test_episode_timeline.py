"""An episode as a timeline: every attempt with its reason, tool calls of each API, sums, pages, and `narthex episode`."""

import json
from typing import Any

import httpx2

from app.domain import uuid7
from app.store.postgres.database import connect
from app.store.records.episode_timeline import timeline_attempts
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk, completion, stream_script

WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Berlin"}'}}
HI: Any = [{"role": "user", "content": "Hello!"}]


async def timeline_of(service: Service, episode: str, **parameters: Any) -> Any:
    async with service.admin_client() as admin:
        answer = await admin.get(f"/admin/v1/episodes/{episode}/timeline", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_timeline_has_attempts_tool_calls_and_sums(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    episode = uuid7.mint()
    headers = {"x-narthex-episode-id": episode}

    async def calls_a_tool(request: ReceivedRequest) -> None:
        body = completion(None, tool_calls=[{key: value for key, value in CALL.items() if key != "index"}])
        await request.respond(200, json.dumps(body).encode())

    async def fails(request: ReceivedRequest) -> None:
        await request.respond(500, b"{}")

    ids: list[str] = []
    engine.script = calls_a_tool
    answer = await client.post("/v1/chat/completions", json={"model": "scripted", "messages": HI, "tools": [WEATHER]}, headers=headers)
    ids.append(answer.headers["x-narthex-inference-id"])
    engine.script = stream_script(chunk({"role": "assistant", "tool_calls": [CALL]}), chunk({}, "tool_calls"))
    tool: Any = {"name": "get_weather", "input_schema": {"type": "object"}}
    message = {"model": "scripted", "max_tokens": 50, "messages": HI, "tools": [tool], "stream": True}
    answer = await client.post("/v1/messages", json=message, headers=headers)
    assert "message_stop" in answer.text
    ids.append(answer.headers["x-narthex-inference-id"])
    engine.script = fails
    answer = await client.post("/v1/chat/completions", json={"model": "backed", "messages": HI}, headers=headers)
    assert answer.status_code == 200
    ids.append(answer.headers["x-narthex-inference-id"])
    answer = await client.post("/v1/embeddings", json={"model": "sandbox-embed", "input": "Hello!"}, headers=headers)
    ids.append(answer.headers["x-narthex-inference-id"])
    records = [await service.wait_for_record(id) for id in ids]

    shown = await timeline_of(service, episode)
    assert [each["id"] for each in shown["inferences"]] == ids and shown["next"] is None and shown["content_hidden"] is False
    called = {"id": "call_1", "name": "get_weather", "arguments": '{"city": "Berlin"}'}
    assert [[tool["name"] for tool in each["tool_calls"]] for each in shown["inferences"][:3]] == [["get_weather"], ["get_weather"], []]
    assert shown["inferences"][0]["tool_calls"] == [called] and shown["inferences"][3]["tool_calls"] is None
    assert json.loads(shown["inferences"][1]["tool_calls"][0]["arguments"]) == {"city": "Berlin"}
    attempts = shown["inferences"][2]["attempts"]
    assert [(each["provider"], each["reason"], each["status"], each["error"]) for each in attempts] == [
        ("first", "first", 500, "UpstreamFailed"),
        ("second", "fallback", 200, None),
    ]
    assert 0 <= attempts[0]["started_us"] < attempts[1]["started_us"] <= shown["inferences"][2]["duration_us"]
    offsets = [each["offset_us"] for each in shown["inferences"]]
    assert offsets[0] == 0 and offsets == sorted(offsets) and shown["ended_at"] > shown["began_at"] == shown["inferences"][0]["received_at"]
    totals = shown["totals"]
    assert (totals["inferences"], totals["failed"], totals["attempts"]) == (4, 0, 5)
    assert totals["duration_us"] == sum(each["duration_us"] for each in shown["inferences"])
    assert totals["input_tokens"] == sum(each["input_tokens"] or 0 for each in shown["inferences"])

    first = await timeline_of(service, episode, limit=3)
    rest = await timeline_of(service, episode, limit=3, after=first["next"])
    assert [each["id"] for page in (first, rest) for each in page["inferences"]] == ids and rest["next"] is None
    assert first["totals"] == totals and rest["inferences"][0]["offset_us"] == offsets[3]

    drawn = service.run("episode", episode)
    assert drawn.returncode == 0, drawn.stderr
    sums = "4 requests (0 not answered), 5 attempts"
    for text in (sums, '→ get_weather({"city": "Berlin"})', "second/engine-model", "(fallback)", ids[3]):
        assert text in drawn.stdout, drawn.stdout
    assert json.loads(service.run("episode", episode, "--json").stdout) == shown
    assert f"--after {ids[0]}" in service.run("episode", episode, "--limit", "1").stderr
    assert service.run("episode", uuid7.mint()).returncode == 1 and service.run("episode", "x" * 129).returncode == 2

    # What the caller deleted is nobody's, and what is too long is not read.
    connection = await connect(database_url(service))
    await connection.execute("INSERT INTO deleted_responses (id, team_id) VALUES ($1, $2)", ids[0], records[0]["team_id"])
    await connection.execute("UPDATE inference_content SET response = $1 WHERE id = $2", bytes(2_000_000), ids[1])
    await connection.close()
    assert [each["tool_calls"] for each in (await timeline_of(service, episode))["inferences"]] == [None, None, [], None]


async def test_unknown_episode_and_wrong_parameters_are_errors(service: Service):
    async with service.admin_client() as admin:
        unknown = await admin.get(f"/admin/v1/episodes/{uuid7.mint()}/timeline")
        assert unknown.status_code == 404 and "no inference of an episode" in unknown.json()["error"]["message"]
        for parameters in ({"limit": "201"}, {"after": "x"}, {"team_id": "x"}):
            wrong = await admin.get(f"/admin/v1/episodes/{uuid7.mint()}/timeline", params=parameters)
            assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, next(iter(parameters)))


def attempt(provider: str, began: int, took: int, error: str | None = None, **more: Any) -> dict[str, Any]:
    return {"provider": provider, "model": "m", "endpoint": "e", "started_us": began, "duration_us": took, "error": error, **more}


def test_reason_of_each_attempt():
    attempts = [
        attempt("one", 0, 10, "Overloaded"),
        attempt("one", 15, 10, "TimedOut"),
        attempt("two", 30, 100, "Superseded"),
        attempt("one", 60, 20, "StreamTruncated"),
        attempt("three", 140, 5, resumed_at=40),
    ]
    found = timeline_attempts({"attempts": attempts[::-1], "served_us": 500})
    assert [each.reason for each in found] == ["first", "retry", "fallback", "hedge", "resumption"]
    assert [each.duration_us for each in found] == [10, 10, 100, 20, 500]
