"""Gemini's own parts return to it unchanged through the official SDKs of all three callers: recorded responses and invented ones.

Where the recordings are missing, only the invented ones run, and a skipped test says so.
"""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from providers.canonical.chat import Opaque, Part, Reasoning
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.dialects.gemini import Gemini
from providers.drop_policy import DropPolicy
from tests.conformance.expected_responses import comparable, expected_history, expected_response, summary
from tests.conformance.situations import ALL, Situation
from tests.conformance.translation import CALLERS, translate_response
from tests.replay.hosts.gemini_bodies import chat_of, normalize, situation_of
from tests.replay.hosts.recordings import FOLDER, Recording, recordings

GEMINI = Gemini()
ALL_RECORDINGS = [
    each for folder in ("google_ai_studio", "gcp_vertex_gemini") for each in recordings(folder) if "embeddings" not in each.name
]
SUCCESSFUL_RECORDINGS = [each for each in ALL_RECORDINGS if each.status == 200]
# The requested tool is Google's own, which no caller dialect can name.
UNTRANSLATABLE_FIELDS = {"google_ai_studio/18-grounding": ("tools", "toolConfig")}


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the recordings of real hosts (../shared/exchanges) are not on this machine")
def test_all_recordings_are_collected():
    assert (len(ALL_RECORDINGS), len(SUCCESSFUL_RECORDINGS)) >= (26, 23) and sum(each.streamed for each in SUCCESSFUL_RECORDINGS) >= 7


@pytest.mark.parametrize("recording", ALL_RECORDINGS, ids=lambda each: each.id)
def test_recorded_request_is_rewritten_from_its_canonical_form(recording: Recording):
    drop_policy = DropPolicy(lambda _: False, {}, "google")
    body = json.loads(GEMINI.write_request(chat_of(recording), drop_policy).write())
    expected = {
        key: value for key, value in normalize(recording.request_body).items() if key not in UNTRANSLATABLE_FIELDS.get(recording.id, ())
    }
    assert normalize(body) == expected and drop_policy.dropped == []


@pytest.mark.parametrize("recording", SUCCESSFUL_RECORDINGS, ids=lambda each: each.id)
@pytest.mark.parametrize("caller", ALL)
def test_recorded_response_reaches_every_caller_and_returns_unchanged(recording: Recording, caller: str):
    """Each part keeps its signature and its position."""
    situation = situation_of(recording)
    for streamed in (True, False):
        response = translate_response(recording.raw, "gemini", caller, arrives_streamed=recording.streamed, streamed=streamed)
        assert_round_trip(situation, caller, response, streamed=streamed)


OWN_PARTS: dict[str, list[dict[str, Any]]] = {
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


@pytest.mark.parametrize("name", OWN_PARTS)
@pytest.mark.parametrize("caller", ALL)
@pytest.mark.parametrize("streamed", [True, False])
def test_parts_return_to_gemini_unchanged_through_every_caller(name: str, caller: str, streamed: bool):
    parts = OWN_PARTS[name]
    response_body = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}], "responseId": "r"}
    received = CALLERS[caller].parse(
        translate_response(json.dumps(response_body).encode(), "gemini", caller, arrives_streamed=False, streamed=streamed),
        streamed=streamed,
    )
    dialect = CHAT_DIALECTS[caller]
    next_request = dialect.read_request(dialect.parse_request(json.dumps(CALLERS[caller].next_request_body(received)).encode()).body)
    drop_policy = DropPolicy(lambda _: False, dialect.field_names, "google")
    body = json.loads(GEMINI.write_request(replace(next_request, model="gemini-3-flash-preview"), drop_policy).write())
    (back,) = [turn["parts"] for turn in body["contents"] if turn["role"] == "model"]
    assert back == parts and set(drop_policy.dropped) <= {"store"}


def assert_round_trip(situation: Situation, caller: str, response: bytes, *, streamed: bool) -> None:
    sdk, dialect = CALLERS[caller], CHAT_DIALECTS[caller]
    received = sdk.parse(response, streamed=streamed)
    visible_situation = replace(situation, parts=tuple(part for part in situation.parts if not _has_no_visible_text(part, caller)))
    assert comparable(sdk.summarize(received)) == comparable(expected_response(visible_situation, caller, streamed=streamed))
    next_request = dialect.read_request(dialect.parse_request(json.dumps(sdk.next_request_body(received)).encode()).body)
    returned_parts = [part for each in next_request.messages if each.role == "assistant" for part in summary(each, caller)]
    assert returned_parts == expected_history(situation, caller, streamed=streamed)


def _has_no_visible_text(part: Part, caller: str) -> bool:
    return isinstance(part, Opaque) or (isinstance(part, Reasoning) and not part.text)
