"""Webhooks of budgets: signed notices, one for each threshold that a subject reaches in a period, sent until they are taken."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from typing import Any

import httpx2
import pytest

from tests.integration.limits.test_budgets import COST_USD, Team, admin, budgeted, make_team, ok
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

__all__ = ["admin", "budgeted"]

SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes, yes").decode()


class Receiver:
    """A receiver of webhooks: `statuses` are its next responses, then it takes everything."""

    def __init__(self, server: ScriptedEngine) -> None:
        self.server = server
        self.statuses: list[int] = []
        server.script = self._respond

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/hook"

    async def _respond(self, request: ReceivedRequest) -> None:
        status = self.statuses.pop(0) if self.statuses else 204
        extra = f"location: {self.url}/moved\r\n" if status == 307 else ""
        await request.respond(status, b"", extra)

    def received(self, type: str, budget: str | None = None) -> list[ReceivedRequest]:
        return [each for each in self.server.requests if each.body["type"] == type and each.body["data"].get("budget") == budget]

    def percents(self, budget: str) -> list[int]:
        return [each.body["data"]["threshold_percent"] for each in self.received("budget.threshold_reached", budget)]


@pytest.fixture
async def receiver() -> AsyncGenerator[Receiver]:
    server = ScriptedEngine()
    await server.start()
    yield Receiver(server)
    await server.stop()


@pytest.fixture
async def make_webhook(admin: httpx2.AsyncClient) -> AsyncGenerator[Callable[..., Any]]:
    names: list[str] = []

    async def make(url: str, **settings: Any) -> Any:
        names.append(f"hook-{uuid.uuid4().hex[:10]}")
        return await ok(await admin.post("/admin/v1/webhooks", json={"name": names[-1], "url": url, **settings}), 201)

    yield make
    for name in names:
        await admin.delete(f"/admin/v1/webhooks/{name}", headers={"if-match": "*"})


def check_signature(request: ReceivedRequest, secret: str) -> None:
    """Checks the signature as a receiver does: https://www.standardwebhooks.com."""
    id, timestamp = request.headers["webhook-id"], request.headers["webhook-timestamp"]
    assert abs(time.time() - int(timestamp)) < 300
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, f"{id}.{timestamp}.".encode() + request.raw, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{expected}"


async def set_budget(admin: httpx2.AsyncClient, team: Team, requests: int, **settings: Any) -> None:
    """Sets the budget of a team to the cost of so many requests."""
    body = {"name": team.name, "scope": {"team": team.name}, "amount": requests * COST_USD, "per": "month", **settings}
    await ok(await admin.post("/admin/v1/budgets", json=body), 201)


async def deliveries(admin: httpx2.AsyncClient, name: str) -> list[Any]:
    return (await ok(await admin.get(f"/admin/v1/webhooks/{name}/deliveries")))["data"]


async def test_each_threshold_is_notified_once_with_a_valid_signature(
    service: Service, admin: httpx2.AsyncClient, budgeted: ScriptedEngine, receiver: Receiver, make_webhook: Callable[..., Any]
):
    team = await make_team(admin)
    await set_budget(admin, team, 10, dry_run=True)
    hook = await make_webhook(receiver.url, budgets=[team.name], secret=SECRET)
    assert hook["secret"] is None and hook["thresholds"] == [50, 80, 100]
    async with service.keyless_client() as client:
        for _ in range(6):
            assert (await team.chat(client)).status_code == 200
        await wait_until(lambda: receiver.percents(team.name) == [50], 60)
        [notice] = receiver.received("budget.threshold_reached", team.name)
        check_signature(notice, SECRET)
        data = notice.body["data"]
        assert data["subject"] == {"team": team.name} and data["amount_microusd"] == 30_000 and data["amount_usd"] == 0.03
        assert data["spent_microusd"] >= 15_000 and data["period"]["per"] == "month" and data["enforced"] is False
        assert set(data) == {
            *("budget", "subject", "threshold_percent", "percent", "amount_microusd", "amount_usd"),
            *("spent_microusd", "spent_usd", "period", "enforced"),
        }
        for _ in range(5):
            assert (await team.chat(client)).status_code == 200
        await wait_until(lambda: sorted(receiver.percents(team.name)) == [50, 80, 100], 60)

    # A raised amount has thresholds of its own; the old one's are not notified again when it is back.
    raised = {"limit": team.name, "amount": 20 * COST_USD, "ends_at": "2099-01-01T00:00:00Z", "reason": "a test"}
    assert (await admin.post("/admin/v1/limit-overrides", json=raised)).status_code == 400  # too far away
    body = {**raised, "ends_at": "2027-01-01T00:00:00Z"}
    override = await ok(await admin.post("/admin/v1/limit-overrides", json=body), 201)
    await wait_until(lambda: sorted(receiver.percents(team.name)) == [50, 50, 80, 100], 60)
    await ok(await admin.delete(f"/admin/v1/limit-overrides/{override['id']}"))
    await asyncio.sleep(3)  # three checks
    assert sorted(receiver.percents(team.name)) == [50, 50, 80, 100]

    sent = await deliveries(admin, hook["name"])
    assert [each["status"] for each in sent] == ["delivered"] * 4 and {each["response_status"] for each in sent} == {204}
    await ok(await admin.delete(f"/admin/v1/webhooks/{hook['name']}", headers={"if-match": "*"}))
    await ok(await admin.delete(f"/admin/v1/budgets/{team.name}", headers={"if-match": "*"}))


