"""Budgets: set by file, REST and command, for a team, a key and a tag, in days, weeks and months; and what is spent of each is shown."""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import httpx2
import pytest
import tomli_w

from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, completion

CHAT = "/v1/chat/completions"
# Of each answer: 1,000 input tokens at 2 and 100 output tokens at 10 millionths of a dollar.
USAGE = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
COST_USD = 0.003
BODY = {"model": "budgeted", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 100}


async def answer(request: ReceivedRequest) -> None:
    await request.respond(200, json.dumps({**completion("Hello."), "model": "m", "usage": USAGE}).encode())


@pytest.fixture
def budgeted(service: Service, engine: ScriptedEngine) -> ScriptedEngine:
    engine.script = answer
    service.apply(f"""
        [providers.budgeted]
        adapter = "openai"
        base_url = "http://127.0.0.1:{engine.port}"
        [models.budgeted]
        targets = [{{ provider = "budgeted", model = "m" }}]
        [[prices]]
        provider = "budgeted"
        model = "m"
        input = 2.0
        output = 10.0
    """)
    return engine


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as admin:
        yield admin


class Team:
    """A new team with a key."""

    def __init__(self, name: str, key: str, prefix: str) -> None:
        self.name, self.key, self.prefix = name, key, prefix

    async def chat(self, client: httpx2.AsyncClient, tags: Mapping[str, str] | None = None) -> httpx2.Response:
        return await client.post(CHAT, json=BODY, headers=as_caller(self, tags))


async def make_team(admin: httpx2.AsyncClient) -> Team:
    name = f"team-{uuid.uuid4().hex[:10]}"
    created = (await admin.post("/admin/v1/keys", json={"team": name})).json()
    return Team(name, created["key"], created["prefix"])


def as_caller(team: Team, tags: Mapping[str, str] | None = None) -> dict[str, str]:
    return {"authorization": f"Bearer {team.key}", **({"x-narthex-tags": json.dumps(tags)} if tags else {})}


