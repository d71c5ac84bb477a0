"""Feedback with the id of other feedback, where nobody can know that when it is accepted: it is kept apart, counted and listed."""

import json

from app.domain import uuid7
from app.gateway.feedback.sent import Sent, SentFeedback
from app.store.postgres.database import create_database_engine
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import fetch
from tests.support.spooled_feedback import TEAM, make_feedback


async def test_feedback_is_accepted_while_postgres_is_away_and_what_this_process_was_sent_is_known():
    database = create_database_engine("postgresql://nobody@127.0.0.1:9/none")
    sent = SentFeedback(database)
    first = make_feedback(uuid7.mint(), True, is_repeatable=True)
    again = make_feedback(first.target_id or "", True, is_repeatable=True, feedback_id=first.feedback_id)
    other = make_feedback(first.target_id or "", False, is_repeatable=True, feedback_id=first.feedback_id)

    async def conflicts(*feedback: object) -> set[str]:
        return set(await sent.remember(TEAM, [(each, Sent.of(each)) for each in (first, again, other) if each in feedback]))

    assert await conflicts(first) == set()
    assert await conflicts(again, other) == {other.id}
    sent.forget(TEAM, [first])
    assert await conflicts(other) == set()
    assert await conflicts(first) == {first.id}
    await database.dispose()


async def test_what_was_accepted_before_the_first_was_stored_is_listed(service: Service):
    target, key = uuid7.mint(), f"conflict {uuid7.mint()}"
    sent = service.run("feedback", "send", "comment", "Good", "--inference", target, "--id", key)
    assert sent.returncode == 0, sent
    id = sent.stdout.strip()

    async def is_stored() -> bool:
        return bool(await fetch(database_url(service), "SELECT FROM feedback WHERE feedback_id = $1", id))

    await wait_until(is_stored)
    # As another process would have accepted it while the first was on its way.
    columns = "feedback_id, received_at, team_id, key_id, metric, kind, level, target_id, content"
    await fetch(
        database_url(service),
        f"INSERT INTO feedback (id, action, is_current, value, {columns})"
        f" SELECT $2, 'conflict', false, '\"Bad\"', {columns} FROM feedback WHERE feedback_id = $1",
        *(id, uuid7.mint()),
    )
    async with service.admin_client() as admin:
        listed = (await admin.get("/admin/v1/feedback", params={"action": "conflict", "inference_id": target})).json()["data"]
        assert [(each["feedback_id"], each["value"], each["current"]) for each in listed] == [(id, "Bad", False)]
        history = (await admin.get(f"/admin/v1/feedback/{id}")).json()["data"]
        assert [each["action"] for each in history] == ["conflict", "create"]
    shown = json.loads(service.run("feedback", "conflicts", "--json").stdout)["feedback"]
    assert [each["value"] for each in shown if each["feedback_id"] == id] == ["Bad"]
