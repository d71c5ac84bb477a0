"""Outages and stops: what callers see while Postgres is away or the spool is full, what SIGTERM lets finish, and what recovers by itself.

One service is shared by the tests of this module. Its Postgres and Valkey run outside of it.
"""

import asyncio
import contextlib
import errno
import json
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.settings import Settings
from app.store.keys.key_format import hash_key
from app.store.keys.log import log_path, read_log
from app.store.postgres.database import connect
from app.store.teams import keys
from app.supervisor.machine.home import erase_home
from tests.support.processes import service as services
from tests.support.processes.fast_folder import fast_folder
from tests.support.processes.postgres import Postgres
from tests.support.processes.service import NARTHEX, PROCESS_TIMEOUT_S, Service
from tests.support.processes.service_inspection import connections, paused_processes, process_tree
from tests.support.processes.terminate_connections import chat_while_connections_end, seconds_until_refused
from tests.support.processes.valkey import Valkey
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.processes.writer_process import running_writer
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk

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
class ServiceWithExternalServers:
    """A service whose Postgres and Valkey run outside of it: `server` is the Postgres, which a test may stop."""

    service: Service
    server: Postgres
    valkey: Valkey
    folder: Path
    engine: ScriptedEngine

    @property
    def postmaster(self) -> int:
        return int((self.folder / "run" / "postgres.pid").read_text())

    async def execute(self, *statements: str) -> None:
        """Changes the database without a notification."""
        connection = await connect(self.server.url)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()


def make_folder() -> Path:
    """It is readable for the user that the servers run as under root."""
    folder = Path(tempfile.mkdtemp(prefix="narthex-test-", dir=fast_folder()))
    folder.chmod(0o711)
    return folder


@pytest.fixture(scope="module")
async def external() -> AsyncGenerator[ServiceWithExternalServers]:
    folder = make_folder()
    server, valkey = Postgres(folder), Valkey(folder)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("DATABASE_URL", server.url)
        environment.setenv("REDIS_URL", valkey.url)
        service = services.start(workers=2, directory_poll_s=0.5, drain_timeout_s=4, limits_lease_s=1)
    engine = ScriptedEngine()
    await engine.start()
    service.apply(MODEL.format(port=engine.port))
    yield ServiceWithExternalServers(service, server, valkey, folder, engine)
    await engine.stop()
    await asyncio.to_thread(services.stop, service)
    server.stop()
    valkey.client.close()
    valkey.stop()
    erase_home(folder)


async def test_configured_database_and_redis_urls_prevent_embedded_servers(external: ServiceWithExternalServers):
    service = external.service
    async with service.client() as client:
        assert (await client.post(CHAT, json={"model": "sandbox", "messages": HI})).status_code == 200
    assert not (service.home / "run" / "postgres.pid").exists() and not (service.home / "run" / "valkey.pid").exists()


async def test_known_keys_keep_chatting_without_postgres_and_records_arrive_later(external: ServiceWithExternalServers):
    service = external.service
    stranger = await keys.create_key(external.server.url, "a stranger")
    async with service.client() as once:  # one connection, so only one worker has seen the key
        await once.get("/v1/models")
    logs = [log_path(service.home / "directory", f"gateway-{number}") for number in range(2)]
    await wait_until(lambda: any(hash_key(service.key) in read_log(path).callers for path in logs))  # where the other worker finds it
    external.server.stop()
    try:
        async with connections(service, 12) as callers:
            answers = await asyncio.gather(*(caller.post(CHAT, json={"model": "m", "messages": HI}) for caller in callers))
            assert [answer.status_code for answer in answers] == [200] * 12
            await wait_until(lambda: is_ready_without_postgres(callers))
        async with service.client(headers={"authorization": f"Bearer {stranger}"}) as new_caller:
            refused = await new_caller.post(CHAT, json={"model": "m", "messages": HI})
            assert (refused.status_code, refused.json()["error"]["type"]) == (503, "service_unavailable")
            assert refused.headers["retry-after"]
        async with service.client(headers={"authorization": f"Bearer {service.admin_key}"}) as admin:
            admin_answer = await admin.get("/admin/v1/inferences")
            assert admin_answer.status_code == 503 and "database" in admin_answer.json()["error"]["message"]
    finally:
        external.server.start()
    for answer in answers:
        assert (await service.wait_for_record(answer.json()["id"]))["outcome"] == "answered"
    async with service.client(headers={"authorization": f"Bearer {stranger}"}) as new_caller:
        assert (await new_caller.post(CHAT, json={"model": "m", "messages": HI})).status_code == 200
    await wait_until(lambda: postgres_connected(service))


