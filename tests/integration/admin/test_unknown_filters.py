"""Filters of records by a name of which there is nothing: they say so. What was removed and has records is known."""

import json
import subprocess
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from app.domain import uuid7
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until

TEAM, MODEL, FUNCTION = "filter known", "filter-removed", "filter-function"
_NAMED = {
    "team": "filter nobody",
    "team_id": uuid7.mint(),
    "key": "nx-5e5e5e5e5e5e",
    "model": "filter-typo",
    "function": "filter-typo",
    "provider": "filter-typo",
}
UNKNOWN = {**_NAMED, **{f"not_{name}": value for name, value in _NAMED.items() if name != "team_id"}}
# By path, the filters that name something.
_BY_VALUE = {
    "inferences": ("team", "team_id", "key", "model", "function", "provider"),
    "inferences/export": ("team", "team_id", "key", "model", "function", "provider"),
    "inferences/tail": ("team", "team_id", "key", "model", "function", "provider"),
    "inferences/count": ("team", "team_id", "key", "model", "function", "provider"),
    "episodes": ("team", "team_id", "key", "model", "function", "provider"),
    "analytics": ("team", "key", "model", "function", "provider"),
    "feedback": ("team", "key", "model", "function"),
    "feedback/export": ("team", "key", "model", "function"),
    "dropped": ("team", "key", "model"),
    "refusals": ("team",),
}
EXCLUDED = ("not_team", "not_key", "not_model", "not_function", "not_provider")
LISTS = {path: (*names, *EXCLUDED) if path.startswith(("inferences", "analytics")) else names for path, names in _BY_VALUE.items()}
CASES = [(path, name) for path, names in LISTS.items() for name in names]


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as admin:
        yield admin


@pytest.fixture(scope="module")
async def recorded(service: Service) -> dict[str, Any]:
    """A model that has a record and is removed, one that has none, a function, and a team with a key of its own."""
    targets = 'targets = [{ provider = "sandbox", model = "sandbox" }]'
    service.apply(f"""
        [models]
        {MODEL} = {{ {targets} }}
        {MODEL}-unused = {{ {targets} }}
        [functions.{FUNCTION}.variants]
        only = {{ model = "sandbox" }}
    """)
    key = service.run("keys", "create", "--team", TEAM, "--quiet").stdout.strip()
    async with service.client(headers={"authorization": f"Bearer {key}"}) as client:
        answer = await client.post("/v1/chat/completions", json={"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]})
        assert answer.status_code == 200, answer.text
    await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    async with service.admin_client() as admin:
        for name in (MODEL, f"{MODEL}-unused"):
            assert (await admin.delete(f"/admin/v1/models/{name}", headers={"if-match": "*"})).status_code == 200
    return {"id": answer.json()["id"], "key": "-".join(key.split("-")[:2])}


@pytest.mark.parametrize(("path", "name"), CASES, ids=[f"{path} by {name}" for path, name in CASES])
async def test_a_name_that_never_was_is_a_400_in_words(admin: httpx2.AsyncClient, path: str, name: str):
    answer = await admin.get(f"/admin/v1/{path}", params={name: UNKNOWN[name]})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, name)
    assert "There is no" in error["message"] and UNKNOWN[name] in error["message"] and "no record of one" in error["message"]


async def test_recomputing_costs_of_an_unknown_model_is_a_400_in_words(admin: httpx2.AsyncClient):
    body = {"since": "2026-11-01T00:00:00Z"}
    for name in ("team", "model", "provider"):
        answer = await admin.post("/admin/v1/costs/recompute", json={**body, name: UNKNOWN[name]})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)


async def test_a_removed_model_with_records_has_its_records(admin: httpx2.AsyncClient, recorded: dict[str, Any]):
    for model in (MODEL, f"narthex::model_name::{MODEL}"):
        listed = await admin.get("/admin/v1/inferences", params={"model": model, "team": TEAM})
        assert listed.status_code == 200, listed.text
    assert [each["id"] for each in (await admin.get("/admin/v1/inferences", params={"model": MODEL})).json()["data"]] == [recorded["id"]]

    async def is_summed() -> bool:
        sums = (await admin.get("/admin/v1/analytics", params={"model": MODEL, "key": recorded["key"]})).json()
        return [each["requests"] for each in sums["data"]] == [1]

    await wait_until(is_summed)
    # Nothing in that time, but not unknown.
    for path in ("inferences", "analytics", "dropped", "feedback"):
        empty = await admin.get(f"/admin/v1/{path}", params={"model": MODEL, "until": "2026-11-02", "since": "2026-11-01"})
        assert (empty.status_code, empty.json()["data"]) == (200, []), (path, empty.text)


