"""The team's content policy decides what is kept of comments and demonstrations: in the spool, in tables, in exports and in replies."""

import json
from typing import Any

import pytest

from app.store.teams import keys
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url, paused_processes
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import fetch

POLICIES = ("full", "masked", "redacted", "none")
STAFF = {policy: f"Staff-471{at}" for at, policy in enumerate(POLICIES)}


def comment_of(mail: str, staff: str, policy: str) -> str:
    return f"Ask {mail}, who is {staff}, about the parcel {policy}."


def example_of(mail: str, staff: str, policy: str) -> dict[str, Any]:
    return {"role": "assistant", "content": f"Write to {mail}.", "by": [staff, {"mail": mail, "about": f"parcel {policy}"}]}


@pytest.mark.parametrize("policy", POLICIES)
async def test_words_are_kept_as_the_policy_says_and_numbers_and_tags_as_they_are(service: Service, policy: str):
    team, metric = f"feedback-{policy}", f"rated-{policy}"
    service.apply(f"""
        [teams.{team}]
        content = "{policy}"
        {"[teams." + team + ".mask.patterns]" if policy == "masked" else ""}
        {"staff = 'Staff-[0-9]{4}'" if policy == "masked" else ""}
        [metrics.{metric}]
        kind = "float"
        level = "inference"
    """)
    secrets = (f"jane.{policy}@example.com", STAFF[policy])
    written = comment_of(*secrets, policy), example_of(*secrets, policy)
    masked = comment_of("[masked: email]", "[masked: staff]", policy), example_of("[masked: email]", "[masked: staff]", policy)
    comment, example = {"full": written, "masked": masked}.get(policy, (None, None))
    gone = () if policy == "full" else secrets if policy == "masked" else (*secrets, f"parcel {policy}")
    key = await keys.create_key(database_url(service), team)
    tags = {"app": f"of {policy}"}
    async with service.client(headers={"authorization": f"Bearer {key}"}) as client:
        chat = {"model": "sandbox", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
        id = (await client.post("/v1/chat/completions", json=chat)).json()["id"]
        sent: list[dict[str, Any]] = [
            {"metric": "comment", "value": written[0]},
            {"metric": "demonstration", "value": written[1]},
            {"metric": metric, "value": 0.25},
        ]
        with paused_processes(service.pid("writer")):  # so that what is written stays in the spool for a look
            replies = [await client.post("/v1/feedback", json={**each, "inference_id": id, "tags": tags}) for each in sent]
            assert [each.status_code for each in replies] == [201] * 3
            spooled = b"".join(path.read_bytes() for path in (service.home / "spool").glob("*.feedback"))
        for text in gone:
            assert text.encode() not in spooled, "it is on the disk"
        assert metric.encode() in spooled and tags["app"].encode() in spooled
        if comment is not None:
            assert json.dumps(comment).encode() in spooled

        ids = [each.json()["id"] for each in replies]
        rows: list[Any] = []

        async def are_matched() -> bool:
            query = "SELECT * FROM feedback WHERE feedback_id = any($1) AND matched_at IS NOT NULL ORDER BY id"
            rows[:] = await fetch(database_url(service), query, ids)
            return len(rows) == 3

        await wait_until(are_matched)
        assert [(row["value"] and json.loads(row["value"]), row["content"]) for row in rows] == [
            (comment, policy),
            (example, policy),
            (0.25, "full"),
        ]
        assert [row["number"] for row in rows] == [None, None, 0.25] and {row["tags"] for row in rows} == {json.dumps(tags)}
        shown = (await client.get(f"/v1/inferences/{id}")).json()["feedback"]
        assert [(each["value"], each["content"]) for each in reversed(shown)] == [(comment, policy), (example, policy), (0.25, "full")]
    async with service.admin_client() as admin:
        listed = await admin.get("/admin/v1/feedback", params={"inference_id": id})
        assert [each["value"] for each in reversed(listed.json()["data"])] == [comment, example, 0.25]
        answers = [listed, *[await admin.get(f"/admin/v1/feedback/{each}") for each in ids]]
        for format in ("jsonl", "csv"):
            answers.append(await admin.get("/admin/v1/feedback/export", params={"inference_id": id, "format": format}))
        assert all(each.status_code == 200 for each in answers)
    printed = [service.run("feedback", "list", "--inference", id, *options).stdout for options in ((), ("--json",))]
    everywhere = "".join([*(each.text for each in answers), *printed])
    for text in gone:
        assert text not in everywhere
    view = await fetch(database_url(service), "SELECT v::text FROM narthex_views.feedback AS v WHERE inference_id = $1", id)
    assert len(view) == 3 and not any(text in row[0] for row in view for text in (*secrets, f"parcel {policy}"))