async def test_hanging_postgres_does_not_delay_known_keys_and_refuses_unknown_ones(external: ServiceWithExternalServers):
    service = external.service
    stranger = await keys.create_key(external.server.url, "another stranger")
    with paused_processes(*process_tree(external.postmaster)):
        began = time.monotonic()
        async with connections(service, 8) as callers, service.client(headers={"authorization": f"Bearer {stranger}"}) as new_caller:
            known, refused = await asyncio.gather(
                asyncio.gather(*(caller.post(CHAT, json={"model": "m", "messages": HI}) for caller in callers)),
                new_caller.post(CHAT, json={"model": "m", "messages": HI}),
            )
        assert {answer.status_code for answer in known} == {200} and refused.status_code == 503
        assert time.monotonic() - began < GENEROUS_S
    await wait_until(lambda: postgres_connected(service))
    async with service.client(headers={"authorization": f"Bearer {stranger}"}) as new_caller:
        assert (await new_caller.post(CHAT, json={"model": "m", "messages": HI})).status_code == 200


# What each process says when Postgres goes, and when it is back.
_SENTENCES = {
    "gateway-0.log": (("Postgres is unavailable, and the cached snapshot is served", "Postgres answers again"),),
    "writer.log": (
        ("Records cannot be stored", "Records are stored again"),
        ("Feedback cannot be matched", "Feedback is matched again"),
        ("Erasures cannot be carried out", "Erasures are carried out again"),
        ("Units of experiments cannot be counted", "Units of experiments are counted again"),
        ("Datasets cannot be built", "Datasets are built again"),
        ("Webhooks cannot be delivered", "Webhooks are delivered again"),
    ),
}


@pytest.mark.parametrize("how", ["shutdown", "crash"])
async def test_restart_of_postgres_costs_each_task_two_sentences_and_no_traceback(external: ServiceWithExternalServers, how: str):
    folder = external.service.home / "logs"
    before = {path.name: len(path.read_text().splitlines()) for path in folder.glob("*.log")}

    def lines(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (folder / name).read_text().splitlines()[before.get(name, 0) :]]

    def is_logged_once(name: str, sentence: str) -> bool:
        return sum(line["message"].startswith(sentence) for line in lines(name)) == 1

    if how == "crash":
        external.server.kill()
    else:
        external.server.stop()
    try:
        for name, sentences in _SENTENCES.items():
            for gone, _ in sentences:
                await wait_until(partial(is_logged_once, name, gone))
    finally:
        external.server.start()
    for name, sentences in _SENTENCES.items():
        for gone, back in sentences:
            await wait_until(partial(is_logged_once, name, back))
            assert is_logged_once(name, gone)
    logged = [line for path in folder.glob("*.log") if path.name not in ("postgres.log", "valkey.log") for line in lines(path.name)]
    assert [line for line in logged if "traceback" in line or line["level"] in ("error", "critical")] == []
    await wait_until(lambda: postgres_connected(external.service))


async def test_terminated_connections_cost_no_caller_a_500_and_delay_no_revocation(external: ServiceWithExternalServers):
    statuses = await chat_while_connections_end(external.service, external.server.url, for_s=4)
    assert statuses[200] and statuses.keys() <= {200, 401, 503}, statuses
    assert await seconds_until_refused(external.service, external.server.url) < 2


async def test_changes_without_notification_are_picked_up_by_polling(external: ServiceWithExternalServers):
    key = await keys.create_key(external.server.url, "unnoticed")
    async with connections(external.service, 8) as callers, connections(external.service, 8, key) as others:
        assert await statuses(others, "m") == {200}
        await external.execute(
            "INSERT INTO models (name, config) SELECT 'unnoticed', config FROM models WHERE name = 'm'",
            "UPDATE snapshot_version SET version = version + 1",
            f"UPDATE keys SET revoked_at = now() WHERE prefix = '{key.split('-')[1]}'",
        )
        await wait_until(lambda: all_have_status(callers, "unnoticed", {200}))
        await wait_until(lambda: all_have_status(others, "m", {401}))


