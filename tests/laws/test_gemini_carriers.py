"""What only Gemini can read goes through the official SDKs of all three callers, and back to it as it came: recorded answers and our own.

Without the recordings beside the project, those of our own are tried alone, and that is said.
"""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from providers.canonical.chat import Opaque, Part, Reasoning
from providers.dialect import DropPolicy
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.dialects.gemini import Gemini
from tests.conformance.crossing import CALLERS, crossed
from tests.conformance.expected import comparable, heard, returned, summary
from tests.conformance.situations import ALL, Situation
from tests.exchanges.hosts.gemini_bodies import alike, chat_of, situation_of
from tests.exchanges.hosts.recordings import FOLDER, Recording, recordings

GEMINI = Gemini()
RECORDED = [each for folder in ("google_ai_studio", "gcp_vertex_gemini") for each in recordings(folder) if "embeddings" not in each.name]
ANSWERED = [each for each in RECORDED if each.status == 200]
# The tool that was asked for is Google's own, which no caller could name.
UNSAID = {"google_ai_studio/18-grounding": ("tools", "toolConfig")}


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the recordings of real hosts (../shared/exchanges) are not on this machine")
def test_every_recording_is_played():
    assert (len(RECORDED), len(ANSWERED)) >= (26, 23) and sum(each.streamed for each in ANSWERED) >= 7


@pytest.mark.parametrize("recording", RECORDED, ids=lambda each: each.id)
def test_a_recorded_request_is_written_from_its_meaning(recording: Recording):
    concessions = DropPolicy(lambda _: False, {}, "google")
    body = json.loads(GEMINI.write_request(chat_of(recording), concessions).write())
    wanted = {key: value for key, value in alike(recording.asked).items() if key not in UNSAID.get(recording.id, ())}
    assert alike(body) == wanted and concessions.dropped == []


@pytest.mark.parametrize("recording", ANSWERED, ids=lambda each: each.id)
@pytest.mark.parametrize("caller", ALL)
def test_a_recorded_answer_is_heard_by_every_caller_and_goes_back_whole(recording: Recording, caller: str):
    """Each part with its signature, where it stood."""
    situation = situation_of(recording)
    for streamed in (True, False):
        answer = crossed(recording.raw, "gemini", caller, arrives_streamed=recording.streamed, streamed=streamed)
        goes_back(situation, caller, answer, streamed=streamed)


OWN: dict[str, list[dict[str, Any]]] = {
    "signed text": [{"text": "Four.", "thoughtSignature": "Sig+/="}],
    "signature behind": [{"text": "Four."}, {"text": "", "thoughtSignature": "Sig+/="}],
    "thoughts": [{"text": "Hm.", "thought": True, "thoughtSignature": "one"}, {"text": "Four.", "thoughtSignature": "two"}],
    "code": [
        {"executableCode": {"language": "PYTHON", "code": "2+2"}, "thoughtSignature": "Sig"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "4"}},
        {"text": "Four."},
    ],
    "calls": [
        {"functionCall": {"name": "f", "id": "c1", "args": {"a": 1}}, "thoughtSignature": "Sig"},
        {"functionCall": {"name": "f", "id": "c2", "args": {}}},
    ],
    "text, then calls": [
        {"text": "Let me see.", "thoughtSignature": "one"},
        {"functionCall": {"name": "f", "id": "c1", "args": {"a": 1}}, "thoughtSignature": "two"},
    ],
}


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("caller", ALL)
@pytest.mark.parametrize("streamed", [True, False])
def test_parts_come_back_to_gemini_as_it_said_them(name: str, caller: str, streamed: bool):
    said = OWN[name]
    told = {"candidates": [{"content": {"role": "model", "parts": said}, "finishReason": "STOP"}], "responseId": "r"}
    taken = CALLERS[caller].take(
        crossed(json.dumps(told).encode(), "gemini", caller, arrives_streamed=False, streamed=streamed), streamed=streamed
    )
    dialect = CHAT_DIALECTS[caller]
    asked = dialect.read_request(dialect.parse_request(json.dumps(CALLERS[caller].next_ask(taken)).encode()).body)
    concessions = DropPolicy(lambda _: False, dialect.field_names, "google")
    body = json.loads(GEMINI.write_request(replace(asked, model="gemini-3-flash-preview"), concessions).write())
    (back,) = [turn["parts"] for turn in body["contents"] if turn["role"] == "model"]
    assert back == said and set(concessions.dropped) <= {"store"}


def goes_back(situation: Situation, caller: str, answer: bytes, *, streamed: bool) -> None:
    sdk, dialect = CALLERS[caller], CHAT_DIALECTS[caller]
    taken = sdk.take(answer, streamed=streamed)
    spoken = replace(situation, parts=tuple(part for part in situation.parts if not _silent(part, caller)))
    assert comparable(sdk.hear(taken)) == comparable(heard(spoken, caller, streamed=streamed))
    asked = dialect.read_request(dialect.parse_request(json.dumps(sdk.next_ask(taken)).encode()).body)
    back = [part for each in asked.messages if each.role == "assistant" for part in summary(each, caller)]
    assert back == returned(situation, caller, streamed=streamed)


def _silent(part: Part, caller: str) -> bool:
    return isinstance(part, Opaque) or (isinstance(part, Reasoning) and not part.text)
