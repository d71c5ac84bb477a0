"""Who was refused, and why: counted by team, key and rule as the callers were answered, with a bounded sample."""

import asyncio
import datetime
import json
import os
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx2
import pytest

from app.domain import uuid7
from app.gateway.pipeline import refusals
from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import fetch

CHAT = "/v1/chat/completions"
WRITTEN = "What the caller wrote"
HI: Any = [{"role": "user", "content": WRITTEN}]
MAX_BODY_BYTES = 100_000
STORM, STORM_CONNECTIONS, PIPELINED = 50_000, 20, 10
MOST_GROWN_KIB = 30_000

RULES = """
[providers.nowhere]
adapter = "anthropic"
base_url = "http://127.0.0.1:9"
[models.particular]
targets = [{ provider = "nowhere", model = "claude-sonnet-4-5" }]
[models.scarce]
targets = [{ provider = "sandbox", model = "sandbox" }]

[[limits]]
name = "never"
scope = { model = "scarce", key = "each" }
resource = "tokens"
amount = 1
per = "month"

[[limits]]
name = "once"
scope = { model = "sandbox-slow", team = "each" }
resource = "requests"
amount = 1
per = "month"
"""


class Refused(NamedTuple):
    """An error that a caller got, and whom it counts for."""

    team: str | None
    key: str | None
    status: int
    rule: str | None


class Request(NamedTuple):
    """A request that is sent with the key of `holder`.

    `counts_for` tells whether that key is known, and `is_counted` whether its refusal is counted.
    """

    holder: str
    body: dict[str, Any]
    headers: Mapping[str, str] = MappingProxyType({})
    method: str = "POST"
    counts_for: bool = True
    path: str = CHAT
    is_counted: bool = True


class World(NamedTuple):
    """A service and what the tests know of it.

    `keys` holds complete keys, by what is wrong with them, `teams` the team of each, and `earlier` what was refused before the tests began.
    """

    service: Service
    keys: dict[str, str]
    teams: dict[str, str]
    earlier: Counter[Refused]

    async def counts(self, **parameters: str) -> list[dict[str, Any]]:
        return (await self._read("/admin/v1/analytics", limit="1000", **parameters))["data"]

    async def sample(self, **parameters: str) -> list[dict[str, Any]]:
        return (await self._read("/admin/v1/refusals", **{"limit": "1000", **parameters}))["data"]

    async def refused(self, **parameters: str) -> int:
        return sum(row["refused"] for row in await self.counts(**parameters))

    async def _read(self, path: str, **parameters: str) -> Any:
        async with self.service.admin_client() as admin:
            answer = await admin.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module")
async def world() -> AsyncGenerator[World]:
    service = services.start(workers=2, max_body_bytes=MAX_BODY_BYTES, writer_batch_ms=30)
    try:
        service.apply(RULES)
        yield await make_world(service)
    finally:
        await asyncio.to_thread(services.stop, service)


async def make_world(service: Service) -> World:
    restrictions: dict[str, dict[str, Any]] = {
        "free": {},
        "other": {},
        "model": {"models": ["none"]},
        "route": {"routes": ["/v1/embeddings"]},
        "network": {"networks": ["203.0.113.0/24"]},
        "expired": {"expires_at": (datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=3)).isoformat()},
        "revoked": {},
    }
    keys: dict[str, str] = {}
    teams: dict[str, str] = {}
    async with service.admin_client() as admin:
        for number, (name, fields) in enumerate(restrictions.items()):
            teams[name] = ("blue", "green")[number % 2]
            made = await admin.post("/admin/v1/keys", json={"team": teams[name], **fields})
            assert made.status_code == 201, made.text
            keys[name] = made.json()["key"]
        assert (await admin.delete(f"/admin/v1/keys/{public(keys['revoked'])}")).status_code < 300
    keys |= {"unknown": unknown_key(), "none": ""}
    refused: Counter[Refused] = Counter()
    async with service.keyless_client() as client:

        async def are_in_force() -> bool:
            statuses: list[int] = []
            for name in ("expired", "revoked"):
                for _ in range(4):
                    statuses.append((await client.get("/v1/models", headers=bearer(keys[name]))).status_code)
                    if statuses[-1] == 401:
                        whom = (teams[name], public(keys[name])) if name == "expired" else (None, None)
                        refused[Refused(*whom, 401, None)] += 1
            return set(statuses) == {401}

        await wait_until(are_in_force)
    return World(service, keys, teams, refused)


