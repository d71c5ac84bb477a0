"""Priorities of teams and keys: who gets a place first, and who is refused first, in one gateway process of its own."""

import asyncio
import json
from collections.abc import AsyncGenerator

import httpx2
import pytest

from tests.support.gate import Gate
from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ScriptedEngine

CHAT = "/v1/chat/completions"
REQUESTS_MAX = 20


@pytest.fixture(scope="module")
async def engine() -> AsyncGenerator[ScriptedEngine]:
    engine = ScriptedEngine()
    await engine.start()
    yield engine
    await engine.stop()


@pytest.fixture(scope="module")
async def service(engine: ScriptedEngine) -> AsyncGenerator[Service]:
    running = services.start(workers=1, requests_max=REQUESTS_MAX)
    running.apply(f"""
        [providers]
        engine = {{ adapter = "openai", base_url = "http://127.0.0.1:{engine.port}" }}
        [models]
        wide = {{ targets = [{{ provider = "engine", model = "wide" }}] }}
        narrow = {{ targets = [{{ provider = "engine", model = "narrow", max_concurrency = 1 }}] }}
        [teams.batch]
        priority = -50
    """)
    yield running
    services.stop(running)


@pytest.fixture
def gate(engine: ScriptedEngine) -> Gate:
    gate = Gate()
    engine.script = gate.script
    return gate


def client_of(service: Service, *options: str) -> httpx2.AsyncClient:
    created = service.run("keys", "create", "--quiet", *options)
    assert created.returncode == 0, created.stderr
    return service.client(headers={"authorization": f"Bearer {created.stdout.strip()}"})


def message(model: str, content: str) -> dict[str, object]:
    return {"model": model, "messages": [{"role": "user", "content": content}]}


async def waiting_count(service: Service) -> int:
    async with service.admin_client() as admin:
        return (await admin.get("/admin/v1/fleet")).json()["waiting"].get("engine/narrow", 0)


async def test_highest_priority_gets_the_next_place(service: Service, gate: Gate):
    """The priority is that of a team, of a key in it, or of a request that lowers it."""
    clients = {
        "batch": client_of(service, "--team", "batch"),
        "usual": client_of(service, "--team", "usual"),
        "urgent": client_of(service, "--team", "batch", "--priority", "50"),
        "lowered": client_of(service, "--team", "batch", "--priority", "50"),
    }
    tasks: list[asyncio.Task[httpx2.Response]] = []
    async with service.client() as first:
        tasks.append(asyncio.create_task(first.post(CHAT, json=message("narrow", "first"))))
        await wait_until(lambda: gate.running == 1)
        for number, (name, client) in enumerate(clients.items()):
            headers = {"x-narthex-priority": "-100"} if name == "lowered" else {}
            tasks.append(asyncio.create_task(client.post(CHAT, json=message("narrow", name), headers=headers)))

            async def is_waiting(number: int = number) -> bool:
                return await waiting_count(service) == number + 1

            await wait_until(is_waiting)
        gate.opened.set()
        assert [(await task).status_code for task in tasks] == [200] * 5
    assert gate.order == ["first", "urgent", "usual", "batch", "lowered"]
    for client in clients.values():
        await client.aclose()


async def test_full_process_refuses_the_busiest_and_lowest_first(service: Service, gate: Gate):
    """Whoever is refused is told when to come back, in the shape of their API."""
    async with client_of(service, "--team", "greedy") as greedy, client_of(service, "--team", "quiet") as quiet:
        tasks = [asyncio.create_task(greedy.post(CHAT, json=message("wide", "x"))) for _ in range(2 * REQUESTS_MAX)]
        await wait_until(lambda: sum(task.done() for task in tasks) + gate.running == len(tasks))
        refused = [task.result() for task in tasks if task.done()]
        assert 0 < gate.running < REQUESTS_MAX and {answer.status_code for answer in refused} == {503}
        assert refused[0].headers["retry-after"] == "1" and "try again" in refused[0].json()["error"]["message"]
        held = gate.running
        answer = asyncio.create_task(quiet.post(CHAT, json=message("wide", "x")))
        await wait_until(lambda: gate.running == held + 1)
        lowered = await greedy.post("/v1/messages", json={**message("wide", "x"), "max_tokens": 5})
        assert lowered.status_code in (503, 529) and lowered.json()["type"] == "error"
        gate.opened.set()
        assert (await answer).status_code == 200
        await asyncio.gather(*tasks)
        # Everything that was held is given back.
        answers = [await greedy.post(CHAT, json=message("wide", "x")) for _ in range(3)]
        assert [each.status_code for each in answers] == [200] * 3


def test_priorities_are_shown_and_changed(service: Service):
    created = json.loads(service.run("keys", "create", "--team", "batch", "--priority", "7", "--json").stdout)
    prefix = f"nx-{created['prefix'].removeprefix('nx-')}"
    assert created["priority"] == 7

    def shown() -> object:
        keys = json.loads(service.run("keys", "list", "--team", "batch", "--json").stdout)["keys"]
        return next(each["priority"] for each in keys if each["prefix"] == prefix)

    assert service.run("keys", "change", prefix, "--priority", "0").returncode == 0 and shown() == 0
    assert service.run("keys", "change", prefix, "--team-priority").returncode == 0 and shown() is None
    assert json.loads(service.run("teams", "set", "batch", "--priority", "-20", "--json").stdout)["priority"] == -20
    assert "priority = -20" in service.run("export").stdout
    refused = service.run("apply", "-", "--yes", stdin="[teams.batch]\npriority = 101\n")
    assert refused.returncode != 0 and "from -100 to 100" in refused.stderr


async def test_priorities_over_http(service: Service):
    async with service.admin_client() as admin:
        team = await admin.put("/admin/v1/teams/web", json={"priority": 10})
        assert team.status_code == 201 and team.json()["priority"] == 10
        created = await admin.post("/admin/v1/keys", json={"team": "web", "priority": -5})
        assert created.status_code == 201 and created.json()["priority"] == -5
        changed = await admin.patch(f"/admin/v1/keys/{created.json()['prefix']}", json={"priority": None}, headers={"if-match": "*"})
        assert changed.json()["priority"] is None
        refused = await admin.post("/admin/v1/keys", json={"team": "web", "priority": 1000})
        assert refused.status_code == 400 and refused.json()["error"]["param"] == "priority"
