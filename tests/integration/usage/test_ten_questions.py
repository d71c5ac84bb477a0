"""docs/analytics.md: each of the ten questions is answered by the command and by the request that the page prints."""

import datetime
import json
import re
import shlex
from pathlib import Path

import pytest

from app.domain import uuid7
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

PAGE = (Path(__file__).parents[3] / "docs/analytics.md").read_text().partition("## Ten questions")[2]
COMMANDS = dict(re.findall(r"^\| ([^|]+\?) \| `narthex ([^`]+)` \|$", PAGE, re.MULTILINE))
REQUESTS = dict(re.findall(r"^\| ([^|]+\?) \| `(/[^`]+)` \|$", PAGE, re.MULTILINE))
EPISODE = "019aa3f4-7492-7b70-8347-9564aeb44a24"  # as the page prints it
# What the answer must name.
FACTS = {
    "What did each team cost last month?": ["search", '"cost_microusd"'],
    "Which model was slowest yesterday?": ["gpt-5-mini", '"p95'],
    "Who was refused, and why?": ["search", "UnknownModel"],
    "What did this user send?": ['"ann"', "gpt-5-mini"],
    "What fails, where and why?": ["gpt-5-mini", "UpstreamFailed"],
    "How did the errors of a team develop?": ['"500"', '"requests"'],
    "Who uses a model most?": ["search", "nx-"],
    "Which end users cost most?": ['"ann"', '"cost_microusd"'],
    "What does a tenant use each day?": ['"requests"', "+0"],
    "What happened in this conversation?": ["gpt-5-mini", "UpstreamFailed", "asked"],
}


@pytest.fixture(scope="module")
async def episode(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> str:
    """An episode of team `search`: an answer, a failure and, before it, a refusal; each is recorded."""
    engine, episode = engines[0], uuid7.mint()
    service.apply(f"""
        [providers]
        asked = {{ adapter = "openai", base_url = "http://127.0.0.1:{engine.port}" }}
        [models]
        gpt-5-mini = {{ targets = [{{ provider = "asked", model = "m" }}] }}
        [[prices]]
        provider = "asked"
        model = "m"
        input = 1000
        output = 1000
    """)
    key = service.run("keys", "create", "--team", "search", "--quiet").stdout.strip()
    body = {"messages": [{"role": "user", "content": "Hello!"}], "user": "ann", "metadata": {"tenant": "acme"}}

    async def fail(request: ReceivedRequest) -> None:
        await request.respond(500, b"{}")

    ids: list[str] = []
    async with service.client(headers={"authorization": f"Bearer {key}", "x-narthex-episode-id": episode}) as caller:
        refused = await caller.post("/v1/chat/completions", json={**body, "model": "none"})
        assert refused.status_code == 404
        for script in (ReceivedRequest.respond_completion, fail):
            engine.script = script
            answer = await caller.post("/v1/chat/completions", json={**body, "model": "gpt-5-mini"})
            ids.append(answer.headers["x-narthex-inference-id"])
    engine.script = ReceivedRequest.respond_completion
    for id in ids:
        await service.wait_for_record(id)

    async def refusal_is_recorded() -> bool:
        async with service.admin_client() as admin:
            return bool((await admin.get("/admin/v1/refusals", params={"team": "search"})).json()["data"])

    await wait_until(refusal_is_recorded)
    return episode


def today(text: str, episode: str) -> str:
    """Returns what the page prints, with dates moved so that `last month` is this one, and `yesterday` is today."""
    now = datetime.datetime.now(datetime.UTC).date()
    month = now.replace(day=1)
    dates = {
        "2026-10-01": month,
        "2026-11-01": (month + datetime.timedelta(days=31)).replace(day=1),
        "2026-11-27": now - datetime.timedelta(days=1),
        "2026-11-28": now + datetime.timedelta(days=1),
    }
    return re.sub(r"2026-\d\d-\d\d", lambda found: dates[found[0]].isoformat(), text).replace(EPISODE, episode)


def test_page_answers_ten_questions_both_ways():
    assert COMMANDS.keys() == REQUESTS.keys() == FACTS.keys() and len(FACTS) == 10


@pytest.mark.parametrize("question", FACTS)
async def test_command_and_request_answer_the_question(service: Service, episode: str, question: str):
    has_groups = COMMANDS[question].startswith("analytics") and not {"--limit", "--interval"} & set(COMMANDS[question].split())
    # Other tests of this service make more groups than an answer has where no limit is given.
    all_groups = ("--limit", "1000") if has_groups else ()
    done = service.run(*shlex.split(today(COMMANDS[question], episode)), *all_groups, "--json")
    assert done.returncode == 0, done.stderr
    by_command = json.dumps(json.loads(done.stdout), separators=(",", ":"))
    async with service.admin_client() as admin:
        answer = await admin.get("/admin/v1" + today(REQUESTS[question], episode) + ("&limit=1000" if has_groups else ""))
    assert answer.status_code == 200, answer.text
    for fact in FACTS[question]:
        assert fact in by_command and fact in answer.text, (fact, by_command, answer.text)
