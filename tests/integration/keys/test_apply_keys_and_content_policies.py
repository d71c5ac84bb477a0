"""The changes of operators while the service runs: configuration (apply, export), keys, credentials and content policies."""

import asyncio
import json
import subprocess
import threading
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx2
import pytest

from app.domain.callers import ContentPolicy
from app.domain.errors import BadConfiguration
from app.store.configuration import apply_file, config_file, configuration
from app.store.keys.index import KeyIndex
from app.store.postgres.database import connect
from app.store.teams import keys
from tests.support.processes import service as services
from tests.support.processes.postgres import Postgres
from tests.support.processes.service import NARTHEX, PROCESS_TIMEOUT_S, Service
from tests.support.processes.service_inspection import all_stored_text, connections, database_url, file_contents, paused_processes
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk, stream_script

CHAT = "/v1/chat/completions"
HI: Any = [{"role": "user", "content": "Hello!"}]
START = """
[providers.p]
adapter = "openai"
base_url = "http://127.0.0.1:9"
[providers.q]
adapter = "vllm"
base_url = "http://127.0.0.1:9/v1"
credential = "env:Q_KEY"
options = { version = "0.11.0" }
[models.a]
targets = [
    { provider = "p", model = "x" },
    { provider = "q", model = "y", weight = 2, endpoints = ["http://127.0.0.1:7", "http://127.0.0.1:8"] },
]
fallbacks = ["b/c.d"]
[models."b/c.d"]
targets = [{ provider = "p", model = "x" }]
"""


async def applied(database_url: str, content: str, *, prune: bool = False) -> str:
    return await apply_file.apply(database_url, content, prune=prune, confirm=lambda _: True, wait_s=0)


@pytest.fixture(scope="module")
async def applied_database(postgres: Postgres) -> str:
    """A database in which START is applied, for tests that change nothing."""
    await postgres.execute("CREATE DATABASE applied TEMPLATE migrated")
    url = postgres.database_url("applied")
    await applied(url, START)
    return url


# --- apply and export


async def test_apply_shows_the_diff_and_changes_nothing_until_confirmed(service: Service, tmp_path: Path):
    file = tmp_path / "more.toml"
    file.write_text('[models.confirmed]\ntargets = [{ provider = "sandbox", model = "sandbox" }]\n')
    before = await exported(service)
    refused = await asyncio.to_thread(service.run, "apply", str(file), stdin="n\n")
    assert "+[models.confirmed]" in refused.stdout and "Apply this?" in refused.stdout and "Nothing was changed." in refused.stdout
    assert await exported(service) == before
    confirmed = await asyncio.to_thread(service.run, "apply", str(file), stdin="y\n")
    assert "Applied as version" in confirmed.stdout and "2 workers serve it" in confirmed.stdout
    assert "[models.confirmed]" in await exported(service)


async def test_apply_without_terminal_or_yes_flag_fails_and_changes_nothing(service: Service, tmp_path: Path):
    content = '[models.unconfirmed]\ntargets = [{ provider = "sandbox", model = "sandbox" }]\n'
    file = tmp_path / "more.toml"
    file.write_text(content)

    def apply_without_terminal(*arguments: str, stdin: str) -> subprocess.CompletedProcess[str]:
        """Runs `narthex apply` in a session without a terminal that it could open."""
        return subprocess.run(
            [NARTHEX, "apply", *arguments],
            input=stdin,
            env={**service.environment},
            capture_output=True,
            text=True,
            start_new_session=True,
            timeout=PROCESS_TIMEOUT_S,
            check=False,
        )

    by_input, by_file = await asyncio.gather(
        asyncio.to_thread(apply_without_terminal, "-", stdin=content), asyncio.to_thread(apply_without_terminal, str(file), stdin="")
    )
    assert by_input.returncode == by_file.returncode == 1 and "--yes" in by_input.stderr and by_file.stderr.strip()
    assert "unconfirmed" not in await exported(service)