async def test_unservable_configuration_leaves_the_last_one_in_force(external: ServiceWithExternalServers):
    newer = json.dumps({"adapter": "of-next-year", "base_url": "http://127.0.0.1:9"})
    raised = "UPDATE snapshot_version SET version = version + 1"
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
        await wait_until(lambda: all_have_status(callers, "after", {200}))


RULE = """
[[limits]]
name = "{name}"
scope = {{ key = "{key}" }}
resource = "requests"
amount = {amount}
per = "hour"
after_loss = "{after_loss}"
"""


async def test_redis_that_lost_its_memory_is_reported_and_its_windows_are_rebuilt(external: ServiceWithExternalServers):
    service = external.service
    callers = {name: await keys.create_key(external.server.url, "limited", name=name) for name in ("rebuild", "spent")}
    rules = [RULE.format(name=name, key="-".join(key.split("-")[:2]), amount=5, after_loss=name) for name, key in callers.items()]
    service.apply("".join(rules))

    async def is_answered(client: httpx2.AsyncClient, name: str) -> bool:
        reply = await client.post(CHAT, json={"model": "m", "messages": HI}, headers={"authorization": f"Bearer {callers[name]}"})
        assert reply.status_code in (200, 429), reply.text
        return reply.status_code == 200

    async def refusing_rules() -> int:
        refusing = (await client.get("/health/ready")).json()["limits_refusing"]
        return 0 if refusing is None else refusing["rules"]

    async def metric_is(number: int) -> bool:
        return f"narthex_limit_rules_refusing_after_loss {number:.1f}" in (await client.get("/metrics")).text

    try:
        async with service.client() as client:
            assert all([await is_answered(client, name) for name in ("rebuild", "rebuild", "spent")])
            await wait_until(lambda: has_rows(external, "limit_epochs"))
            external.valkey.flush()
            assert not await is_answered(client, "spent")
            await wait_until(lambda: is_answered(client, "rebuild"))  # two of five were used, and this is the third
            assert [await is_answered(client, "rebuild") for _ in range(3)] == [True, True, False]
            await wait_until(lambda: metric_is(1))

            async def tells_of_the_spent_rule() -> bool:
                return await refusing_rules() == 1

            await wait_until(tells_of_the_spent_rule)
            refusing = (await client.get("/health/ready")).json()["limits_refusing"]
            assert refusing["waiting_for"] is None and refusing["since"] < refusing["until"]
            done = await asyncio.to_thread(service.run, "status", "--json")
            status = json.loads(done.stdout)
            assert done.returncode == 1 and not status["healthy"] and status["gateway"]["limits_refusing"] == refusing
            assert "1 limit refusing, as Redis lost its memory" in (await asyncio.to_thread(service.run, "status")).stdout
            findings = json.loads((await asyncio.to_thread(service.run, "doctor", "--json")).stdout)["findings"]
            assert any(each["severity"] == "error" and "Redis lost its memory" in each["message"] for each in findings)
            service.apply(rules[1].replace('"spent"\n', '"empty"\n').replace('name = "empty"', 'name = "spent"'))
            assert await is_answered(client, "spent")
            await wait_until(lambda: metric_is(0))
            assert await refusing_rules() == 0
    finally:
        service.apply("limits = []", "--prune")


async def has_rows(external: ServiceWithExternalServers, table: str) -> bool:
    connection = await connect(external.server.url)
    try:
        return bool(await connection.fetchval(f"SELECT count(*) FROM {table}"))
    finally:
        await connection.close()


async def test_full_spool_refuses_requests_until_the_writer_drains_it(external: ServiceWithExternalServers):
    async with gateway_without_writer(external, spool_max_bytes=200_000) as (service, client):
        taken = await send_until_status(client, 503)
        refused = await send_chat(client)
        error = refused.json()["error"]
        assert (refused.status_code, error["type"]) == (503, "service_unavailable") and "spool is full" in error["message"]
        assert (await client.get("/health/live")).status_code == 200
        async with running_writer(Settings.read(service.environment)):
            await wait_until(lambda: is_serving(client))
            for id in taken:
                assert (await service.wait_for_record(id))["content"]["policy"] == "full"
        assert metric(await client.get("/metrics"), "narthex_content_lost") == 0


