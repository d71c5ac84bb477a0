"""The conformance suite of answers: every situation, for every caller and target, streamed and whole, heard through the official SDKs."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.dialects.catalogue import CHAT_DIALECTS, DIALECTS
from tests.conformance import engine_ollama
from tests.conformance.expected_responses import comparable, expected_history, expected_response, summary
from tests.conformance.situations import ALL, SITUATIONS, Situation, WireResponse
from tests.conformance.stream_quirks import STREAM_QUIRKS
from tests.conformance.translation import CALLERS, ENGINES, translate_response, translate_response_blocks
from tests.support.chat_strategies import bounded

EngineResponse = tuple[Situation, str, WireResponse]
ENGINE_RESPONSES: list[EngineResponse] = [
    *((situation, target, ENGINES[target](situation)) for situation in SITUATIONS for target in ALL if target in situation.targets),
    *(
        (situation, "ollama_chat", engine_ollama.wire_response(situation))
        for situation in SITUATIONS
        if engine_ollama.can_express(situation)
    ),
    *((odd.situation, odd.target, odd.wire) for odd in STREAM_QUIRKS),
]
PAIRS = [
    pytest.param(situation, target, wire, caller, id=f"{caller}<-{target}: {situation.name}")
    for situation, target, wire in ENGINE_RESPONSES
    for caller in ALL
    if caller in situation.callers
]


@pytest.mark.parametrize(("situation", "target", "wire", "caller"), PAIRS)
def test_translated_response_reads_right_in_the_sdk_and_in_the_next_request(
    situation: Situation, target: str, wire: WireResponse, caller: str
):
    """Streamed and whole on either side; the same caller and target are an edit of the engine's bytes where both agree on that."""
    sdk = CALLERS[caller]
    for arrives_streamed, body in ((True, wire.stream), (False, wire.whole)):
        if body is None or (not arrives_streamed and target in ALL and target not in situation.whole):
            continue
        for streamed in (True, False):
            answer = translate_response(body, target, caller, arrives_streamed=arrives_streamed, streamed=streamed)
            parsed = sdk.take(answer, streamed=streamed)
            sdk_response = sdk.hear(parsed)
            expected = expected_response(situation, caller, streamed=streamed)
            mode = f"{'stream' if arrives_streamed else 'whole'} -> {'stream' if streamed else 'whole'}"
            assert comparable(sdk_response) == comparable(expected), mode
            request = DIALECTS[caller].parse_request(json.dumps(sdk.next_ask(parsed)).encode())
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
    whole = translate_response(wire.stream, target, caller, arrives_streamed=True, streamed=True)
    assert without_minted_ids(
        translate_response_blocks(blocks, target, caller, arrives_streamed=True, streamed=True)
    ) == without_minted_ids(whole)


def without_minted_ids(answer: bytes) -> bytes:
    """Without the ids that we mint, which are new each time."""
    return re.sub(rb"(call|toolu|rs|msg|fc|ctc|item)_[0-9a-f]{24,}", rb"\1_minted", answer)