def in_s(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


async def ok(response: httpx2.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


async def wait_for_usage(admin: httpx2.AsyncClient, name: str, spent_usd: float) -> Any:
    """Returns what is used of a budget, once so much is spent."""
    usage: Any = None

    async def is_spent() -> bool:
        nonlocal usage
        usage = (await ok(await admin.get(f"/admin/v1/budgets/{name}")))["usage"]
        return usage is not None and usage["spent_usd"] == pytest.approx(spent_usd)

    await wait_until(is_spent, 120)
    return usage


async def test_budgets_of_a_team_a_key_and_a_tag_show_what_is_spent(service: Service, admin: httpx2.AsyncClient, budgeted: ScriptedEngine):
    team, tag = await make_team(admin), f"tenant-{uuid.uuid4().hex[:10]}"
    of_team, of_key, of_tag, shared = (f"{what} {team.name}" for what in ("team", "key", "tag", "shared"))
    await ok(await admin.post("/admin/v1/budgets", json={"name": of_team, "scope": {"team": team.name}, "amount": 1, "per": "month"}), 201)
    service.apply(f"""
        [[limits]]
        name = "{of_key}"
        scope = {{ key = "{team.prefix}" }}
        resource = "cost_usd"
        amount = 0.5
        per = "week"
        time_zone = "Asia/Kolkata"
    """)
    done = service.run("budgets", "set", of_tag, "--for", f"tag:{tag}=each", "--amount", "0.25", "--per", "day", "--json")
    assert done.returncode == 0, done.stderr
    for model in ("budgeted", "sandbox"):  # as narrow as that, as other tests share the service
        body = {"name": f"{shared} {model}", "scope": {"model": model, "team": "each"}, "amount": 100, "per": "day"}
        await ok(await admin.post("/admin/v1/budgets", json=body), 201)

    async with service.keyless_client() as client:
        for tags in ({tag: "acme"}, {tag: "acme"}, {tag: "other"}, None):
            answered = await team.chat(client, tags)
            assert answered.status_code == 200, answered.text
        usage = await wait_for_usage(admin, of_team, 4 * COST_USD)
        assert usage["subject"] == {"team": team.name} and usage["amount_usd"] == 1
        assert usage["reserved_usd"] == 0 and usage["remaining_usd"] == pytest.approx(1 - 4 * COST_USD) and usage["percent"] == 1.2
        usage = await wait_for_usage(admin, of_key, 4 * COST_USD)
        assert usage["subject"] == {"key": team.prefix}
        start, end = (datetime.fromisoformat(usage[name]) for name in ("period_start", "period_end"))
        assert start.astimezone(ZoneInfo("Asia/Kolkata")).weekday() == 0 and (end - start).days == 7 and start.hour == 0

        usage = await wait_for_usage(admin, of_tag, 2 * COST_USD)
        assert usage["subject"] == {f"tag:{tag}": "acme"} and usage["percent"] == 2.4
        subjects = await ok(await admin.get(f"/admin/v1/budgets/{of_tag}/subjects"))
        assert [(each["subject"], each["spent_usd"]) for each in subjects["data"]] == [
            ({f"tag:{tag}": "acme"}, pytest.approx(2 * COST_USD)),
            ({f"tag:{tag}": "other"}, pytest.approx(COST_USD)),
        ]
        first = await ok(await admin.get(f"/admin/v1/budgets/{of_tag}/subjects", params={"limit": 1}))
        assert len(first["data"]) == 1 and first["has_more"]

        subjects = await ok(await admin.get(f"/admin/v1/budgets/{shared} budgeted/subjects", params={"limit": 1000}))
        assert [each["spent_usd"] for each in subjects["data"] if each["subject"]["team"] == team.name] == [pytest.approx(4 * COST_USD)]
        nothing = (await ok(await admin.get("/admin/v1/budgets", params={"search": f"{shared} sandbox"})))["data"]
        assert [each["usage"] for each in nothing if each["name"] == f"{shared} sandbox"] == [None]

    printed = json.loads(service.run("budgets", "list", "--json").stdout)["budgets"]
    of_cli = {each["name"]: each["usage"] for each in printed}
    assert of_cli[of_team]["spent_usd"] == pytest.approx(4 * COST_USD) and of_cli[of_team]["reserved_usd"] == 0
    assert of_team in service.run("budgets", "list").stdout and "acme" in service.run("budgets", "subjects", of_tag).stdout
    for name in (of_team, of_key, of_tag, f"{shared} budgeted", f"{shared} sandbox"):
        removed = service.run("budgets", "remove", name, "--yes")
        assert removed.returncode == 0, removed.stderr


async def test_budget_of_a_model_counts_whatever_it_served_under_whichever_name(
    service: Service, admin: httpx2.AsyncClient, budgeted: ScriptedEngine
):
    service.apply(f"""
        [providers.budgeted-copy]
        adapter = "openai"
        base_url = "http://127.0.0.1:{budgeted.port}"
        [providers.budgeted-nowhere]
        adapter = "openai"
        base_url = "http://127.0.0.1:9"
        [models.budgeted-served]
        targets = [{{ provider = "budgeted-copy", model = "m" }}]
        [models.budgeted-falling]
        targets = [{{ provider = "budgeted-nowhere", model = "m" }}]
        fallbacks = ["budgeted-served"]
        retries = 0
        [models.budgeted-split.experiment]
        arms = {{ budgeted-served = 1 }}
        control = "budgeted-served"
        [functions.budgeted-task.variants]
        only = {{ model = "budgeted-served" }}
        [[prices]]
        provider = "budgeted-copy"
        model = "m"
        input = 2.0
        output = 10.0
        [[prices]]
        provider = "budgeted-nowhere"
        model = "m"
        input = 2.0
        output = 10.0
    """)
    team, tag = await make_team(admin), f"served-{uuid.uuid4().hex[:10]}"
    scopes: dict[str, dict[str, str]] = {
        "served": {"model": "budgeted-served", "team": team.name},
        "split": {"model": "budgeted-split", "team": team.name},
        "falling": {"model": "budgeted-falling", "team": team.name},
        "task": {"function": "budgeted-task", "team": team.name},
        "both": {"function": "budgeted-task", "model": "budgeted-served", "team": team.name},
        "tagged": {"model": "budgeted-served", f"tag:{tag}": "x"},
        "each": {"model": "each", "team": team.name},
        "zoned": {"model": "budgeted-served", "team": team.name},
    }
    zones = {"zoned": "Asia/Kolkata"}
    # A month that begins within an hour of UTC is read from inferences, too. By a file, which waits until every process has them.
    rules = [
        {"name": f"{name} {team.name}", "scope": scope, "resource": "cost_usd", "amount": 1, "per": "month"}
        | {"time_zone": zones.get(name, "UTC")}
        for name, scope in scopes.items()
    ]
    service.apply(tomli_w.dumps({"limits": rules}))
    sent = ("budgeted-served", "narthex::function_name::budgeted-task", "budgeted-task", "budgeted-split", "budgeted-falling")
    async with service.keyless_client() as client:
        for model in sent:
            answered = await client.post(CHAT, json={**BODY, "model": model}, headers=as_caller(team, {tag: "x"}))
            assert answered.status_code == 200, answered.text
    for name, count in {"served": 5, "split": 1, "falling": 1, "task": 2, "both": 2, "tagged": 5, "zoned": 5}.items():
        usage = await wait_for_usage(admin, f"{name} {team.name}", count * COST_USD)
        # The limit, which admits requests, has counted the same.
        assert usage["remaining_usd"] == pytest.approx(1 - count * COST_USD), name
    # Who has spent is read from the records, which have a request moments after it has ended.
    expected = {"budgeted-served": 5 * COST_USD, "budgeted-split": COST_USD, "budgeted-falling": COST_USD}
    spent: dict[str, float] = {}

    async def are_recorded() -> bool:
        subjects = (await ok(await admin.get(f"/admin/v1/budgets/each {team.name}/subjects")))["data"]
        spent.update({each["subject"]["model"]: each["recorded_usd"] for each in subjects})
        return sum(spent.values()) == pytest.approx(sum(expected.values()))

    await wait_until(are_recorded)
    assert spent == pytest.approx(expected), "a function is no model"
    for name in scopes:
        assert service.run("budgets", "remove", f"{name} {team.name}", "--yes").returncode == 0


async def test_a_request_in_progress_is_shown_as_reserved(service: Service, admin: httpx2.AsyncClient, budgeted: ScriptedEngine):
    team, finish = await make_team(admin), asyncio.Event()

    async def answer_later(request: ReceivedRequest) -> None:
        await finish.wait()
        await answer(request)

    budgeted.script = answer_later
    done = service.run("budgets", "set", team.name, "--for", f"team={team.name}", "--amount", "1", "--per", "day")
    assert done.returncode == 0, done.stderr  # every worker has it now
    usage: Any = None

    async def is_reserved() -> bool:
        nonlocal usage
        usage = (await ok(await admin.get(f"/admin/v1/budgets/{team.name}")))["usage"]
        return bool(usage["reserved_usd"])

    async with service.keyless_client() as client:
        running = asyncio.create_task(team.chat(client))
        await wait_until(is_reserved, 120)
        assert usage["spent_usd"] == 0 and usage["percent"] == 0
        assert usage["remaining_usd"] == pytest.approx(1 - usage["reserved_usd"])
        assert usage["recorded_usd"] == 0
        finish.set()
        assert (await running).status_code == 200
    usage = await wait_for_usage(admin, team.name, COST_USD)
    assert (usage["reserved_usd"], usage["remaining_usd"]) == (0, pytest.approx(1 - COST_USD))
    await ok(await admin.delete(f"/admin/v1/budgets/{team.name}", headers={"if-match": "*"}))


async def test_a_budget_shows_what_a_request_has_spent_at_once_and_all_of_it_adds_up(
    service: Service, admin: httpx2.AsyncClient, budgeted: ScriptedEngine
):
    team = await make_team(admin)
    done = service.run("budgets", "set", team.name, "--for", f"team={team.name}", "--amount", "0.05", "--per", "day")
    assert done.returncode == 0, done.stderr  # every worker has it now
    async with service.keyless_client() as client:
        for count in range(1, 7):
            answered = await team.chat(client)
            usage = (await ok(await admin.get(f"/admin/v1/budgets/{team.name}")))["usage"]
            assert answered.status_code == 200, answered.text
            assert (usage["spent_usd"], usage["reserved_usd"]) == (pytest.approx(count * COST_USD), 0), "at once"
            assert usage["spent_usd"] + usage["remaining_usd"] == pytest.approx(0.05)
            assert usage["percent"] == pytest.approx(count * COST_USD / 0.05 * 100) and usage["recorded_usd"] <= usage["spent_usd"] + 1e-9
        running = asyncio.gather(*(team.chat(client) for _ in range(4)))
        while not running.done():
            usage = (await ok(await admin.get(f"/admin/v1/budgets/{team.name}")))["usage"]
            assert usage["spent_usd"] + usage["reserved_usd"] + usage["remaining_usd"] == pytest.approx(0.05)
        assert {answered.status_code for answered in await running} == {200}
        usage = (await ok(await admin.get(f"/admin/v1/budgets/{team.name}")))["usage"]
        assert usage["spent_usd"] + usage["reserved_usd"] + usage["remaining_usd"] == pytest.approx(0.05)

    async def is_recorded() -> bool:
        usage = (await ok(await admin.get(f"/admin/v1/budgets/{team.name}")))["usage"]
        return usage["recorded_usd"] == pytest.approx(usage["spent_usd"])

    await wait_until(is_recorded, 120)
    await ok(await admin.delete(f"/admin/v1/budgets/{team.name}", headers={"if-match": "*"}))


async def test_a_team_sees_its_own_part_of_a_budget_of_each_team(service: Service, admin: httpx2.AsyncClient, budgeted: ScriptedEngine):
    ours, theirs = await make_team(admin), await make_team(admin)
    name, everything = f"each {ours.name}", f"all {ours.name}"
    await ok(await admin.post("/admin/v1/budgets", json={"name": name, "scope": {"team": "each", "model": "budgeted"}, "amount": 100}), 201)
    await ok(await admin.post("/admin/v1/budgets", json={"name": everything, "scope": {"all": "each"}, "amount": 1e6}), 201)
    account = f"{ours.name}/viewer"
    roles = [{"role": "viewer", "team": ours.name}]
    await ok(await admin.post("/admin/v1/service-accounts", json={"name": account, "roles": roles}), 201)
    token = (await ok(await admin.post(f"/admin/v1/service-accounts/{account.replace('/', '%2F')}/tokens"), 201))["token"]
    async with service.keyless_client() as client:
        for team in (ours, theirs, theirs):
            assert (await team.chat(client)).status_code == 200
        headers = {"authorization": f"Bearer {token}"}

        async def own() -> list[Any]:
            return (await ok(await client.get(f"/admin/v1/budgets/{name}/subjects", headers=headers)))["data"]

        async def is_recorded() -> bool:
            return bool(await own())

        await wait_until(is_recorded, 120)
        assert [(each["subject"]["team"], each["spent_usd"]) for each in await own()] == [(ours.name, pytest.approx(COST_USD))]
        await ok(await client.get(f"/admin/v1/budgets/{everything}/subjects", headers=headers), 404)
    for each in (name, everything):
        await ok(await admin.delete(f"/admin/v1/budgets/{each}", headers={"if-match": "*"}))


async def test_an_override_raises_a_budget_until_it_ends(service: Service, admin: httpx2.AsyncClient, budgeted: ScriptedEngine):
    """An override ends at its time, or earlier by an admin. Nothing passes then: what was spent meanwhile counts."""
    team, other = await make_team(admin), await make_team(admin)
    name = f"each {team.name}"
    # One request reserves 0.001 for its output and less for its prompt: the budget lets one through, whose cost is then 0.003.
    scope = {"team": "each", "key": "each", "model": "budgeted", f"tag:{team.name}": "each"}
    options = [each for dimension, value in scope.items() for each in ("--for", f"{dimension}={value}")]
    done = service.run("budgets", "set", name, *options, "--amount", "0.002")
    assert done.returncode == 0, done.stderr  # every worker has it now
    tags = {team.name: "acme"}
    subject = {"team": team.name, "key": team.prefix, f"tag:{team.name}": "acme"}
    body = {"limit": name, "subject": subject, "amount": 100, "reason": "a load test"}

    async with service.keyless_client() as client:

        async def statuses(of: Team, times: int = 8) -> set[int]:
            """Returns the statuses of several requests at once, which both workers get."""
            return {answer.status_code for answer in await asyncio.gather(*(of.chat(client, tags) for _ in range(times)))}

        async def is_refused() -> bool:
            return await statuses(team) == {429}

        assert (await team.chat(client, tags)).status_code == 200 and (await other.chat(client, tags)).status_code == 200
        await wait_until(is_refused, 120)

        refused = await admin.post("/admin/v1/limit-overrides", json={**body, "subject": {"team": team.name}, "ends_at": in_s(60)})
        assert refused.status_code == 400 and refused.json()["error"]["param"] == "subject"
        late = await admin.post("/admin/v1/limit-overrides", json={**body, "ends_at": "2020-01-01T00:00:00Z"})
        assert late.status_code == 400 and late.json()["error"]["param"] == "ends_at"
        await ok(await admin.post("/admin/v1/limit-overrides", json={**body, "limit": "none", "ends_at": in_s(60)}), 404)

        created = await ok(await admin.post("/admin/v1/limit-overrides", json={**body, "ends_at": in_s(300)}), 201)
        await ok(await admin.post("/admin/v1/limit-overrides", json={**body, "ends_at": in_s(300)}), 409)
        assert await statuses(team) == {200}
        assert await statuses(other) == {429}, "it is of one subject"
        found: list[Any] = []

        async def is_listed() -> bool:  # once a request is stored
            subjects = (await ok(await admin.get(f"/admin/v1/budgets/{name}/subjects")))["data"]
            found[:] = [each for each in subjects if each["subject"] == {**subject, "model": "budgeted"}]
            return bool(found)

        await wait_until(is_listed)
        [usage] = found
        assert usage["amount_usd"] == 100 and usage["override"]["id"] == created["id"] and usage["percent"] < 100
        left = await client.get("/v1/limits?model=budgeted", headers=as_caller(team, tags))
        assert [rule["amount"] for rule in left.json()["data"] if rule["rule"] == name] == [100]

        shorter = {"ends_at": in_s(4)}
        await ok(await admin.patch(f"/admin/v1/limit-overrides/{created['id']}", json=shorter, headers={"if-match": "*"}))
        await wait_until(is_refused, 120)
        assert await statuses(team, 20) == {429}, "once it has ended, it has in both workers"
        assert not (await ok(await admin.get(f"/admin/v1/limit-overrides/{created['id']}")))["in_force"]

        arguments = [each for name_, value in subject.items() for each in ("--for", f"{name_}={value}")]
        done = service.run("limits", "override", name, *arguments, "--amount", "100", "--until", "1h", "--reason", "again", "--json")
        assert done.returncode == 0, done.stderr
        again = json.loads(done.stdout)
        assert await statuses(team) == {200}
        assert again["id"] in service.run("limits", "overrides", name).stdout
        ended = service.run("limits", "end-override", again["id"], "--yes", "--json")
        assert ended.returncode == 0 and not json.loads(ended.stdout)["in_force"], ended.stderr
        assert await statuses(team) == {429}

    listed = await ok(await admin.get("/admin/v1/limit-overrides", params={"limit_name": name}))
    assert [each["id"] for each in listed["data"]] == [again["id"], created["id"]]
    events = (await ok(await admin.get("/admin/v1/audit", params={"resource": "limit_override", "name": name})))["data"]
    assert [event["action"] for event in reversed(events)] == ["create", "update", "create", "end"]
    assert events[-1]["after"]["reason"] == "a load test" and events[-1]["team"] == team.name
    await ok(await admin.delete(f"/admin/v1/budgets/{name}", headers={"if-match": "*"}))
    await ok(await admin.get(f"/admin/v1/limit-overrides/{created['id']}"), 404)


async def test_a_limit_is_reported_until_a_request_matches_it(service: Service, admin: httpx2.AsyncClient, budgeted: ScriptedEngine):
    team, matched, refusing = await make_team(admin), f"m-{uuid.uuid4().hex[:10]}", f"r-{uuid.uuid4().hex[:10]}"
    for name, amount, scope in (
        (matched, "10", f"team={team.name}"),
        (refusing, "0.000001", f"tag:{team.name}=each"),
        (f"{matched} never", "10", f"tag:never-{team.name}=each"),
    ):
        done = service.run("budgets", "set", name, "--for", scope, "--amount", amount)
        assert done.returncode == 0, done.stderr

    async def unmatched() -> set[str]:
        names: set[str] = set()
        after: dict[str, str] = {}
        while True:
            page = await ok(await admin.get("/admin/v1/unmatched-limits", params={"since": "2020-01-01", "limit": 100, **after}))
            names |= {each["name"] for each in page["data"]}
            if page["next"] is None:
                return names
            after = {"after": page["next"]}

    assert {matched, refusing, f"{matched} never"} <= await unmatched()
    async with service.keyless_client() as client:
        assert (await team.chat(client)).status_code == 200
        assert (await team.chat(client, {team.name: "acme"})).status_code == 400  # more than the whole budget

    async def is_reported() -> bool:
        return not {matched, refusing} & await unmatched()

    await wait_until(is_reported, 120)
    assert f"{matched} never" in await unmatched()
    printed = json.loads(service.run("limits", "unmatched", "--json").stdout)
    assert f"{matched} never" in {each["name"] for each in printed["limits"]} and printed["known_since"]
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    later = (await ok(await admin.get("/admin/v1/unmatched-limits", params={"since": soon, "limit": 1000})))["data"]
    assert [each["last_matched_at"] is not None for each in later if each["name"] == matched] == [True]
    for name in (matched, refusing, f"{matched} never"):
        assert service.run("budgets", "remove", name, "--yes").returncode == 0
