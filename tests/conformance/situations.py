"""The responses of the conformance tests, each once: its canonical parts, which APIs can express it, and how a stream cuts it.

engine_chat, engine_responses and engine_anthropic write a situation as those APIs document it; stream_quirks.py holds what real engines
send instead.
"""

import json
from collections.abc import Iterator

from msgspec import Raw, Struct

from providers.canonical.chat import Citation, Opaque, OpaqueState, Part, Reasoning, Refusal, Text, ToolCall, Usage

CHAT = "openai_chat"
RESPONSES = "openai_responses"
ANTHROPIC = "anthropic_messages"
GEMINI = "gemini"
# The APIs that both callers and engines of the tests speak, and those of callers.
ALL = (CHAT, RESPONSES, ANTHROPIC)
CALLER_APIS = (*ALL, GEMINI)


class WireResponse(Struct, frozen=True):
    """A response as an engine sends it: its stream, and its unstreamed body; None where only a stream can express it."""

    stream: bytes
    body: bytes | None


class Situation(Struct, frozen=True, kw_only=True):
    """One response, and how it may be sent and requested."""

    name: str
    parts: tuple[Part, ...] = ()
    finish: str = "stop"
    native_finish_reason: str | None = None
    stop_sequence: str | None = None
    usage: Usage | None = Usage(input=20, output=9)
    logprobs: tuple[Raw, ...] | None = None
    other_choices: tuple[str, ...] = ()
    targets: tuple[str, ...] = ALL  # the dialects of engines that can send it
    callers: tuple[str, ...] = CALLER_APIS  # the dialects whose callers can request it
    unstreamed_targets: tuple[str, ...] = ALL  # the targets whose unstreamed body can express it too; only streams keep some orders
    pieces: int = 3  # how many pieces each text is cut into
    last_part_pieces: tuple[str, ...] = ()  # the pieces of the last part, where it matters where they are cut
    interleaved: bool = False  # whether calls are streamed in turns, a fragment of each at a time


class StreamStep(Struct, frozen=True):
    """One step of a stream: part `at` begins (`first`), grows by `piece`, or both; with `last` it is complete."""

    at: int
    piece: str
    first: bool
    last: bool


def stream_steps(situation: Situation) -> Iterator[StreamStep]:
    """The steps in which the parts are streamed: one part after the other, or interleaved."""
    queues = [_cut(situation, at) for at in range(len(situation.parts))]
    steps = [
        [StreamStep(at, piece, number == 0, number == len(queue) - 1) for number, piece in enumerate(queue)]
        for at, queue in enumerate(queues)
    ]
    if not situation.interleaved:
        return (step for queue in steps for step in queue)
    longest = max(len(queue) for queue in steps)
    return (queue[number] for number in range(longest) for queue in steps if number < len(queue))


