"""Teams have models, routes, networks and limits, which their keys narrow and cannot widen, over HTTP and from a file."""

import contextlib
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.scripted_engine import ScriptedEngine

KEYS, TEAMS = "/admin/v1/keys", "/admin/v1/teams"
CHAT = "/v1/chat/completions"
HI: Any = [{"role": "user", "content": "Hello!"}]
MODELS = """
[models]
team-small = { targets = [{ provider = "first", model = "team-unpriced" }] }
team-large = { targets = [{ provider = "first", model = "team-unpriced" }] }
team-dead = { targets = [{ provider = "nowhere", model = "x" }], fallbacks = ["team-large", "team-small"] }
"""


@pytest.fixture(scope="module", autouse=True)
def configured(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    service.apply(MODELS)


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


@pytest.fixture
def team() -> str:
    return f"held-{uuid.uuid4().hex[:12]}"


def ok(answer: httpx2.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def as_key(service: Service, key: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=service.url, headers={"authorization": f"Bearer {key}"}, timeout=60)


async def status(client: httpx2.AsyncClient, model: str, **more: Any) -> int:
    return (await client.post(CHAT, json={"model": model, "messages": HI, "max_tokens": 5, **more})).status_code


async def test_keys_narrow_what_their_team_has_and_cannot_widen_it(
    service: Service, admin: httpx2.AsyncClient, team: str, engine: ScriptedEngine
):
    settings = {"name": team, "models": ["team-*"], "routes": [CHAT, "/v1/models"], "networks": ["127.0.0.0/8"]}
    shown = ok(await admin.post(TEAMS, json=settings), 201)
    assert {name: shown[name] for name in settings} == settings
    for field, wider in (("models", "*"), ("models", "scripted"), ("routes", "/v1/*"), ("networks", "0.0.0.0/0")):
        error = ok(await admin.post(KEYS, json={"team": team, field: [wider]}), 400)["error"]
        assert error["param"] == field and wider in error["message"] and team in error["message"], error
    all_of_it = ok(await admin.post(KEYS, json={"team": team}), 201)
    some = ok(await admin.post(KEYS, json={"team": team, "models": ["team-small"]}), 201)
    for field, wider in (("models", "tea*"), ("routes", "/v1/limits"), ("networks", "::/0")):
        patched = await admin.patch(f"{KEYS}/{some['prefix']}", json={field: [wider]}, headers={"if-match": "*"})
        assert ok(patched, 400)["error"]["param"] == field
    async with as_key(service, all_of_it["key"]) as client, as_key(service, some["key"]) as narrower:
        assert [await status(client, model) for model in ("team-small", "team-large", "scripted")] == [200, 200, 403]
        assert [await status(narrower, model) for model in ("team-small", "team-large")] == [200, 403]
        assert [each["id"] for each in ok(await narrower.get("/v1/models"))["data"]] == ["team-small"]
        assert (await client.get("/v1/limits")).status_code == 403
        ok(await admin.patch(f"{TEAMS}/{team}", json={"models": ["team-large"], "routes": None}, headers={"if-match": "*"}))
        assert await status(narrower, "team-small") == 403 and (await client.get("/v1/limits")).status_code == 200
        assert [await status(client, model) for model in ("team-small", "team-large")] == [403, 200]
        ok(await admin.patch(f"{TEAMS}/{team}", json={"networks": ["192.0.2.0/24"]}, headers={"if-match": "*"}))
        assert await status(client, "team-large") == 403


async def test_each_key_of_a_team_has_its_limits_by_default_and_can_only_have_less(
    service: Service, admin: httpx2.AsyncClient, team: str, engine: ScriptedEngine
):
    limits = [
        {"resource": "requests", "amount": 2, "per": "hour"},
        {"resource": "tokens", "amount": 9000, "per": "day", "model": "team-large"},
    ]
    ok(await admin.put(f"{TEAMS}/{team}", json={"limits": limits}, headers={"if-none-match": "*"}), 201)
    assert ok(await admin.get(f"{TEAMS}/{team}"))["limits"] == limits
    more = ok(await admin.post(KEYS, json={"team": team, "limits": [{"resource": "requests", "amount": 99, "per": "hour"}]}), 201)
    less = ok(await admin.post(KEYS, json={"team": team, "limits": [{"resource": "requests", "amount": 1, "per": "hour"}]}), 201)
    names = {f"team/{team}/requests/hour", f"team/{team}/tokens/day/team-large"}
    for key, requests in ((more, 2), (less, 1)):
        async with as_key(service, key["key"]) as client:
            rules = ok(await client.get("/v1/limits", params={"model": "team-large"}))["data"]
            assert names < {each["rule"] for each in rules} and len(rules) == 3
            assert [await status(client, "team-large") for _ in range(requests + 1)] == [200] * requests + [429]
    for wrong in ({"resource": "requests", "amount": 2}, {"resource": "cost_usd", "amount": 0, "per": "day"}):
        error = ok(await admin.patch(f"{TEAMS}/{team}", json={"limits": [wrong]}, headers={"if-match": "*"}), 400)["error"]
        assert error["param"] == "limits" and "limits[0]" in error["message"], error


async def test_models_fall_back_to_what_the_key_may_use_where_its_team_says_so(
    service: Service, admin: httpx2.AsyncClient, team: str, engine: ScriptedEngine
):
    key = ok(await admin.post(KEYS, json={"team": team, "models": ["team-dead", "team-small"]}), 201)
    alone = ok(await admin.post(KEYS, json={"team": team, "models": ["team-dead"]}), 201)

    async def answered(key: dict[str, Any]) -> int:
        async with as_key(service, key["key"]) as client:
            return await status(client, "team-dead")

    assert [await answered(each) for each in (key, alone)] == [200, 200], "what the platform configured needs no permission"
    ok(await admin.patch(f"{TEAMS}/{team}", json={"fallbacks": "allowed"}, headers={"if-match": "*"}))
    assert await answered(alone) in (502, 503) and await answered(key) == 200


async def test_a_file_holds_what_a_team_is_held_to(service: Service, admin: httpx2.AsyncClient, team: str):
    content = f"""
[teams.{team}]
models = ["team-*"]
networks = ["127.0.0.0/8"]
fallbacks = "allowed"
limits = [{{ resource = "requests", amount = 5, per = "hour" }}]
"""
    service.apply(content)
    shown = ok(await admin.get(f"{TEAMS}/{team}"))
    assert (shown["models"], shown["routes"], shown["networks"], shown["fallbacks"]) == (["team-*"], None, ["127.0.0.0/8"], "allowed")
    exported = service.run("export").stdout
    assert f"[teams.{team}]" in exported and 'fallbacks = "allowed"' in exported
    wrong = service.run("apply", "-", "--yes", stdin=f'[teams.{team}]\nroutes = ["/admin/v1/*"]')
    assert wrong.returncode != 0 and "admin" in wrong.stderr


async def test_a_key_held_to_models_is_held_to_those_in_other_fields(
    service: Service, admin: httpx2.AsyncClient, team: str, engine: ScriptedEngine
):
    key = ok(await admin.post(KEYS, json={"team": team, "models": ["team-small"]}), 201)
    free = ok(await admin.post(KEYS, json={"team": team}), 201)
    fields: list[dict[str, Any]] = [
        {"moderation": {"model": "team-large"}},
        {"x_router": {"deep": [{"fallback_models": ["team-small", "team-large"]}]}},
        {"tools": [{"type": "image_generation", "model": "team-large"}]},
    ]
    async with as_key(service, key["key"]) as client, as_key(service, free["key"]) as unrestricted:
        for field in fields:
            sent = {"model": "team-small", "messages": HI, **field}
            error = ok(await client.post(CHAT, json=sent), 403)["error"]
            assert "team-large" in error["message"] and error["param"].startswith(next(iter(field))), error
            assert (await unrestricted.post(CHAT, json=sent)).status_code != 403
        claude = {"model": "team-small", "max_tokens": 5, "messages": HI, "fallbacks": [{"model": "team-large"}]}
        assert (await client.post("/v1/messages", json=claude)).status_code == 403
        large = {"model": "team-small", "messages": HI, "x_pad": "x" * 400_000, "x_router": {"model": "team-large"}}
        assert (await client.post(CHAT, json=large)).status_code == 403


@contextlib.asynccontextmanager
async def as_editor(service: Service, admin: httpx2.AsyncClient, team: str) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client with the role editor within the team."""
    account = {"name": f"editor-{team}", "roles": [{"role": "editor", "team": team}]}
    ok(await admin.post("/admin/v1/service-accounts", json=account), 201)
    token = ok(await admin.post(f"/admin/v1/service-accounts/{account['name']}/tokens"), 201)["token"]
    async with service.keyless_client() as client:
        client.headers["authorization"] = f"Bearer {token}"
        yield client


async def test_limits_of_a_key_are_for_models_that_it_may_use(service: Service, admin: httpx2.AsyncClient, team: str):
    ok(await admin.post(TEAMS, json={"name": team, "models": ["team-*"]}), 201)

    async def refusal(client: httpx2.AsyncClient, model: str, **restrictions: Any) -> str:
        limits = [{"resource": "requests", "amount": 1, "per": "day"}, {"resource": "requests", "amount": 1, "per": "day", "model": model}]
        error = ok(await client.post(f"{KEYS}?dry_run=true", json={"team": team, "limits": limits, **restrictions}), 400)["error"]
        assert error["param"] == "limits", error
        return error["message"]

    refused = "limits[1].model: This key may not use the model {!r}. This key may use: {}."
    async with as_editor(service, admin, team) as editor:
        for client in (editor, admin):
            for model in ("scripted", "nope"):
                assert await refusal(client, model) == refused.format(model, "team-*"), "what there is does not show"
            assert await refusal(client, "team-large", models=["team-small"]) == refused.format("team-large", "team-small")
    per_model = {"resource": "requests", "amount": 1, "per": "day", "model": "each"}
    ok(await admin.post(f"{KEYS}?dry_run=true", json={"team": team, "limits": [per_model]}))


async def test_a_team_editor_learns_no_names_from_errors_and_warnings_about_limits(service: Service, admin: httpx2.AsyncClient, team: str):
    ok(await admin.post(TEAMS, json={"name": team, "models": ["team-*"]}), 201)
    function = {"name": f"team-function-{team}", "type": "chat", "variants": {"v": {"model": "team-small"}}}
    ok(await admin.post("/admin/v1/functions", json=function), 201)
    others = {each["name"] for each in ok(await admin.get("/admin/v1/models"))["data"] if not each["name"].startswith("team-")}
    try:
        async with as_editor(service, admin, team) as editor:
            ok(await editor.get("/admin/v1/models"), 403)
            for model in ("team-nope", function["name"]):
                limits = [{"resource": "requests", "amount": 1, "per": "day", "model": model}]
                error = ok(await editor.post(f"{KEYS}?dry_run=true", json={"team": team, "limits": limits}), 400)["error"]
                assert error["message"] == f"limits[0].model: there is no model {model!r}. GET /v1/models lists those that a key may use."
            listed = ok(await admin.post(f"{KEYS}?dry_run=true", json={"team": team, "limits": limits}), 400)["error"]
            assert "It is a function" in listed["message"], "whoever writes the configuration may see it"

            async def warnings(**restrictions: Any) -> list[str]:
                body = {"team": team, "budget": {"amount_usd": 5}, "limits": [{"resource": "tokens", "amount": 1, "per": "day"}]}
                return ok(await editor.post(f"{KEYS}?dry_run=true", json={**body, **restrictions}))["warnings"]

            shown = await warnings()
            assert len(shown) == 2
            for warning in shown:
                assert "for team-dead, team-large, team-small" in warning and not any(f" {name}," in warning for name in others), warning
            assert all("for team-small" in each and "team-large" not in each for each in await warnings(models=["team-small"]))
    finally:
        ok(await admin.delete(f"/admin/v1/functions/{function['name']}", headers={"if-match": "*"}))
