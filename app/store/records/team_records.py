"""A recorded inference as the team that made the request may see it."""

import asyncio
from typing import Any

from sqlalchemy import Integer, Row, bindparam, case, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.formats.content_packing import UNCOMPRESSED_PREFIX, unpack_within
from app.store.postgres.tables import deleted_responses, inference_content, inferences
from app.store.records.feedback_queries import FeedbackEvent, read_feedback_on

# Without what is the operator's own: addresses of endpoints, the hash of the configuration, what hosts say about themselves.
_COLUMNS = (
    *("id", "episode_id", "received_at", "route", "model", "function", "variant", "served_provider", "served_model", "streamed"),
    *("status", "outcome", "finish_reason", "error", "message", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"),
    *("duration_us", "first_token_us", "dropped", "emulated", "tags", "end_user", "charged_input", "charged_output", "charge_basis"),
    *("cost_microusd", "price", "host_cost_microusd", "structured_output", "usage_details", "reported_model"),
    *("experiment", "experiment_version", "not_enrolled", "served_variant"),
    *("request_id", "trace_id", "episode_name"),
)
_OF_FEEDBACK = ("metric", "kind", "value", "content", "tags", "key", "received_at")


async def find_team_record(connection: AsyncConnection, id: str, team_id: str, max_bytes: int) -> dict[str, Any] | None:
    """Returns a record with its content and feedback, or None if the team has no such record.

    A request or response that is longer than `max_bytes` is left out of the content.
    """
    values = {"id": id, "team_id": team_id, "max_packed_bytes": max_bytes + len(UNCOMPRESSED_PREFIX)}
    row = (await connection.execute(_FIND, values)).first()
    if row is None:
        return None
    feedback = await read_feedback_on(connection, id, team_id)
    return {**await asyncio.to_thread(_to_dict, row, max_bytes), "feedback": [_feedback_to_dict(each) for each in feedback]}


def _find() -> Any:
    content, deleted = inference_content.c, deleted_responses.c
    max_packed_bytes = bindparam("max_packed_bytes", type_=Integer)
    # Content of a response that its caller deleted, or that is too long, is not even loaded.
    request = case((deleted.id.is_(None) & (func.length(content.request) <= max_packed_bytes), content.request))
    response = case((deleted.id.is_(None) & (func.length(content.response) <= max_packed_bytes), content.response))
    return (
        select(
            *(inferences.c[name] for name in _COLUMNS),
            case((deleted.id.is_(None), content.policy)).label("content_policy"),
            content.request.isnot(None).label("has_request"),
            content.response.isnot(None).label("has_response"),
            request.label("packed_request"),
            response.label("packed_response"),
        )
        .select_from(
            inferences.outerjoin(inference_content, content.id == inferences.c.id).outerjoin(
                deleted_responses, deleted.id == inferences.c.id
            )
        )
        .where(inferences.c.id == bindparam("id"), inferences.c.team_id == bindparam("team_id"), inferences.c.origin.is_(None))
    )


# Building it takes longer than sending it, and whoever asks for records that do not exist would have it built each time.
_FIND = _find()


def _to_dict(row: Row[Any], max_bytes: int) -> dict[str, Any]:
    fields: dict[str, Any] = {name: getattr(row, name) for name in _COLUMNS}
    fields["received_at"] = row.received_at.isoformat()
    # Charges that the engine did not report in full are estimates, and so is their cost.
    fields["cost_estimated"] = None if row.charge_basis is None else row.charge_basis != "reported"
    fields["content"] = None
    if row.content_policy is not None:
        request, response = _unpack(row.packed_request, max_bytes), _unpack(row.packed_response, max_bytes)
        left_out = [
            name
            for name, is_there, text in (("request", row.has_request, request), ("response", row.has_response, response))
            if is_there and text is None
        ]
        fields["content"] = {"policy": row.content_policy, "request": request, "response": response, "left_out": left_out}
    return fields


def _feedback_to_dict(event: FeedbackEvent) -> dict[str, Any]:
    return {"id": event.feedback_id, **{name: getattr(event, name) for name in _OF_FEEDBACK}}


def _unpack(packed: bytes | None, max_bytes: int) -> str | None:
    unpacked = None if packed is None else unpack_within(packed, max_bytes)
    return None if unpacked is None else unpacked.decode("utf-8", "replace")
