"""A service with a history, as the dashboard's tests want it: weeks of sums, and requests of today with what was said in them."""

import asyncio
import random
from typing import Any

import httpx2

from bench.history import prepare
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import wait_until

# What must be shown as text, whoever wrote it.
HOSTILE = (
    "<script>document.title = 'broken in'</script><img src=x onerror=alert(1)>",
    "Invoice \u202e3.99\u202c of \u200bann\u200b, تم الإرسال",
    "javascript:alert(document.cookie) " + "long" * 200,
)
QUESTIONS = (
    *("Where is my parcel? It was due on Tuesday.", "I would like to return the blue jacket.", "What does error E42 mean?"),
    *("Summarise this contract in five points.", "Translate to German: we ship on Fridays.", "مرحبا، أين طردي؟"),
)

CONFIGURATION = """
[providers.away]
adapter = "vllm"
base_url = "http://127.0.0.1:9"

[models.llama-70b]
targets = [{ provider = "away", model = "llama-70b" }, { provider = "sandbox", model = "sandbox" }]
retries = 0
fallbacks = []

[metrics.solved]
kind = "boolean"
level = "episode"
optimize = "max"

[functions.support]
type = "chat"
description = "Answers questions of the shop's customers"
[functions.support.variants.plain]
model = "sandbox"
system_template = "You answer questions of a shop's customers. Be short."
[functions.support.variants.friendly]
model = "sandbox"
system_template = "You answer questions of a shop's customers. Thank them first, and end with an offer of further help."
[functions.support.experiment]
unit = "episode"
status = "running"
control = "plain"
arms = { plain = 0.5, friendly = 0.5 }
[functions.support.experiment.analysis]
metrics = ["solved", "error", "cost"]
guardrails = { error = 0.02 }
window_minutes = 1

[[prices]]
provider = "sandbox"
model = "sandbox"
input = 2.5
output = 10

[[limits]]
name = "20 a minute"
scope = { key = "each" }
resource = "requests"
amount = 20000
per = "minute"

[[limits]]
name = "three a minute of mobile"
scope = { team = "mobile" }
resource = "requests"
amount = 3
per = "minute"
"""

BUDGETS = (("support in a month", "support", 2), ("search in a month", "search", 40), ("mobile in a month", "mobile", 5))
TEAMS = ("support", "search", "research", "mobile")


async def fill(service: Service, *, rows: int, days: int, conversations: int, content: int = 0) -> None:
    if rows:
        await prepare(database_url(service), rows, days, content)
    service.apply(CONFIGURATION)
    async with service.admin_client() as admin:
        keys = {team: await _create_key(admin, team) for team in TEAMS}
        for name, team, amount in BUDGETS:
            (
                await admin.post("/admin/v1/budgets", json={"name": name, "scope": {"team": team}, "amount": amount, "per": "month"})
            ).raise_for_status()
        await asyncio.sleep(11)  # the lead after which weights are in force
        await _send_conversations(service, keys, conversations)
        await _send_others(service, keys)

        async def is_recorded() -> bool:
            page = (await admin.get("/admin/v1/inferences", params={"team": "mobile", "limit": 5})).json()
            return len(page["data"]) >= 3  # as many as its limit lets pass

        await wait_until(is_recorded, 60)
        await _make_dataset(admin)
        await _replay(admin)


async def _make_dataset(admin: httpx2.AsyncClient) -> None:
    """A dataset of what one model answered, with a version that is complete. Conversations are cut off, so they are no rows."""
    body = {"name": "helpful", "description": "What the sandbox answered", "selection": {"model": "sandbox", "validation": 0.2}}

    async def is_made() -> bool:
        # What was sent a moment ago may not be stored yet, and a selection without a row is refused.
        return (await admin.post("/admin/v1/datasets", json=body)).status_code in (201, 409)

    async def is_complete() -> bool:
        return (await admin.get("/admin/v1/datasets/helpful/versions")).json()["data"][0]["status"] == "complete"

    await wait_until(is_made, 60)
    await wait_until(is_complete, 120)


async def _replay(admin: httpx2.AsyncClient) -> None:
    """Some requests for a model, answered again by a slower one."""
    key = (await admin.get("/admin/v1/keys", params={"team": "research", "limit": 1})).json()["data"][0]["prefix"]
    order = {"model": "sandbox-slow", "key": key, "filter": {"model": "sandbox"}, "max_items": 12}
    started = await admin.post("/admin/v1/replays", json=order)
    started.raise_for_status()

    async def is_complete() -> bool:
        return (await admin.get(f"/admin/v1/replays/{started.json()['id']}")).json()["status"] == "complete"

    await wait_until(is_complete, 180)


async def _create_key(admin: httpx2.AsyncClient, team: str) -> str:
    created = await admin.post("/admin/v1/keys", json={"team": team, "name": f"{team}'s web shop"})
    created.raise_for_status()
    return created.json()["key"]


async def _send_conversations(service: Service, keys: dict[str, str], number: int, model: str = "support") -> None:
    chance = random.Random(7)
    async with service.client(headers={"authorization": f"Bearer {keys['support']}"}) as client:

        async def converse(at: int) -> None:
            messages: list[dict[str, Any]] = []
            inference: httpx2.Response | None = None
            for turn in range(chance.randrange(1, 5)):
                messages.append({"role": "user", "content": QUESTIONS[(at + turn) % len(QUESTIONS)]})
                headers = {"x-narthex-episode-id": f"{model}-{4100 + at}"}
                body = {"model": model, "messages": messages, "user": f"ann-{3000 + at % 40}", "max_tokens": 40}
                inference = await client.post("/v1/chat/completions", json=body, headers=headers)
                if inference.status_code != 200:
                    return
                messages.append({"role": "assistant", "content": inference.json()["choices"][0]["message"]["content"]})
            assert inference is not None
            said = {"metric_name": "solved", "value": chance.random() < 0.66, "episode_id": inference.headers["x-narthex-episode-id"]}
            (await client.post("/feedback", json=said)).raise_for_status()

        for start in range(0, number, 10):
            await asyncio.gather(*(converse(at) for at in range(start, min(start + 10, number))))


async def _send_others(service: Service, keys: dict[str, str]) -> None:
    """Hostile texts, tools, streams, fallbacks, failures and refusals."""

    async def send(team: str, model: str, content: str, **more: Any) -> None:
        async with service.client(headers={"authorization": f"Bearer {keys[team]}"}) as client:
            await client.post("/v1/chat/completions", json={"model": model, "messages": [{"role": "user", "content": content}], **more})

    for text in HOSTILE:
        await send("search", "sandbox", text, user=text[:60])
    for question in QUESTIONS[:3]:
        await send("research", "llama-70b", question, stream=True)
        await send("research", "sandbox-slow", question, max_tokens=30)
        await send("research", "sandbox-dies", question)
        await send("search", "sandbox", question, stream=True, tools=[_TOOL], tool_choice="required")
    for question in QUESTIONS:
        await send("mobile", "sandbox", question)


_TOOL = {
    "type": "function",
    "function": {
        "name": "find_parcel",
        "description": "Finds a parcel",
        "parameters": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
    },
}