async def test_a_test_event_is_sent_again_under_the_same_id_until_it_is_taken(
    service: Service, admin: httpx2.AsyncClient, receiver: Receiver, make_webhook: Callable[..., Any]
):
    hook = await make_webhook(receiver.url)
    receiver.statuses = [500]
    started = await ok(await admin.post(f"/admin/v1/webhooks/{hook['name']}/test"), 202)
    assert (started["status"], started["type"]) == ("pending", "webhook.test")

    async def delivery() -> Any:
        return (await deliveries(admin, hook["name"]))[0]

    async def has_failed_once() -> bool:
        return (await delivery())["attempted_at"] is not None

    await wait_until(has_failed_once, 30)
    failed = await delivery()
    assert (failed["response_status"], failed["attempts"], failed["error"]) == (500, 1, "the response has status 500") or failed[
        "attempts"
    ] > 1

    async def is_delivered() -> bool:
        return (await delivery())["status"] == "delivered"

    await wait_until(is_delivered, 60)
    first, second = receiver.received("webhook.test")
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == started["event_id"] and first.raw == second.raw
    for each in (first, second):
        check_signature(each, hook["secret"])

    receiver.statuses = [307]  # a redirect is not followed
    again = service.run("webhooks", "redeliver", hook["name"], started["id"], "--json")
    assert again.returncode == 0 and json.loads(again.stdout)["status"] == "pending", again.stderr
    await wait_until(lambda: len(receiver.received("webhook.test")) >= 3, 60)
    assert {each.path for each in receiver.server.requests} == {"/hook"}


async def test_commands_make_change_and_remove_a_webhook(service: Service, receiver: Receiver):
    name = f"hook-{uuid.uuid4().hex[:10]}"
    made = service.run("webhooks", "create", name, receiver.url, "--threshold", "90", "--budget", "b", "--json")
    assert made.returncode == 0, made.stderr
    hook = json.loads(made.stdout)
    assert (hook["thresholds"], hook["budgets"]) == ([90], ["b"]) and hook["secret"].startswith("whsec_")
    assert service.run("webhooks", "create", name, receiver.url).returncode == 1
    assert json.loads(service.run("webhooks", "test", name, "--json").stdout)["type"] == "webhook.test"
    await wait_until(lambda: bool(receiver.received("webhook.test")), 60)
    check_signature(receiver.received("webhook.test")[0], hook["secret"])
    changed = service.run("webhooks", "set", name, "--disable", "--all-budgets", "--secret-stdin", "--json", stdin=SECRET)
    assert changed.returncode == 0 and json.loads(changed.stdout)["budgets"] is None, changed.stderr
    assert service.run("webhooks", "test", name).returncode == 1
    for shown in (service.run("webhooks", "list"), service.run("webhooks", "deliveries", name), service.run("webhooks", "list", "--json")):
        assert shown.returncode == 0 and name in shown.stdout + shown.args[-1] and "whsec_" not in shown.stdout
    assert service.run("webhooks", "remove", name, "--yes").returncode == 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"url": "ftp://hooks.test/"}, "url"),
        ({"url": "https://user:secret@hooks.test/"}, "url"),
        ({"url": "https://"}, "url"),
        ({"url": "https://hooks.test:99999/"}, "url"),
        ({"secret": "whsec_c2hvcnQ="}, "secret"),
        ({"secret": "not one"}, "secret"),
        ({"thresholds": []}, "thresholds"),
        ({"thresholds": [0]}, "thresholds"),
        ({"budgets": []}, "budgets"),
        ({"name": ""}, "name"),
    ],
)
async def test_an_invalid_webhook_is_refused_with_its_field(admin: httpx2.AsyncClient, fields: dict[str, Any], param: str):
    refused = await admin.post("/admin/v1/webhooks", json={"name": "invalid", "url": "https://hooks.test/", **fields})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param), refused.text
    assert "secret@" not in refused.text


async def test_a_secret_is_nowhere_to_be_read(
    service: Service, admin: httpx2.AsyncClient, receiver: Receiver, make_webhook: Callable[..., Any]
):
    hook = await make_webhook(receiver.url)
    secret, path = hook["secret"], f"/admin/v1/webhooks/{hook['name']}"
    patched = await admin.patch(path, json={"secret": SECRET}, headers={"if-match": "*"})
    await ok(await admin.post(f"{path}/test"), 202)
    await wait_until(lambda: bool(receiver.received("webhook.test")), 60)
    pages = [patched, *[await admin.get(each) for each in (path, "/admin/v1/webhooks", f"{path}/deliveries", "/admin/v1/audit?limit=50")]]
    logs = "".join(each.read_text(errors="replace") for each in (service.home / "logs").glob("*.log"))
    for text in (*(page.text for page in pages), logs, receiver.received("webhook.test")[0].raw.decode()):
        for each in (secret, SECRET):
            assert each not in text and each.removeprefix("whsec_") not in text
