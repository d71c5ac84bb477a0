"""Everything behind Debian's PgBouncer in transaction mode, and nothing that stays with a session, which others get.

The pool is small, so that whatever leans on a session soon finds itself in another one.
"""

import asyncio
import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.doctor import database
from app.store.keys.change_watch import ChangeWatch
from app.store.postgres import partitions
from app.store.postgres.database import connect, create_database_engine, is_pooled
from app.supervisor.machine.home import erase_home
from tests.support.processes import service as services
from tests.support.processes.commands import run_command
from tests.support.processes.fast_folder import fast_folder
from tests.support.processes.pgbouncer import PgBouncer, pgbouncer_to
from tests.support.processes.postgres import Postgres, running_postgres
from tests.support.processes.service import NARTHEX, PROCESS_TIMEOUT_S, Service
from tests.support.processes.terminate_connections import seconds_until_refused
from tests.support.processes.valkey import Valkey
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ScriptedEngine

CHAT = "/v1/chat/completions"
POOL_SIZE = 3
KEEP_DAYS = 100

CONFIGURATION = """
[providers.engine]
adapter = "openai"
base_url = "http://127.0.0.1:{port}"
[models.m]
targets = [{{ provider = "engine", model = "m" }}]
[models.other]
targets = [{{ provider = "engine", model = "other" }}]
[models.split.experiment]
arms = {{ m = 1, other = 1 }}
control = "m"
analysis = {{ metrics = ["helpful", "error"], window_minutes = 1 }}
[metrics.helpful]
kind = "boolean"
level = "inference"
optimize = "max"
[[prices]]
provider = "engine"
model = "*"
input = 1.0
output = 2.0
[[limits]]
name = "few"
scope = {{ team = "limited" }}
resource = "requests"
amount = 5
per = "hour"
after_loss = "rebuild"
"""

# What a session of Postgres keeps over its transactions. PgBouncer itself keeps application_name as the client that has it wants it.
_LEFT_BEHIND = """
SELECT pg_backend_pid() AS session,
  ARRAY(SELECT name FROM pg_prepared_statements) AS statements,
  ARRAY(SELECT * FROM pg_listening_channels()) AS channels,
  ARRAY(SELECT name FROM pg_cursors WHERE is_holdable) AS cursors,
  ARRAY(SELECT name || ' = ' || setting FROM pg_settings WHERE source = 'session'
        AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings')) AS settings,
  ARRAY(SELECT relname::text FROM pg_class WHERE relnamespace = pg_my_temp_schema()) AS tables,
  ARRAY(SELECT objid::text FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory') AS locks
"""


@dataclass
class Pooled:
    """A service, all of whose processes reach PostgreSQL through PgBouncer. `direct_url`: past it, for the test alone."""

    service: Service
    bouncer: PgBouncer
    valkey: Valkey
    engine: ScriptedEngine
    direct_url: str

    @property
    def url(self) -> str:
        return self.bouncer.database_url

    @property
    def logs(self) -> str:
        return "".join(path.read_text() for path in (self.service.home / "logs").glob("*.log"))

    async def run(self, *arguments: str, stdin: str = "") -> str:
        done = await asyncio.to_thread(self.service.run, *arguments, stdin=stdin)
        assert done.returncode == 0, f"narthex {' '.join(arguments)}: {done.stdout}\n{done.stderr}"
        return done.stdout

    async def chat(self, **fields: Any) -> Any:
        async with self.service.client() as client:
            answer = await client.post(CHAT, json={"model": "m", "messages": [{"role": "user", "content": "Hello!"}], **fields})
        assert answer.status_code == 200, answer.text
        return answer


async def left_behind(url: str) -> list[dict[str, Any]]:
    """Returns what each session of the pool keeps.

    It opens as many transactions at once as the pool has sessions, so that each session gets one.
    """
    rows: list[dict[str, Any]] = []
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(POOL_SIZE):
            connection = await connect(url)
            stack.callback(connection.terminate)
            await stack.enter_async_context(connection.transaction())
            rows += map(dict, await connection.fetch(_LEFT_BEHIND))
    assert len({row.pop("session") for row in rows}) == POOL_SIZE
    return rows


async def assert_nothing_left_behind(url: str) -> None:
    async def is_clean() -> bool:
        nonlocal kept
        kept = [row for row in await left_behind(url) if any(row.values())]
        return not kept

    kept: list[dict[str, Any]] = []
    with contextlib.suppress(AssertionError):  # a transaction that is just running may have set something for itself
        await wait_until(is_clean, 10)
    assert kept == []


