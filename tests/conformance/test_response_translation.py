"""Responses of every situation, from every target to every caller, streamed and not, as the official SDKs return them."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from providers.catalogue import DIALECTS
from providers.dialects.catalogue import CHAT_DIALECTS
from tests.conformance import engine_ollama
from tests.conformance.expected_responses import comparable, expected_history, expected_response, summary
from tests.conformance.situations import ALL, SITUATIONS, Situation, WireResponse
from tests.conformance.stream_quirks import STREAM_QUIRKS
from tests.conformance.translation import CALLERS, ENGINES, translate_response, translate_response_blocks
from tests.support.case_tables import one_test_per_group
from tests.support.chat_strategies import bounded

EngineResponse = tuple[Situation, str, WireResponse]
ENGINE_RESPONSES: list[EngineResponse] = [
    *((situation, target, ENGINES[target](situation)) for situation in SITUATIONS for target in ALL if target in situation.targets),
    *(
        (situation, "ollama_chat", engine_ollama.wire_response(situation))
        for situation in SITUATIONS
        if engine_ollama.can_express(situation)
    ),
    *((quirk.situation, quirk.target, quirk.wire) for quirk in STREAM_QUIRKS),
]


class Cell(Struct, frozen=True):
    """A response of a target's engine, and the caller that it is translated for."""

    situation: Situation
    target: str
    wire: WireResponse
    caller: str


CELLS = [
    Cell(situation, target, wire, caller) for situation, target, wire in ENGINE_RESPONSES for caller in ALL if caller in situation.callers
]


def caller_and_target(cell: Cell) -> str:
    return f"{cell.caller}<-{cell.target}"


def situation_name(cell: Cell) -> str:
    return cell.situation.name


@one_test_per_group(CELLS, group=caller_and_target, name=situation_name)
def test_translated_response_reads_right_in_the_sdk_and_in_the_next_request(cell: Cell) -> None:
    """In each combination of streamed and unstreamed; from a target of the caller's own dialect the engine's bytes are edited instead."""
    situation, target, caller, sdk = cell.situation, cell.target, cell.caller, CALLERS[cell.caller]
    for arrives_streamed, body in ((True, cell.wire.stream), (False, cell.wire.body)):
        if body is None or (not arrives_streamed and target in ALL and target not in situation.unstreamed_targets):
            continue
        for streamed in (True, False):
            mode = f"{'stream' if arrives_streamed else 'body'} -> {'stream' if streamed else 'body'}"
            parsed = sdk.parse(
                translate_response(body, target, caller, arrives_streamed=arrives_streamed, streamed=streamed), streamed=streamed
            )
            assert comparable(sdk.summarize(parsed)) == comparable(expected_response(situation, caller, streamed=streamed)), mode
            request = DIALECTS[caller].parse_request(json.dumps(sdk.next_request_body(parsed)).encode())
            assistant_messages = [each for each in CHAT_DIALECTS[caller].read_request(request.body).messages if each.role == "assistant"]
            returned_parts = [part for message in assistant_messages for part in summary(message, caller)]
            assert returned_parts == expected_history(situation, caller, streamed=streamed), mode


@bounded
@given(st.data())
def test_translated_stream_is_the_same_however_its_bytes_are_chunked(data: st.DataObject):
    situation, target, wire = data.draw(st.sampled_from(ENGINE_RESPONSES))
    caller = data.draw(st.sampled_from(situation.callers))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(wire.stream)), max_size=8)))
    blocks = [wire.stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(wire.stream)], strict=True)]
    in_one_block = translate_response(wire.stream, target, caller, arrives_streamed=True, streamed=True)
    assert without_minted_ids(
        translate_response_blocks(blocks, target, caller, arrives_streamed=True, streamed=True)
    ) == without_minted_ids(in_one_block)


def without_minted_ids(stream: bytes) -> bytes:
    """Without the ids that the gateway mints, which are new each time."""
    return re.sub(rb"(call|toolu|rs|msg|fc|ctc|item)_[0-9a-f]{24,}", rb"\1_minted", stream)
