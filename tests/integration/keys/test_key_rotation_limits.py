"""A rotated key goes on with what its predecessor has spent, in every window and budget; and no act of a team's editor gives it more."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, NamedTuple

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ScriptedEngine

KEYS, LIMITS = "/admin/v1/keys", "/admin/v1/limits"
HI: Any = [{"role": "user", "content": "Hello!"}]
CONFIGURATION = """
[models]
rotated-priced = { targets = [{ provider = "first", model = "rotated" }] }

[[prices]]
provider = "first"
model = "rotated"
input = 1000
output = 1000
"""
# Each of one request: of the resource, in the period; what a request with max_tokens = 5 reserves of it, or more.
KINDS: list[tuple[str, str | None, float]] = [
    ("requests", "minute", 2),
    ("requests", "day", 2),
    ("tokens", "hour", 100_000),
    ("cost_usd", "hour", 100),
    ("cost_usd", "month", 100),
]


@pytest.fixture(scope="module", autouse=True)
def configured(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    service.apply(CONFIGURATION)


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


@pytest.fixture
def team() -> str:
    return f"rotated-{uuid.uuid4().hex[:12]}"


def ok(answer: httpx2.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def as_key(service: Service, key: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=service.url, headers={"authorization": f"Bearer {key}"}, timeout=60)


async def chat(client: httpx2.AsyncClient, **more: Any) -> httpx2.Response:
    return await client.post("/v1/chat/completions", json={"model": "rotated-priced", "messages": HI, "max_tokens": 5, **more})


async def left(client: httpx2.AsyncClient) -> dict[str, float]:
    """Returns what each rule leaves a caller, by the names of the rules."""
    rules = ok(await client.get("/v1/limits", params={"model": "rotated-priced"}))["data"]
    return {each["rule"]: each["remaining"] for each in rules}


async def test_a_rotated_key_goes_on_with_what_was_spent_and_shares_it_during_the_overlap(
    service: Service, admin: httpx2.AsyncClient, team: str, engine: ScriptedEngine
) -> None:
    limits = [{"resource": resource, "per": per, "amount": amount} for resource, per, amount in KINDS]
    old = ok(await admin.post(KEYS, json={"team": team, "limits": limits}), 201)
    each = {"scope": {"team": team, "key": "each"}, "resource": "requests", "amount": 50, "per": "hour"}
    ok(await admin.put(f"{LIMITS}/{team}", json=each, headers={"if-none-match": "*"}), 201)
    async with as_key(service, old["key"]) as first:
        assert (await chat(first)).status_code == 200
        before = await left(first)
        new = ok(await admin.post(f"{KEYS}/{old['prefix']}/rotate", json={"overlap_s": 3600}), 201)
        async with as_key(service, new["key"]) as second:
            assert await left(second) == before, "all of it is as it was"
            assert (await chat(second)).status_code == 200
            both = await left(second)
            assert await left(first) == both and all(both[name] < before[name] for name in before), "shared during the overlap"
            for client in (first, second):
                refused = await chat(client)
                assert refused.status_code == 429 and f"{old['prefix']}-requests" in refused.text, "two requests are all there are"
            newest = ok(await admin.post(f"{KEYS}/{new['prefix']}/rotate", json={"overlap_s": 0}), 201)
            async with as_key(service, newest["key"]) as third:
                assert await left(third) == both


async def test_rules_of_a_key_are_not_left_behind_nor_doubled_when_it_is_rotated(admin: httpx2.AsyncClient, team: str) -> None:
    body = {"team": team, "budget": {"amount_usd": 5}}
    old = ok(await admin.post(KEYS, json=body), 201)
    new = ok(await admin.post(f"{KEYS}/{old['prefix']}/rotate", json={"overlap_s": 60}), 201)
    assert new["limits"] == old["limits"] and new["counts_as"] == old["prefix"]
    newest = ok(await admin.post(f"{KEYS}/{new['prefix']}/rotate", json={"overlap_s": 0}), 201)
    assert newest["limits"] == old["limits"] and newest["counts_as"] == old["prefix"]
    for prefix in (old["prefix"], new["prefix"], newest["prefix"]):
        assert [each["limits"] for each in [ok(await admin.get(f"{KEYS}/{prefix}"))]] == [old["limits"]]
        found = ok(await admin.get(LIMITS, params={"key": prefix}))["data"]
        assert [each["name"] for each in found] == [old["limits"][0]["name"]], "one rule, and it is found by each of them"


async def test_a_rule_or_override_that_names_the_new_key_holds_for_the_old_one(
    service: Service, admin: httpx2.AsyncClient, team: str, engine: ScriptedEngine
) -> None:
    old = ok(await admin.post(KEYS, json={"team": team}), 201)
    new = ok(await admin.post(f"{KEYS}/{old['prefix']}/rotate", json={"overlap_s": 3600}), 201)
    named = {"scope": {"key": new["prefix"]}, "resource": "requests", "amount": 3, "per": "day"}
    each = {"scope": {"team": team, "key": "each"}, "resource": "requests", "amount": 1, "per": "hour"}
    ok(await admin.put(f"{LIMITS}/{team}-named", json=named, headers={"if-none-match": "*"}), 201)
    ok(await admin.put(f"{LIMITS}/{team}-each", json=each, headers={"if-none-match": "*"}), 201)
    override = {"limit": f"{team}-each", "subject": {"key": new["prefix"]}, "amount": 9, "ends_at": "2027-01-01T00:00:00Z", "reason": "r"}
    made = ok(await admin.post("/admin/v1/limit-overrides", json=override), 201)
    assert made["subject"] == {"key": old["prefix"]}, "it is counted as the first key"
    again = await admin.post("/admin/v1/limit-overrides", json={**override, "subject": {"key": old["prefix"]}})
    assert again.status_code == 409, again.text
    async with as_key(service, old["key"]) as first, as_key(service, new["key"]) as second:
        assert await left(first) == {f"{team}-named": 3, f"{team}-each": 9}
        assert (await chat(first)).status_code == 200 and (await chat(second)).status_code == 200
        assert await left(first) == await left(second) == {f"{team}-named": 1, f"{team}-each": 7}


async def test_of_a_key_there_is_one_rotation_at_a_time(admin: httpx2.AsyncClient, team: str) -> None:
    old = ok(await admin.post(KEYS, json={"team": team}), 201)
    path = f"{KEYS}/{old['prefix']}/rotate"
    answers = await asyncio.gather(*(admin.post(path, json={"overlap_s": 3600}) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
    new = next(answer.json() for answer in answers if answer.status_code == 201)
    for answer in answers:
        if answer.status_code == 409:
            error = answer.json()["error"]
            assert new["prefix"] in error["message"] and error["type"] == "conflict", error
    ok(await admin.delete(f"{KEYS}/{new['prefix']}"))
    ok(await admin.post(path, json={"overlap_s": 3600}), 201)  # what replaced it is of no use any more


async def test_budgets_and_the_ledger_count_a_rotated_key_as_its_first(
    service: Service, admin: httpx2.AsyncClient, team: str, engine: ScriptedEngine
) -> None:
    old = ok(await admin.post(KEYS, json={"team": team, "budget": {"amount_usd": 50}}), 201)
    name = old["limits"][0]["name"]
    new = ok(await admin.post(f"{KEYS}/{old['prefix']}/rotate", json={"overlap_s": 3600}), 201)
    cost_usd = 0.0  # by the price of the model that the engine reports, where another test has given it one
    for key in (old["key"], new["key"]):
        async with as_key(service, key) as client:
            answer = await chat(client)
            assert answer.status_code == 200
            cost_usd += float(answer.headers["x-narthex-cost-usd"])
            await service.wait_for_record(answer.headers["x-narthex-inference-id"])

    async def is_spent() -> bool:
        usage = ok(await admin.get(f"/admin/v1/budgets/{name}/subjects"))["data"]
        return [(each["subject"], each["spent_usd"]) for each in usage] == [({"key": old["prefix"]}, pytest.approx(cost_usd))]

    assert cost_usd > 0
    await wait_until(is_spent)


Act = Callable[["Editor"], Awaitable[None]]


class Editor(NamedTuple):
    """An editor of a team, who holds `key` and replaces it as acts make new ones: what can a chain of acts gain?"""

    client: httpx2.AsyncClient
    team: str
    keys: list[dict[str, Any]]

    async def act(self, method: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        return await self.client.request(method, path, json=body, headers=headers)


async def rotate(editor: Editor) -> None:
    answer = await editor.act("POST", f"{KEYS}/{editor.keys[-1]['prefix']}/rotate", {"overlap_s": 3600})
    editor.keys.append(ok(answer, 201))


async def rotate_the_first_again(editor: Editor) -> None:
    answer = await editor.act("POST", f"{KEYS}/{editor.keys[0]['prefix']}/rotate", {"overlap_s": 3600})
    assert answer.status_code in (201, 409)
    if answer.status_code == 201:
        editor.keys.append(answer.json())


async def revoke_and_rotate(editor: Editor) -> None:
    await rotate(editor)
    await editor.act("DELETE", f"{KEYS}/{editor.keys[-2]['prefix']}")
    await rotate(editor)


async def change_the_key(editor: Editor) -> None:
    path = f"{KEYS}/{editor.keys[-1]['prefix']}"
    ok(await editor.act("PATCH", path, {"models": None, "routes": None, "expires_at": None, "priority": None}, **{"if-match": "*"}))


async def create_with_more(editor: Editor) -> None:
    limits = [{"resource": "cost_usd", "amount": 1_000_000, "per": "month"}, {"resource": "requests", "amount": 9999, "per": "hour"}]
    editor.keys.append(ok(await editor.act("POST", KEYS, {"team": editor.team, "limits": limits}), 201))


async def write_the_limit(editor: Editor) -> None:
    body = {"scope": {"team": editor.team}, "resource": "requests", "amount": 9999, "per": "hour"}
    for method in ("PUT", "PATCH", "DELETE"):
        answer = await editor.act(method, f"{LIMITS}/{editor.team}", None if method == "DELETE" else body, **{"if-match": "*"})
        assert answer.status_code in (403, 404), answer.text


async def override_the_limit(editor: Editor) -> None:
    body: dict[str, Any] = {"limit": editor.team, "subject": {}, "amount": 9999, "ends_at": "2027-01-01T00:00:00Z", "reason": "more"}
    assert (await editor.act("POST", "/admin/v1/limit-overrides", body)).status_code in (400, 403, 404)


async def change_the_team(editor: Editor) -> None:
    answer = await editor.act("PATCH", f"/admin/v1/teams/{editor.team}", {"models": None, "limits": []}, **{"if-match": "*"})
    assert answer.status_code == 403, answer.text


ACTS: dict[str, Act] = {
    "rotates": rotate,
    "rotates the first again": rotate_the_first_again,
    "revokes the old and rotates": revoke_and_rotate,
    "changes the key": change_the_key,
    "creates a key with larger limits": create_with_more,
    "writes the limit": write_the_limit,
    "overrides the limit": override_the_limit,
    "changes the team": change_the_team,
}
# Limits of the company on a team. Of those about a key, what replaces the key is held to what is left; another key has its own.
COMPANY: dict[str, dict[str, Any]] = {
    "team": {"scope": {"team": "{team}"}},
    "team and model": {"scope": {"team": "{team}", "model": "rotated-priced"}},
    "one key": {"scope": {"key": "{key}"}},
    "each key of the team": {"scope": {"team": "{team}", "key": "each"}},
    "each team": {"scope": {"team": "each", "model": "rotated-priced"}},
}


@pytest.mark.parametrize("limit", COMPANY)
async def test_no_chain_of_acts_of_a_teams_editor_raises_a_limit_of_the_company(
    service: Service, admin: httpx2.AsyncClient, team: str, engine: ScriptedEngine, limit: str
) -> None:
    key = ok(await admin.post(KEYS, json={"team": team}), 201)
    account = {"name": f"{team}-editor", "roles": [{"role": "editor", "team": team}]}
    ok(await admin.post("/admin/v1/service-accounts", json=account), 201)
    token = ok(await admin.post(f"/admin/v1/service-accounts/{account['name']}/tokens"), 201)
    scope = {name: value.format(team=team, key=key["prefix"]) for name, value in COMPANY[limit]["scope"].items()}
    rule = {"scope": scope, "resource": "requests", "amount": 40, "per": "hour"}
    ok(await admin.put(f"{LIMITS}/{team}", json=rule, headers={"if-none-match": "*"}), 201)
    try:
        async with as_key(service, token["token"]) as client:
            editor = Editor(client, team, [key])
            spent = 0
            for name, act in ACTS.items():
                await act(editor)
                about_one_key = "key" in scope
                heirs = [each for each in editor.keys if each is key or each.get("counts_as") == key["prefix"]]
                held = heirs if about_one_key else editor.keys
                async with as_key(service, held[-1]["key"]) as caller:
                    assert (await chat(caller)).status_code == 200, name
                    spent += 1
                    assert (await left(caller))[team] == 40 - spent, f"{name}: what is left is what the company left"
            shown = ok(await admin.get(f"{LIMITS}/{team}"))
            assert (shown["amount"], shown["scope"]) == (40, scope)
    finally:
        ok(await admin.delete(f"{LIMITS}/{team}", headers={"if-match": "*"}))
