"""While something is away: what callers see, what is kept, and what comes back by itself."""

import asyncio
import contextlib
import json
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.store import keys
from app.store.database import connect
from app.supervisor.paths import erase_home
from tests.stories import service as services
from tests.stories.looking import connections, family, stopped
from tests.stories.postgres import Postgres, fast_folder
from tests.stories.scripted import Asked, ScriptedEngine
from tests.stories.service import NARTHEX, Service

CHAT = "/v1/chat/completions"
HI: Any = [{"role": "user", "content": "Hello!"}]
MODEL = """
[providers.engine]
adapter = "openai"
base_url = "http://127.0.0.1:{port}"
[models.m]
targets = [{{ provider = "engine", model = "m" }}]
"""


@dataclass
class Fragile:
    """A service whose Postgres runs elsewhere and may be taken away."""

    service: Service
    server: Postgres
    folder: Path
    engine: ScriptedEngine

    @property
    def postmaster(self) -> int:
        return int((self.folder / "run" / "postgres.pid").read_text())

    async def execute(self, *statements: str) -> None:
        """Behind everybody's back: no notification tells of it."""
        connection = await connect(self.server.url)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()


@pytest.fixture(scope="module")
async def fragile() -> AsyncGenerator[Fragile]:
    folder = Path(tempfile.mkdtemp(prefix="narthex-test-", dir=fast_folder()))
    server = Postgres(folder)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("DATABASE_URL", server.url)
        service = services.start(workers=2, directory_poll_s=0.5)
    engine = ScriptedEngine()
    await engine.start()
    service.apply(MODEL.format(port=engine.port))
    yield Fragile(service, server, folder, engine)
    await engine.stop()
    await asyncio.to_thread(services.stop, service)
    server.stop()
    erase_home(folder)


async def test_without_postgres_known_keys_chat_on_and_all_is_recorded_when_it_is_back(fragile: Fragile):
    service = fragile.service
    stranger = await keys.create_key(fragile.server.url, "never asked before")
    async with service.client() as once:  # one connection, so one worker alone has met the key before
        await once.get("/v1/models")
    fragile.server.stop()
    try:
        async with connections(service, 12) as callers:
            answers = await asyncio.gather(*(caller.post(CHAT, json={"model": "m", "messages": HI}) for caller in callers))
            assert [answer.status_code for answer in answers] == [200] * 12
            ready = await callers[0].get("/health/ready")
            assert ready.status_code == 200 and "away" in ready.json()["postgres"]
        async with service.client(headers={"authorization": f"Bearer {stranger}"}) as unmet:
            refused = await unmet.post(CHAT, json={"model": "m", "messages": HI})
            assert (refused.status_code, refused.json()["error"]["type"]) == (503, "service_unavailable") and refused.headers["retry-after"]
        async with service.client(headers={"authorization": f"Bearer {service.admin_key}"}) as admin:
            told = await admin.get("/admin/v1/inferences")
            assert told.status_code == 503 and "database" in told.json()["error"]["message"]
    finally:
        fragile.server.start()
    for answer in answers:
        assert (await service.recorded(answer.json()["id"], within_s=20))["outcome"] == "answered"
    async with service.client(headers={"authorization": f"Bearer {stranger}"}) as unmet:
        assert (await unmet.post(CHAT, json={"model": "m", "messages": HI})).status_code == 200
    await until(lambda: connected(service))


async def test_a_postgres_that_says_nothing_keeps_nobody_waiting_for_long(fragile: Fragile):
    service = fragile.service
    stranger = await keys.create_key(fragile.server.url, "never asked before either")
    with stopped(*family(fragile.postmaster)):
        began = time.monotonic()
        async with connections(service, 8) as callers, service.client(headers={"authorization": f"Bearer {stranger}"}) as unmet:
            known, refused = await asyncio.gather(
                asyncio.gather(*(caller.post(CHAT, json={"model": "m", "messages": HI}) for caller in callers)),
                unmet.post(CHAT, json={"model": "m", "messages": HI}),
            )
        assert {answer.status_code for answer in known} == {200} and refused.status_code == 503
        assert time.monotonic() - began < 6
    await until(lambda: connected(service))
    async with service.client(headers={"authorization": f"Bearer {stranger}"}) as unmet:
        assert (await unmet.post(CHAT, json={"model": "m", "messages": HI})).status_code == 200


