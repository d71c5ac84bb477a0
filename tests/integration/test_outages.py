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
from tests.support import service as services
from tests.support.postgres import Postgres, fast_folder
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine
from tests.support.service import NARTHEX, Service
from tests.support.service_inspection import connections, paused_processes, process_tree

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
class ServiceWithExternalPostgres:
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
async def external() -> AsyncGenerator[ServiceWithExternalPostgres]:
    folder = Path(tempfile.mkdtemp(prefix="narthex-test-", dir=fast_folder()))
    server = Postgres(folder)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("DATABASE_URL", server.url)
        service = services.start(workers=2, directory_poll_s=0.5)
    engine = ScriptedEngine()
    await engine.start()
    service.apply(MODEL.format(port=engine.port))
    yield ServiceWithExternalPostgres(service, server, folder, engine)
    await engine.stop()
    await asyncio.to_thread(services.stop, service)
    server.stop()
    erase_home(folder)


async def test_known_keys_keep_chatting_without_postgres_and_records_arrive_later(external: ServiceWithExternalPostgres):
    service = external.service
    stranger = await keys.create_key(external.server.url, "never asked before")
    async with service.client() as once:  # one connection, so one worker alone has met the key before
        await once.get("/v1/models")
    external.server.stop()
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
            admin_answer = await admin.get("/admin/v1/inferences")
            assert admin_answer.status_code == 503 and "database" in admin_answer.json()["error"]["message"]
    finally:
        external.server.start()
    for answer in answers:
        assert (await service.wait_for_record(answer.json()["id"], within_s=20))["outcome"] == "answered"
    async with service.client(headers={"authorization": f"Bearer {stranger}"}) as unmet:
        assert (await unmet.post(CHAT, json={"model": "m", "messages": HI})).status_code == 200
    await wait_until(lambda: postgres_connected(service))


async def test_hanging_postgres_does_not_delay_known_keys_and_refuses_unknown_ones(external: ServiceWithExternalPostgres):
    service = external.service
    stranger = await keys.create_key(external.server.url, "never asked before either")
    with paused_processes(*process_tree(external.postmaster)):
        began = time.monotonic()
        async with connections(service, 8) as callers, service.client(headers={"authorization": f"Bearer {stranger}"}) as unmet:
            known, refused = await asyncio.gather(
                asyncio.gather(*(caller.post(CHAT, json={"model": "m", "messages": HI}) for caller in callers)),
                unmet.post(CHAT, json={"model": "m", "messages": HI}),
            )
        assert {answer.status_code for answer in known} == {200} and refused.status_code == 503
        assert time.monotonic() - began < 6
    await wait_until(lambda: postgres_connected(service))
    async with service.client(headers={"authorization": f"Bearer {stranger}"}) as unmet:
        assert (await unmet.post(CHAT, json={"model": "m", "messages": HI})).status_code == 200


async def test_changes_without_notification_are_picked_up_by_polling(external: ServiceWithExternalPostgres):
    key = await keys.create_key(external.server.url, "unnoticed")
    async with connections(external.service, 8) as callers, connections(external.service, 8, key) as others:
        assert await statuses(others, "m") == {200}
        await external.execute(
            "INSERT INTO models (name, config) SELECT 'unnoticed', config FROM models WHERE name = 'm'",
            "UPDATE directory_version SET version = version + 1",
            f"UPDATE keys SET revoked_at = now() WHERE prefix = '{key.split('-')[1]}'",
        )
        await wait_until(lambda: all_have_status(callers, "unnoticed", {200}), within_s=3)
        await wait_until(lambda: all_have_status(others, "m", {401}), within_s=3)


async def test_unservable_configuration_leaves_the_last_one_in_force(external: ServiceWithExternalPostgres):
    newer = json.dumps({"adapter": "of-next-year", "base_url": "http://127.0.0.1:9"})
    raised = "UPDATE directory_version SET version = version + 1"
    await external.execute(
        f"INSERT INTO providers (name, config) VALUES ('newer', '{newer}')",
        """INSERT INTO models (name, config) VALUES ('newer', '{"targets": [{"provider": "newer", "model": "x"}]}')""",
        raised,
    )
    async with connections(external.service, 8) as callers:
        await asyncio.sleep(1.2)
        assert await statuses(callers, "m") == {200}
        await external.execute(
            "DELETE FROM models WHERE name = 'newer'",
            "DELETE FROM providers WHERE name = 'newer'",
            "INSERT INTO models (name, config) SELECT 'after', config FROM models WHERE name = 'm'",
            raised,
        )
        await wait_until(lambda: all_have_status(callers, "after", {200}), within_s=3)


async def test_gateway_started_without_postgres_serves_from_its_saved_snapshot(external: ServiceWithExternalPostgres):
    service = external.service
    async with connections(service, 8) as callers:
        assert await statuses(callers, "m") == {200}
    await asyncio.to_thread(terminate, service.process)
    external.server.stop()
    try:
        again = await asyncio.to_thread(serve, service)
        await wait_until(lambda: asyncio.to_thread(services.is_ready, service.url), within_s=20)
        async with connections(service, 12) as callers:
            assert await statuses(callers, "m") == {200}
            assert "away" in (await callers[0].get("/health/ready")).json()["postgres"]
    finally:
        external.server.start()
    await wait_until(lambda: postgres_connected(service))
    async with connections(service, 12) as callers:
        assert await statuses(callers, "m") == {200}
    await asyncio.to_thread(terminate, again)