async def test_exported_configuration_reapplies_with_nothing_to_change(service: Service):
    exported_toml = await command(service, "export")
    assert exported_toml == await exported(service)
    assert (await asyncio.to_thread(service.apply, exported_toml, "--prune")).strip() == "Nothing to change."


async def test_configuration_round_trips_through_apply_and_export(database: str):
    await applied(database, START)
    exported_toml = await configuration.export(database)
    assert await applied(database, exported_toml, prune=True) == "Nothing to change."
    assert config_file.parse_config_file(exported_toml) == config_file.parse_config_file(START)


async def test_prune_removes_only_within_sections_present_in_the_file(database: str):
    await applied(database, START)
    await applied(database, '[models."b/c.d"]\ntargets = [{ provider = "q", model = "x" }]', prune=True)
    now = config_file.parse_config_file(await configuration.export(database))
    assert now.models and now.providers and (set(now.models), set(now.providers)) == ({"b/c.d"}, {"p", "q"})
    await applied(database, "[models]", prune=True)
    now = config_file.parse_config_file(await configuration.export(database))
    assert now.models is None and now.providers and set(now.providers) == {"p", "q"}


async def test_apply_without_prune_removes_nothing(database: str):
    await applied(database, START)
    await applied(database, '[providers.r]\nadapter = "openai"\n[models]')
    now = config_file.parse_config_file(await configuration.export(database))
    assert now.models and now.providers and (set(now.models), set(now.providers)) == ({"a", "b/c.d"}, {"p", "q", "r"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[models", "not TOML"),
        ("[modells.x]", "unknown field `modells`"),
        ('[providers.r]\nadapter = "openai"\nbase_uri = "http://h"', "unknown field `base_uri` at `providers.r`"),
        ('[providers.r]\nbase_url = "http://h"', "missing required field `adapter` at `providers.r`"),
        ("[providers.r]\nadapter = 5", "Expected text, got an integer at `providers.r.adapter`"),
        (
            '[providers.r]\nadapter = "vlm"\nbase_url = "http://h"',
            "providers.r.adapter: there is no adapter 'vlm'. There are: alibaba, anthropic, auto, azure, ",
        ),
        ('[providers.r]\nadapter = "openai"\noptions = { regoin = "x" }', "'regoin'"),
        (
            '[providers.r]\nadapter = "openai"\noptions = { stream = "sometimes" }',
            """providers.r.options: Option stream='sometimes' may be "both", "only" or "never".""",
        ),
        ('[providers.r]\nadapter = "openai"\ncredential = []', "providers.r.credential: a list names one or more credentials, each once"),
        (
            '[providers.r]\nadapter = "openai"\ncredential = ["env:A", "env:A"]',
            "providers.r.credential: a list names one or more credentials",
        ),
        ('[providers.r]\nadapter = "vllm"', "providers.r.base_url is required"),
        ('[providers.r]\nadapter = "azure"', "providers.r.base_url is required: its URL contains the name of a resource"),
        ('[providers.r]\nadapter = "openai"\nbase_url = "10.0.0.5:8000"', "is not an address"),
        ('[providers.r]\nadapter = "openai"\nbase_url = "ftp://h"', "is not an address"),
        ('[providers.r]\nadapter = "openai"\nbase_url = ""', "is not an address"),
        ('[providers.r]\nadapter = "openai"\nbase_url = "http://[::1"', "is not an address"),
        ('[providers.r]\nadapter = "openai"\nbase_url = "http://h:port"', "is not an address"),
        ('[providers.r]\nadapter = "openai"\nbase_url = "http://h:99999"', "is not an address"),
        ('[providers.r]\nadapter = "openai"\nbase_url = "http://h/v1?key=x"', "must not have a query"),
        ('[providers.r]\nadapter = "openai"\noptions = { accepts = ["\\u0000"] }', "a NUL character cannot be stored"),
        ('[providers.""]\nadapter = "openai"', "a name has 1 to 200 printable"),
        ('[models."x "]\ntargets = [{ provider = "p", model = "x" }]', "a name has 1 to 200 printable"),
        ('[models.c]\ntargets = [{ provider = "p", modle = "x" }]', "at `models.c.targets[0]`"),
        ('[models.c]\ntargets = [{ provider = "gone", model = "x" }]', "there is no provider 'gone'. There are: p, q."),
        ('[models.c]\ntargets = [{ provider = "p", model = "" }]', "the engine's name of its model"),
        ('[models.c]\ntargets = [{ provider = "p", model = "x", weight = -1 }]', "weight must be 0 or more"),
        ('[models.c]\ntargets = [{ provider = "p", model = "x", weight = nan }]', "weight must be 0 or more"),
        ('[models.c]\ntargets = [{ provider = "p", model = "x", weight = 0 }]', "all have weight 0"),
        ('[models.c]\ntargets = [{ provider = "p", model = "x", endpoints = ["h"] }]', "models.c.targets[0].endpoints"),
        ("[models.c]\ntargets = []", "targets is empty"),
        ('[models.c]\ntargets = [{ provider = "p", model = "x" }]\nfallbacks = ["c"]', "cannot fall back to itself"),
        ('[models.c]\ntargets = [{ provider = "p", model = "x" }]\nfallbacks = ["nope"]', "there is no model 'nope'"),
    ],
)
async def test_invalid_configuration_file_is_refused_with_its_location_and_changes_nothing(
    applied_database: str, content: str, message: str
):
    before = await configuration.export(applied_database)
    good = '[models.good]\ntargets = [{ provider = "p", model = "x" }]\n'
    with pytest.raises(BadConfiguration) as caught:
        await applied(applied_database, good + content)
    assert message in str(caught.value)
    assert await configuration.export(applied_database) == before


async def test_configuration_stored_by_a_newer_version_is_refused_naming_the_unknown_field(database: str):
    await applied(database, '[[limits]]\nname = "r"\nscope = "all"\nresource = "requests"\namount = 1\nper = "day"')
    connection = await connect(database)
    await connection.execute("""UPDATE limits SET config = config || '{"burst": 5}'""")
    await connection.close()
    for operation in (configuration.export(database), applied(database, "[models]")):
        with pytest.raises(BadConfiguration, match=r"by a newer version .* unknown field `burst`"):
            await operation


async def test_provider_still_used_by_a_model_cannot_be_pruned(applied_database: str):
    with pytest.raises(BadConfiguration, match="there is no provider 'p'"):
        await applied(applied_database, "[providers]", prune=True)


@pytest.mark.parametrize(
    "line",
    [
        'credential = "sk-Canary-0123456789"',
        'credential = "env:sk-Canary-0123456789"',
        'credential = "bearer:sk-Canary-0123456789"',
        'base_url = "http://user:sk-Canary-0123456789@h"',
        'base_url = "http://user:sk-Canary-0123456789@h:port"',
        'base_url = "http://h?key=sk-Canary-0123456789"',
        'options = { api_key = "sk-Canary-0123456789" }',
    ],
)
async def test_literal_secret_in_configuration_is_refused_without_repeating_it(applied_database: str, line: str):
    with pytest.raises(BadConfiguration) as caught:
        await applied(applied_database, f'[providers.r]\nadapter = "openai"\n{line}')
    assert "Canary" not in str(caught.value) and "providers.r" in str(caught.value)


async def test_concurrent_change_during_confirmation_refuses_the_apply_and_is_kept(database: str):
    await applied(database, START)

    def confirm_after_concurrent_apply(_: str) -> bool:
        concurrent = '[models.concurrent]\ntargets = [{ provider = "p", model = "x" }]'
        thread = threading.Thread(target=lambda: asyncio.run(applied(database, concurrent)))
        thread.start()
        thread.join(PROCESS_TIMEOUT_S)
        return True

    with pytest.raises(BadConfiguration, match="Somebody else changed"):
        await apply_file.apply(database, "[models]", prune=True, confirm=confirm_after_concurrent_apply, wait_s=0)
    now = config_file.parse_config_file(await configuration.export(database))
    assert now.models and set(now.models) == {"a", "b/c.d", "concurrent"}


async def test_concurrent_applies_are_serialized_or_refused(database: str):
    await applied(database, START)
    files = [f'[models.m{number}]\ntargets = [{{ provider = "p", model = "x" }}]' for number in range(6)]
    done = await asyncio.gather(*(applied(database, file) for file in files), return_exceptions=True)
    results = [str(each) for each in done]
    assert all(each.startswith("Applied as version") or "Somebody else changed" in each for each in results)
    served = {number for number, each in enumerate(results) if each.startswith("Applied")}
    now = config_file.parse_config_file(await configuration.export(database))
    assert served and now.models and set(now.models) - {"a", "b/c.d"} == {f"m{number}" for number in served}


async def test_apply_returns_once_every_worker_serves_the_model(service: Service):
    async with connections(service, 24) as callers:
        for name in ("at-once-1", "at-once-2"):
            await asyncio.to_thread(service.apply, f'[models.{name}]\ntargets = [{{ provider = "sandbox", model = "sandbox" }}]')
            body = {"model": name, "messages": HI, "max_tokens": 1}
            answers = await asyncio.gather(*(caller.post(CHAT, json=body) for caller in callers))
            assert {answer.status_code for answer in answers} == {200}


async def test_inference_record_names_the_exact_configuration_snapshot(service: Service, client: httpx2.AsyncClient):
    rows: list[dict[str, Any]] = []
    for weight in (1, 2):
        traced = f'[models.traced]\ntargets = [{{ provider = "sandbox", model = "sandbox", weight = {weight} }}]'
        await asyncio.to_thread(service.apply, traced)
        answer = await client.post(CHAT, json={"model": "traced", "messages": HI, "max_tokens": 1})
        rows.append(await service.wait_for_record(answer.json()["id"]))
    async with service.admin_client() as admin:
        documents = [(await admin.get(f"/admin/v1/snapshots/{row['snapshot']}")).json()["document"] for row in rows]
    assert [each["models"]["traced"]["targets"][0]["weight"] for each in documents] == [1, 2]


# --- keys


async def test_key_works_from_creation_until_revocation_on_every_worker(service: Service):
    key = (await command(service, "keys", "create", "--team", "fresh team", "--name", "for tests", "--quiet")).strip()
    public = key.split("-")[1]
    async with connections(service, 16, key) as callers:
        assert await statuses(callers) == {200}
        assert "Revoked" in await command(service, "keys", "revoke", f"nx-{public}", "--yes")
        await wait_for_statuses(callers, {401})
        assert await statuses(callers) == {401}
    listed = await command(service, "keys", "list", "--all")
    line = next(line for line in listed.splitlines() if public in line)
    assert "fresh team" in line and "for tests" in line and "revoked" in line and key not in listed
    assert not await keys.revoke_key(database_url(service), public), "it is revoked already"


async def test_key_rejected_before_creation_works_once_created(service: Service, monkeypatch: pytest.MonkeyPatch):
    key = "nx-0123456789ab-" + "k" * 43
    async with connections(service, 16, key) as callers:
        assert await statuses(callers) == {401}
        monkeypatch.setattr(keys.secrets, "token_hex", Mock(return_value="0123456789ab"))
        monkeypatch.setattr(keys.secrets, "token_urlsafe", Mock(return_value="k" * 43))
        assert await keys.create_key(database_url(service), "tried before") == key
        await wait_for_statuses(callers, {200})


async def test_caller_key_is_refused_by_admin_api_and_admin_key_works_for_callers(service: Service):
    async with service.keyless_client() as client:
        for key, status in ((service.key, 403), (service.admin_key, 200), ("nx-wrong", 401)):
            assert (await client.get("/admin/v1/inferences", headers={"x-api-key": key})).status_code == status
        assert (await client.get("/v1/models", headers={"x-api-key": service.admin_key})).status_code == 200


async def test_key_revoked_during_lookup_is_not_cached(database: str, tmp_path: Path):
    key = await keys.create_key(database, "t")
    hash = keys.hash_key(key)
    index = KeyIndex(database, tmp_path, "w")
    looking = asyncio.create_task(index.find(key))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # the query is under way, and cannot have been answered
    index.invalidate(hash)
    assert await looking is not None and index.get_cached(hash) is None
    assert await index.find(key) == index.get_cached(hash) is not None
    await index.close()


async def test_key_forgotten_during_recheck_is_not_restored(database: str, tmp_path: Path):
    key = await keys.create_key(database, "t")
    hash = keys.hash_key(key)
    index = KeyIndex(database, tmp_path, "w")
    await index.find(key)
    checking = asyncio.create_task(index.revalidate_all())
    await asyncio.sleep(0)
    index.invalidate(hash)
    await checking
    assert index.get_cached(hash) is None
    await index.close()


# --- admin queries


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("inferences?limit=0", "limit"),
        ("inferences?limit=1001", "limit"),
        ("inferences?outcome=fine", "answered, failed, disconnected, aborted"),
        ("inferences?teams=x", "Unknown parameter 'teams'"),
        ("inferences?team_id=x", "must be a UUIDv7"),
        ("inferences?since=yesterday", "since"),
        ("inferences?before=", "`before` is empty"),
        ("inferences?since=", "`since` is empty"),
        ("inferences?outcome=", "`outcome` is empty"),
        ("keys?after=", "`after` is empty"),
        ("inferences/7", "must be a UUIDv7"),
    ],
)
async def test_invalid_admin_query_parameter_is_refused_by_name(service: Service, path: str, message: str):
    async with service.admin_client() as admin:
        answer = await admin.get(f"/admin/v1/{path}")
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error") and message in answer.text