def _cut(situation: Situation, at: int) -> list[str]:
    if situation.last_part_pieces and at == len(situation.parts) - 1:
        return list(situation.last_part_pieces)
    text = text_of(situation.parts[at])
    size = max(1, -(-len(text) // situation.pieces))
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]


def text_of(part: Part) -> str:
    match part:
        case Text() | Reasoning() | Refusal():
            return part.text
        case ToolCall():
            return part.arguments
        case Opaque():
            return ""


def weather_call(id: str, city: str) -> ToolCall:
    return ToolCall(id, "get_weather", json.dumps({"city": city}, ensure_ascii=False))


PARIS = weather_call("call_paris", "Paris")
ROME = weather_call("call_rome", "Rome")
OSLO = weather_call("call_oslo", "Oslo")
THOUGHT = Reasoning("The user wants the weather. I should look it up.")
HELLO = Text("Hello! Let me see.")
ESCAPED_CALL = ToolCall("call_1", "say", '{"text": "a\\ud83d\\ude00b\\n\\u00e9"}')
UNICODE_CALL = ToolCall("call_1", "say", '{"text": "😀 日本語 \\"quoted\\" \\\\ end", "more": ["é", null, 1.5e3]}')
HUGE_CALL = ToolCall("call_1", "write_file", json.dumps({"path": "a.txt", "content": "line of text\n" * 8000}))
CUSTOM_CALL = ToolCall("call_q", "run_sql", "SELECT * FROM t WHERE x = 'a\"b'", custom=True)

ANTHROPIC_SIGNED = Reasoning("Let me think about Paris.", OpaqueState(ANTHROPIC, "EqQBCkYIBxgCKkD+sig/na=ture=="))
ANTHROPIC_SIGNED_SECOND = Reasoning("And now about Rome.", OpaqueState(ANTHROPIC, "RXJRCkYIsecond=="))
ANTHROPIC_SIGNATURE_ALONE = Reasoning("", OpaqueState(ANTHROPIC, "EqQBsilent=="))
REDACTED = Opaque(ANTHROPIC, Raw(b'{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/redacted=="}'))
ANTHROPIC_SEARCH = (
    Opaque(ANTHROPIC, Raw(b'{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"narthex"}}')),
    Opaque(
        ANTHROPIC,
        Raw(
            b'{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result",'
            b'"url":"https://example.org","title":"T","encrypted_content":"Eo8","page_age":null}]}'
        ),
    ),
)
RESPONSES_SEARCH = Opaque(
    RESPONSES, Raw(b'{"type":"web_search_call","id":"ws_0","status":"completed","action":{"type":"search","query":"narthex"}}')
)
RESPONSES_ENCRYPTED = Reasoning("Weighing the options.", OpaqueState(RESPONSES, "gAAAAABencrypted=="))
RESPONSES_ENCRYPTED_ALONE = Reasoning("", OpaqueState(RESPONSES, "gAAAAABsilent=="))

SIGNED_CALL = ToolCall("call_paris", "get_weather", '{"city": "Paris"}', opaque_state=OpaqueState("gemini", "CiQBdGhvdWdodCBzaWc="))

WEB_CITED_TEXT = Text("Narthex opened in 2026, the site says.")
CITED_URL = "https://example.org/narthex"
DOCUMENT_CITED_TEXT = Text("The report says that sales fell.")

LOGPROBS = tuple(
    Raw(json.dumps({"token": token, "logprob": -0.25, "bytes": list(token.encode()), "top_logprobs": []}).encode())
    for token in ("Yes", ".")
)


def text_citing_a_web_page(target: str) -> Text:
    """A text that cites a web page, with the citation as an engine of that dialect writes it."""
    end = len(WEB_CITED_TEXT.text)
    annotation = {"type": "url_citation", "url": CITED_URL, "title": "Narthex", "start_index": 0, "end_index": end}
    raw = {
        CHAT: {"type": "url_citation", "url_citation": {key: value for key, value in annotation.items() if key != "type"}},
        RESPONSES: annotation,
        ANTHROPIC: {
            "type": "web_search_result_location",
            "url": CITED_URL,
            "title": "Narthex",
            "encrypted_index": "Eo8B",
            "cited_text": "2026",
        },
    }[target]
    return Text(WEB_CITED_TEXT.text, citations=(Citation(target, Raw(json.dumps(raw).encode()), url=CITED_URL, title="Narthex"),))


def text_citing_a_document() -> Text:
    """A text that cites a passage of the caller's document: only Anthropic has such citations."""
    raw = {
        "type": "char_location",
        "cited_text": "Sales fell by 3%.",
        "document_index": 0,
        "document_title": "Report",
        "start_char_index": 0,
        "end_char_index": 17,
        "file_id": None,
    }
    return Text(
        DOCUMENT_CITED_TEXT.text, citations=(Citation(ANTHROPIC, Raw(json.dumps(raw).encode()), title="Report", quote="Sales fell by 3%."),)
    )


SITUATIONS = (
    Situation(name="text", parts=(HELLO,)),
    Situation(name="text in one piece", parts=(HELLO,), pieces=1),
    Situation(name="text in many pieces", parts=(Text("Grüße, 日本! 😀 " * 10),), pieces=40),
    Situation(name="empty response"),
    Situation(name="truncated by length", parts=(Text("Once upon a"),), finish="length"),
    Situation(name="content filter", parts=(Text("How to"),), finish="content_filter", targets=(CHAT, RESPONSES)),
    Situation(
        name="refusal as a stop reason",
        parts=(Text("I"),),
        finish="content_filter",
        native_finish_reason="refusal",
        targets=(ANTHROPIC,),
    ),
    Situation(name="refusal before any text", finish="content_filter", native_finish_reason="refusal", targets=(ANTHROPIC,)),
    Situation(name="refusal", parts=(Refusal("I cannot help with that."),), targets=(CHAT, RESPONSES)),
    Situation(
        name="stop sequence", parts=(Text("One, two, "),), native_finish_reason="stop_sequence", stop_sequence="three", targets=(ANTHROPIC,)
    ),
    Situation(name="pause", parts=(Text("Searching on"),), native_finish_reason="pause_turn", targets=(ANTHROPIC,)),
    Situation(
        name="context window exceeded",
        parts=(HELLO,),
        finish="length",
        native_finish_reason="model_context_window_exceeded",
        targets=(ANTHROPIC,),
    ),
    Situation(name="reasoning, then text", parts=(THOUGHT, HELLO), targets=(CHAT, RESPONSES)),
    Situation(name="reasoning, then text, then calls", parts=(THOUGHT, HELLO, PARIS, ROME), finish="tool_calls", targets=(CHAT, RESPONSES)),
    Situation(name="one call", parts=(PARIS,), finish="tool_calls"),
    Situation(name="one call in one piece", parts=(PARIS,), finish="tool_calls", pieces=1),
    Situation(name="one call in many pieces", parts=(PARIS,), finish="tool_calls", pieces=40),
    Situation(name="parallel calls", parts=(PARIS, ROME, OSLO), finish="tool_calls"),
    Situation(
        name="interleaved parallel calls", parts=(PARIS, ROME, OSLO), finish="tool_calls", interleaved=True, targets=(CHAT, RESPONSES)
    ),
    Situation(name="two calls of one name with equal arguments", parts=(PARIS, weather_call("call_again", "Paris")), finish="tool_calls"),
    Situation(name="call after text", parts=(HELLO, PARIS), finish="tool_calls"),
    Situation(name="text after call", parts=(PARIS, Text("I have asked.")), finish="tool_calls", unstreamed_targets=(RESPONSES, ANTHROPIC)),
    Situation(name="text between calls", parts=(PARIS, HELLO, ROME), finish="tool_calls", unstreamed_targets=(RESPONSES, ANTHROPIC)),
    Situation(name="call without arguments", parts=(ToolCall("call_1", "now", "{}"),), finish="tool_calls"),
    Situation(name="call with empty arguments", parts=(ToolCall("call_1", "now", ""),), finish="tool_calls"),
    Situation(name="first of two calls without arguments", parts=(ToolCall("call_1", "now", ""), PARIS), finish="tool_calls"),
    Situation(
        name="arguments cut within an escape",
        parts=(ESCAPED_CALL,),
        finish="tool_calls",
        last_part_pieces=('{"text": "a\\', "ud83", "d\\ude0", '0b\\n\\u00e9"}'),
    ),
    Situation(
        name="arguments cut within a surrogate pair",
        parts=(ESCAPED_CALL,),
        finish="tool_calls",
        last_part_pieces=('{"text": "a\\ud83d', '\\ude00b\\n\\u00e9"}'),
    ),
    Situation(name="arguments beyond ASCII", parts=(UNICODE_CALL,), finish="tool_calls", pieces=60),
    Situation(name="huge arguments", parts=(HUGE_CALL,), finish="tool_calls", pieces=20),
    Situation(name="forced call that finishes with stop", parts=(PARIS,), finish="stop", targets=(CHAT,)),
    Situation(
        name="call truncated by length",
        parts=(ToolCall("call_1", "get_weather", '{"city": "Par'),),
        finish="length",
        unstreamed_targets=(CHAT, RESPONSES),
    ),
    Situation(name="custom tool", parts=(CUSTOM_CALL,), finish="tool_calls", targets=(CHAT, RESPONSES), callers=(CHAT, RESPONSES)),
    Situation(name="signed thinking", parts=(ANTHROPIC_SIGNED, HELLO), targets=(ANTHROPIC,)),
    Situation(name="signed thinking before a call", parts=(ANTHROPIC_SIGNED, HELLO, PARIS), finish="tool_calls", targets=(ANTHROPIC,)),
    Situation(
        name="reasoning between texts and calls",
        parts=(ANTHROPIC_SIGNED, HELLO, ANTHROPIC_SIGNED_SECOND, Text("Then this."), PARIS),
        finish="tool_calls",
        targets=(ANTHROPIC,),
    ),
    Situation(name="signed thinking without text", parts=(ANTHROPIC_SIGNATURE_ALONE, PARIS), finish="tool_calls", targets=(ANTHROPIC,)),
    Situation(name="redacted thinking", parts=(REDACTED, HELLO), targets=(ANTHROPIC,)),
    Situation(name="redacted thinking before a call", parts=(ANTHROPIC_SIGNED, REDACTED, PARIS), finish="tool_calls", targets=(ANTHROPIC,)),
    Situation(name="a tool run by Anthropic", parts=(HELLO, *ANTHROPIC_SEARCH, Text("Found it.")), targets=(ANTHROPIC,)),
    Situation(name="a tool run by OpenAI", parts=(RESPONSES_SEARCH, Text("Found it.")), targets=(RESPONSES,)),
    Situation(name="encrypted reasoning", parts=(RESPONSES_ENCRYPTED, HELLO), targets=(RESPONSES,)),
    Situation(
        name="encrypted reasoning without text", parts=(RESPONSES_ENCRYPTED_ALONE, PARIS, ROME), finish="tool_calls", targets=(RESPONSES,)
    ),
    Situation(name="signed call", parts=(SIGNED_CALL,), finish="tool_calls", targets=(CHAT,)),
    *(Situation(name=f"a web page cited by {target}", parts=(text_citing_a_web_page(target),), targets=(target,)) for target in ALL),
    Situation(name="a document cited", parts=(text_citing_a_document(),), targets=(ANTHROPIC,)),
    Situation(name="logprobs", parts=(Text("Yes."),), logprobs=LOGPROBS, targets=(CHAT, RESPONSES)),
    Situation(name="usage with cached and reasoning tokens", parts=(HELLO,), usage=Usage(100, 50, 64, 30, 0)),
    Situation(name="usage with tokens written to a cache", parts=(HELLO,), usage=Usage(100, 50, 0, 0, 80), targets=(RESPONSES, ANTHROPIC)),
    Situation(name="no usage", parts=(HELLO,), usage=None, targets=(CHAT, RESPONSES)),
    Situation(name="several choices", parts=(HELLO,), other_choices=("Good day.", "Hi."), targets=(CHAT,), callers=(CHAT, GEMINI)),
)
