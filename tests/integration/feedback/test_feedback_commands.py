"""narthex metrics and narthex feedback, and the admin API of feedback, on what a running service stores."""

import json

from app.domain import uuid7
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until

METRIC = "commands-helpful"


async def test_feedback_is_sent_listed_exported_and_summed_up(service: Service):
    service.apply(f'[metrics.{METRIC}]\nkind = "boolean"\nlevel = "inference"\noptimize = "max"\n')
    target = uuid7.mint()
    sent = [service.run("feedback", "send", METRIC, value, "--inference", target) for value in ("false", "true")]
    assert [each.returncode for each in sent] == [0, 0], sent
    first, newest = (each.stdout.strip() for each in sent)
    refused = service.run("feedback", "send", METRIC, "maybe", "--inference", target)
    assert refused.returncode == 1 and "true or false" in refused.stderr
    async with service.admin_client() as admin:

        async def is_stored() -> bool:
            return (await admin.get(f"/admin/v1/feedback/{newest}")).status_code == 200

        await wait_until(is_stored)
        page = (await admin.get("/admin/v1/feedback", params={"metric": METRIC, "limit": 1})).json()
        assert [each["feedback_id"] for each in page["data"]] == [newest] and page["next"]
        rest = (await admin.get("/admin/v1/feedback", params={"metric": METRIC, "limit": 1, "after": page["next"]})).json()
        assert [(each["feedback_id"], each["current"]) for each in rest["data"]] == [(first, False)] and rest["next"] is None
        exported = (await admin.get("/admin/v1/feedback/export", params={"inference_id": target, "format": "csv"})).text
        assert len(exported.splitlines()) == 3 and exported.startswith("id,feedback_id,action")
    listed = json.loads(service.run("feedback", "list", "--metric", METRIC, "--json").stdout)["feedback"]
    assert [(each["feedback_id"], each["value"]) for each in listed] == [(newest, True)]
    assert newest in service.run("feedback", "unmatched").stdout and first in service.run("feedback", "list", "--history").stdout
    assert METRIC in service.run("metrics", "list").stdout
    shown = json.loads(service.run("metrics", "show", METRIC, "--json").stdout)
    assert [(each["model"], each["count"], each["mean"]) for each in shown["feedback"]] == [(None, 1, 1.0)]
    async with service.admin_client() as admin:
        sums = (await admin.get("/admin/v1/feedback/sums", params={"metric": METRIC, "days": 2})).json()
        assert sums == {"metric": METRIC, "days": 2, "data": shown["feedback"]}
        assert (await admin.get("/admin/v1/feedback/sums")).status_code == 400
    assert "more of it is better" in service.run("metrics", "show", METRIC).stdout
    assert service.run("metrics", "show", "commands-none").returncode == 1
