"""Limits that go: renamed, they keep what is spent; used by something, they stay; of a key made over the admin API, no file prunes them."""

import uuid
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from app.domain.errors import BadConfiguration, StillUsed
from app.gateway.limits.rules import RuleTable
from app.store.configuration import apply_file, configuration, roll_back
from app.store.keys.key_format import parse_prefix
from app.store.postgres.audit_log import SYSTEM
from app.store.postgres.database import connect, transaction
from app.store.teams import keys, shown_keys
from app.store.teams.key_limits import KeyLimit, add_key_limits
from tests.support.processes.service import Service
from tests.support.scripted_engine import ScriptedEngine

HI: Any = [{"role": "user", "content": "Hello!"}]
MODELS = """
[providers.p]
adapter = "openai"
base_url = "http://127.0.0.1:9"
[models.a]
targets = [{ provider = "p", model = "x" }]
"""
MODEL_B = """
[models.b]
targets = [{ provider = "p", model = "x" }]
"""


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


@pytest.fixture
def unique() -> str:
    return uuid.uuid4().hex[:12]


def ok(answer: httpx2.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def ok_text(answer: httpx2.Response) -> str:
    assert answer.status_code == 200, answer.text
    return answer.text


def limit(name: str, scope: str = '{ key = "each" }', per: str = "day", amount: int = 5) -> str:
    return f'[[limits]]\nname = "{name}"\nscope = {scope}\nresource = "requests"\namount = {amount}\nper = "{per}"\n'


async def applied(database_url: str, content: str, *, prune: bool = True) -> str:
    return await apply_file.apply(database_url, content, prune=prune, confirm=lambda _: True, wait_s=0)


async def counted(database: str) -> dict[str, tuple[str, int | None]]:
    """Returns by the name of each rule its id, which names its counters, and since when it counts."""
    snapshot = await configuration.read_current(database)
    table = RuleTable(snapshot.limits, snapshot.limits_since, counted_as=snapshot.counted_as)
    return {rule.name: (rule.id, snapshot.limits_since.get(rule.name)) for rule in table.rules}


async def execute(database: str, statement: str) -> None:
    connection = await connect(database)
    await connection.execute(statement)
    await connection.close()


async def test_renaming_a_limit_keeps_its_counters_and_their_age(database: str):
    await applied(database, MODELS + limit("old") + limit("other", per="hour"))
    await execute(database, "UPDATE limits SET counted_since = '2026-01-01'")
    before = await counted(database)
    await applied(database, limit("new", amount=9) + limit("other", per="hour"))
    after = await counted(database)
    assert after == {"new": before["old"], "other": before["other"]}
    await applied(database, limit("newer", amount=9) + limit("other", per="hour"))
    assert (await counted(database))["newer"] == before["old"], "through any number of names"
    await applied(database, limit("old", amount=9) + limit("other", per="hour"))
    assert (await counted(database))["old"] == before["old"], "and back"


async def test_a_limit_that_was_there_for_less_long_goes_on_for_a_removed_one(database: str):
    """A name cannot be changed over REST: the new limit is created first, and the old one is deleted then."""
    await applied(database, MODELS + limit("old"))
    await execute(database, "UPDATE limits SET counted_since = '2026-01-01'")
    before = await counted(database)
    await applied(database, limit("new"), prune=False)
    assert (await counted(database))["new"][0] != before["old"][0], "two limits share no counters"
    await applied(database, limit("new"))
    assert await counted(database) == {"new": before["old"]}


async def test_a_new_limit_with_a_former_name_of_another_has_counters_of_its_own(database: str):
    await applied(database, MODELS + limit("old"))
    before = await counted(database)
    await applied(database, limit("new"))
    await applied(database, limit("new") + limit("old"))
    after = await counted(database)
    assert after["new"] == before["old"] and after["old"][0] not in (before["old"][0], f"{before['old'][0]}.2")
    await applied(database, limit("old"))
    assert (await counted(database))["old"] == before["old"], "it goes on for the one that has counted for longer"


async def test_a_name_that_comes_to_count_something_else_leaves_its_counters_to_another(database: str):
    await applied(database, MODELS + limit("a") + limit("b", per="hour"))
    before = await counted(database)
    await applied(database, limit("a", per="hour") + limit("b"))
    after = await counted(database)
    assert {after["a"][0], after["b"][0]} == {before["b"][0], before["a"][0]} and after["b"] == before["a"]


async def test_a_renamed_limit_keeps_its_overrides(database: str):
    await applied(database, MODELS + limit("old", '{ team = "t" }'))
    await execute(
        database,
        "INSERT INTO limit_overrides (id, limit_name, subject, amount, resource, per, reason, author, ends_at)"
        " VALUES (gen_random_uuid(), 'old', '{}', 7, 'requests', 'day', 'r', 'a', now() + interval '1 day')",
    )
    await applied(database, limit("new", '{ team = "t" }'))
    assert [each.limit for each in (await configuration.read_current(database)).overrides] == ["new"]


async def test_renaming_a_limit_keeps_what_is_spent_by_its_callers(
    service: Service, admin: httpx2.AsyncClient, engine: ScriptedEngine, unique: str
):
    key = ok(await admin.post("/admin/v1/keys", json={"team": unique}), 201)
    rule = {"scope": {"team": unique}, "resource": "requests", "amount": 5, "per": "hour"}
    ok(await admin.put(f"/admin/v1/limits/{unique}-old", json=rule, headers={"if-none-match": "*"}), 201)
    async with httpx2.AsyncClient(base_url=service.url, headers={"authorization": f"Bearer {key['key']}"}, timeout=60) as client:

        async def left() -> dict[str, float]:
            return {each["rule"]: each["remaining"] for each in ok(await client.get("/v1/limits", params={"model": "scripted"}))["data"]}

        assert await left() == {f"{unique}-old": 5}
        answer = await client.post("/v1/chat/completions", json={"model": "scripted", "messages": HI, "max_tokens": 5})
        assert answer.status_code == 200, answer.text
        ok(await admin.put(f"/admin/v1/limits/{unique}-new", json=rule, headers={"if-none-match": "*"}), 201)
        ok(await admin.delete(f"/admin/v1/limits/{unique}-old", headers={"if-match": "*"}))
        assert await left() == {f"{unique}-new": 4}


async def test_prune_keeps_the_limits_that_keys_were_given_over_rest(service: Service, admin: httpx2.AsyncClient, unique: str):
    key = ok(await admin.post("/admin/v1/keys", json={"team": unique, "budget": {"amount_usd": 5}}), 201)
    named = {"scope": {"key": key["prefix"]}, "resource": "requests", "amount": 5, "per": "day"}
    ok(await admin.put(f"/admin/v1/limits/{unique}", json=named, headers={"if-none-match": "*"}), 201)
    exported = service.run("export").stdout
    sections = exported.split("[[limits]]")
    without = "[[limits]]".join(each for each in sections if key["prefix"] not in each)
    assert key["prefix"] not in without and key["prefix"] in exported
    kept = service.run("apply", "-", "--prune", "--yes", stdin=without)
    assert kept.returncode == 0, kept.stderr
    assert unique in kept.stdout + kept.stderr and "Kept" in kept.stdout + kept.stderr
    assert ok(await admin.get(f"/admin/v1/keys/{key['prefix']}"))["limits"] == [
        *key["limits"],
        {"name": unique, **named},
    ]
    assert ok(await admin.get(f"/admin/v1/limits/{unique}"))["amount"] == 5


async def test_prune_removes_a_limit_of_a_key_that_a_file_has_had(database: str):
    of_key = limit("of key", '{ key = "nx-0123456789ab" }')
    await applied(database, MODELS + of_key)
    await applied(database, MODELS + limit("another"))
    assert [each.name for each in (await configuration.read_current(database)).limits] == ["another"]


async def given_limits(database: str, *limits: KeyLimit) -> str:
    """The public part of a new key with these limits."""
    prefix = parse_prefix(await keys.create_key(database, "t"))
    async with transaction(database) as connection:
        row = await shown_keys.show_key(connection, str(prefix))
        assert row is not None
        await add_key_limits(connection, SYSTEM, row, limits, lists_models=True)
    return row.prefix


async def limits_in_force(database: str) -> set[str]:
    return {each.name for each in (await configuration.read_current(database)).limits}


@pytest.mark.parametrize("file_limits", ["", limit("of each key")], ids=["file-without-limits", "file-with-limits"])
async def test_prune_removes_limits_of_keys_with_their_model(database: str, file_limits: str):
    await applied(database, MODELS + MODEL_B)
    key = await given_limits(database, KeyLimit("requests", 5, "day"), KeyLimit("requests", 5, "day", model="b"))
    said: list[str] = []
    await apply_file.apply(database, MODELS + file_limits, prune=True, confirm=lambda text: bool(said.append(text)) or True, wait_s=0)
    assert await limits_in_force(database) == {f"nx-{key}-requests-day", *(["of each key"] if file_limits else [])}
    assert f"Removed with what they are about, as keys were given them over the admin API: limits nx-{key}-b-requests-day." in said[0]


async def test_a_file_is_refused_that_has_a_limit_of_a_key_about_a_model_that_it_removes(database: str):
    await applied(database, MODELS + MODEL_B)
    key = await given_limits(database, KeyLimit("requests", 5, "day", model="b", name="of b"))
    with pytest.raises(BadConfiguration, match="no model 'b'"):
        await applied(database, MODELS + limit("of b", f'{{ key = "nx-{key}", model = "b" }}'))
    assert await limits_in_force(database) == {"of b"}


async def test_a_rollback_keeps_limits_of_keys_but_those_about_what_it_removes(database: str):
    await applied(database, MODELS)
    before = (await configuration.read_current(database)).version
    await applied(database, MODEL_B + limit("of the file"), prune=False)
    key = await given_limits(database, KeyLimit("cost_usd", 50, "month"), KeyLimit("requests", 5, "day", model="b"))
    said: list[str] = []
    await roll_back.restore(database, before, confirm=lambda text: bool(said.append(text)) or True, wait_s=0)
    assert await limits_in_force(database) == {f"nx-{key}-cost_usd-month"}
    for sentence in (
        f"Kept, as keys were given them over the admin API: limits nx-{key}-cost_usd-month.",
        f"limits nx-{key}-b-requests-day.",
    ):
        assert sentence in said[0]


async def test_a_model_is_deleted_with_limits_of_keys_about_it_over_rest(service: Service, admin: httpx2.AsyncClient, unique: str):
    model, more = f"m-{unique}", f"n-{unique}"
    for name in (model, more):
        ok(await admin.post("/admin/v1/models", json={"name": name, "targets": [{"provider": "first", "model": "x"}]}), 201)
    body = {"team": unique, "limits": [{"resource": "requests", "amount": 5, "per": "day", "model": name} for name in (model, more)]}
    key = ok(await admin.post("/admin/v1/keys", json=body), 201)
    of_model, of_more = (each["name"] for each in key["limits"])
    deleted = ok(await admin.delete(f"/admin/v1/models/{model}", headers={"if-match": "*"}))
    assert [each for each in deleted["warnings"] if of_model in each and "Removed" in each and of_more not in each], deleted
    assert [each["name"] for each in ok(await admin.get(f"/admin/v1/keys/{key['prefix']}"))["limits"]] == [of_more]

    sections = ok_text(await admin.get("/admin/v1/configuration")).split("\n[")
    file = "\n[".join(each for each in sections if more not in each)
    pruned = ok(await admin.post("/admin/v1/configuration?prune=true", content=file, headers={"if-match": "*"}))
    assert [each for each in pruned["warnings"] if of_more in each and "Removed" in each], pruned
    assert ok(await admin.get(f"/admin/v1/keys/{key['prefix']}"))["limits"] == []
    by_platform = {"scope": {"team": unique, "model": "scripted"}, "resource": "requests", "amount": 5, "per": "day"}
    ok(await admin.put(f"/admin/v1/limits/{unique}", json=by_platform, headers={"if-none-match": "*"}), 201)
    refused = ok(await admin.delete("/admin/v1/models/scripted?dry_run=true", headers={"if-match": "*"}), 409)["error"]
    assert unique in refused["message"], "what a role of the company made is for it to remove"
    ok(await admin.delete(f"/admin/v1/limits/{unique}", headers={"if-match": "*"}))


async def test_a_budget_that_a_webhook_names_is_a_409_that_names_it(
    service: Service, admin: httpx2.AsyncClient, unique: str, database: str
):
    budget = {"scope": {"team": unique}, "amount": 5, "per": "month"}
    ok(await admin.put(f"/admin/v1/budgets/{unique}", json=budget, headers={"if-none-match": "*"}), 201)
    hook = {"name": f"hook-{unique}", "url": "https://example.com/hook", "budgets": [unique]}
    ok(await admin.post("/admin/v1/webhooks", json=hook), 201)
    for path in ("budgets", "limits"):
        error = ok(await admin.delete(f"/admin/v1/{path}/{unique}", headers={"if-match": "*"}), 409)["error"]
        assert f"hook-{unique}" in error["message"] and unique in error["message"], error
    ok(await admin.delete(f"/admin/v1/webhooks/hook-{unique}", headers={"if-match": "*"}))
    ok(await admin.delete(f"/admin/v1/budgets/{unique}", headers={"if-match": "*"}))
    await applied(database, MODELS + limit("used"))
    await execute(
        database,
        "INSERT INTO webhooks (name, id, url, encrypted, thresholds, budgets)"
        " VALUES ('hook', gen_random_uuid(), 'https://example.com', '', '{50}', '{used}')",
    )
    with pytest.raises(StillUsed, match="'hook'"):
        await applied(database, limit("another"))


async def test_a_metric_or_running_experiment_in_use_is_a_409_that_names_it(admin: httpx2.AsyncClient, unique: str):
    metric = {"name": f"m-{unique}", "kind": "boolean", "level": "inference", "optimize": "max"}
    ok(await admin.post("/admin/v1/metrics", json=metric), 201)
    experiment = {"name": f"e-{unique}", "arms": {f"f-{unique}": 0.5, "scripted": 0.5}, "analysis": {"metrics": [metric["name"]]}}
    target = {"provider": "first", "model": "engine-model"}
    ok(await admin.post("/admin/v1/models", json={"name": f"f-{unique}", "targets": [target], "experiment": experiment}), 201)
    of_metric, of_model = f"/admin/v1/metrics/{metric['name']}", f"/admin/v1/models/f-{unique}"
    for answer, user in (
        (await admin.delete(of_metric, headers={"if-match": "*"}), f"f-{unique}"),
        (await admin.patch(of_metric, json={"optimize": "min"}, headers={"if-match": "*"}), f"e-{unique}"),
        (await admin.delete(of_model, headers={"if-match": "*"}), f"e-{unique}"),
        (await admin.patch(of_model, json={"experiment": None}, headers={"if-match": "*"}), f"e-{unique}"),
    ):
        error = ok(answer, 409)["error"]
        assert user in error["message"] and error["type"] == "conflict", error
    ok(await admin.patch(of_model, json={"experiment": {**experiment, "status": "ended"}}, headers={"if-match": "*"}))
    ok(await admin.delete(of_model, headers={"if-match": "*"}))
    ok(await admin.delete(of_metric, headers={"if-match": "*"}))
