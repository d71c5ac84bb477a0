"""The recorded outcome of an inference, for a retry of its request."""

import asyncio
from typing import Any

from msgspec import Struct
from sqlalchemy import Row, func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from app.store.formats.content_packing import UNCOMPRESSED_PREFIX, unpack_within
from app.store.postgres.db_errors import RecordsUnavailable
from app.store.postgres.tables import inference_content, inferences
from app.store.redis.idempotent_responses import StoredResponse

_QUERY_TIMEOUT_S = 5.0


class RecordedOutcome(Struct, frozen=True):
    """How a request ended, as it is recorded."""

    succeeded: bool
    # None although it succeeded: the response is not recorded in full, or is longer than was wanted
    stored_response: StoredResponse | None = None


async def find_recorded_outcome(database: AsyncEngine, id: str, max_bytes: int) -> RecordedOutcome | None:
    """The outcome of an inference. None: it is not recorded. Raises RecordsUnavailable."""
    inference, content = inferences.c, inference_content.c
    # A response that is too long to be sent again is not even loaded.
    fits = func.length(content.response) <= max_bytes + len(UNCOMPRESSED_PREFIX)
    joined = inferences.outerjoin(inference_content, (content.id == inference.id) & (content.policy == "full") & fits)
    columns = (
        inference.outcome,
        inference.status,
        inference.episode_id,
        inference.streamed,
        inference.served_provider,
        inference.served_model,
        inference.dropped,
        inference.structured_output,
        inference.reported_model,
        inference.emulated,
        inference.variant,
        inference.served_variant,
        inference.experiment,
        inference.experiment_version,
        inference.not_enrolled,
        content.response,
    )
    query = select(*columns).select_from(joined).where(inference.id == id)
    try:
        async with asyncio.timeout(_QUERY_TIMEOUT_S), database.connect() as connection:
            row = (await connection.execute(query)).first()
    except Exception as fault:
        raise RecordsUnavailable(repr(fault)) from fault
    return None if row is None else await asyncio.to_thread(_to_outcome, id, row, max_bytes)


def _to_outcome(id: str, row: Row[*tuple[Any, ...]], max_bytes: int) -> RecordedOutcome:
    if row.outcome != "answered":
        return RecordedOutcome(False)
    body = None if row.response is None else unpack_within(row.response, max_bytes)
    if body is None:
        return RecordedOutcome(True)
    stored_response = StoredResponse(
        inference_id=id,
        episode_id=row.episode_id,
        streamed=row.streamed,
        body=body,
        served_provider=row.served_provider,
        served_model=row.served_model,
        dropped=tuple(row.dropped or ()),
        status=row.status,
        structured_output=row.structured_output,
        reported_model=row.reported_model,
        emulated=tuple(row.emulated or ()),
        variant=row.variant,
        served_variant=row.served_variant,
        experiment=row.experiment,
        experiment_version=row.experiment_version,
        not_enrolled=row.not_enrolled,
    )
    return RecordedOutcome(True, stored_response)
