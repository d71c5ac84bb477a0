"""Following new inferences: each once, by filter and role, resumed, bounded, and ended when access or the process ends."""

import asyncio
import contextlib
import functools
import json
import signal
import subprocess
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from app.api.admin.records import tail_readers as inference_tails
from app.api.admin.records.tail_readers import MAX_TAILS, MAX_TAILS_OF_ONE, InferenceTails
from app.domain import uuid7
from app.recording.spool.spool import Spool
from app.settings import Settings
from app.store.postgres.database import connect, create_database_engine
from app.store.records.inference_filter import InferenceFilter
from app.store.records.inference_tail import current_position, read_stored
from providers.canonical.errors import Unavailable
from tests.support.processes import service as services
from tests.support.processes.service import NARTHEX, Service
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.processes.writer_process import drain
from tests.support.spooled_exchanges import spool_exchange

PATH = "/admin/v1/inferences/tail"
ONLY_IN_DETAIL = ("content", "content_hidden", "made_attempts", "messages", "why")


class Events:
    """Events of a stream, as a browser's EventSource reads them. `id`: the last event's."""

    def __init__(self, response: httpx2.Response) -> None:
        self._lines = response.aiter_lines()
        self.id = ""

    async def next(self) -> tuple[str, Any]:
        """The next event with data."""
        name, data = "message", ""
        async with asyncio.timeout(GENEROUS_S):
            async for line in self._lines:
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    data = line.removeprefix("data: ")
                elif line.startswith("id: "):
                    self.id = line.removeprefix("id: ")
                elif not line and data:
                    return name, json.loads(data)
        raise EOFError

    async def wait_for_id(self, other_than: str = "") -> str:
        async with asyncio.timeout(GENEROUS_S):
            async for line in self._lines:
                if line.startswith("id: ") and line != f"id: {other_than}":
                    self.id = line.removeprefix("id: ")
                    return self.id
        raise EOFError


@contextlib.asynccontextmanager
async def tail(client: httpx2.AsyncClient, headers: dict[str, str] | None = None, **parameters: str) -> AsyncGenerator[Events]:
    async with client.stream("GET", PATH, params=parameters, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Events(response)


def streaming_admin(service: Service) -> httpx2.AsyncClient:
    """Returns a client that does not read the whole answer first, unlike service.admin_client()."""
    return service.client(headers={"authorization": f"Bearer {service.admin_key}"})


async def chat(client: httpx2.AsyncClient, run: str, headers: dict[str, str] | None = None) -> str:
    body = {"model": "sandbox", "messages": [{"role": "user", "content": "Hello!"}], "metadata": {"run": run}, "max_tokens": 5}
    answer = await client.post("/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-narthex-inference-id"]


async def test_tail_has_new_inferences_that_match_and_goes_on_after_an_interruption(service: Service, client: httpx2.AsyncClient):
    run, other = uuid.uuid4().hex, uuid.uuid4().hex
    async with streaming_admin(service) as admin:
        async with tail(admin, tag=f"run={run}") as events:
            first_id = await events.wait_for_id()
            await chat(client, other)
            sent = await chat(client, run)
            name, record = await events.next()
            assert (name, record["id"], record["model"], record["tags"]) == ("inference", sent, "sandbox", {"run": run})
            listed = (await admin.get(f"/admin/v1/inferences/{sent}")).json()
            assert record == {name: value for name, value in listed.items() if name not in ONLY_IN_DETAIL}
            last_id = await events.wait_for_id()
            assert last_id != first_id
        missed = [await chat(client, run) for _ in range(3)]
        for id in missed:
            await service.wait_for_record(id)
        async with tail(admin, {"last-event-id": last_id}, tag=f"run={run}") as events:
            assert {(await events.next())[1]["id"] for _ in missed} == set(missed), "what came meanwhile"
            sent = await chat(client, run)
            while (await events.next())[1]["id"] in missed:  # another process may not have seen the first id yet
                pass
        for headers, parameters, param in (
            ({"last-event-id": "5"}, {}, "last-event-id"),
            ({}, {"tag": "x"}, "tag"),
            ({}, {"text": "word"}, "text"),
            ({}, {"duration_s": "0"}, "duration_s"),
        ):
            wrong = await admin.get(PATH, params=parameters, headers=headers)
            assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, param)
        async with tail(admin, duration_s="1", tag="run=none") as events:
            assert await events.next() == ("end", {"reason": "duration", "message": "The time of this stream is over."})


