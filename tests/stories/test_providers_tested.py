"""Stories of `narthex providers test`: each way in which a host may fail is told in words, and what works with what it tells."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.doctor.provider_check.check import check_provider
from app.doctor.provider_check.result import CheckResult
from app.domain import ModelConfig, ProviderConfig, Snapshot, Target
from app.settings import ProxyUrl, Settings
from app.store.snapshots import build_snapshot
from app.store.vault import Vault
from tests.stories.scripted import Asked, ScriptedEngine
from tests.stories.service import Service

VAULT = Vault(["a key for trying providers, drawn at random"])
JSON = "content-type: application/json\r\n"
MODELS = {"object": "list", "data": [{"id": "m"}, {"id": "n"}]}


@pytest.fixture
async def host() -> AsyncGenerator[ScriptedEngine]:
    engine = ScriptedEngine()
    await engine.start()
    yield engine
    await engine.stop()


def directory(adapter: str, address: str, *credentials: str, model: str = "m", **options: Any) -> Snapshot:
    stored = {name: VAULT.encrypt(name, f"sk-{name}-secret") for name in ("one", "two")}
    providers = {"host": ProviderConfig(adapter, address, credentials or ("store:one",), options)}
    models = {"m": ModelConfig((Target("host", model),))} if model else {}
    return build_snapshot(1, providers, models, credentials=stored)


async def tried(
    host: ScriptedEngine, *credentials: str, adapter: str = "openai", model: str | None = None, **more: Any
) -> list[CheckResult]:
    said = directory(
        adapter, f"http://127.0.0.1:{host.port}/v1", *credentials, **{key: each for key, each in more.items() if key != "brought"}
    )
    return await check_provider(said, "host", Settings(), VAULT, model=model, caller_credential=more.get("brought"))


def telling(status: int, body: Any, more: str = "") -> Any:
    async def script(asked: Asked) -> None:
        await asked.answer(status, json.dumps(body).encode(), JSON + more)

    return script


async def test_what_works_tells_its_models_its_time_and_what_is_left(host: ScriptedEngine):
    limits = "x-ratelimit-limit-requests: 60\r\nx-ratelimit-remaining-requests: 59\r\nx-request-id: req-1\r\n"
    host.told["/v1/models"] = telling(200, MODELS, limits)
    (found,) = await tried(host)
    assert (found.outcome, found.requested, found.models, found.status, found.request_id) == (
        "works",
        "its models",
        ["m", "n"],
        200,
        "req-1",
    )
    assert found.latency_ms is not None and [(each.resource, each.limit, each.remaining) for each in found.rate_limits] == [
        ("requests", 60, 59)
    ]
    assert host.got[0].headers["authorization"] == "Bearer sk-one-secret"


async def test_a_model_is_asked_for_an_answer(host: ScriptedEngine):
    (found,) = await tried(host, model="n")
    assert (found.outcome, found.requested) == ("works", "a short answer") and host.asked[0].body["model"] == "n" and not host.got
    (unlisted,) = await tried(host, adapter="together")
    assert (unlisted.outcome, unlisted.requested) == ("works", "a short answer") and host.asked[1].body["model"] == "m"


async def test_a_model_is_asked_in_the_dialect_that_its_target_pins(host: ScriptedEngine):
    host.script = telling(200, {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "m"})
    said = directory("openai", f"http://127.0.0.1:{host.port}/v1")
    pinned = build_snapshot(
        1, said.providers, {"m": ModelConfig((Target("host", "m", dialect="openai_embeddings"),))}, credentials=said.credentials
    )
    (found,) = await check_provider(pinned, "host", Settings(), VAULT, model="m")
    assert found.requested == "an embedding" and {asked.path for asked in (*host.asked, *host.got)} == {"/v1/embeddings"}


async def test_each_credential_is_tried(host: ScriptedEngine):
    async def only_the_second(asked: Asked) -> None:
        good = asked.headers["authorization"] == "Bearer sk-two-secret"
        await asked.answer(200 if good else 401, json.dumps(MODELS if good else {"error": {"message": "bad key"}}).encode())

    host.told["/v1/models"] = only_the_second
    found = await tried(host, "store:one", "store:two", "store:three")
    assert [each.outcome for each in found] == ["credential_refused", "works", "credential_unreadable"]
    assert [each.credential for each in found] == ["store:one", "store:two", "store:three"] and "narthex credentials set three" in found[
        2
    ].message


@pytest.mark.parametrize(
    ("outcome", "status", "said"),
    [
        ("credential_refused", 401, "Incorrect API key provided: sk-one-secret"),
        ("credential_expired", 401, "The security token included in the request is expired"),
        ("rate_limited", 429, "Rate limit reached"),
        ("nothing_left", 402, "Insufficient balance"),
        ("model_missing", 404, "The model `m` does not exist or you do not have access to it"),
        ("model_missing", 400, "unknown model m"),
        ("model_missing", 404, "Publisher Model `projects/p/locations/us-east5/publishers/google/models/m` was not found"),
        ("wrong_region", 400, "The model is not supported in this region"),
        ("refused", 400, "Something is odd about this"),
        ("failed", 500, "Oh no"),
    ],
)
async def test_what_a_host_refuses_is_explained(host: ScriptedEngine, outcome: str, status: int, said: str):
    host.script = telling(status, {"error": {"message": said}}, "retry-after: 7\r\n")
    (found,) = await tried(host, model="m")
    assert (found.outcome, found.status) == (outcome, status) and found.advice and "sk-one-secret" not in repr(found)
    assert ("7 s" in found.message) == (outcome == "rate_limited")


async def test_what_no_credential_is_configured_for_and_wants_one_is_told(host: ScriptedEngine):
    host.told["/v1/models"] = telling(401, {"error": {"message": "Missing bearer authentication"}})
    said = directory("openai", f"http://127.0.0.1:{host.port}/v1")
    bare = build_snapshot(1, {"host": ProviderConfig("openai", f"http://127.0.0.1:{host.port}/v1")}, said.models)
    (found,) = await check_provider(bare, "host", Settings(), VAULT)
    assert (found.outcome, found.credential) == ("credential_missing", None)


async def test_callers_credentials_are_tried_where_one_is_given(host: ScriptedEngine):
    host.told["/v1/models"] = MODELS
    (found,) = await tried(host, "header:x-key")
    assert found.outcome == "not_brought" and "x-key" in found.message and not host.got
    (found,) = await tried(host, "header:x-key", brought="sk-brought")
    assert found.outcome == "works" and host.got[0].headers["authorization"] == "Bearer sk-brought"


async def test_a_proxy_that_says_no_or_is_not_there_is_told_as_such():
    async def forbid(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Policy forbids\r\n\r\n")
        writer.close()

    async def through(port: int) -> CheckResult:
        settings = Settings(https_proxy=ProxyUrl(f"http://me:a-secret@127.0.0.1:{port}"))
        (found,) = await check_provider(directory("openai", "https://host.example/v1"), "host", settings, VAULT)
        assert found.outcome == "proxy" and "HTTPS_PROXY" in (found.advice or "") and "a-secret" not in repr(found)
        return found

    server = await asyncio.start_server(forbid, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert "403 Policy forbids" in (await through(port)).message
    server.close()
    await server.wait_closed()
    assert f"127.0.0.1:{port} cannot be reached" in (await through(port)).message


async def test_what_is_not_reached_is_told_by_its_cause():
    async def at(address: str) -> str:
        (found,) = await check_provider(directory("openai", address), "host", Settings(), VAULT)
        assert found.advice
        return found.outcome

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    plain = await asyncio.start_server(_goodbye, "127.0.0.1", 0)
    there = plain.sockets[0].getsockname()[1]
    assert await at(f"http://127.0.0.1:{port}") == "connection_refused"
    assert await at("http://no-such-host.invalid") == "name_not_resolved"
    assert await at(f"https://127.0.0.1:{there}") == "tls"
    assert await at(f"http://127.0.0.1:{there}") == "broke_off"
    plain.close()


async def _goodbye(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"220 this is no HTTP\r\n\r\n")
    writer.close()


def command(service: Service, *arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env=dict(service.environment))


def test_the_command_says_it_in_words_in_json_and_by_its_status(service: Service, engine: ScriptedEngine):
    good = command(service, "providers", "test", "sandbox")
    assert good.exit_code == 0 and "It works." in good.output and "models: " in good.output
    bad = command(service, "providers", "test", "nowhere", "--json")
    told = json.loads(bad.output)
    assert bad.exit_code == 1 and not told["works"] and told["results"][0]["outcome"] == "connection_refused"
    none = command(service, "providers", "test", "nobody")
    assert none.exit_code == 1 and "There is no provider 'nobody'" in none.output


def test_providers_are_listed_with_and_without_the_word(service: Service, engine: ScriptedEngine):
    plain, listed = command(service, "providers", "--json"), command(service, "providers", "list", "--json")
    assert plain.output == listed.output and "sandbox" in {each["name"] for each in json.loads(plain.output)["providers"]}
    assert command(service, "providers", "--json", "list").exit_code == 2
