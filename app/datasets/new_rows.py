"""New rows of a dataset: from the content of an inference to the request and response that are stored."""

from collections.abc import Mapping
from typing import Any

import msgspec

from app.datasets.example import Example
from app.datasets.formats import Output, find_faults
from app.datasets.piece import Piece
from app.datasets.read_recorded import Recorded, parse_recorded
from app.datasets.reasons import Skipped, SkipReason
from app.gateway.functions.function_table import CompiledFunction
from app.store.datasets.builds import Demonstration, DueVersion, FoundContent, NewRow
from app.store.formats.content_packing import pack, unpack_within
from providers.dialect import InboundRequest

MAX_ROW_BYTES = 8 * 1024 * 1024  # of request and response, unpacked, with the history of the conversation
_POLICIES: Mapping[str, SkipReason] = {"none": "not_kept", "redacted": "redacted", "lost": "lost", "erased": "erased"}


def check_content(content: FoundContent | None) -> FoundContent:
    """Raises Skipped unless it is kept in full, or masked, and its team still keeps that: a copy of it would stay for longer."""
    if content is None:
        raise Skipped("expired")
    if content.policy in _POLICIES:
        raise Skipped(_POLICIES[content.policy])
    if content.team_policy not in ("full", content.policy):
        raise Skipped("team_policy")
    if content.is_deleted:
        raise Skipped("deleted")
    if content.size_bytes > MAX_ROW_BYTES:
        raise Skipped("too_large")
    return content


def parse_row(
    row: Mapping[str, Any],
    packed: tuple[bytes | None, bytes | None],
    demonstration: Demonstration | None,
    function: CompiledFunction | None,
) -> tuple[Recorded, InboundRequest]:
    """Raises Skipped."""
    recorded = Recorded(
        route=row["route"],
        streamed=row["streamed"],
        request=_unpacked(packed[0]) or b"",
        response=_unpacked(packed[1]) if row["outcome"] == "answered" else None,
        demonstration=None if demonstration is None else demonstration.value,
        function=function,
        variant=row["served_variant"] or row["variant"],
    )
    return recorded, parse_recorded(recorded)


def _unpacked(packed: bytes | None) -> bytes | None:
    unpacked = None if packed is None else unpack_within(packed, MAX_ROW_BYTES)
    if packed is not None and unpacked is None:
        raise Skipped("too_large")
    return unpacked


def _output(version: DueVersion, example: Example) -> Output:
    """Raises Skipped."""
    if version.selection.output == "response" or example.demonstration is None:
        if example.response is None:
            raise Skipped("no_response")
        return "response"
    return "demonstration"


def new_row(piece: Piece, row: Mapping[str, Any], policy: str, example: Example) -> NewRow:
    """Raises Skipped."""
    output = _output(piece.version, example)
    return NewRow(
        number=piece.next_number,
        inference_id=row["id"],
        team_id=row["team_id"],
        model=row["model"],
        function=row["function"],
        variant=row["variant"],
        route=row["route"],
        content=policy,
        split=piece.version.selection.split(piece.version.dataset_id, row["episode_id"]),
        output=output,
        request=pack(msgspec.json.encode(example.request)),
        response=_packed(example.response),
        demonstration=_packed(example.demonstration),
        omitted=list(example.omitted) or None,
        faults={str(format): fault for format, fault in find_faults(example, output).items()} or None,
    )


def _packed(message: dict[str, Any] | None) -> bytes | None:
    return None if message is None else pack(msgspec.json.encode(message))