# --- the spool


async def test_full_spool_refuses_requests_until_the_writer_drains_it():
    async with service_with_small_spool(spool_max_bytes=200_000) as (service, client):
        with paused_processes(service.pid("writer")):
            taken = await send_until_status(client, 503)
            refused = await send_chat(client)
            error = refused.json()["error"]
            assert (refused.status_code, error["type"]) == (503, "service_unavailable") and "spool is full" in error["message"]
            assert (await client.get("/health/live")).status_code == 200
        await wait_until(lambda: is_serving(client))
        for id in taken:
            assert (await service.wait_for_record(id))["content"]["policy"] == "full"
        assert metric(await client.get("/metrics"), "narthex_content_lost") == 0


async def test_full_spool_in_metadata_mode_drops_content_and_counts_it():
    async with service_with_small_spool(spool_max_bytes=200_000, spool_when_full="metadata", spool_reserve_bytes=1_000_000) as (
        service,
        client,
    ):
        with paused_processes(service.pid("writer")):
            ids = [(await send_chat(client)).json()["id"] for _ in range(40)]
            await asyncio.sleep(0.6)  # the folder is looked at twice a second
            late = (await send_chat(client)).json()["id"]
            lost = metric(await client.get("/metrics"), "narthex_content_lost")
            assert lost > 0 and metric(await client.get("/metrics"), "narthex_records_lost") == 0
        rows = [await service.wait_for_record(id) for id in [*ids, late]]
        assert rows[0]["content"]["policy"] == "full" and rows[-1]["content"] == {"policy": "lost", "ask": None, "reply": None}
        assert sum(row["content"]["policy"] == "lost" for row in rows) == lost
        assert all((row["output_tokens"], row["outcome"]) == (2, "answered") for row in rows)


async def test_nul_characters_are_recorded(service: Service, engine: ScriptedEngine):
    async def script(request: ReceivedRequest) -> None:
        await request.respond_completion("a\0b")

    engine.script = script
    body = {"model": "scripted", "messages": [{"role": "user", "content": "x\0y"}], "user": "a\0da", "metadata": {"k\0": "v\0"}}
    async with service.client() as client:
        answer = await client.post(CHAT, json=body)
    row = await service.wait_for_record(answer.json()["id"])
    assert json.loads(row["content"]["ask"]) == body and json.loads(row["content"]["reply"])["choices"][0]["message"]["content"] == "a\0b"
    assert (row["end_user"], row["tags"]) == ("ada", {"k": "v"})
    assert not list((service.home / "quarantine").glob("*"))


# --- what these stories share


@contextlib.asynccontextmanager
async def service_with_small_spool(**settings: Any) -> AsyncGenerator[tuple[Service, httpx.AsyncClient]]:
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


async def send_chat(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post(CHAT, json={"model": "m", "messages": [{"role": "user", "content": "x" * 10_000}]})


async def is_serving(client: httpx.AsyncClient) -> bool:
    return (await send_chat(client)).status_code == 200


async def send_until_status(client: httpx.AsyncClient, status: int) -> list[str]:
    """Asks until it is told so; the ids of what was answered before."""
    ids: list[str] = []
    for _ in range(500):
        answer = await send_chat(client)
        if answer.status_code == status:
            return ids
        ids.append(answer.headers["x-narthex-inference-id"])
    raise AssertionError(f"{status} never came")


async def statuses(callers: list[httpx.AsyncClient], model: str) -> set[int]:
    body = {"model": model, "messages": HI}
    return {answer.status_code for answer in await asyncio.gather(*(caller.post(CHAT, json=body) for caller in callers))}


async def all_have_status(callers: list[httpx.AsyncClient], model: str, wanted: set[int]) -> bool:
    return await statuses(callers, model) == wanted


async def postgres_connected(service: Service) -> bool:
    """Every worker, as far as many connections can tell."""
    async with connections(service, 8) as callers:
        answers = await asyncio.gather(*(caller.get("/health/ready") for caller in callers))
    return {answer.json()["postgres"] for answer in answers} == {"connected"}


def metric(page: httpx.Response, name: str) -> float:
    return sum(float(line.split()[-1]) for line in page.text.splitlines() if line.split("{")[0].split(" ")[0] == name)


def serve(service: Service) -> subprocess.Popen[bytes]:
    environment = {**service.environment, "NARTHEX_WORKERS": "3", "REDIS_URL": "redis://127.0.0.1:9"}
    with (service.home / "serve.log").open("wb") as log:
        return subprocess.Popen([NARTHEX, "serve"], env=environment, stdout=log, stderr=log, start_new_session=True)


def terminate(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(40)


async def wait_until(condition: Callable[[], Awaitable[bool]], within_s: float = 15) -> None:
    async with asyncio.timeout(within_s):
        while not await condition():
            await asyncio.sleep(0.05)
