"""Deliveries of webhooks: /admin/v1/webhooks/{name}/deliveries, sending one again, and a test event (/admin/v1/webhooks/{name}/test)."""

from typing import Any, Literal

from msgspec import Struct

from app.api.admin.configuration.webhooks import find_webhook
from app.api.rest.command import Column, Command
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.store.postgres.paging import After, Limit, Page
from app.store.webhooks import webhook_events as events
from app.store.webhooks.webhook_events import Delivery, Status
from providers.canonical.errors import Conflict, UnknownRecord


class DeliveryQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["created_at", "-created_at"] = "-created_at"
    status: Status | None = None


async def _test(call: Call[NoQuery, NoBody]) -> Answer:
    webhook = await find_webhook(call)
    if not webhook.enabled:
        raise Conflict("This webhook is not enabled, so nothing is sent to it.")
    id = await events.add_event(call.connection, "webhook.test", {"webhook": webhook.name}, [webhook.id], None)
    assert id is not None, "only what must not be repeated can be known already"
    return Answer(await events.find_delivery_of(call.connection, webhook.id, id), status=202)


async def _page_deliveries(call: Call[DeliveryQuery, NoBody]) -> Answer:
    webhook = await find_webhook(call)
    page: Page[Delivery] = await events.page_deliveries(call.connection, call.query, webhook.id, call.query.status)
    return Answer(page)


async def _redeliver(call: Call[NoQuery, NoBody]) -> Answer:
    webhook = await find_webhook(call)
    id = call.path["id"]
    if await events.find_delivery(call.connection, webhook.id, id) is None:
        raise UnknownRecord("There is no such delivery of this webhook; it may have expired.")
    await events.redeliver(call.connection, webhook.id, id)
    return Answer(await events.find_delivery(call.connection, webhook.id, id), status=202)


def operations() -> list[Operation[Any, Any]]:
    tag = "Webhooks"
    missing = {404: "There is no such webhook."}
    return [
        Operation(
            method="POST",
            path="/webhooks/{name}/test",
            id="test_webhook",
            tag=tag,
            summary="Send a test event",
            description="A writer sends it within moments; the delivery that is returned shows later what came of it.",
            permission="credentials:write",
            access="write",
            response=Delivery,
            status=202,
            errors={**missing, 409: "The webhook is not enabled."},
            commands=(
                Command(
                    summary="Send a test event to webhook NAME.",
                    help="A writer sends it within moments; `narthex webhooks deliveries NAME` shows what came of it.",
                    done="Sent soon: `narthex webhooks deliveries {name}` shows what came of it.",
                ),
            ),
            handler=_test,
        ),
        Operation(
            method="GET",
            path="/webhooks/{name}/deliveries",
            id="list_webhook_deliveries",
            tag=tag,
            summary="List what was sent to a webhook",
            permission="config:read",
            query=DeliveryQuery,
            response=Page[Delivery],
            errors=missing,
            commands=(
                Command(
                    name="webhooks deliveries",
                    summary="List what was sent to webhook NAME, the newest first.",
                    examples=("webhooks deliveries finance --status failed",),
                    columns=(
                        Column("id", "DELIVERY"),
                        Column("created_at", "CREATED", "time"),
                        Column("type"),
                        Column("status"),
                        Column("attempts"),
                        Column("response_status", "ANSWER"),
                        Column("next_attempt_at", "NEXT", "time"),
                        Column("error"),
                    ),
                    nothing="Nothing was sent to it.",
                    data="deliveries",
                ),
            ),
            handler=_page_deliveries,
        ),
        Operation(
            method="POST",
            path="/webhooks/{name}/deliveries/{id}/redeliver",
            id="redeliver_webhook",
            tag=tag,
            summary="Send a delivery again",
            description="With the same `webhook-id`, and all its attempts anew.",
            permission="credentials:write",
            access="write",
            response=Delivery,
            status=202,
            errors={404: "There is no such webhook or delivery."},
            commands=(
                Command(
                    name="webhooks redeliver",
                    summary="Send delivery ID of webhook NAME again, with all its attempts anew.",
                    done="It is sent again.",
                ),
            ),
            handler=_redeliver,
        ),
    ]