async def test_episode_inferences_are_paginated(service: Service, client: httpx2.AsyncClient):
    episode = ""
    ids: list[str] = []
    for _ in range(3):
        headers = {"x-narthex-episode-id": episode} if episode else {}
        answer = (await client.post(CHAT, json={"model": "sandbox", "messages": HI, "max_tokens": 1}, headers=headers)).json()
        episode = answer["episode_id"]
        ids.append(answer["id"])
    await service.wait_for_record(ids[-1])
    async with service.admin_client() as admin:
        first = (await admin.get(f"/admin/v1/episodes/{episode}", params={"limit": 2})).json()
        rest = (await admin.get(f"/admin/v1/episodes/{episode}", params={"limit": 2, "after": first["next"]})).json()
    assert [row["id"] for row in [*first["inferences"], *rest["inferences"]]] == ids and rest["next"] is None


async def test_episode_of_another_teams_id_is_an_episode_of_its_own(service: Service, client: httpx2.AsyncClient):
    body = {"model": "sandbox", "messages": HI, "max_tokens": 1}
    mine = (await client.post(CHAT, json=body)).json()
    other_key = (await command(service, "keys", "create", "--team", "borrowers", "--quiet")).strip()
    headers = {"x-narthex-episode-id": mine["episode_id"], "authorization": f"Bearer {other_key}"}
    theirs = (await client.post(CHAT, json=body, headers=headers)).json()
    records = [await service.wait_for_record(each["id"]) for each in (mine, theirs)]
    async with service.admin_client() as admin:
        path = f"/admin/v1/episodes/{mine['episode_id']}"
        ambiguous = await admin.get(path)
        assert ambiguous.status_code == 400 and all(record["team_id"] in ambiguous.json()["error"]["message"] for record in records)
        for record in records:
            episode = (await admin.get(path, params={"team_id": record["team_id"]})).json()
            assert (episode["team_id"], [row["id"] for row in episode["inferences"]]) == (record["team_id"], [record["id"]])


