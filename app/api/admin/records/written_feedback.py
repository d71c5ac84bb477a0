"""Feedback that somebody with a role writes on a recorded request: POST /admin/v1/inferences/{id}/feedback."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace
from sqlalchemy.ext.asyncio import AsyncConnection

from app.api.admin.records.feedback import Text
from app.api.admin.records.inference_detail import find_shown
from app.api.rest.command import Command, Option
from app.api.rest.operation import Answer, Call, NoQuery, Operation
from app.domain.experiments import BUILT_IN_METRICS, MetricLevel
from app.gateway.feedback.request import FeedbackBody
from app.gateway.pipeline.gateway import Gateway
from app.store.access.roles import Principal
from app.store.keys.callers import find_key_holder
from app.store.keys.key_format import parse_prefix
from app.store.postgres.audit_log import AuditEvent, record
from providers.canonical.errors import UnknownRecord

# So that it can be told from what callers sent.
WRITTEN_BY = {"source": "admin"}


class NewFeedback(Struct, frozen=True, forbid_unknown_fields=True):
    """A judgement of a request, or of its conversation."""

    metric: Annotated[Text, Meta(description="The metric; that of episodes is about the request's conversation.")]
    value: Annotated[
        bool | float | str | list[Any] | dict[str, Any],
        Meta(description="true or false, a number, a text, or of a demonstration also JSON: as its metric's kind wants it."),
    ]


class WrittenFeedback(Struct, frozen=True):
    """Feedback that was taken. It is in lists a moment later."""

    id: Annotated[str, Meta(description="Of the feedback: `feedback_id` of its events.")]
    metric: str
    level: Annotated[MetricLevel, Meta(description="Whether it is about the inference or its episode.")]
    target_id: Annotated[str, Meta(description="Of the inference or the episode, by `level`.")]


class _Writing:
    def __init__(self, gateway: Gateway) -> None:
        self._intake = gateway.feedback
        self._snapshots = gateway.snapshot_cache

    async def write(self, call: Call[NoQuery, NewFeedback]) -> Answer:
        """The team's content policy, its rate and its metrics hold as for its callers. It is in the audit log before it is stored."""
        async with call.read_transaction() as connection:
            row = await find_shown(call, connection)
            # Its key may be revoked by now: what was said with it can be judged all the same.
            holder = await find_key_holder(connection, key_id=row["key_id"], with_revoked=True)
            key_id = await _series_of(call.principal, connection)
        if holder is None:
            raise UnknownRecord("The key of this request was removed, so nothing can be said of it any more.")
        name = call.body.metric
        metric = self._snapshots.snapshot.metrics.get(name) or BUILT_IN_METRICS.get(name)
        target = {"episode_id": row["episode_id"]} if metric is not None and metric.level == "episode" else {"inference_id": row["id"]}
        value = msgspec.Raw(msgspec.json.encode(call.body.value))
        writer = replace(holder, key_id=key_id)
        feedback = self._intake.check(writer, FeedbackBody(metric=name, value=value, tags=WRITTEN_BY, **target))
        after = {"metric": name, "feedback": feedback.feedback_id}
        async with call.write_transaction() as connection:
            await record(connection, call.author, AuditEvent("write_feedback", "inference", row["id"], after=after, team=holder.team))
        await self._intake.store(writer, [feedback])
        assert feedback.level is not None and feedback.target_id is not None, "it withdraws nothing"
        return Answer(WrittenFeedback(feedback.feedback_id, name, feedback.level, feedback.target_id))


async def _series_of(principal: Principal, connection: AsyncConnection) -> str:
    """Returns what stands for a key, by which feedback takes the place of what the same person wrote, and stands beside the rest."""
    if principal.kind != "key":
        return principal.id
    own = await find_key_holder(connection, prefix=parse_prefix(principal.id), with_revoked=True)
    assert own is not None, "it was found as it signed in"
    return own.key_id


def operations(gateway: Gateway) -> list[Operation[Any, Any]]:
    return [
        Operation(
            method="POST",
            path="/inferences/{id}/feedback",
            id="write_feedback",
            tag="Records",
            summary="Write feedback on an inference or its episode",
            description="As `POST /v1/feedback` takes it of callers, beside which it stands and counts: the tag `source=admin` tells it"
            " apart. A boolean or number takes the place of what the same person wrote before. Who wrote it is in the audit log.",
            permission="feedback:write",
            scope="team",
            access="memory",
            body=NewFeedback,
            response=WrittenFeedback,
            status=201,
            errors={404: "There is no such inference, or it is not of one of your teams."},
            example={"metric": "comment", "value": "It named the wrong parcel."},
            commands=(
                Command(
                    name="feedback write",
                    summary="Say how good the request ID was, or its conversation, by a metric.",
                    help="It stands and counts beside what its caller sends, with the tag source=admin.",
                    examples=(
                        "feedback write 019a2c3d-0000-7000-8000-000000000000 --metric helpful --value true",
                        "feedback write 019a2c3d-0000-7000-8000-000000000000 --metric comment --value '\"It named the wrong parcel.\"'",
                    ),
                    options={"value": Option(metavar="JSON")},
                ),
            ),
            handler=_Writing(gateway).write,
        )
    ]
