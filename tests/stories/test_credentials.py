"""Stories of credentials: stored ones reach their provider, take turns, are changed at no request's cost, and callers may bring theirs."""

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.settings import Settings
from app.store import configuration, credentials
from app.supervisor import secret_key, server_addresses
from tests.stories import service as services
from tests.stories.scripted import Asked, ScriptedEngine
from tests.stories.service import Service

FIRST, SECOND = "stored-first-secret-31", "stored-second-secret-62"


class Host:
    """A provider: `good` are the credentials that it takes; `busy` have no room. `came`: who asked, in turn."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self.engine = engine
        self.good: set[str] = set()
        self.busy: set[str] = set()
        self.came: list[str] = []
        engine.asked.clear()
        engine.script = self._answer

    async def _answer(self, asked: Asked) -> None:
        key = asked.headers.get("authorization", "").removeprefix("Bearer ")
        self.came.append(key)
        error = {"message": f"Incorrect API key provided: {key}", "type": "invalid_request_error", "code": "wrong_key"}
        if key in self.busy:
            await asked.answer(429, b'{"error": {"message": "slow down"}}', "content-type: application/json\r\nretry-after: 2\r\n")
        elif key in self.good:
            await asked.whole()
        else:
            await asked.answer(401, json.dumps({"error": error}).encode())


@pytest.fixture(scope="module")
def kept() -> Generator[Service]:
    """Two workers, with a key of their home's own making."""
    running = services.start(workers=2, total_timeout_s=6, drain_timeout_s=5)
    yield running
    services.stop(running)


@pytest.fixture(scope="module")
async def engine(kept: Service) -> AsyncGenerator[ScriptedEngine]:
    engine = ScriptedEngine()
    await engine.start()
    at = f"http://127.0.0.1:{engine.port}"
    kept.apply(f"""
        [providers]
        one = {{ adapter = "openai", base_url = "{at}", credential = "store:first" }}
        two = {{ adapter = "openai", base_url = "{at}/v1", credential = ["store:first", "store:second"] }}
        own = {{ adapter = "openai", base_url = "{at}/own", credential = "header:x-host-key" }}
        [models]
        one = {{ targets = [{{ provider = "one", model = "m" }}] }}
        two = {{ targets = [{{ provider = "two", model = "m" }}] }}
        own = {{ targets = [{{ provider = "own", model = "m" }}] }}
        backed = {{ targets = [{{ provider = "own", model = "m" }}], fallbacks = ["one"] }}
    """)
    yield engine
    await engine.stop()


@pytest.fixture
def host(engine: ScriptedEngine) -> Host:
    return Host(engine)


def database(service: Service) -> str:
    return server_addresses.resolve(Settings(home=service.home)).database_url


async def put(service: Service, name: str, secret: str) -> None:
    """As `narthex credentials set`, without the time that a process takes to begin."""
    vault = secret_key.open_vault(secret_key.resolve(Settings(home=service.home)))
    version = await credentials.set_credential(database(service), vault, name, secret)
    assert "have not" not in await configuration.wait_for_workers(database(service), version, 20)


def command(service: Service, *arguments: str, stdin: str | None = None, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, input=stdin, env={**service.environment, **environment})


@asynccontextmanager
async def asking(service: Service) -> AsyncGenerator[Any]:
    async with service.client() as client:

        async def ask(model: str, **headers: str) -> httpx.Response:
            body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
            return await client.post("/v1/chat/completions", json=body, headers=headers)

        yield ask


async def test_a_stored_credential_reaches_its_provider_from_every_worker(kept: Service, host: Host):
    host.good = {FIRST}
    await put(kept, "first", FIRST)
    async with asking(kept) as ask:
        answers = await asyncio.gather(*(ask("one") for _ in range(12)))
    assert {answer.status_code for answer in answers} == {200} and set(host.came) == {FIRST}


async def test_changing_a_stored_credential_costs_no_request(kept: Service, host: Host):
    host.good = {FIRST, SECOND}
    await put(kept, "first", FIRST)
    statuses: list[int] = []
    done = asyncio.Event()

    async def ask_on(ask: Any) -> None:
        while not done.is_set():
            statuses.append((await ask("one")).status_code)

    async with asking(kept) as ask:
        asks = [asyncio.create_task(ask_on(ask)) for _ in range(4)]
        await put(kept, "first", SECOND)
        host.good = {SECOND}  # `set` returned: nobody may use the old one from now on
        host.came.clear()
        await asyncio.gather(*(ask("one") for _ in range(8)))
        done.set()
        await asyncio.gather(*asks)
    assert set(statuses) == {200} and set(host.came[8:]) <= {SECOND} and SECOND in host.came


async def test_a_refused_credential_rests_and_the_next_serves(kept: Service, host: Host):
    await put(kept, "first", "a-refused-secret-11")
    await put(kept, "second", SECOND)
    host.good = {SECOND}
    async with asking(kept) as ask:
        answers = [await ask("two") for _ in range(6)]
        assert {answer.status_code for answer in answers} == {200}
        assert host.came.count("a-refused-secret-11") <= 2  # once a worker
        recorded = await kept.recorded(answers[0].headers["x-narthex-inference-id"])
        assert [each["error"] for each in recorded["attempts"]] == ["CredentialRefused", None]
        shown = ""
        for _ in range(40):  # one worker of the two answers
            shown = shown if "two: store:first was refused" in shown else command(kept, "engines", "list").stdout
        assert "two: store:first was refused" in shown and "store:second was" not in shown
        host.good = {FIRST, SECOND}
        await put(kept, "first", FIRST)  # mended: it is back at once
        host.came.clear()
        await ask("two")
        assert host.came == [FIRST]


async def test_a_credential_without_room_rests_as_long_as_it_is_told_to_and_comes_back(kept: Service, host: Host):
    await put(kept, "first", FIRST)
    await put(kept, "second", SECOND)
    host.good, host.busy = {FIRST, SECOND}, {FIRST}
    async with asking(kept) as ask:
        began = time.monotonic()
        while time.monotonic() < began + 1:
            assert (await ask("two")).status_code == 200
        assert host.came.count(FIRST) <= 2 and host.came.count(SECOND) > 2
        host.busy = set()
        until = time.monotonic() + 10
        host.came.clear()
        while FIRST not in host.came and time.monotonic() < until:
            assert (await ask("two")).status_code == 200
            await asyncio.sleep(0.05)
        assert FIRST in host.came


async def test_that_all_are_refused_is_never_the_callers_401(kept: Service, host: Host):
    await put(kept, "first", "a-refused-secret-11")
    await put(kept, "second", "another-refused-secret-12")
    async with asking(kept) as ask:
        answer = await ask("two")
        assert answer.status_code == 502 and "refused-secret" not in answer.text and "[masked]" in answer.text
        host.busy = {"another-refused-secret-12"}
        told = await ask("two")  # one of them may serve later, which says more than that the other never will
        assert told.status_code == 429 and int(told.headers["retry-after"]) <= 2


async def test_callers_bring_a_credential_of_their_own(kept: Service, host: Host):
    host.good = {"callers-own-secret-71", FIRST}
    await put(kept, "first", FIRST)
    async with asking(kept) as ask:
        served = await ask("own", **{"x-host-key": "callers-own-secret-71"})
        assert served.status_code == 200 and host.came == ["callers-own-secret-71"]
        missing = await ask("own")
        assert missing.status_code == 401 and "x-host-key" in missing.json()["error"]["message"]
        refused = await ask("own", **{"x-host-key": "callers-bad-secret-72"})
        assert refused.status_code == 401 and "refused the credential that you sent" in refused.json()["error"]["message"]
        assert "callers-bad-secret-72" not in refused.text
        gateways = await ask("own", **{"x-host-key": "aws:default"})
        assert gateways.status_code == 401 and "aws:default" not in host.came
        backed = await ask("backed")
        assert backed.status_code == 200 and host.came[-1] == FIRST
        recorded = await kept.recorded(refused.headers["x-narthex-inference-id"])
        assert "callers-" not in json.dumps(recorded)


async def test_a_worker_that_starts_without_postgres_opens_what_its_snapshot_holds(kept: Service, host: Host):
    await put(kept, "first", FIRST)
    host.good = {FIRST}
    snapshot = (kept.home / "directory" / "snapshot.json").read_text()
    assert FIRST not in snapshot and '"first"' in snapshot
    async with asking(kept) as ask:
        assert (await ask("one")).status_code == 200
        await asyncio.sleep(0.5)  # what a worker has met of keys is written a moment later
        os.kill(kept.pid("postgres"), signal.SIGSTOP)
        try:
            before = kept.pid("gateway-0")
            os.kill(before, signal.SIGKILL)
            os.kill(kept.pid("gateway-1"), signal.SIGKILL)
            until = time.monotonic() + 40
            while not (services.is_ready(kept.url) and kept.pid("gateway-0") != before):
                assert time.monotonic() < until
                await asyncio.sleep(0.2)
            status = 503
            while status == 503 and time.monotonic() < until:
                try:
                    status = (await ask("one")).status_code
                except httpx.TransportError:
                    await asyncio.sleep(0.1)
            assert status == 200 and host.came[-1] == FIRST
        finally:
            os.kill(kept.pid("postgres"), signal.SIGCONT)
        until = time.monotonic() + 30
        while (answer := await ask("one")).status_code != 200 and time.monotonic() < until:
            await asyncio.sleep(0.2)
        assert answer.status_code == 200 and host.came[-1] == FIRST


def test_a_credential_is_set_listed_rotated_and_deleted(kept: Service, engine: ScriptedEngine):
    for name, secret in (("first", FIRST), ("unused.one", "a-secret-that-nobody-uses")):
        done = command(kept, "credentials", "set", name, stdin=secret + "\n")
        assert done.exit_code == 0 and f"{name} is stored" in done.output and "2 workers serve it" in done.output
        assert secret not in done.output
    told = json.loads(command(kept, "credentials", "list", "--json").output)
    by_name = {each["name"]: each for each in told["credentials"]}
    assert by_name["first"]["providers"] == ["one", "two"] and by_name["first"]["opens"] and not by_name["unused.one"]["providers"]
    assert by_name["first"]["key"] == told["newest_key"]
    key_file = kept.home / "secret-key"
    old = key_file.read_text().strip()
    assert oct(key_file.stat().st_mode)[-3:] == "600"
    new = command(kept, "credentials", "new-key").output.strip()
    rotated = command(kept, "credentials", "rotate", NARTHEX_SECRET_KEY=f"{new},{old}")
    assert rotated.exit_code == 0 and "encrypted anew" in rotated.output
    # The gateways lack the new key: they go on by what they have read, and the list says what is wrong.
    assert "does not open" in command(kept, "credentials", "list").output
    assert command(kept, "credentials", "rotate", NARTHEX_SECRET_KEY=old[::-1]).exit_code == 1
    assert command(kept, "credentials", "rotate", NARTHEX_SECRET_KEY=f"{old},{new}").exit_code == 0
    assert "does not open" not in command(kept, "credentials", "list").output
    assert command(kept, "credentials", "delete", "unused.one", "--yes").exit_code == 0
    gone = command(kept, "credentials", "delete", "unused.one", "--yes")
    assert gone.exit_code == 1 and "Nothing is stored" in gone.output


def test_bad_input_of_the_commands_is_told_in_a_sentence(kept: Service):
    for name, secret in (("a b", "secret-canary"), ("ok", ""), ("ok", "two\nlines-canary"), ("ok", "aws:default")):
        done = command(kept, "credentials", "set", name, stdin=secret)
        assert done.exit_code == 1 and done.output.startswith("Error: ") and "canary" not in done.output
    weak = command(kept, "credentials", "set", "ok", stdin="x-secret", NARTHEX_SECRET_KEY="weak-canary")
    assert weak.exit_code == 2 and "at least 32 characters" in weak.output and "canary" not in weak.output


def test_apply_warns_of_what_is_not_stored_and_neither_touches_nor_exports_it(kept: Service, engine: ScriptedEngine):
    command(kept, "credentials", "set", "first", stdin=FIRST)
    later = '[providers.later]\nadapter = "openai"\ncredential = "store:not-yet"\n'
    told = command(kept, "apply", "--yes", "-", stdin=later).output
    assert "Warning: providers.later.credential" in told and "narthex credentials set not-yet" in told
    exported = command(kept, "export").output
    assert "store:first" in exported and FIRST not in exported and "sealed" not in exported
    assert command(kept, "apply", "--yes", "--prune", "-", stdin=exported).exit_code == 0
    listed = command(kept, "credentials", "list").output
    assert re.search(r"first +\w+ +opens", listed) and re.search(r"not-yet +- +not stored", listed)


async def test_admins_set_and_delete_them_over_http_and_never_read_them(kept: Service, host: Host):
    host.good = {SECOND}
    await put(kept, "first", "an-old-secret-99")
    async with httpx.AsyncClient(base_url=kept.url, headers={"authorization": f"Bearer {kept.admin_key}"}, timeout=30) as admin:
        stored = await admin.put("/admin/v1/credentials/first", json={"value": SECOND})
        assert stored.status_code == 200 and stored.json()["opens"] and SECOND not in stored.text
        shown = await admin.get("/admin/v1/credentials/first")
        assert shown.json()["providers"] == ["one", "two"] and "sealed" not in shown.text
        async with asking(kept) as ask:
            until = time.monotonic() + 5
            while (answer := await ask("one")).status_code != 200 and time.monotonic() < until:
                await asyncio.sleep(0.05)
            assert answer.status_code == 200
        listed = await admin.get("/admin/v1/credentials")
        assert {"first", "newest_key"} <= {each["name"] for each in listed.json()["data"]} | listed.json().keys()
        for bad, status in (({"value": ""}, 400), ({"secret": "canary-canary"}, 400), ({"value": "two\nlines-canary"}, 400)):
            refused = await admin.put("/admin/v1/credentials/first", json=bad)
            assert refused.status_code == status and "canary" not in refused.text
        assert (await admin.delete("/admin/v1/credentials/nothing")).status_code == 404
        assert (await admin.put("/admin/v1/credentials/short-lived", json={"value": "short-lived-secret"})).status_code == 200
        assert (await admin.delete("/admin/v1/credentials/short-lived")).json()["deleted"]
    async with kept.client() as client:
        assert (await client.get("/admin/v1/credentials")).status_code == 403