def public(key: str) -> str:
    return key[: len("nx-0123456789ab")]


def unknown_key() -> str:
    return f"nx-{secrets.token_hex(6)}-{secrets.token_urlsafe(32)}"


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def chat(model: str, **fields: Any) -> dict[str, Any]:
    return {"model": model, "messages": HI, **fields}


REQUESTS = (
    Request("none", chat("sandbox"), counts_for=False),
    Request("unknown", chat("sandbox"), counts_for=False),
    Request("revoked", chat("sandbox"), counts_for=False),
    Request("expired", chat("sandbox")),
    Request("model", chat("sandbox")),
    Request("route", chat("sandbox")),
    Request("network", chat("sandbox")),
    Request("free", chat("made-up")),
    Request("other", chat("tensorzero::model_name::also-made-up")),
    Request("free", {"model": "sandbox"}),
    Request("free", chat("sandbox", metadata={"long": "x" * MAX_BODY_BYTES})),
    Request("free", chat("particular", logit_bias={"5": 5})),
    Request("other", chat("sandbox"), {"content-encoding": "br"}),
    Request("free", {}, method="GET", counts_for=False),  # refused before the key is read
    Request("free", chat("scarce")),
    Request("other", chat("scarce")),
    Request("free", chat("sandbox-slow")),
    Request("other", chat("sandbox-slow", max_tokens=1)),
    Request("none", {}, method="GET", path="/v1/models", counts_for=False),
    Request("revoked", {}, method="GET", path="/v1/usage", counts_for=False),
    Request("expired", {}, method="GET", path="/v1/limits"),
    Request("route", {}, method="GET", path="/v1/models"),
    Request("free", {}, method="GET", path="/v1/models/made-up"),
    Request("free", chat("sandbox"), path="/chat/completions", counts_for=False),
    Request("free", chat("sandbox"), path="/v1/chat/completion", counts_for=False),
    Request("free", {}, path="/v1/models", counts_for=False),
    # These refuse nobody, or are not of callers.
    Request("free", {}, method="GET", path=f"/v1/inferences/{uuid7.mint()}", is_counted=False),
    Request("free", {}, method="GET", path="/.env", is_counted=False),
    Request("free", {}, method="GET", path="/admin/v1/keys", is_counted=False),
    Request("free", {}, method="GET", path="/admin/v1/nothing", is_counted=False),
    # These are answered.
    Request("free", chat("sandbox")),
    Request("other", chat("sandbox")),
)


async def test_counts_and_sample_match_the_errors_that_callers_got(world: World):
    chance = random.Random(7)
    errors = Counter(world.earlier)
    answered = recorded = 0
    slots = asyncio.Semaphore(8)

    async def send(client: httpx2.AsyncClient, request: Request) -> None:
        nonlocal answered, recorded
        async with slots:
            answer = await client.request(
                request.method, request.path, json=request.body, headers={**bearer(world.keys[request.holder]), **request.headers}
            )
        if answer.status_code == 200:
            answered += 1
            return
        if not request.is_counted:
            return
        recorded += answer.status_code == 422
        error: dict[str, Any] = answer.json()["error"]
        team, key = (world.teams[request.holder], public(world.keys[request.holder])) if request.counts_for else (None, None)
        errors[Refused(team, key, answer.status_code, error["details"]["rule"] if error.get("details") else None)] += 1

    async with world.service.keyless_client() as client:
        for key in (world.keys["free"], world.keys["other"]):  # each team has its one
            assert (await client.post(CHAT, json=chat("sandbox-slow", max_tokens=1), headers=bearer(key))).status_code == 200
            answered += 1
        await asyncio.gather(*(send(client, each) for each in chance.choices(REQUESTS, k=400)), *(send(client, each) for each in REQUESTS))
    assert {each.status for each in errors} == {400, 401, 403, 404, 405, 413, 415, 422, 429}
    assert {each.rule for each in errors} == {None, "never", "once"}

    async def all_are_counted() -> bool:
        return await world.refused() == errors.total()

    await wait_until(all_are_counted)
    rows = await world.counts(group_by="team,key,status,rule", outcome="refused")
    found = {Refused(None if row["group"]["team"] == "(unknown)" else row["group"]["team"], *_who(row)): row["refused"] for row in rows}
    assert found == errors
    assert all(row["requests"] == row["failed"] == 0 for row in rows)

    # What is recorded counts as a request, and what is not does not.
    async def all_are_recorded() -> bool:
        return sum(row["requests"] for row in await world.counts()) == answered + recorded

    await wait_until(all_are_recorded)
    [rule] = await world.counts(rule="once", group_by="rule")
    assert rule["refused"] == sum(count for each, count in errors.items() if each.rule == "once")
    routes = {row["group"]["route"] for row in await world.counts(group_by="route", outcome="refused")}
    assert routes == {"openai_chat", "(unknown)", "/v1/models", "/v1/models/{name}", "/v1/usage", "/v1/limits"}
    models = {row["group"]["model"] for row in await world.counts(group_by="model", outcome="refused")}
    assert models == {None, "sandbox", "scarce", "particular", "sandbox-slow", "(unknown)"}

    sample = await world.sample()
    assert {Refused(each["team"], each["key"], each["status"], each["rule"]) for each in sample} == errors.keys()
    assert {each["unknown_key"] for each in sample} == {None, public(world.keys["unknown"]), public(world.keys["revoked"])}
    assert {"made-up", "also-made-up"} < {each["model"] for each in sample}
    shown = json.dumps(sample)
    assert WRITTEN not in shown and not [key for key in world.keys.values() if key and key in shown]
    assert [each["id"] for each in sample] == sorted((each["id"] for each in sample), reverse=True)
    by_reason = Counter(
        (each["received_at"][:16], each["team"], each["key"] or each["unknown_key"], each["status"], each["error"], each["rule"])
        for each in sample
    )
    assert max(by_reason.values()) <= 2 * refusals.MAX_SAMPLES_OF_REASON, "two workers"