# --- provider credentials and content policies, with a service of their own

ENV_SECRET, FILE_SECRET = "sk-env-Canary-2718281828", "sk-file-Canary-3141592653"


@pytest.fixture(scope="module")
def secrets_service(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ENGINE_KEY", ENV_SECRET)
        running = services.start(workers=2, log_level="debug", drain_timeout_s=5, metrics="key")
    yield running
    services.stop(running)


@pytest.fixture(scope="module")
async def engine_and_credential_file(
    secrets_service: Service, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[tuple[ScriptedEngine, Path]]:
    """An engine, and the file that holds a credential for it. Models: by-env, by-file, and without, whose variable is not set."""
    engine = ScriptedEngine()
    await engine.start()
    file = tmp_path_factory.mktemp("secrets") / "key"
    file.write_text(FILE_SECRET + "\n")
    address = f'adapter = "openai"\nbase_url = "http://127.0.0.1:{engine.port}"'
    secrets_service.apply(f"""
        [providers.by-env]
        {address}
        credential = "env:ENGINE_KEY"
        [providers.by-file]
        {address}
        credential = "file:{file}"
        [providers.without]
        {address}
        credential = "env:NOT_SET_ANYWHERE"
        [models]
        by-env = {{ targets = [{{ provider = "by-env", model = "m" }}] }}
        by-file = {{ targets = [{{ provider = "by-file", model = "m" }}] }}
        without = {{ targets = [{{ provider = "without", model = "m" }}] }}
    """)
    yield engine, file
    await engine.stop()


async def test_provider_credential_reaches_the_engine_and_appears_nowhere_else(
    secrets_service: Service, engine_and_credential_file: tuple[ScriptedEngine, Path]
):
    engine, _ = engine_and_credential_file

    async def refuse_credential(request: ReceivedRequest) -> None:
        sent = request.headers["authorization"]
        await request.respond(401, f'{{"error": {{"message": "Incorrect API key: {sent}, {sent[7:]}"}}}}'.encode())

    visible_texts: list[str] = []
    for script in (ReceivedRequest.respond_completion, refuse_credential):
        engine.script = script
        engine.requests.clear()
        async with secrets_service.client() as client:
            for model in ("by-env", "by-file"):
                for stream in (False, True):
                    answer = await client.post(CHAT, json={"model": model, "messages": HI, "stream": stream})
                    visible_texts.append(f"{answer.headers} {answer.text}")
                    row = await secrets_service.wait_for_record(answer.headers["x-narthex-inference-id"])
                    visible_texts.append(str(row))
        sent = [request.headers["authorization"] for request in engine.requests]
        assert sent == [f"Bearer {ENV_SECRET}"] * 2 + [f"Bearer {FILE_SECRET}"] * 2
    async with secrets_service.admin_client() as client:
        visible_texts.append((await client.get("/metrics")).text)
    visible_texts.append(await exported(secrets_service))
    visible_texts.append(await all_stored_text(secrets_service))
    visible_texts.extend(file_contents(secrets_service.home).values())
    assert len(visible_texts) > 20 and not [text for text in visible_texts if ENV_SECRET in text or FILE_SECRET in text or "Canary" in text]


async def test_metrics_are_for_admin_keys_and_keys_made_for_them_where_the_setting_says_so(secrets_service: Service):
    scraper = await keys.create_key(database_url(secrets_service), "monitoring", routes=["/metrics"])
    async with secrets_service.keyless_client() as nobody, secrets_service.client() as caller, secrets_service.admin_client() as admin:
        answers = [await client.get("/metrics") for client in (nobody, caller, admin)]
        answers.append(await nobody.get("/metrics", headers={"authorization": f"Bearer {scraper}"}))
    assert [answer.status_code for answer in answers] == [401, 403, 200, 200]
    assert all("narthex_requests" not in answer.text for answer in answers[:2]) and "narthex_requests" in answers[3].text


async def test_missing_credential_is_a_502_naming_its_provider(
    secrets_service: Service, engine_and_credential_file: tuple[ScriptedEngine, Path]
):
    async with secrets_service.client() as client:
        answer = await client.post(CHAT, json={"model": "without", "messages": HI})
    assert (answer.status_code, answer.json()["error"]["type"]) == (502, "backend_error")
    message = answer.json()["error"]["message"]
    assert "credential for without cannot be used" in message and "NOT_SET_ANYWHERE" not in message


async def test_credential_file_change_takes_effect_without_restart(
    secrets_service: Service, engine_and_credential_file: tuple[ScriptedEngine, Path]
):
    engine, file = engine_and_credential_file
    valid = FILE_SECRET

    async def check_credential(request: ReceivedRequest) -> None:
        if request.headers["authorization"] == f"Bearer {valid}":
            await request.respond_completion()
        else:
            await request.respond(401, b'{"error": {"message": "no"}}')

    engine.script = check_credential
    async with connections(secrets_service, 8) as callers:
        body = {"model": "by-file", "messages": HI}
        assert [(await caller.post(CHAT, json=body)).status_code for caller in callers] == [200] * 8
        valid = "sk-file-Canary-second"
        file.write_text(valid)
        status_codes = [(await caller.post(CHAT, json=body)).status_code for caller in callers * 2]
        assert status_codes == [200] * 16, "a refused credential is read again, and the request is sent again with it"
        file.write_text(FILE_SECRET)


CANARY = "The canary sings 7f3a"
POLICIES: tuple[ContentPolicy, ...] = ("full", "redacted", "none")


async def keys_by_policy(service: Service) -> dict[ContentPolicy, str]:
    """A key of a team with each policy."""
    return {policy: await keys.create_key(database_url(service), policy, content=policy) for policy in POLICIES}


async def test_content_policy_keeps_withheld_content_off_disk_and_database(
    secrets_service: Service, engine_and_credential_file: tuple[ScriptedEngine, Path]
):
    engine, _ = engine_and_credential_file

    async def echo(request: ReceivedRequest) -> None:
        await request.respond_completion(f"You said: {request.body['messages'][0]['content']}", reasoning_content=CANARY)

    engine.script = echo
    made = await keys_by_policy(secrets_service)
    with paused_processes(secrets_service.pid("writer")):
        ids = {policy: await send_text(secrets_service, key, f"{CANARY} {policy}") for policy, key in made.items()}
        found = "\n".join(file_contents(secrets_service.home).values())
        assert f"{CANARY} full" in found and f"{CANARY} none" not in found and f"{CANARY} redacted" not in found
        assert found.count(CANARY) == 3, "of the full policy: in the request, the text of the response, and its reasoning"
    rows = {policy: await secrets_service.wait_for_record(id) for policy, id in ids.items()}
    assert {policy: row["content"]["policy"] for policy, row in rows.items()} == {policy: policy for policy in POLICIES}
    assert (rows["none"]["content"]["request"], rows["none"]["content"]["response"]) == (None, None)
    assert '"role":"user"' in rows["redacted"]["content"]["request"] and "[redacted" in rows["redacted"]["content"]["response"]
    assert all(row["output_tokens"] == 2 for row in rows.values()), "numbers are kept under every policy"
    stored = await all_stored_text(secrets_service)
    assert f"{CANARY} full" in stored and f"{CANARY} none" not in stored and f"{CANARY} redacted" not in stored


async def test_masked_content_policy_keeps_what_rules_find_off_disk_and_database(
    secrets_service: Service, engine_and_credential_file: tuple[ScriptedEngine, Path]
):
    """Rules, one of them the team's own, find it in requests, whole responses, errors, and streams that split it."""
    engine, _ = engine_and_credential_file
    secrets_service.apply('[teams.masked]\ncontent = "masked"\n[teams.masked.mask.patterns]\nstaff = "Staff-[0-9]{4}"\n')
    key = await keys.create_key(database_url(secrets_service), "masked")

    async def answer(request: ReceivedRequest) -> None:
        text = "Ask jane.masked@example.com or Staff-4711 about +49 30 7654321."
        if request.body["messages"][0]["content"] == "fail":
            await request.respond(400, json.dumps({"error": {"message": text}}).encode())
        elif request.body.get("stream"):
            await stream_script(*(chunk({"content": text[at : at + 3]}) for at in range(0, len(text), 3)), chunk({}, "stop"))(request)
        else:
            await request.respond_completion(text)

    engine.script = answer
    asked = "I am joe.masked@example.com, Staff-0815."
    with paused_processes(secrets_service.pid("writer")):
        ids = [await send_text(secrets_service, key, asked), await send_text(secrets_service, key, "fail", status=400)]
        async with connections(secrets_service, 1, key) as (caller,):
            body = {"model": "by-env", "messages": [{"role": "user", "content": asked}], "stream": True}
            streamed = await caller.post(CHAT, json=body)
        assert streamed.status_code == 200 and '"jan"' not in streamed.text.replace("Ask jan", "")
        ids.append(streamed.headers["x-narthex-inference-id"])
        found = "\n".join(file_contents(secrets_service.home).values())
        assert "masked@example" not in found and "Staff-4711" not in found and "Staff-0815" not in found and "7654321" not in found
    contents = [(await secrets_service.wait_for_record(id))["content"] for id in ids]
    assert {content["policy"] for content in contents} == {"masked"}
    assert "I am [masked: email], [masked: staff]." in contents[0]["request"] and "I am [masked: email]" in contents[2]["request"]
    for content in contents:
        assert content["response"].count("[masked: email]") == content["response"].count("[masked: staff]") == 1
        assert content["response"].count("[masked: phone]") == 1
    stored = await all_stored_text(secrets_service)
    assert "masked@example" not in stored and "Staff-4711" not in stored


async def test_upstream_error_echoing_the_prompt_is_stored_only_with_full_content_policy(
    secrets_service: Service, engine_and_credential_file: tuple[ScriptedEngine, Path]
):
    async def echo_in_error(request: ReceivedRequest) -> None:
        prompt = request.body["messages"][0]["content"]
        await request.respond(400, f'{{"error": {{"message": "Cannot answer this: {prompt}"}}}}'.encode())

    engine_and_credential_file[0].script = echo_in_error
    for policy, key in (await keys_by_policy(secrets_service)).items():
        await secrets_service.wait_for_record(await send_text(secrets_service, key, f"{CANARY} of the failed {policy}", status=400))
    stored = await all_stored_text(secrets_service)
    assert "failed full" in stored and "failed none" not in stored and "failed redacted" not in stored


async def test_content_policy_change_takes_effect_within_a_second(
    secrets_service: Service, engine_and_credential_file: tuple[ScriptedEngine, Path]
):
    engine_and_credential_file[0].script = ReceivedRequest.respond_completion
    first = await keys.create_key(database_url(secrets_service), "wavering")
    async with connections(secrets_service, 8, first) as callers:
        assert await statuses(callers) == {200}
        assert (await secrets_service.wait_for_record(await send_text(secrets_service, first, "Hello!")))["content"]["policy"] == "full"
        await keys.create_key(database_url(secrets_service), "wavering", content="none")

        async def has_taken_effect() -> bool:
            """Returns whether all workers have the policy. The limit is generous, for a machine that is busy."""
            answers = await asyncio.gather(*(caller.post(CHAT, json={"model": "by-env", "messages": HI}) for caller in callers))
            rows = [await secrets_service.wait_for_record(answer.json()["id"]) for answer in answers]
            return {row["content"]["policy"] for row in rows} == {"none"}

        await wait_until(has_taken_effect, 30)


async def send_text(service: Service, key: str, text: str, status: int = 200) -> str:
    """The id of an inference whose prompt is the text."""
    async with service.client(headers={"authorization": f"Bearer {key}"}) as client:
        answer = await client.post(CHAT, json={"model": "by-env", "messages": [{"role": "user", "content": text}]})
    assert answer.status_code == status, answer.text
    return answer.headers["x-narthex-inference-id"]


async def statuses(callers: list[httpx2.AsyncClient]) -> set[int]:
    return {answer.status_code for answer in await asyncio.gather(*(caller.get("/v1/models") for caller in callers))}


async def wait_for_statuses(callers: list[httpx2.AsyncClient], expected: set[int]) -> None:
    async def have_statuses() -> bool:
        return await statuses(callers) == expected

    await wait_until(have_statuses)


async def exported(service: Service) -> str:
    return await configuration.export(database_url(service))


async def command(service: Service, *arguments: str) -> str:
    done = await asyncio.to_thread(service.run, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout
