"""Provider credentials: stored ones are sent, rotated and replaced without failed requests; callers may send their own."""

import asyncio
import json
import os
import re
import signal
import time
import uuid
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.settings import Settings
from app.store.keys.key_format import hash_key
from app.store.keys.log import read_log
from app.store.teams import credentials
from app.store.workers.applied_changes import Applied, wait_until_served
from app.supervisor.machine import secret_key, server_addresses
from tests.support.processes import service as services
from tests.support.processes.service import PROCESS_TIMEOUT_S, Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

FIRST, SECOND = "stored-first-secret-31", "stored-second-secret-62"


class Host:
    """A provider that accepts the `valid` credentials, and answers 429 to `rate_limited` ones. `received_keys`: in order."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self.engine = engine
        self.valid: set[str] = set()
        self.rate_limited: set[str] = set()
        self.received_keys: list[str] = []
        engine.requests.clear()
        engine.script = self._respond

    async def _respond(self, request: ReceivedRequest) -> None:
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.received_keys.append(key)
        error = {"message": f"Incorrect API key provided: {key}", "type": "invalid_request_error", "code": "wrong_key"}
        if key in self.rate_limited:
            await request.respond(429, b'{"error": {"message": "slow down"}}', "content-type: application/json\r\nretry-after: 2\r\n")
        elif key in self.valid:
            await request.respond_completion()
        else:
            await request.respond(401, json.dumps({"error": error}).encode())


@pytest.fixture(scope="module")
def two_worker_service() -> Generator[Service]:
    """A service of two workers, with a secret key that `narthex up` has generated."""
    running = services.start(workers=2, total_timeout_s=30, drain_timeout_s=5)
    yield running
    services.stop(running)


@pytest.fixture(scope="module")
async def engine(two_worker_service: Service) -> AsyncGenerator[ScriptedEngine]:
    engine = ScriptedEngine()
    await engine.start()
    url = f"http://127.0.0.1:{engine.port}"
    two_worker_service.apply(f"""
        [providers]
        one = {{ adapter = "openai", base_url = "{url}", credential = "store:first" }}
        two = {{ adapter = "openai", base_url = "{url}/v1", credential = ["store:first", "store:second"] }}
        own = {{ adapter = "openai", base_url = "{url}/own", credential = "header:x-host-key" }}
        elsewhere = {{ adapter = "openai", base_url = "{url}", credential = "file:/var/lib/secret-place/key" }}
        unreadable = {{ adapter = "openai", base_url = "{url}", credential = "file:{two_worker_service.home}/credentials/secret-place" }}
        unset = {{ adapter = "openai", base_url = "{url}", credential = "env:SECRET_PLACE" }}
        unstored = {{ adapter = "openai", base_url = "{url}", credential = "store:secret-place" }}
        [models]
        one = {{ targets = [{{ provider = "one", model = "m" }}] }}
        two = {{ targets = [{{ provider = "two", model = "m" }}] }}
        own = {{ targets = [{{ provider = "own", model = "m" }}] }}
        elsewhere = {{ targets = [{{ provider = "elsewhere", model = "m" }}] }}
        unreadable = {{ targets = [{{ provider = "unreadable", model = "m" }}] }}
        unset = {{ targets = [{{ provider = "unset", model = "m" }}] }}
        unstored = {{ targets = [{{ provider = "unstored", model = "m" }}] }}
        backed = {{ targets = [{{ provider = "own", model = "m" }}], fallbacks = ["one"] }}
    """)
    yield engine
    await engine.stop()


@pytest.fixture
def host(engine: ScriptedEngine) -> Host:
    return Host(engine)


def database(service: Service) -> str:
    return server_addresses.resolve(Settings(home=service.home)).database_url


async def store_credential(service: Service, name: str, secret: str) -> None:
    """Stores a credential as `narthex credentials set` does, without the time that a process takes to start."""
    vault = secret_key.open_vault(secret_key.resolve(Settings(home=service.home)))
    await credentials.set_credential(database(service), vault, name, secret)
    assert await wait_until_served(database(service), PROCESS_TIMEOUT_S) == Applied(2)


def run_command(service: Service, *arguments: str, stdin: str | None = None, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, input=stdin, env={**service.environment, **environment})


@asynccontextmanager
async def chat_sender(service: Service) -> AsyncGenerator[Any]:
    async with service.client() as client:

        async def send_chat(model: str, **headers: str) -> httpx2.Response:
            body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
            return await client.post("/v1/chat/completions", json=body, headers=headers)

        yield send_chat


async def test_stored_credential_is_sent_by_every_worker(two_worker_service: Service, host: Host):
    host.valid = {FIRST}
    await store_credential(two_worker_service, "first", FIRST)
    async with chat_sender(two_worker_service) as send_chat:
        answers = await asyncio.gather(*(send_chat("one") for _ in range(12)))
    assert {answer.status_code for answer in answers} == {200} and set(host.received_keys) == {FIRST}


async def test_response_is_replayed_only_to_the_credential_that_got_it(two_worker_service: Service, host: Host):
    host.valid = {FIRST, SECOND}
    async with chat_sender(two_worker_service) as send_chat:
        key = {"idempotency-key": uuid.uuid4().hex}
        answer, same, other, none = [
            await send_chat("own", **key, **credential)
            for credential in ({"x-host-key": FIRST}, {"x-host-key": FIRST}, {"x-host-key": SECOND}, {})
        ]
    assert (answer.status_code, same.headers.get("x-narthex-replayed"), same.content) == (200, "true", answer.content)
    for refused in (other, none):
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "idempotency_key_reused")


async def test_changing_a_stored_credential_fails_no_request(two_worker_service: Service, host: Host):
    host.valid = {FIRST, SECOND}
    await store_credential(two_worker_service, "first", FIRST)
    statuses: list[int] = []
    done = asyncio.Event()

    async def keep_sending(send_chat: Any) -> None:
        while not done.is_set():
            statuses.append((await send_chat("one")).status_code)

    async with chat_sender(two_worker_service) as send_chat:
        senders = [asyncio.create_task(keep_sending(send_chat)) for _ in range(4)]
        await store_credential(two_worker_service, "first", SECOND)
        host.valid = {SECOND}  # once `set` has returned, no worker uses the old one
        host.received_keys.clear()
        await asyncio.gather(*(send_chat("one") for _ in range(8)))
        done.set()
        await asyncio.gather(*senders)
    assert set(statuses) == {200} and set(host.received_keys[8:]) <= {SECOND} and SECOND in host.received_keys


async def test_refused_credential_cools_down_and_the_next_one_serves(two_worker_service: Service, host: Host):
    await store_credential(two_worker_service, "first", "a-refused-secret-11")
    await store_credential(two_worker_service, "second", SECOND)
    host.valid = {SECOND}
    async with chat_sender(two_worker_service) as send_chat:
        answers = [await send_chat("two") for _ in range(6)]
        assert {answer.status_code for answer in answers} == {200}
        assert host.received_keys.count("a-refused-secret-11") <= 2  # once by each worker
        recorded = await two_worker_service.wait_for_record(answers[0].headers["x-narthex-inference-id"])
        assert [each["error"] for each in recorded["attempts"]] == ["CredentialRefused", None]
        shown = ""
        for _ in range(40):  # either worker may answer, and maybe one of them alone has sent the refused credential
            shown = shown if "two: store:first was refused" in shown else run_command(two_worker_service, "engines", "list").stdout
        assert "two: store:first was refused" in shown and "store:second was" not in shown
        host.valid = {FIRST, SECOND}
        await store_credential(two_worker_service, "first", FIRST)  # a new value is used at once
        host.received_keys.clear()
        await send_chat("two")
        assert host.received_keys == [FIRST]


async def test_rate_limited_credential_is_used_again_after_its_retry_after(two_worker_service: Service, host: Host):
    await store_credential(two_worker_service, "first", FIRST)
    await store_credential(two_worker_service, "second", SECOND)
    host.valid, host.rate_limited = {FIRST, SECOND}, {FIRST}
    async with chat_sender(two_worker_service) as send_chat:
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline or host.received_keys.count(SECOND) <= 2:
            assert (await send_chat("two")).status_code == 200
        # Each worker tries it once, and again after two seconds at the earliest.
        assert host.received_keys.count(FIRST) <= 2 * (1 + (time.monotonic() - deadline + 1) // 2)
        host.rate_limited = set()
        host.received_keys.clear()

        async def is_used_again() -> bool:
            assert (await send_chat("two")).status_code == 200
            return FIRST in host.received_keys

        await wait_until(is_used_again)


async def test_refusal_of_all_stored_credentials_is_never_a_401_for_the_caller(two_worker_service: Service, host: Host):
    await store_credential(two_worker_service, "first", "a-refused-secret-11")
    await store_credential(two_worker_service, "second", "another-refused-secret-12")
    async with chat_sender(two_worker_service) as send_chat:
        answer = await send_chat("two")
        assert answer.status_code == 502 and "refused-secret" not in answer.text and "[masked]" in answer.text
        host.rate_limited = {"another-refused-secret-12"}
        rate_limited = await send_chat("two")  # one of them may serve later, so that is reported rather than the refusal of the other
        assert rate_limited.status_code == 429 and int(rate_limited.headers["retry-after"]) <= 2


@pytest.mark.parametrize("model", ["elsewhere", "unreadable", "unset", "unstored"])
@pytest.mark.parametrize("stream", [False, True])
async def test_where_a_credential_lies_is_for_the_log_and_not_for_callers(
    two_worker_service: Service, host: Host, model: str, stream: bool
):
    async with two_worker_service.client() as client:
        messages = [{"role": "user", "content": "Hi"}]
        answer = await client.post("/v1/chat/completions", json={"model": model, "messages": messages, "stream": stream})
    message = answer.json()["error"]["message"]
    assert answer.status_code == 502 and f"credential for {model} cannot be used" in message and "operator" in message
    shown = answer.text.lower().replace("_", "-")
    assert "secret-place" not in shown and str(two_worker_service.home) not in answer.text and "/" not in message

    def is_logged() -> bool:
        lines = "".join(each.read_text() for each in two_worker_service.home.rglob("*.log")).lower().replace("_", "-").splitlines()
        return any("a credential cannot be used" in line and model in line and "secret-place" in line for line in lines)

    await wait_until(is_logged)


async def test_caller_credential_is_required_forwarded_and_never_recorded(two_worker_service: Service, host: Host):
    host.valid = {"callers-own-secret-71", FIRST}
    await store_credential(two_worker_service, "first", FIRST)
    async with chat_sender(two_worker_service) as send_chat:
        served = await send_chat("own", **{"x-host-key": "callers-own-secret-71"})
        assert served.status_code == 200 and host.received_keys == ["callers-own-secret-71"]
        missing = await send_chat("own")
        assert missing.status_code == 401 and "x-host-key" in missing.json()["error"]["message"]
        refused = await send_chat("own", **{"x-host-key": "callers-bad-secret-72"})
        assert refused.status_code == 401 and "refused the credential that you sent" in refused.json()["error"]["message"]
        assert "callers-bad-secret-72" not in refused.text
        gateways = await send_chat("own", **{"x-host-key": "aws:default"})
        assert gateways.status_code == 401 and "aws:default" not in host.received_keys
        backed = await send_chat("backed")
        assert backed.status_code == 200 and host.received_keys[-1] == FIRST
        recorded = await two_worker_service.wait_for_record(refused.headers["x-narthex-inference-id"])
        assert "callers-" not in json.dumps(recorded)


async def test_worker_started_without_postgres_serves_from_its_snapshot(two_worker_service: Service, host: Host):
    await store_credential(two_worker_service, "first", FIRST)
    host.valid = {FIRST}
    snapshot = (two_worker_service.home / "directory" / "snapshot.json").read_text()
    assert FIRST not in snapshot and '"first"' in snapshot
    async with chat_sender(two_worker_service) as send_chat:
        assert (await send_chat("one")).status_code == 200
        logs = (two_worker_service.home / "directory").glob("keys-*.log")
        hash = hash_key(two_worker_service.key)
        paths = list(logs)
        await wait_until(lambda: any(hash in read_log(path).callers for path in paths))
        os.kill(two_worker_service.pid("postgres"), signal.SIGSTOP)
        try:
            before = two_worker_service.pid("gateway-0")
            os.kill(before, signal.SIGKILL)
            os.kill(two_worker_service.pid("gateway-1"), signal.SIGKILL)

            async def has_restarted() -> bool:
                is_ready = await asyncio.to_thread(services.is_ready, two_worker_service.url)
                return is_ready and two_worker_service.pid("gateway-0") != before

            async def is_served() -> bool:
                """503 and broken connections are transient; any other status is final."""
                try:
                    status = (await send_chat("one")).status_code
                except httpx2.TransportError:
                    return False
                assert status in (200, 503)
                return status == 200

            await wait_until(has_restarted, PROCESS_TIMEOUT_S)
            await wait_until(is_served, PROCESS_TIMEOUT_S)
            assert host.received_keys[-1] == FIRST
        finally:
            os.kill(two_worker_service.pid("postgres"), signal.SIGCONT)

        async def is_served_again() -> bool:
            return (await send_chat("one")).status_code == 200

        await wait_until(is_served_again, PROCESS_TIMEOUT_S)
        assert host.received_keys[-1] == FIRST


def test_credentials_commands_set_list_rotate_and_delete(two_worker_service: Service, engine: ScriptedEngine):
    for name, secret in (("first", FIRST), ("unused.one", "a-secret-that-nobody-uses")):
        done = run_command(two_worker_service, "credentials", "set", name, stdin=secret + "\n")
        assert done.exit_code == 0 and f"{name} is stored" in done.output and "2 workers serve it" in done.output
        assert secret not in done.output
    listing = json.loads(run_command(two_worker_service, "credentials", "list", "--json").output)
    by_name = {each["name"]: each for each in listing["credentials"]}
    assert by_name["first"]["providers"] == ["one", "two"] and by_name["first"]["decryptable"] and not by_name["unused.one"]["providers"]
    assert by_name["first"]["key"] == listing["newest_key_id"]
    key_file = two_worker_service.home / "secret-key"
    old = key_file.read_text().strip()
    assert oct(key_file.stat().st_mode)[-3:] == "600"
    new = run_command(two_worker_service, "credentials", "new-key").output.strip()
    rotated = run_command(two_worker_service, "credentials", "rotate", NARTHEX_SECRET_KEY=f"{new},{old}")
    assert rotated.exit_code == 0 and "encrypted again" in rotated.output
    # The gateways lack the new key: they keep using what they have read, and the list names the problem.
    assert "not decryptable" in run_command(two_worker_service, "credentials", "list").output
    assert run_command(two_worker_service, "credentials", "rotate", NARTHEX_SECRET_KEY=old[::-1]).exit_code == 1
    assert run_command(two_worker_service, "credentials", "rotate", NARTHEX_SECRET_KEY=f"{old},{new}").exit_code == 0
    assert "not decryptable" not in run_command(two_worker_service, "credentials", "list").output
    assert run_command(two_worker_service, "credentials", "delete", "unused.one", "--yes").exit_code == 0
    gone = run_command(two_worker_service, "credentials", "delete", "unused.one", "--yes")
    assert gone.exit_code == 1 and "Nothing is stored" in gone.output


def test_invalid_command_input_is_refused_without_showing_the_secret(two_worker_service: Service):
    for name, secret in (("a b", "secret-canary"), ("ok", ""), ("ok", "two\nlines-canary"), ("ok", "aws:default")):
        done = run_command(two_worker_service, "credentials", "set", name, stdin=secret)
        assert done.exit_code == 1 and done.output.startswith("Error: ") and "canary" not in done.output
    weak = run_command(two_worker_service, "credentials", "set", "ok", stdin="x-secret", NARTHEX_SECRET_KEY="weak-canary")
    assert weak.exit_code == 2 and "at least 32 characters" in weak.output and "canary" not in weak.output


def test_apply_warns_of_a_missing_credential_and_export_contains_no_secret(two_worker_service: Service, engine: ScriptedEngine):
    run_command(two_worker_service, "credentials", "set", "first", stdin=FIRST)
    later = '[providers.later]\nadapter = "openai"\ncredential = "store:not-yet"\n'
    output = run_command(two_worker_service, "apply", "--yes", "-", stdin=later).output
    assert "Warning: providers.later.credential" in output and "narthex credentials set not-yet" in output
    exported = run_command(two_worker_service, "export").output
    assert "store:first" in exported and FIRST not in exported and "encrypted" not in exported
    assert run_command(two_worker_service, "apply", "--yes", "--prune", "-", stdin=exported).exit_code == 0
    listed = run_command(two_worker_service, "credentials", "list").output
    assert re.search(r"first +\w+ +decryptable", listed) and re.search(r"not-yet +- +not stored", listed)


async def test_admin_api_sets_and_deletes_credentials_but_never_returns_secrets(two_worker_service: Service, host: Host):
    host.valid = {SECOND}
    await store_credential(two_worker_service, "first", "an-old-secret-99")
    async with two_worker_service.admin_client() as admin:
        stored = await admin.put("/admin/v1/credentials/first", json={"value": SECOND})
        assert stored.status_code == 200 and stored.json()["decryptable"] and SECOND not in stored.text
        shown = await admin.get("/admin/v1/credentials/first")
        assert shown.json()["providers"] == ["one", "two"] and "encrypted" not in shown.text
        async with chat_sender(two_worker_service) as send_chat:
            assert (await send_chat("one")).status_code == 200
        listed = await admin.get("/admin/v1/credentials")
        assert {"first", "newest_key_id"} <= {each["name"] for each in listed.json()["data"]} | listed.json().keys()
        for bad, status in (({"value": ""}, 400), ({"secret": "canary-canary"}, 400), ({"value": "two\nlines-canary"}, 400)):
            refused = await admin.put("/admin/v1/credentials/first", json=bad)
            assert refused.status_code == status and "canary" not in refused.text
        assert (await admin.delete("/admin/v1/credentials/nothing")).status_code == 404
        assert (await admin.put("/admin/v1/credentials/short-lived", json={"value": "short-lived-secret"})).status_code == 200
        assert (await admin.delete("/admin/v1/credentials/short-lived")).json()["deleted"]
    async with two_worker_service.client() as client:
        assert (await client.get("/admin/v1/credentials")).status_code == 403