async def test_full_spool_in_metadata_mode_drops_content_and_counts_it(external: ServiceWithExternalServers):
    settings = {"spool_max_bytes": 200_000, "spool_when_full": "metadata", "spool_reserve_bytes": 1_000_000}
    async with gateway_without_writer(external, **settings) as (service, client):
        ids: list[str] = []

        async def is_content_dropped() -> bool:
            ids.append((await send_chat(client)).json()["id"])
            return metric(await client.get("/metrics"), "narthex_content_lost") > 0

        await wait_until(is_content_dropped)
        late = (await send_chat(client)).json()["id"]
        lost = metric(await client.get("/metrics"), "narthex_content_lost")
        assert lost > 0 and metric(await client.get("/metrics"), "narthex_records_lost") == 0
        async with running_writer(Settings.read(service.environment)):
            rows = [await service.wait_for_record(id) for id in [*ids, late]]
    assert rows[0]["content"]["policy"] == "full" and rows[-1]["content"] == {"policy": "lost", "request": None, "response": None}
    assert sum(row["content"]["policy"] == "lost" for row in rows) == lost
    assert all((row["output_tokens"], row["outcome"]) == (2, "answered") for row in rows)


async def test_sigterm_drains_short_streams_cuts_long_ones_and_empties_the_spool(external: ServiceWithExternalServers):
    """It ends the shared service: the tests after it do not need one."""
    service, engine = external.service, external.engine
    is_draining = asyncio.Event()

    async def script(request: ReceivedRequest) -> None:
        is_short = request.body["messages"][0]["content"] == "short"
        request.begin_stream()
        while not request.disconnected.is_set() and not (is_short and is_draining.is_set()):
            request.send_event(chunk({"content": "word "}))
            await asyncio.sleep(0.05)
        request.send_event(chunk({}, "stop"))
        request.send_event(b"[DONE]")
        request.end_stream()

    async def stream_text(text: str) -> str:
        body = {"model": "m", "messages": [{"role": "user", "content": text}], "stream": True}
        async with service.client() as client, client.stream("POST", CHAT, json=body) as answer:
            try:
                return "".join([piece async for piece in answer.aiter_text()])
            except httpx2.TransportError:
                return "broken off"

    engine.requests.clear()
    engine.script = script
    short, long = asyncio.create_task(stream_text("short")), asyncio.create_task(stream_text("long"))
    await wait_until(lambda: len(engine.requests) == 2)
    checkers = [child for number in range(2) for child in process_tree(service.pid(f"gateway-{number}"))[1:]]
    service.process.send_signal(signal.SIGTERM)
    await wait_until(lambda: refuses_connections(service))
    assert checkers and all(map(is_running, checkers)), "they would keep the port open"
    is_draining.set()
    assert (await short).endswith("data: [DONE]\n\n")
    assert "[DONE]" not in await long
    assert await asyncio.to_thread(service.process.wait, PROCESS_TIMEOUT_S) == 0
    assert not list((service.home / "spool").glob("*.spool")), "the writer emptied the spool"
    engine.script = ReceivedRequest.respond_completion


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def refuses_connections(service: Service) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", int(service.url.rsplit(":", 1)[1]))) == errno.ECONNREFUSED


async def test_gateway_started_without_postgres_serves_from_its_saved_snapshot(external: ServiceWithExternalServers):
    service = external.service
    if service.process.poll() is None:
        await asyncio.to_thread(terminate, service.process)
    external.server.stop()
    try:
        restarted = await asyncio.to_thread(serve, service.home, service.environment, workers=3, redis_url="redis://127.0.0.1:9")
        await wait_until(lambda: asyncio.to_thread(services.is_ready, service.url), PROCESS_TIMEOUT_S)
        async with connections(service, 12) as callers:
            assert await statuses(callers, "m") == {200}
            await wait_until(lambda: is_ready_without_postgres(callers))
    finally:
        external.server.start()
    await wait_until(lambda: postgres_connected(service))
    async with connections(service, 12) as callers:
        assert await statuses(callers, "m") == {200}
    await asyncio.to_thread(terminate, restarted)


