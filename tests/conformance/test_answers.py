"""The conformance suite of answers: every situation, for every caller and target, streamed and whole, heard through the official SDKs."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.dialects.catalogue import CHAT_DIALECTS, DIALECTS
from tests.conformance import engine_ollama
from tests.conformance.crossing import CALLERS, ENGINES, crossed, crossed_blocks
from tests.conformance.expected import comparable, heard, returned, summary
from tests.conformance.oddities import ODDITIES
from tests.conformance.situations import ALL, SITUATIONS, Situation, Wire
from tests.laws.chats import bounded

Spoken = tuple[Situation, str, Wire]
SAID: list[Spoken] = [
    *((situation, target, ENGINES[target](situation)) for situation in SITUATIONS for target in ALL if target in situation.targets),
    *((situation, "ollama_chat", engine_ollama.speak(situation)) for situation in SITUATIONS if engine_ollama.can_say(situation)),
    *((odd.situation, odd.target, odd.wire) for odd in ODDITIES),
]
PAIRS = [
    pytest.param(situation, target, wire, caller, id=f"{caller}<-{target}: {situation.name}")
    for situation, target, wire in SAID
    for caller in ALL
    if caller in situation.callers
]


@pytest.mark.parametrize(("situation", "target", "wire", "caller"), PAIRS)
def test_a_caller_hears_what_the_engine_said(situation: Situation, target: str, wire: Wire, caller: str):
    """Streamed and whole on either side; the same caller and target are an edit of the engine's bytes where both agree on that."""
    sdk = CALLERS[caller]
    for arrives_streamed, body in ((True, wire.stream), (False, wire.whole)):
        if body is None or (not arrives_streamed and target in ALL and target not in situation.whole):
            continue
        for streamed in (True, False):
            answer = crossed(body, target, caller, arrives_streamed=arrives_streamed, streamed=streamed)
            taken = sdk.take(answer, streamed=streamed)
            told = sdk.hear(taken)
            expected = heard(situation, caller, streamed=streamed)
            way = f"{'stream' if arrives_streamed else 'whole'} -> {'stream' if streamed else 'whole'}"
            assert comparable(told) == comparable(expected), way
            ask = DIALECTS[caller].parse_request(json.dumps(sdk.next_ask(taken)).encode())
            back = [each for each in CHAT_DIALECTS[caller].read_request(ask.body).messages if each.role == "assistant"]
            said = [part for message in back for part in summary(message, caller)]
            assert said == returned(situation, caller, streamed=streamed), way


@bounded
@given(st.data())
def test_however_a_stream_is_cut_it_says_the_same(data: st.DataObject):
    situation, target, wire = data.draw(st.sampled_from(SAID))
    caller = data.draw(st.sampled_from(situation.callers))
    places = sorted(data.draw(st.sets(st.integers(0, len(wire.stream)), max_size=8)))
    blocks = [wire.stream[start:end] for start, end in zip([0, *places], [*places, len(wire.stream)], strict=True)]
    whole = crossed(wire.stream, target, caller, arrives_streamed=True, streamed=True)
    assert steady(crossed_blocks(blocks, target, caller, arrives_streamed=True, streamed=True)) == steady(whole)


def steady(answer: bytes) -> bytes:
    """Without the ids that we mint, which are new each time."""
    return re.sub(rb"(call|toolu|rs|msg|fc|ctc|item)_[0-9a-f]{24,}", rb"\1_minted", answer)