async def test_role_in_a_team_follows_its_team_and_revoked_access_ends_the_tail(service: Service, client: httpx2.AsyncClient):
    ours, theirs = f"tail-{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
    key = service.run("keys", "create", "--team", ours, "--quiet").stdout.strip()
    async with service.admin_client() as admin, service.keyless_client() as keyless:
        account = {"name": f"{ours}-tail", "roles": [{"role": "viewer", "team": ours}]}
        assert (await admin.post("/admin/v1/service-accounts", json=account)).status_code == 201
        token = (await admin.post(f"/admin/v1/service-accounts/{ours}-tail/tokens")).json()
        async with tail(keyless, {"authorization": f"Bearer {token['token']}"}) as events:
            await events.wait_for_id()
            await chat(client, theirs)
            sent = await chat(keyless, ours, {"authorization": f"Bearer {key}"})
            name, record = await events.next()
            assert (name, record["id"], record["team"], record["endpoint"]) == ("inference", sent, ours, None)
            [listed] = (await admin.get(f"/admin/v1/service-accounts/{ours}-tail/tokens")).json()["data"]
            assert (await admin.delete(f"/admin/v1/service-accounts/{ours}-tail/tokens/{listed['id']}")).status_code == 200
            name, end = await events.next()
            assert (name, end["reason"]) == ("end", "access_ended")


async def test_command_follows_new_requests(service: Service, client: httpx2.AsyncClient):
    run = uuid.uuid4().hex
    command = [str(NARTHEX), "inferences", "--follow", "--json", "--tag", f"run={run}"]
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(service.environment),
        stdout=subprocess.PIPE,
        # Tests that run in the background of a shell inherit SIGINT ignored.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    line: asyncio.Task[bytes] = asyncio.create_task(process.stdout.readline())

    async def is_followed() -> bool:  # it follows from when it has started
        await chat(client, run)
        return line.done()

    await wait_until(is_followed)
    record = json.loads(await line)
    assert record["tags"] == {"run": run} and "key" not in record
    process.send_signal(signal.SIGINT)
    await process.communicate()  # on a busy machine more requests than a pipe holds: the command cannot end before they are read
    assert process.returncode == 130
    assert service.run("inferences", "--follow", "--export").returncode == 2


async def test_shutdown_ends_tails_at_once():
    running = services.start(workers=1, drain_timeout_s=60)
    try:
        async with streaming_admin(running) as admin, tail(admin) as events:
            await events.wait_for_id()
            stopped = asyncio.create_task(asyncio.to_thread(services.stop, running))
            name, end = await events.next()
            assert (name, end["reason"]) == ("end", "shutting_down")
        await stopped
    finally:
        services.stop(running)


async def test_each_stored_inference_is_read_once_although_transactions_end_in_another_order(database: str):
    insert = """
        INSERT INTO inferences
            (id, episode_id, received_at, team_id, key_id, route, model, streamed, status, outcome, duration_us, snapshot)
        SELECT $1, $1, now(), $1, $1, 'r', $2, false, 200, 'answered', 1, 's'
    """
    first, second, engine = await connect(database), await connect(database), create_database_engine(database)
    await first.execute("CREATE TABLE every_day PARTITION OF inferences DEFAULT")
    found: list[str] = []
    position = ""

    async def poll() -> None:
        nonlocal position
        async with engine.begin() as connection:
            until = await current_position(connection)
            after = None
            while position:
                rows, after = await read_stored(connection, position, until, after, 2)
                found.extend(row["model"] for row in rows)
                if after is None:
                    break
        position = until

    try:
        await poll()
        slow = first.transaction()
        await slow.start()
        await first.execute(insert, uuid7.mint(), "slow")
        await second.execute(insert, uuid7.mint(), "quick")
        await poll()
        assert found == ["quick"]
        await poll()
        await slow.commit()
        await poll()
        await poll()
        assert found == ["quick", "slow"]
    finally:
        await first.close()
        await second.close()
        await engine.dispose()


async def test_slow_follower_is_dropped_and_others_are_not(database: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inference_tails, "_POLL_S", 0.05)
    monkeypatch.setattr(inference_tails, "MAX_WAITING_ROWS", 10)
    settings = Settings(home=tmp_path, database_url=database)
    engine = create_database_engine(database)
    tails = InferenceTails(lambda: False)
    try:
        async with (
            tails.follow("ann", InferenceFilter(), engine.begin) as slow,
            tails.follow("ann", InferenceFilter(model="rare"), engine.begin) as quick,
        ):
            spool = Spool(tmp_path / "spool", settings)
            for number in range(30):
                spool_exchange(spool, b"", b"", model="rare" if number == 29 else "frequent")
            spool.close()
            await drain(settings)
            batch = None
            while batch is None:
                batch = await quick.next(GENEROUS_S)
            assert [row["model"] for row in batch.rows] == ["rare"] and quick.ended is None
            assert slow.ended == "too_slow" and await slow.next(GENEROUS_S) is None
        async with contextlib.AsyncExitStack() as stack:
            for number in range(MAX_TAILS):
                await stack.enter_async_context(tails.follow(number % (MAX_TAILS // MAX_TAILS_OF_ONE), InferenceFilter(), engine.begin))
                if number == MAX_TAILS - 2:  # there is room, but not for one who has that many
                    with pytest.raises(Unavailable, match="of your streams"):
                        await stack.enter_async_context(tails.follow(0, InferenceFilter(), engine.begin))
            with pytest.raises(Unavailable, match="that follow"):
                await stack.enter_async_context(tails.follow("another", InferenceFilter(), engine.begin))
    finally:
        await wait_until(lambda: not tails.is_reading)
        await engine.dispose()