def run_narthex(url: str, home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {"DATABASE_URL": url, "NARTHEX_HOME": str(home), "PATH": "/usr/bin:/bin"}
    return run_command(NARTHEX, arguments, environment, "", PROCESS_TIMEOUT_S)


@pytest.fixture(scope="module")
def server() -> Generator[Postgres]:
    with running_postgres(fast_folder()) as running:
        yield running


def make_folder() -> Path:
    """It is readable for the user that the servers run as under root."""
    folder = Path(tempfile.mkdtemp(prefix="narthex-test-", dir=fast_folder()))
    folder.chmod(0o711)
    return folder


@pytest.fixture(scope="module")
async def pooled(server: Postgres) -> AsyncGenerator[Pooled]:
    folder = make_folder()
    await server.execute("ALTER DATABASE narthex SET jit = on")  # as any other server than the embedded one has it
    with pgbouncer_to(server.url, pool_size=POOL_SIZE) as bouncer, pytest.MonkeyPatch.context() as environment:
        migrated = run_narthex(bouncer.database_url, folder, "migrate")
        assert migrated.returncode == 0, migrated.stderr
        again = run_narthex(bouncer.database_url, folder, "migrate")
        assert again.returncode == 0 and "up to date already" in again.stdout, again.stderr
        await add_old_day(server.url)
        valkey = Valkey(folder)
        environment.setenv("DATABASE_URL", bouncer.database_url)
        environment.setenv("REDIS_URL", valkey.url)
        settings: dict[str, Any] = {
            "keep_inferences_days": KEEP_DAYS,
            "budget_check_s": 1,
            "experiment_check_s": 1,
            "limits_lease_s": 1,
            "redis_timeout_s": 0.5,
            "total_timeout_s": 5,
        }
        service = await asyncio.to_thread(services.start, workers=2, drain_timeout_s=4, **settings)
        engine = ScriptedEngine()
        await engine.start()
        started = Pooled(service, bouncer, valkey, engine, server.url)
        await started.run("apply", "-", "--yes", stdin=CONFIGURATION.format(port=engine.port))
        yield started
        await engine.stop()
        await asyncio.to_thread(services.stop, service)
        valkey.client.close()
        valkey.stop()
        erase_home(folder)
        shutil.rmtree(folder, ignore_errors=True)


async def add_old_day(url: str) -> None:
    """Partitions of a day that has expired."""
    connection = await connect(url)
    await partitions.create_partitions(connection, [partitions.today() - KEEP_DAYS - 10])
    await connection.close()


async def test_pooler_is_recognized_and_the_server_itself_is_not_taken_for_one(pooled: Pooled) -> None:
    for url, expected in ((pooled.url, True), (pooled.direct_url, False)):
        connection = await connect(url)
        try:
            assert is_pooled(connection) is expected
        finally:
            await connection.close()


async def test_queries_of_both_libraries_hold_while_sessions_change(pooled: Pooled) -> None:
    """Each asks for types that asyncpg does not know, again and again, in whichever session is free."""

    async def query_by_asyncpg(number: int) -> None:
        connection = await connect(pooled.url)
        for round in range(20):
            rows = await connection.fetch("SELECT $1::uuid[] AS ids, $2::int + 1 AS next, 'narthex'::name AS name", [], round)
            assert rows[0]["next"] == round + 1, number
        await connection.close()

    async def query_by_sqlalchemy() -> None:
        engine = create_database_engine(pooled.url, pool_size=2)
        for round in range(20):
            async with engine.begin() as connection:
                result = await connection.exec_driver_sql("SELECT $1::int8[] AS ids, $2::int AS round", ([round], round))
                assert tuple(result.one()) == ([round], round)
        await engine.dispose()

    await asyncio.gather(*map(query_by_asyncpg, range(4)), *(query_by_sqlalchemy() for _ in range(4)))
    await assert_nothing_left_behind(pooled.url)


async def test_requests_are_served_recorded_and_limited(pooled: Pooled) -> None:
    answers = await asyncio.gather(*(pooled.chat(user=f"user {number}") for number in range(10)))
    streamed = await pooled.chat(stream=True, metadata={"tenant": "acme"})
    assert "[DONE]" in streamed.text
    for answer in (*answers, streamed):
        assert (await pooled.service.wait_for_record(answer.headers["x-narthex-inference-id"]))["outcome"] == "answered"
    limited = (await pooled.run("keys", "create", "--team", "limited", "--quiet")).strip()
    request = {"model": "m", "messages": [{"role": "user", "content": "Hello!"}]}
    async with pooled.service.client(headers={"authorization": f"Bearer {limited}"}) as client:

        async def status() -> int:
            return (await client.post(CHAT, json=request)).status_code

        async def is_served() -> bool:
            return await status() == 200

        async def is_epoch_stored() -> bool:
            return bool(await fetch(pooled.url, "SELECT FROM limit_epochs LIMIT 1"))

        assert [await status() for _ in range(3)] == [200, 200, 200]
        await wait_until(is_epoch_stored)
        pooled.valkey.flush()  # then what was used is read from the records, with a cursor
        await wait_until(is_served, interval_s=0.2)
        assert [await status() for _ in range(2)] == [200, 429]


async def test_revoked_key_is_refused_by_all_within_two_seconds_without_notifications(pooled: Pooled) -> None:
    assert await seconds_until_refused(pooled.service, pooled.url) < 2
    assert "behind a pooler" in pooled.logs


async def test_direct_address_brings_notifications_past_the_pooler(pooled: Pooled) -> None:
    for direct_url in ("", pooled.direct_url):
        changes: list[str] = []
        watch = ChangeWatch(pooled.url, direct_url, ("test_notifications",), changes.append)
        await watch.read_versions()
        await fetch(pooled.url, "SELECT pg_notify('test_notifications', '')")
        if direct_url:
            await wait_until(partial(bool, changes))
        else:
            await watch.read_versions()
        assert changes == (["test_notifications"] if direct_url else [])
        watch.close()
    facts = await database.collect_facts(pooled.url, pooled.direct_url)
    assert facts.state is not None and (facts.state.is_pooled, facts.state.receives_notifications) == (True, True)


async def test_expired_days_are_dropped(pooled: Pooled) -> None:
    query = "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'inferences'::regclass"

    async def are_dropped() -> bool:
        days = [partitions.partition_days(row["name"]) for row in await fetch(pooled.url, query)]
        return all(day is not None and day[1] > partitions.today() - KEEP_DAYS for day in days)

    await wait_until(are_dropped)


async def fetch(url: str, sql: str, *arguments: Any) -> Sequence[Any]:
    connection = await connect(url)
    try:
        return await connection.fetch(sql, *arguments)
    finally:
        await connection.close()


COMMANDS = (
    "analytics --by model",
    "analytics --by end_user --interval day",
    "audit",
    "budgets list",
    "costs focus --since 2026-11-01",
    "dropped",
    "export",
    "history",
    "inferences",
    "keys list",
    "limits overrides",
    "metrics list",
    "prices list",
    "prices recompute --since 1d",
    "refusals",
    "retention",
    "status",
    "teams list",
    "views list",
    "webhooks list",
)


@pytest.mark.parametrize("command", COMMANDS)
async def test_commands_work(pooled: Pooled, command: str) -> None:
    await pooled.run(*command.split())


async def test_admin_api_answers(pooled: Pooled) -> None:
    async with pooled.service.admin_client() as admin:
        for path in ("inferences", "analytics?group_by=model", "keys", "teams", "audit", "endpoints", "experiments"):
            answer = await admin.get(f"/admin/v1/{path}")
            assert answer.status_code == 200, (path, answer.text)


async def test_doctor_finds_nothing_wrong_with_a_pooler(pooled: Pooled) -> None:
    done = await asyncio.to_thread(pooled.service.run, "doctor", "--json")
    found = [each for each in json.loads(done.stdout)["findings"] if each["area"] == "postgres"]
    assert [each["severity"] for each in found] == ["ok"], found
    assert "every second" in found[0]["message"]


async def test_experiments_are_counted_and_their_results_shown(pooled: Pooled) -> None:
    sent: list[str] = []

    async def is_unit_counted() -> bool:  # it assigns episodes that begin some seconds after its start
        answer = await pooled.chat(model="split")
        sent.append(answer.headers["x-narthex-inference-id"])
        return bool(await fetch(pooled.url, "SELECT FROM experiment_units LIMIT 1"))

    async def is_all_matched() -> bool:
        rows = await fetch(pooled.url, "SELECT count(*) AS sent, count(matched_at) AS matched FROM feedback")
        return (rows[0]["sent"], rows[0]["matched"]) == (2, 2)

    await wait_until(is_unit_counted, interval_s=0.5)
    for id in sent[-2:]:
        await pooled.run("feedback", "send", "helpful", "true", "--inference", id)
    await wait_until(is_all_matched)
    assert "helpful" in await pooled.run("experiments", "results", "split")


async def test_datasets_replays_and_erasures_are_carried_out(pooled: Pooled) -> None:
    answer = await pooled.chat(user="ann", metadata={"tenant": "acme"})
    await pooled.service.wait_for_record(answer.headers["x-narthex-inference-id"])
    await pooled.run("datasets", "create", "sample", "--model", "m")

    async def shows(word: str, *command: str) -> bool:
        return word in await pooled.run(*command)

    await wait_until(lambda: shows('"complete"', "datasets", "show", "sample", "--json"), interval_s=0.5)
    assert await pooled.run("datasets", "export", "sample", "--format", "chat")
    payer = "-".join(pooled.service.key.split("-")[:2])
    started = await pooled.run("replay", "start", "other", "--key", payer, "--where", "model=m", "--max-items", "3", "--json")
    await wait_until(lambda: shows('"complete"', "replay", "show", json.loads(started)["id"], "--json"), interval_s=0.5)
    erasure = json.loads(await pooled.run("erase", "start", "--user", "ann", "--yes", "--json"))["id"]
    await wait_until(lambda: shows('"complete"', "erase", "show", erasure, "--json"), interval_s=0.5)
    await pooled.run("erase", "verify", erasure, "--user", "ann")


async def test_nothing_stays_with_a_session_and_no_log_has_a_traceback(pooled: Pooled) -> None:
    """The last test: after all that the others did."""
    await assert_nothing_left_behind(pooled.url)
    assert '"traceback"' not in pooled.logs and "Traceback" not in pooled.logs
    bouncer_log = pooled.bouncer.log.read_text()
    assert " ERROR " not in bouncer_log and "unsupported startup parameter" not in bouncer_log, bouncer_log
