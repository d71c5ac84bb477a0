"""Masking: what rules find does not survive, however a stream is cut; everything else stays as it is."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.callers import ALL_DETECTORS, Detector, MaskConfig
from app.domain.errors import InvalidKeyField
from app.recording.content import stream_masking
from app.recording.content.masking import Found, MaskRules, compile_rules
from app.recording.content.stream_masking import StreamMasker, mask
from app.store.keys.mask_rules import check_mask

RULES = compile_rules(MaskConfig(patterns={"employee_number": r"\bE[0-9]{6}\b"}))

FOUND: list[tuple[Detector, str]] = [
    ("email", "jane.doe+x@mail.example.co.uk"),
    ("email", "jürgen@bücher.example"),
    ("phone", "+49 30 1234567"),
    ("phone", "+1 (415) 555-2671"),
    ("phone", "0049 30 1234567"),
    ("phone", "030 1234567"),
    ("phone", "(030) 123 45 67"),
    ("phone", "415-555-2671"),
    ("card", "4111 1111 1111 1111"),
    ("card", "4111111111111111"),
    ("card", "3782 822463 10005"),
    ("card", "5555-5555-5555-4444"),
    ("iban", "DE89 3704 0044 0532 0130 00"),
    ("iban", "GB29NWBK60161331926819"),
    ("iban", "fr14 2004 1010 0505 0001 3m02 606"),
    ("ip_address", "192.168.17.4"),
    ("ip_address", "2001:0db8:0000:0000:0000:ff00:0042:8329"),
    ("ip_address", "fe80::1ff:fe23:4567:890a"),
    ("secret", "sk-" + "proj-abcdefGHIJKL0123456789"),
    ("secret", "ghp_" + "abcdefghijABCDEFGHIJ0123456789abcdef"),
    ("secret", "AKIA" + "IOSFODNN7EXAMPLE"),
    ("secret", "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"),
    ("secret", "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA75\n-----END RSA PRIVATE KEY-----"),
    ("secret", "nx-0123456789ab-" + "A" * 43),
]
LEFT = [
    "4111 1111 1111 1112",  # Luhn says no
    "1234 5678 9012 3456",
    "GB29NWBK60161331926818 DE89370400440532013001",
    "On 2026-11-28 at 10:15:30 there were 1234567 rows, 0.123456789 of them new",
    "created 1764288000, version 1.2.3, build 20261128, 03.04.2026 12:00",
    "the std::vector of a::b and 12:30",
    "user at example dot com, sk-short, @jane",
    "1 2 3 4 5 6 7 8 9 10 11 12",
    "0000 0000 0000 0000",
]


@pytest.mark.parametrize(("rule", "text"), FOUND, ids=lambda value: value[:20])
@pytest.mark.parametrize("around", ["{}", "Call {} now.", "({})", "x={},y", "Order 77 {}; thanks"])
def test_detector_finds_what_it_is_for(rule: Detector, text: str, around: str) -> None:
    masked = RULES.mask(around.format(text))
    assert text not in masked and f"[masked: {rule}]" in masked
    assert masked.replace(f"[masked: {rule}]", "") == around.format("")


@pytest.mark.parametrize("text", LEFT)
def test_what_only_looks_alike_is_left(text: str) -> None:
    assert RULES.mask(text) is text


def test_only_chosen_detectors_look() -> None:
    rules = compile_rules(MaskConfig(("email",)))
    assert rules.mask("a@example.com +49 30 1234567") == "[masked: email] +49 30 1234567"


def test_own_pattern_is_named_by_what_it_masks() -> None:
    assert RULES.mask("Ask E123456, not E1234567.") == "Ask [masked: employee_number], not E1234567."


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (MaskConfig(patterns={"a": "("}), r"missing \)"),
        (MaskConfig(patterns={"a": "(?=x)"}), "invalid perl operator"),
        (MaskConfig(patterns={"a": "x*"}), "empty text"),
        (MaskConfig(patterns={"a": r"\pL{1000}"}), "too large"),
        (MaskConfig(patterns={"a": "[ab]{999}[cd]{999}"}), "too large"),
        (MaskConfig(patterns={"a": ""}), "from 1 to"),
        (MaskConfig(patterns={"a": "x" * 501}), "from 1 to"),
        (MaskConfig(patterns={"A b": "x"}), "a name is like"),
        (MaskConfig(patterns={f"a{at}": "x" for at in range(21)}), "there may be 20"),
        (MaskConfig(()), "has no rule"),
    ],
)
def test_rules_that_cannot_be_kept_are_refused(config: MaskConfig, problem: str) -> None:
    with pytest.raises(InvalidKeyField, match=problem):
        check_mask(config)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+b", "([a-z]+)*!", "a.*b.*c.*d"])
@pytest.mark.parametrize("text", ["a" * 300_000, "ab" * 150_000, "a@" * 150_000, "0 " * 150_000, "AA00 " * 60_000, "4111 " * 60_000])
def test_hostile_text_takes_linear_time(pattern: str, text: str) -> None:
    """A quadratic rule would take minutes on these texts."""
    rules = compile_rules(MaskConfig(patterns={"own": pattern}))
    begin = time.process_time()
    rules.mask(text)
    assert time.process_time() - begin < 5


def test_body_keeps_everything_else_byte_for_byte() -> None:
    body = b'{ "model" : "a@b",  "messages":[{"role":"user","content":"Hello \\u00e9"}], "temperature":1.0,"seed":4111111111111111}'
    assert mask(body, compile_rules(MaskConfig(("card",)))) is body


def test_texts_keys_and_numbers_of_content_are_masked_and_identifiers_are_not() -> None:
    body = {
        "id": "call_4111111111111111",
        "user": "jane@example.com",
        "created": 4111111111111111,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "I am jane@example.com"}]},
            {
                "role": "assistant",
                "tool_calls": [{"id": "call_1", "function": {"name": "pay", "arguments": '{"card":"4111111111111111"}'}}],
                "content": [{"type": "tool_use", "input": {"card": 4111111111111111, "id": "4111111111111111", "a@example.com": [1, 2.5]}}],
            },
        ],
    }
    masked = json.loads(mask(json.dumps(body).encode(), RULES))
    assert (masked["id"], masked["created"], masked["user"]) == (body["id"], body["created"], "[masked: email]")
    assert masked["messages"][0]["content"][0]["text"] == "I am [masked: email]"
    assert masked["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"card":"[masked: card]"}'
    assert masked["messages"][1]["content"][0]["input"] == {"card": "[masked: card]", "id": "[masked: card]", "[masked: email]": [1, 2.5]}


@pytest.mark.parametrize("body", [b"jane@example.com", b'{"a": "jane@example.com"', b"\xff\xfe", b"[" * 100_000])
def test_what_is_neither_json_nor_events_is_withheld(body: bytes) -> None:
    assert mask(body, RULES) == b"[withheld: %d bytes]" % len(body)


def chat_frame(text: str, choice: int = 0) -> bytes:
    delta = {"id": "chatcmpl-1", "choices": [{"index": choice, "delta": {"content": text}}], "fingerprint": "fp_0123456789"}
    return b"data: " + json.dumps(delta).encode() + b"\n\n"


def anthropic_frame(text: str, block: int = 0) -> bytes:
    delta = {"type": "content_block_delta", "index": block, "delta": {"type": "text_delta", "text": text}}
    return b"event: content_block_delta\ndata: " + json.dumps(delta).encode() + b"\n\n"


def responses_frame(text: str, block: int = 0) -> bytes:
    delta = {"type": "response.output_text.delta", "output_index": block, "content_index": 0, "delta": text}
    return b"event: response.output_text.delta\ndata: " + json.dumps(delta).encode() + b"\n\n"


def read_text(stream: bytes, part: int = 0) -> str:
    """Returns what a reader makes of a stream of the frames above."""
    text = ""
    for line in stream.split(b"\n"):
        if not line.startswith(b"data: {"):
            continue
        match json.loads(line.removeprefix(b"data: ")):
            case {"choices": [{"index": index, "delta": {"content": delta}}]} if index == part:
                text += delta
            case {"index": index, "delta": {"text": delta}} if index == part:
                text += delta
            case {"output_index": index, "delta": str(delta)} if index == part:
                text += delta
            case _:
                continue
    return text


FRAMES = {"chat": chat_frame, "anthropic": anthropic_frame, "responses": responses_frame}


def cut(text: str, sizes: list[int]) -> list[str]:
    pieces: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[at : at + size])
        at += size
    return pieces


@pytest.mark.parametrize("dialect", FRAMES)
@given(
    st.lists(st.one_of(st.sampled_from([text for _, text in FOUND]), st.text("ab é 1", max_size=8)), max_size=6).map(" | ".join),
    st.lists(st.integers(1, 7), min_size=1, max_size=4),
    st.lists(st.integers(1, 400), min_size=1, max_size=3),
    st.sampled_from([0, 300, 16 * 1024]),
)
@settings(max_examples=150, deadline=None)
def test_stream_is_masked_as_its_text_is_whatever_cuts_it(dialect: str, text: str, sizes: list[int], blocks: list[int], hold: int) -> None:
    """Two texts run at once, in frames with pieces of `sizes`, of which `blocks` are fed at once."""
    frames = [FRAMES[dialect](piece, part) for piece in cut(text, sizes) for part in (0, 1)]
    with pytest.MonkeyPatch.context() as patch:
        # Held back far enough for the longest of these matches, however little each frame brings.
        patch.setattr(stream_masking, "HOLD_BYTES", hold + 2 * 120 * max((len(frame) for frame in frames), default=0))
        masker = StreamMasker(RULES)
        masked, at = b"", 0
        while at < len(frames):
            size = blocks[at % len(blocks)]
            masked += masker.feed(b"".join(frames[at : at + size]))
            masker = StreamMasker.decode(masker.encode())  # as for another process
            at += size
        masked += masker.finish()
    assert [read_text(masked, part) for part in (0, 1)] == [RULES.mask(text)] * 2
    assert masked.count(b"\n\n") == len(frames)
    if RULES.mask(text) == text:
        assert masked == b"".join(frames)


def test_long_stream_is_written_as_it_comes_with_bounded_memory() -> None:
    masker = StreamMasker(RULES)
    written = b""
    for number in range(4_000):
        for piece in ("mail jane", "@exam", "ple.com or +49 30 ", "1234567.", f" Row {number};"):
            written += masker.feed(chat_frame(piece))
            assert masker.held_bytes <= 4 * stream_masking.HOLD_BYTES
    text = read_text(written + masker.finish())
    assert len(written) > 100_000
    assert text == "".join(f"mail [masked: email] or [masked: phone]. Row {number};" for number in range(4_000))


@pytest.mark.parametrize("index", [10**30, -(10**30), 2**63, 0.5, True])
def test_position_that_is_none_is_no_obstacle(index: Any) -> None:
    """Engines write what they like."""
    masker = StreamMasker(RULES)
    frame = b'data: {"choices":[{"index":%b,"delta":{"content":"jane@example.com"}}]}\n\n' % json.dumps(index).encode()
    written = masker.feed(frame)
    masker = StreamMasker.decode(masker.encode())
    assert written + masker.finish() == frame.replace(b"jane@example.com", b"[masked: email]")


def test_text_that_comes_in_one_piece_is_searched_once() -> None:
    searched: list[int] = []

    class Counted(MaskRules):
        def find(self, text: bytes) -> list[Found]:
            searched.append(len(text))
            return super().find(text)

    text = "1.1.1.1 " * 10_000
    masker = StreamMasker(Counted(MaskConfig()))
    for delta in ("Rows: ", "some", "more"):
        masker.feed(responses_frame(delta))
    done = {"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": text}
    masked = masker.feed(b"data: " + json.dumps(done).encode() + b"\n\n") + masker.finish()
    assert masked.count(b"[masked: ip_address]") == 10_000
    assert sum(searched) < len(text) + 1_000


def test_text_repeated_in_each_frame_is_masked_by_itself() -> None:
    frame = b'data: {"user":"jane@example.com","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
    masked = mask(frame * 3, RULES)
    assert b"jane" not in masked and b"example" not in masked and masked.count(b'"content":"a"') == 3


def test_whole_texts_beside_deltas_are_masked() -> None:
    done = {"type": "response.completed", "response": {"output": [{"content": [{"text": "I am jane@example.com"}]}]}}
    stream = (
        responses_frame("I am jane@") + responses_frame("example.com") + b"data: " + json.dumps(done).encode() + b"\n\ndata: [DONE]\n\n"
    )
    masked = mask(stream, RULES)
    assert b"example" not in masked and masked.endswith(b"data: [DONE]\n\n")


def test_event_of_several_lines_stays_one_event() -> None:
    frame = b'data: {"a":\ndata: "jane@example.com",\ndata: "b": 1}\n\ndata: {"a":\ndata: 1}\n\n'
    assert mask(frame, RULES) == b'data: {"a":"[masked: email]","b":1}\n\ndata: {"a":1}\n\n'


def test_comments_ids_and_unreadable_data_are_withheld() -> None:
    frame = b": jane@example.com\nid: jane@example.com\nevent: jane@example.com\ndata: jane@example.com\n\n"
    assert b"jane" not in mask(frame, RULES)


values: Any = st.recursive(
    st.one_of(st.sampled_from([text for _, text in FOUND[:3]]), st.integers(), st.booleans(), st.none(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["messages", "input", "tools", "x", "type"]), values, max_size=4), st.sampled_from([b"", b" "]))
def test_large_document_is_masked_as_a_small_one(document: Any, before: bytes) -> None:
    raw = before + json.dumps(document).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.recording.content.masking._LARGE_BYTES", 0)
        in_steps = mask(raw, RULES)
    assert json.loads(in_steps) == json.loads(mask(raw, RULES))
    assert b"jane.doe" not in in_steps and b"1234567" not in in_steps


def test_every_detector_has_a_case() -> None:
    assert {rule for rule, _ in FOUND} == set(ALL_DETECTORS)