async def test_a_change_of_which_no_notification_came_is_seen_all_the_same(fragile: Fragile):
    key = await keys.create_key(fragile.server.url, "unnoticed")
    async with connections(fragile.service, 8) as callers, connections(fragile.service, 8, key) as others:
        assert await statuses(others, "m") == {200}
        await fragile.execute(
            "INSERT INTO models (name, config) SELECT 'unnoticed', config FROM models WHERE name = 'm'",
            "UPDATE directory_version SET version = version + 1",
            f"UPDATE keys SET revoked_at = now() WHERE prefix = '{key.split('-')[1]}'",
        )
        await until(lambda: are(callers, "unnoticed", {200}), within_s=3)
        await until(lambda: are(others, "m", {401}), within_s=3)


async def test_a_configuration_that_this_version_cannot_serve_leaves_the_last_one_in_force(fragile: Fragile):
    newer = json.dumps({"adapter": "of-next-year", "base_url": "http://127.0.0.1:9"})
    raised = "UPDATE directory_version SET version = version + 1"
    await fragile.execute(
        f"INSERT INTO providers (name, config) VALUES ('newer', '{newer}')",
        """INSERT INTO models (name, config) VALUES ('newer', '{"targets": [{"provider": "newer", "model": "x"}]}')""",
        raised,
    )
    async with connections(fragile.service, 8) as callers:
        await asyncio.sleep(1.2)
        assert await statuses(callers, "m") == {200}
        await fragile.execute(
            "DELETE FROM models WHERE name = 'newer'",
            "DELETE FROM providers WHERE name = 'newer'",
            "INSERT INTO models (name, config) SELECT 'after', config FROM models WHERE name = 'm'",
            raised,
        )
        await until(lambda: are(callers, "after", {200}), within_s=3)


async def test_a_gateway_that_starts_while_postgres_is_away_serves_by_what_was_kept(fragile: Fragile):
    service = fragile.service
    async with connections(service, 8) as callers:
        assert await statuses(callers, "m") == {200}
    await asyncio.to_thread(end, service.process)
    fragile.server.stop()
    try:
        again = await asyncio.to_thread(serve, service)
        await until(lambda: asyncio.to_thread(services.is_ready, service.url), within_s=20)
        async with connections(service, 12) as callers:
            assert await statuses(callers, "m") == {200}
            assert "away" in (await callers[0].get("/health/ready")).json()["postgres"]
    finally:
        fragile.server.start()
    await until(lambda: connected(service))
    async with connections(service, 12) as callers:
        assert await statuses(callers, "m") == {200}
    await asyncio.to_thread(end, again)


# --- the spool


async def test_over_its_bound_the_spool_refuses_until_the_writer_has_emptied_it():
    async with full_spool(spool_max_bytes=200_000) as (service, client):
        with stopped(service.pid("writer")):
            taken = await until_status(client, 503)
            refused = await ask(client)
            error = refused.json()["error"]
            assert (refused.status_code, error["type"]) == (503, "service_unavailable") and "spool is full" in error["message"]
            assert (await client.get("/health/live")).status_code == 200
        await until(lambda: answers(client))
        for id in taken:
            assert (await service.recorded(id))["content"]["policy"] == "full"
        assert metric(await client.get("/metrics"), "narthex_content_lost") == 0