def _who(row: dict[str, Any]) -> tuple[str | None, int, str | None]:
    group = row["group"]
    return None if group["key"] == "(unknown)" else group["key"], int(group["status"]), group["rule"]


async def test_the_sample_is_filtered_and_paged(world: World):
    everything = await world.sample()
    filters: dict[str, Any] = {
        "team": "blue",
        "status": "429",
        "rule": "once",
        "error": "UnknownModel",
        "route": "openai_chat",
        "model": "made-up",
        "key": public(world.keys["free"]),
    }
    for name, value in filters.items():
        found = await world.sample(**{name: value})
        assert found == [each for each in everything if str(each[name]) == value] != [], name
    assert await world.sample(status="4xx") == everything and await world.sample(status="5xx") == []
    assert {each["unknown_key"] for each in await world.sample(key=world.keys["revoked"])} == {public(world.keys["revoked"])}
    assert {each["team"] for each in await world.sample(team="(unknown)")} == {None}
    middle = everything[len(everything) // 2]
    assert await world.sample(request_id=middle["id"]) == [middle] and await world.sample(request_id="of-nobody") == []
    before, after = await world.sample(until=middle["received_at"]), await world.sample(since=middle["received_at"])
    assert [*after, *before] == everything
    async with world.service.admin_client() as admin:
        pages: list[Any] = []
        parameters = {"limit": "7", "status": "4xx"}
        while True:
            page = (await admin.get("/admin/v1/refusals", params=parameters)).json()
            pages += page["data"]
            if page["next"] is None:
                break
            parameters["after"] = page["next"]
        assert pages == everything
        for name, value in {"key": "x", "status": "200", "after": "x", "since": "x", "color": "red"}.items():
            assert (await admin.get("/admin/v1/refusals", params={name: value})).status_code == 400, name


async def test_the_command_shows_counts_and_a_sample(world: World):
    shown = world.service.run("refusals", "--team", "green", "--status", "429")
    assert shown.returncode == 0, shown.stderr
    assert "LimitExceeded" in shown.stdout and "once" in shown.stdout and "blue" not in shown.stdout and "never" not in shown.stdout
    document = json.loads(world.service.run("refusals", "--json", "--limit", "1000").stdout)
    assert document["sample"] == await world.sample()
    assert sum(row["refused"] for row in document["counts"]["data"]) == await world.refused()
    revoked = world.service.run("refusals", "--key", public(world.keys["revoked"])).stdout
    assert "revoked" in revoked and "LimitExceeded" not in revoked
    assert "No refused request matches" in world.service.run("refusals", "--rule", "of nobody").stdout
    one, [*_, other] = (await world.sample(team="green", status="429"))[0], await world.sample()
    alone = world.service.run("refusals", "--request-id", one["id"]).stdout
    assert one["id"] in alone and other["id"] not in alone and "REFUSED" not in alone
    assert "narthex refusals --request-id" in world.service.run("inferences", "--request-id", one["id"]).stderr
    assert "public part" in world.service.run("refusals", "--key", "x").stderr


async def test_a_storm_of_made_up_keys_and_models_stays_small(world: World):
    before = await world.refused()
    size_before, begun = await stored_sizes(world), int(time.time()) // 60
    memory_before = [peak_memory_kib(world.service.pid(f"gateway-{number}")) for number in (0, 1)]
    answers = await asyncio.gather(*(flood(world, number, STORM // STORM_CONNECTIONS) for number in range(STORM_CONNECTIONS)))
    total = sum((each for each in answers), Counter[int]())
    assert total.total() == STORM and total.keys() <= {401, 404, 503} and min(total[401], total[404]) > STORM // 4
    await wait_until(lambda: _is(world, before + STORM))
    by_status = {int(row["group"]["status"]): row["refused"] for row in await world.counts(group_by="status", outcome="refused")}
    assert all(by_status[status] >= count for status, count in total.items())
    groups, minutes, samples = (now - then for now, then in zip(await stored_sizes(world), size_before, strict=True))
    taken = int(time.time()) // 60 - begun + 1
    assert groups <= 6 and minutes <= 6 * taken and samples <= 2 * taken * refusals.MAX_SAMPLES_OF_TEAM * 2
    for number in (0, 1):
        grown = peak_memory_kib(world.service.pid(f"gateway-{number}")) - memory_before[number]
        assert grown < MOST_GROWN_KIB, f"{grown} KiB"


async def stored_sizes(world: World) -> tuple[int, int, int]:
    """Rows of groups, of sums of refusals by minute, and of samples."""
    [row] = await fetch(
        database_url(world.service),
        "SELECT (SELECT count(*) FROM rollup_groups) AS groups, (SELECT count(*) FROM refusals) AS samples, (SELECT count(*)"
        " FROM rollups_by_minute JOIN rollup_groups ON id = group_id WHERE outcome = 'refused') AS minutes",
    )
    return row["groups"], row["minutes"], row["samples"]


def peak_memory_kib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0])


async def flood(world: World, number: int, requests: int) -> Counter[int]:
    """Sends requests with keys and models that nobody has heard of over one connection, several at a time; counts by status."""
    address = httpx2.URL(world.service.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    statuses: Counter[int] = Counter()
    for start in range(0, requests, PIPELINED):
        for at in range(start, start + PIPELINED):
            key, model = (unknown_key(), "sandbox") if at % 2 else (world.keys["free"], f"model-{number}-{at}")
            body = json.dumps(chat(model)).encode()
            writer.write(f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-length: {len(body)}\r\n\r\n".encode())
            writer.write(body)
        await writer.drain()
        for _ in range(PIPELINED):
            head = await reader.readuntil(b"\r\n\r\n")
            statuses[int(head.split(b" ", 2)[1])] += 1
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
    writer.close()
    await writer.wait_closed()
    return statuses


async def test_what_was_refused_a_moment_before_a_kill_is_counted(world: World):
    before = await world.refused()
    key = bearer(world.keys["other"])
    async with world.service.keyless_client() as client:
        for number in range(60):
            assert (await client.post(CHAT, json=chat("sandbox-slow", max_tokens=1), headers=key)).status_code == 429
            if number == 20:
                os.kill(world.service.pid("writer"), signal.SIGKILL)
    await wait_until(lambda: _is(world, before + 60))
    for worker in (0, 1):
        os.kill(world.service.pid(f"gateway-{worker}"), signal.SIGKILL)

    async def answers() -> bool:
        async with world.service.keyless_client() as client:
            try:
                return (await client.post(CHAT, json=chat("sandbox-slow", max_tokens=1), headers=key)).status_code == 429
            except httpx2.TransportError:
                return False

    await wait_until(answers)
    await wait_until(lambda: _is_more(world, before + 60))
    rows = await fetch(database_url(world.service), "SELECT count(*) AS ids, count(DISTINCT id) AS different FROM refusals")
    assert rows[0]["ids"] == rows[0]["different"]
    assert not list((world.service.home / "quarantine").glob("*"))


async def _is(world: World, number: int) -> bool:
    return await world.refused() == number


async def _is_more(world: World, number: int) -> bool:
    return await world.refused() > number