async def test_nul_characters_are_recorded(service: Service, engine: ScriptedEngine):
    async def script(request: ReceivedRequest) -> None:
        await request.respond_completion("a\0b")

    engine.script = script
    body = {"model": "scripted", "messages": [{"role": "user", "content": "x\0y"}], "user": "a\0da", "metadata": {"k\0": "v\0"}}
    async with service.client() as client:
        answer = await client.post(CHAT, json=body)
    row = await service.wait_for_record(answer.json()["id"])
    assert json.loads(row["content"]["request"]) == body
    assert json.loads(row["content"]["response"])["choices"][0]["message"]["content"] == "a\0b"
    assert (row["end_user"], row["tags"]) == ("ada", {"k": "v"})
    assert not list((service.home / "quarantine").glob("*"))


@contextlib.asynccontextmanager
async def gateway_without_writer(
    external: ServiceWithExternalServers, **settings: object
) -> AsyncGenerator[tuple[Service, httpx2.AsyncClient]]:
    """Starts one more gateway on the same database, with a spool that no writer drains yet, and a client of it."""
    home = Path(tempfile.mkdtemp(prefix="narthex-test-", dir=fast_folder()))
    for name in ("first-key", "admin-key", "secret-key"):
        shutil.copy(external.service.home / name, home)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {f"NARTHEX_{name.upper()}": str(value) for name, value in settings.items()}
    own = {"NARTHEX_HOME": str(home), "NARTHEX_PORT": str(port), "NARTHEX_SPOOL_SEGMENT_BYTES": "50000"}
    environment = {**external.service.environment, **own, **variables}
    process = await asyncio.to_thread(serve, home, environment, workers=1)
    service = Service(home, f"http://127.0.0.1:{port}", process, environment)
    try:
        await wait_until(lambda: asyncio.to_thread(services.is_ready, service.url), PROCESS_TIMEOUT_S)
        async with service.client() as client:
            yield service, client
    finally:
        await asyncio.to_thread(services.stop, service)


async def send_chat(client: httpx2.AsyncClient) -> httpx2.Response:
    return await client.post(CHAT, json={"model": "m", "messages": [{"role": "user", "content": "x" * 10_000}]})


async def is_serving(client: httpx2.AsyncClient) -> bool:
    return (await send_chat(client)).status_code == 200


async def send_until_status(client: httpx2.AsyncClient, status: int) -> list[str]:
    """Sends until this status; returns the ids of the responses before it."""
    ids: list[str] = []
    for _ in range(500):
        answer = await send_chat(client)
        if answer.status_code == status:
            return ids
        ids.append(answer.headers["x-narthex-inference-id"])
    raise AssertionError(f"status {status} was never received")


async def statuses(callers: list[httpx2.AsyncClient], model: str) -> set[int]:
    body = {"model": model, "messages": HI}
    return {answer.status_code for answer in await asyncio.gather(*(caller.post(CHAT, json=body) for caller in callers))}


async def all_have_status(callers: list[httpx2.AsyncClient], model: str, wanted: set[int]) -> bool:
    return await statuses(callers, model) == wanted


async def postgres_connected(service: Service) -> bool:
    """Returns whether every worker is connected to Postgres, as far as many connections can tell."""
    async with connections(service, 8) as callers:
        answers = await asyncio.gather(*(caller.get("/health/ready") for caller in callers))
    return {answer.json()["postgres"] for answer in answers} == {"connected"}


async def is_ready_without_postgres(callers: Sequence[httpx2.AsyncClient]) -> bool:
    """Returns whether every worker is ready without Postgres: each finds out for itself."""
    answers = await asyncio.gather(*(caller.get("/health/ready") for caller in callers))
    assert {answer.status_code for answer in answers} == {200}
    return all(answer.json()["postgres"].startswith("unavailable") for answer in answers)


def metric(page: httpx2.Response, name: str) -> float:
    return sum(float(line.split()[-1]) for line in page.text.splitlines() if line.split("{")[0].split(" ")[0] == name)


def serve(home: Path, environment: Mapping[str, str], *, workers: int, redis_url: str | None = None) -> subprocess.Popen[bytes]:
    """Starts `narthex serve`, which runs gateways alone."""
    variables = {"NARTHEX_WORKERS": str(workers), **({"REDIS_URL": redis_url} if redis_url else {})}
    with (home / "serve.log").open("wb") as log:
        return subprocess.Popen([NARTHEX, "serve"], env={**environment, **variables}, stdout=log, stderr=log, start_new_session=True)


def terminate(process: services.Process) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(PROCESS_TIMEOUT_S)