@pytest.mark.parametrize(
    "filters",
    [
        {"model": f"{MODEL}-unused"},
        {"model": "sandbox", "status": "599"},
        {"function": FUNCTION},
        {"model": f"tensorzero::function_name::{FUNCTION}"},
        {"provider": "sandbox", "team": TEAM, "status": "599"},
    ],
    ids=["a removed model", "a model", "a function", "a function as a model", "a provider"],
)
async def test_what_is_or_was_configured_is_known_without_records(admin: httpx2.AsyncClient, recorded: Any, filters: dict[str, str]):
    answer = await admin.get("/admin/v1/inferences", params=filters)
    assert (answer.status_code, answer.json()["data"]) == (200, []), answer.text


async def test_roles_within_a_team_do_not_learn_of_others(service: Service, recorded: dict[str, Any]):
    name = f"filter-{uuid7.mint()[-8:]}"
    assert service.run("teams", "set", "filter others", "--priority", "0").returncode == 0
    assert service.run("service-accounts", "create", name, "--role", "viewer", "--team", "filter others").returncode == 0
    made = service.run("service-accounts", "tokens", "create", name, "--name", "t", "--expires", "1d", "--json")
    token = json.loads(made.stdout)["token"]
    async with service.client(headers={"authorization": f"Bearer {token}"}) as viewer:
        own = await viewer.get("/admin/v1/inferences", params={"team": "filter others"})
        assert (own.status_code, own.json()["data"]) == (200, [])
        for filters in ({"team": TEAM}, {"key": recorded["key"]}):
            ((filter_name, value),) = filters.items()
            hidden = await viewer.get("/admin/v1/inferences", params=filters)
            missing = await viewer.get("/admin/v1/inferences", params={filter_name: UNKNOWN[filter_name]})
            assert hidden.status_code == missing.status_code == 400
            assert hidden.text.replace(value, "") == missing.text.replace(UNKNOWN[filter_name], "")
        for path in ("inferences", "analytics", "episodes"):  # which providers there are is of the configuration
            served, unknown = [
                await viewer.get(f"/admin/v1/{path}", params={"provider": each}) for each in ("sandbox", UNKNOWN["provider"])
            ]
            assert served.status_code == unknown.status_code == 400
            assert served.text.replace("sandbox", "") == unknown.text.replace(UNKNOWN["provider"], ""), served.text
    assert service.run("service-accounts", "delete", name, "--yes").returncode == 0


@pytest.mark.parametrize(
    "command",
    [
        ("inferences", "--model", UNKNOWN["model"]),
        ("inferences", "--team", UNKNOWN["team"], "--export"),
        ("inferences", "--key", UNKNOWN["key"], "--follow"),
        ("analytics", "--where", f"team={UNKNOWN['team']}"),
        ("feedback", "list", "--model", UNKNOWN["model"]),
        ("dropped", "--team", UNKNOWN["team"]),
        ("refusals", "--team", UNKNOWN["team"]),
        ("prices", "recompute", "--since", "1d", "--model", UNKNOWN["model"]),
    ],
    ids=["inferences", "export", "follow", "analytics", "feedback", "dropped", "refusals", "prices"],
)
def test_commands_say_so_too(service: Service, command: tuple[str, ...]):
    done: subprocess.CompletedProcess[str] = service.run(*command)
    assert done.returncode == 2 and "There is no" in done.stderr and "no record of one" in done.stderr, done.stderr + done.stdout
    assert not done.stdout


def test_commands_find_what_refused_requests_named(service: Service):
    """A refused request may have named any model."""
    assert service.run("refusals", "--model", UNKNOWN["model"]).returncode == 0
