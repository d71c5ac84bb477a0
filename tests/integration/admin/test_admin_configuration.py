"""The configuration over the admin API: providers, models with targets, limits and prices, one by one."""

import json
import uuid
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


@pytest.fixture
async def provider(admin: httpx2.AsyncClient) -> str:
    """An engine of the test's own, which nobody asks anything."""
    name = unique("provider")
    await ok(await admin.post("/admin/v1/providers", json={"name": name, "adapter": "openai", "base_url": "http://127.0.0.1:9"}), 201)
    return name


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


async def ok(response: httpx2.Response, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json()


def match(response: httpx2.Response) -> Mapping[str, str]:
    assert response.is_success, response.text
    return {"if-match": response.headers["etag"]}


async def test_a_provider_and_a_model_are_created_changed_and_deleted(admin: httpx2.AsyncClient, service: Service) -> None:
    provider, model = unique("provider"), unique("model/with slash")
    body = {"adapter": "vllm", "base_url": "http://127.0.0.1:9", "options": {"stream": "only", "version": "0.32.0"}}
    await ok(await admin.put(f"/admin/v1/providers/{provider}", json=body), 201)
    path = f"/admin/v1/models/{model.replace('/', '%2F')}"
    target = {"provider": provider, "model": "m"}
    created = await admin.post("/admin/v1/models", json={"name": model, "targets": [target], "timeouts": {"total_s": 60, "connect_s": 2}})
    assert (await ok(created, 201))["targets"][0]["weight"] is None
    assert (await ok(await admin.post("/admin/v1/models", json={"name": model, "targets": [target]}), 409))["error"]["type"] == "conflict"

    patched = await admin.patch(path, json={"timeouts": {"total_s": None}, "output_tokens": 50}, headers=match(created))
    changed = await ok(patched)
    assert changed["created_at"] == created.json()["created_at"] < changed["updated_at"]
    assert (changed["timeouts"]["total_s"], changed["timeouts"]["connect_s"], changed["output_tokens"]) == (None, 2, 50)
    assert model in (await ok(await admin.get("/admin/v1/models", params={"provider": provider})))["data"][0]["name"]
    await ok(await admin.patch(path, json={"output_tokens": 51}, headers=match(created)), 412)
    assert patched.headers["etag"] in (await ok(await admin.put(path, json={"targets": [target]}), 428))["error"]["message"]

    shown = await admin.get(f"/admin/v1/providers/{provider}")
    options = await admin.patch(f"/admin/v1/providers/{provider}", json={"options": {"version": None}}, headers=match(shown))
    assert (await ok(options))["options"] == {"stream": "only"}
    referred = await ok(await admin.delete(f"/admin/v1/providers/{provider}", headers=match(options)), 409)
    assert f"models.{model}" in referred["error"]["message"]
    assert await ok(await admin.delete(path, headers=match(patched))) == {"name": model, "deleted": True}
    await ok(await admin.delete(f"/admin/v1/providers/{provider}", headers=match(options)))
    await ok(await admin.get(path), 404)


async def test_targets_are_added_replaced_and_removed_one_by_one(admin: httpx2.AsyncClient, provider: str) -> None:
    model = unique("model")
    one, two, three = ({"provider": provider, "model": each} for each in ("one", "two", "three"))
    created = await admin.put(f"/admin/v1/models/{model}", json={"targets": [one]})
    path = f"/admin/v1/models/{model}/targets"
    added = await admin.post(path, json=two, headers=match(created))
    assert [each["model"] for each in (await ok(added, 201))["data"]] == ["one", "two"]
    await ok(await admin.post(path, json=three, headers=match(created)), 412)
    replaced = await admin.put(f"{path}/0", json=three, headers=match(added))
    removed = await admin.delete(f"{path}/1", headers=match(replaced))
    assert [(each["number"], each["model"]) for each in (await ok(removed))["data"]] == [(0, "three")]
    await ok(await admin.delete(f"{path}/1", headers=match(removed)), 404)
    assert "nothing would serve it" in (await ok(await admin.delete(f"{path}/0", headers=match(removed)), 400))["error"]["message"]


async def test_limits_keep_their_order_and_are_found_by_filters(admin: httpx2.AsyncClient) -> None:
    mark = unique("limit")
    for number, team in enumerate(("each", "a", "b")):
        body = {"scope": {"team": team}, "resource": "cost_usd", "amount": number + 1, "per": "month"}
        await ok(await admin.post("/admin/v1/limits", json={"name": f"{mark} {9 - number}", **body, "dry_run": True}), 201)
    listed = await ok(await admin.get("/admin/v1/limits", params={"search": mark, "resource": "cost_usd"}))
    assert [each["amount"] for each in listed["data"]] == [1, 2, 3]
    only = await ok(await admin.get("/admin/v1/limits", params={"search": mark, "team": "b"}))
    assert [each["scope"] for each in only["data"]] == [{"team": "b"}]
    shown = await admin.get(f"/admin/v1/limits/{mark} 9")
    changed = await admin.patch(f"/admin/v1/limits/{mark} 9", json={"amount": 5}, headers=match(shown))
    assert (await ok(changed))["amount"] == 5
    listed = await ok(await admin.get("/admin/v1/limits", params={"search": mark}))
    assert [each["amount"] for each in listed["data"]] == [5, 2, 3]
    wrong = await ok(await admin.patch(f"/admin/v1/limits/{mark} 9", json={"scope": {"model": "no-such"}}, headers={"if-match": "*"}), 400)
    assert f'limits["{mark} 9"].scope.model' in wrong["error"]["message"]
    for name in ("9", "8", "7"):
        await ok(await admin.delete(f"/admin/v1/limits/{mark} {name}", headers={"if-match": "*"}))


async def test_budgets_are_the_limits_of_what_is_spent(admin: httpx2.AsyncClient) -> None:
    name, other, team = unique("budget"), unique("requests"), unique("team")
    created = await admin.post("/admin/v1/budgets", json={"name": name, "scope": {"team": team}, "amount": 5, "dry_run": True})
    assert (await ok(created, 201))["per"] == "month"
    limit = await admin.put(f"/admin/v1/limits/{other}", json={"scope": {"team": team}, "resource": "requests", "amount": 1, "per": "hour"})
    await ok(limit, 201)
    shown = await admin.get(f"/admin/v1/limits/{name}")
    assert (await ok(shown))["resource"] == "cost_usd" and match(shown) == match(created)
    assert [each["name"] for each in (await ok(await admin.get("/admin/v1/budgets", params={"team": team})))["data"]] == [name]
    await ok(await admin.get(f"/admin/v1/budgets/{other}"), 404)
    taken = await ok(await admin.put(f"/admin/v1/budgets/{other}", json={"scope": {"team": team}, "amount": 5}, headers=match(limit)), 409)
    assert f"/admin/v1/limits/{other}" in taken["error"]["message"]
    patched = await admin.patch(f"/admin/v1/budgets/{name}", json={"per": "day"}, headers=match(created))
    assert (await ok(patched))["per"] == "day"
    await ok(await admin.delete(f"/admin/v1/budgets/{name}", headers=match(patched)))
    await ok(await admin.delete(f"/admin/v1/limits/{other}", headers=match(limit)))


async def test_prices_are_paged_and_keep_their_provider(admin: httpx2.AsyncClient, provider: str) -> None:
    for since in ("always", "2026-11-01", "2026-12-01"):
        await ok(await admin.put(f"/admin/v1/prices/{provider}/org%2Fm/{since}", json={"input": 1, "output": 2}), 201)
    seen, after = list[str | None](), dict[str, str]()
    while True:
        page = await ok(await admin.get("/admin/v1/prices", params={"provider": provider, "limit": 1, "sort": "-model", **after}))
        seen += [price["since"] for price in page["data"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seen == ["2026-12-01", "2026-11-01", None]
    path = f"/admin/v1/prices/{provider}/org%2Fm/always"
    patched = await ok(await admin.patch(path, json={"tiers": {"batch": 0.5}}, headers={"if-match": "*"}))
    assert (patched["tiers"], patched["input"], patched["since"]) == ({"batch": 0.5}, 1, None)
    referred = await ok(await admin.delete(f"/admin/v1/providers/{provider}", headers={"if-match": "*"}), 409)
    assert f'prices["{provider}", "org/m"]' in referred["error"]["message"]
    wrong = await ok(await admin.put(f"/admin/v1/prices/{provider}/m/someday", json={"input": 1, "output": 2}), 400)
    assert "must be a day such as" in wrong["error"]["message"]
    await ok(await admin.delete(path, headers={"if-match": "*"}))


async def test_a_dry_run_shows_the_difference_and_warnings_and_changes_nothing(admin: httpx2.AsyncClient, provider: str) -> None:
    name, body = unique("limit"), {"scope": {"team": unique("nobody")}, "resource": "requests", "amount": 5, "per": "minute"}
    shown = await ok(await admin.put(f"/admin/v1/limits/{name}?dry_run=true", json=body))
    assert [(each["action"], each["resource"], each["name"], each["after"]["amount"]) for each in shown["changes"]] == [
        ("create", "limit", name, 5)
    ]
    assert len(shown["warnings"]) == 1 and name in shown["warnings"][0]
    await ok(await admin.get(f"/admin/v1/limits/{name}"), 404)


async def test_a_change_answers_with_the_warnings_that_it_adds(admin: httpx2.AsyncClient, provider: str) -> None:
    budget, model, missing = unique("budget"), unique("model"), unique("team")
    body = {"name": budget, "scope": {"team": missing}, "amount": 5}
    made = await ok(await admin.post("/admin/v1/budgets", json=body, headers={"idempotency-key": budget}), 201)
    assert f"there is no team '{missing}' yet" in made["warnings"][0]
    repeated = await admin.post("/admin/v1/budgets", json=body, headers={"idempotency-key": budget})
    assert (repeated.headers["idempotent-replayed"], repeated.json()) == ("true", made)
    path = f"/admin/v1/budgets/{budget}"
    # What was there before the change is not of the change, and a resource has no warnings.
    patched = await ok(await admin.patch(path, json={"amount": 6}, headers={"if-match": "*"}))
    assert "warnings" not in patched and "warnings" not in await ok(await admin.get(path))

    await ok(await admin.put(f"/admin/v1/prices/{provider}/m/always", json={"input": 1, "output": 1}), 201)
    await ok(await admin.put(f"/admin/v1/models/{model}", json={"targets": [{"provider": provider, "model": "m"}]}), 201)
    await ok(await admin.patch(path, json={"scope": {"team": None, "model": model}}, headers={"if-match": "*"}))

    def is_unpriced(answer: dict[str, Any]) -> bool:  # limits of other tests may have warnings, too
        return any(f'limits["{budget}"]: requests for {model} will be refused' in each for each in answer["warnings"])

    added = await admin.post(f"/admin/v1/models/{model}/targets", json={"provider": provider, "model": "x"}, headers={"if-match": "*"})
    assert is_unpriced(await ok(added, 201))
    removed = await ok(await admin.delete(f"/admin/v1/models/{model}/targets/1", headers={"if-match": "*"}))
    assert "warnings" not in removed
    deleted = await ok(await admin.delete(f"/admin/v1/prices/{provider}/m/always", headers={"if-match": "*"}))
    assert is_unpriced(deleted)
    for each in (path, f"/admin/v1/models/{model}"):
        await ok(await admin.delete(each, headers={"if-match": "*"}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adapter": "nonesuch"}, "adapter"),
        ({"adapter": None}, "adapter"),
        ({"base_url": "ftp://x"}, "base_url"),
        ({"credential": "sk-secret-0123456789abcdef"}, "credential must be env:NAME"),
        ({"options": {"colour": "red"}}, "colour"),
        ({"nonesuch": 1}, "nonesuch"),
        ({"accepts_nodes": "yes"}, "accepts_nodes"),
        ({"options": {"version": json.loads("[" * 400 + "]" * 400)}}, "version"),
    ],
)
async def test_what_is_wrong_of_a_provider_is_named(admin: httpx2.AsyncClient, provider: str, change: dict[str, Any], message: str) -> None:
    refused = await ok(await admin.patch(f"/admin/v1/providers/{provider}", json=change, headers={"if-match": "*"}), 400)
    assert message in refused["error"]["message"] and "sk-secret" not in refused["error"]["message"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": []}, "targets is empty"),
        ({"targets": None}, "targets"),
        ({"targets": [{"provider": "nonesuch", "model": "m"}]}, "targets[0].provider: there is no provider 'nonesuch'. There are: "),
        ({"fallback_on": {"sandbox": ["bad luck"]}}, "may be failure, unsupported, context_length, content_refused, constraint"),
        ({"capabilities": ["telepathy"]}, "`capabilities[0]` may be chat, tools, "),
        ({"timeouts": {"total_s": -1}}, "timeouts.total_s must be more than 0"),
        ({"hedge": {"quantile": 3}}, "hedge.quantile must be at least 0.5"),
        ({"context_length": 0}, "context_length must be"),
    ],
)
async def test_what_is_wrong_of_a_model_is_named_with_what_would_be_right(
    admin: httpx2.AsyncClient, change: dict[str, Any], message: str
) -> None:
    refused = await ok(await admin.patch("/admin/v1/models/sandbox", json=change, headers={"if-match": "*"}), 400)
    assert message in refused["error"]["message"]


async def test_a_repeated_request_is_served_once(admin: httpx2.AsyncClient, provider: str) -> None:
    body, headers = {"name": unique("model"), "targets": [{"provider": provider, "model": "m"}]}, {"idempotency-key": unique("key")}
    first = await admin.post("/admin/v1/models", json=body, headers=headers)
    again = await admin.post("/admin/v1/models", json=body, headers=headers)
    assert await ok(first, 201) == await ok(again, 201) and again.headers["idempotent-replayed"] == "true"
