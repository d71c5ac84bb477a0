"""Responses of every situation, from every target to every caller, streamed and not, as the official SDKs return them."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from providers.catalogue import DIALECTS
from providers.dialects.catalogue import CHAT_DIALECTS
from tests.conformance.expected_responses import comparable, expected_history, expected_response, summary
from tests.conformance.response_cells import CELLS, ENGINE_RESPONSES, Cell, caller_and_target, situation_name, translations
from tests.conformance.translation import CALLERS, translate_response, translate_response_blocks
from tests.support.case_tables import one_test_per_group
from tests.support.strategies.chat_strategies import bounded


@one_test_per_group(CELLS, group=caller_and_target, name=situation_name)
def test_translated_response_reads_right_in_the_sdk_and_in_the_next_request(cell: Cell) -> None:
    """Each combination of streamed and unstreamed is right; from a target of the caller's own dialect the bytes are edited instead."""
    situation, caller, sdk = cell.situation, cell.caller, CALLERS[cell.caller]
    for mode, response, streamed in translations(cell):
        parsed = sdk.parse(response, streamed=streamed)
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
    """Returns the stream without the ids that the gateway mints, which are new each time."""
    return re.sub(rb"(call|toolu|rs|msg|fc|ctc|item)_[0-9a-f]{24,}", rb"\1_minted", stream)
