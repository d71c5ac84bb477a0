"""A refusal of the configuration names the field at fault as bodies have it; and a provider is checked before it is saved."""

import uuid
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


SANDBOX = {"provider": "sandbox", "model": "sandbox"}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("providers", {"adapter": "nonesuch"}, "adapter"),
        ("providers", {"adapter": "openai", "credential": "sk-123"}, "credential"),
        ("providers", {"adapter": "openai", "credential": []}, "credential"),
        ("providers", {"adapter": "openai", "options": {"colour": "red"}}, "options"),
        ("providers", {"adapter": "vllm", "base_url": "ftp://x"}, "base_url"),
        ("providers", {"adapter": "vllm"}, "base_url"),
        ("providers", {"adapter": "openai", "name": " x"}, "name"),
        ("models", {"targets": []}, "targets"),
        ("models", {"targets": [SANDBOX, {"provider": "nonesuch", "model": "m"}]}, "targets[1].provider"),
        ("models", {"targets": [{**SANDBOX, "timeouts": {"total_s": -1}}]}, "targets[0].timeouts.total_s"),
        ("models", {"targets": [SANDBOX], "fallbacks": ["nonesuch"]}, "fallbacks"),
        ("models", {"targets": [SANDBOX], "hedge": {"quantile": 3}}, "hedge.quantile"),
        ("models", {"targets": [SANDBOX], "name": "with.dots", "retries": 99}, "retries"),
        ("prices", {**SANDBOX, "input": -1, "output": 1, "name": None}, "input"),
        ("prices", {**SANDBOX, "input": 1, "output": 1, "since": "tomorrow", "name": None}, "since"),
        ("prices", {"provider": "nonesuch", "model": "m", "input": 1, "output": 1, "name": None}, "provider"),
        ("prices", {**SANDBOX, "name": None}, None),
        ("functions", {"variants": {"a": {"model": "nonesuch"}}}, "variants.a.model"),
        ("limits", {"scope": {"all": "each"}, "resource": "requests", "amount": 5}, "per"),
        ("limits", {"scope": {"colour": "each"}, "resource": "requests", "amount": 5, "per": "day"}, "scope"),
    ],
    ids=str,
)
async def test_the_field_at_fault_is_the_param(admin: httpx2.AsyncClient, path: str, body: dict[str, Any], param: str | None):
    named = {"name": f"refused-{uuid.uuid4().hex[:8]}", **body}
    sent = {name: value for name, value in named.items() if value is not None}
    answer = await admin.post(f"/admin/v1/{path}", params={"dry_run": "true"}, json=sent)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), answer.text


async def test_a_fault_of_another_entry_has_no_param(admin: httpx2.AsyncClient):
    name = f"refused-{uuid.uuid4().hex[:8]}"
    for path, body in (
        ("providers", {"name": name, "adapter": "anthropic", "base_url": "http://127.0.0.1:9"}),
        ("models", {"name": name, "targets": [{"provider": name, "model": "m", "dialect": "anthropic_messages"}]}),
    ):
        assert (await admin.post(f"/admin/v1/{path}", json=body)).status_code == 201
    other = {"adapter": "cohere", "base_url": "http://127.0.0.1:9"}
    answer = await admin.put(f"/admin/v1/providers/{name}", json=other, headers={"if-match": "*"})
    assert answer.status_code == 400 and f"models.{name}" in answer.json()["error"]["message"], answer.text
    assert answer.json()["error"]["param"] is None


async def test_a_provider_is_checked_before_it_is_saved(admin: httpx2.AsyncClient):
    name = f"unsaved-{uuid.uuid4().hex[:8]}"
    sandbox = (await admin.get("/admin/v1/providers/sandbox")).json()["base_url"]
    for address, works in ((sandbox, True), ("http://127.0.0.1:9", False)):
        settings = {"adapter": "sandbox", "base_url": address}
        answer = await admin.post(f"/admin/v1/providers/{name}/test", json={"settings": settings, "model": "sandbox"})
        assert answer.status_code == 200, answer.text
        assert (answer.json()["works"], answer.json()["provider"]) == (works, name), answer.text
    wrong = await admin.post(f"/admin/v1/providers/{name}/test", json={"settings": {"adapter": "openai", "credential": "sk-1"}})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "settings.credential")
    assert "sk-1" not in wrong.text
    assert (await admin.get(f"/admin/v1/providers/{name}")).status_code == 404
    assert (await admin.post(f"/admin/v1/providers/{name}/test")).status_code == 404


async def test_a_check_sends_no_credential_to_a_place_of_an_editors_own(service: Service, admin: httpx2.AsyncClient):
    name = f"unsaved-{uuid.uuid4().hex[:8]}"
    saved = {"adapter": "openai", "base_url": "http://127.0.0.1:9/v1", "credential": "env:NOBODY_SETS_THIS"}
    assert (await admin.post("/admin/v1/providers", json={"name": name, **saved})).status_code == 201
    assert (await admin.post("/admin/v1/service-accounts", json={"name": name, "roles": [{"role": "editor"}]})).status_code == 201
    token = (await admin.post(f"/admin/v1/service-accounts/{name}/tokens", json={"name": "t"})).json()["token"]
    async with service.client(headers={"authorization": f"Bearer {token}"}) as editor:
        path = f"/admin/v1/providers/{name}/test"
        assert (await editor.post(path, json={"settings": saved})).status_code == 200
        elsewhere = await editor.post(path, json={"settings": {**saved, "base_url": "http://127.0.0.1:10/v1"}})
        assert elsewhere.status_code == 403 and "credentials:write" in elsewhere.json()["error"]["message"], elsewhere.text
        without = {**saved, "base_url": "http://127.0.0.1:10/v1", "credential": None}
        assert (await editor.post(path, json={"settings": without})).status_code == 200