async def test_over_its_bound_the_spool_may_let_content_go_and_says_how_much():
    async with full_spool(spool_max_bytes=200_000, spool_when_full="metadata", spool_reserve_bytes=1_000_000) as (service, client):
        with stopped(service.pid("writer")):
            ids = [(await ask(client)).json()["id"] for _ in range(40)]
            await asyncio.sleep(0.6)  # the folder is looked at twice a second
            late = (await ask(client)).json()["id"]
            lost = metric(await client.get("/metrics"), "narthex_content_lost")
            assert lost > 0 and metric(await client.get("/metrics"), "narthex_records_lost") == 0
        rows = [await service.recorded(id) for id in [*ids, late]]
        assert rows[0]["content"]["policy"] == "full" and rows[-1]["content"] == {"policy": "lost", "ask": None, "reply": None}
        assert sum(row["content"]["policy"] == "lost" for row in rows) == lost
        assert all((row["output_tokens"], row["outcome"]) == (2, "answered") for row in rows)


async def test_characters_that_postgres_cannot_hold_in_text_are_recorded(service: Service, engine: ScriptedEngine):
    async def script(asked: Asked) -> None:
        await asked.whole("a\0b")

    engine.script = script
    body = {"model": "scripted", "messages": [{"role": "user", "content": "x\0y"}], "user": "a\0da", "metadata": {"k\0": "v\0"}}
    async with service.client() as client:
        answer = await client.post(CHAT, json=body)
    row = await service.recorded(answer.json()["id"])
    assert json.loads(row["content"]["ask"]) == body and json.loads(row["content"]["reply"])["choices"][0]["message"]["content"] == "a\0b"
    assert (row["end_user"], row["tags"]) == ("ada", {"k": "v"})
    assert not list((service.home / "quarantine").glob("*"))


# --- what these stories share


@contextlib.asynccontextmanager
async def full_spool(**settings: Any) -> AsyncGenerator[tuple[Service, httpx.AsyncClient]]:
    """A service whose spool is soon full, and a client of its."""
    service = services.start(spool_segment_bytes=50_000, **settings)
    engine = ScriptedEngine()
    await engine.start()
    service.apply(MODEL.format(port=engine.port))
    try:
        async with service.client() as client:
            yield service, client
    finally:
        await engine.stop()
        await asyncio.to_thread(services.stop, service)


async def ask(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post(CHAT, json={"model": "m", "messages": [{"role": "user", "content": "x" * 10_000}]})


async def answers(client: httpx.AsyncClient) -> bool:
    return (await ask(client)).status_code == 200


async def until_status(client: httpx.AsyncClient, status: int) -> list[str]:
    """Asks until it is told so; the ids of what was answered before."""
    ids: list[str] = []
    for _ in range(500):
        answer = await ask(client)
        if answer.status_code == status:
            return ids
        ids.append(answer.headers["x-narthex-inference-id"])
    raise AssertionError(f"{status} never came")


async def statuses(callers: list[httpx.AsyncClient], model: str) -> set[int]:
    body = {"model": model, "messages": HI}
    return {answer.status_code for answer in await asyncio.gather(*(caller.post(CHAT, json=body) for caller in callers))}


async def are(callers: list[httpx.AsyncClient], model: str, wanted: set[int]) -> bool:
    return await statuses(callers, model) == wanted


async def connected(service: Service) -> bool:
    """Every worker, as far as many connections can tell."""
    async with connections(service, 8) as callers:
        told = await asyncio.gather(*(caller.get("/health/ready") for caller in callers))
    return {answer.json()["postgres"] for answer in told} == {"connected"}


def metric(page: httpx.Response, name: str) -> float:
    return sum(float(line.split()[-1]) for line in page.text.splitlines() if line.split("{")[0].split(" ")[0] == name)


def serve(service: Service) -> subprocess.Popen[bytes]:
    environment = {**service.environment, "NARTHEX_WORKERS": "3", "REDIS_URL": "redis://127.0.0.1:9"}
    with (service.home / "serve.log").open("wb") as log:
        return subprocess.Popen([NARTHEX, "serve"], env=environment, stdout=log, stderr=log, start_new_session=True)


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(40)


async def until(claim: Callable[[], Awaitable[bool]], within_s: float = 15) -> None:
    async with asyncio.timeout(within_s):
        while not await claim():
            await asyncio.sleep(0.05)
