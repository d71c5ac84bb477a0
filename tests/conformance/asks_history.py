"""Requests: what earlier answers left in a conversation."""

from typing import Any

from tests.conformance.asking import Asking, Carried, Refused, Reported, anthropic, assistant, chat, responses, user
from tests.conformance.asks_words import PAPER, text
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES

SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
ENCRYPTED = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "gAAA"}
SERVED: list[dict[str, Any]] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
]
CITED = {"type": "text", "text": "It is so.", "citations": [{"type": "web_search_result_location", "url": PAPER, "encrypted_index": "Eo"}]}
ANNOTATION = {"type": "url_citation", "url": PAPER, "title": PAPER, "start_index": 0, "end_index": 9}
ANNOTATED = {"type": "output_text", "text": "It is so.", "annotations": [ANNOTATION]}
PLAIN = {
    CHAT: chat(user("Hello"), assistant("Hi."), user("So?")),
    RESPONSES: responses(user("Hello"), assistant("Hi."), user("So?")),
    ANTHROPIC: anthropic(user("Hello"), assistant("Hi."), user("So?")),
}

HISTORY = (
    Asking(
        "history",
        "reasoning in words",
        {CHAT: chat(user("Hello"), assistant("Hi.", reasoning_content="Hm."), user("So?"))},
        {
            RESPONSES: Reported(("reasoning_content",), PLAIN[RESPONSES]),
            ANTHROPIC: Reported(("reasoning_content",), PLAIN[ANTHROPIC]),
        },
    ),
    Asking(
        "history",
        "signed thinking of Anthropic's",
        {ANTHROPIC: anthropic(user("Hello"), assistant([SIGNED, text("Hi.")]), user("So?"))},
        {
            CHAT: Carried(
                chat(user("Hello"), assistant("Hi.", reasoning_content="Hm."), user("So?")), "reasoning in words", ("thinking.signature",)
            ),
            RESPONSES: Reported(("thinking", "thinking.signature"), PLAIN[RESPONSES]),
        },
    ),
    Asking(
        "history",
        "redacted thinking of Anthropic's",
        {ANTHROPIC: anthropic(user("Hello"), assistant([{"type": "redacted_thinking", "data": "Em"}, text("Hi.")]), user("So?"))},
        {CHAT: Reported(("thinking.signature",), PLAIN[CHAT]), RESPONSES: Reported(("thinking.signature",), PLAIN[RESPONSES])},
    ),
    Asking(
        "history",
        "encrypted reasoning of OpenAI's",
        {RESPONSES: responses(user("Hello"), ENCRYPTED, assistant("Hi."), user("So?"))},
        {
            CHAT: Carried(
                chat(user("Hello"), assistant("Hi.", reasoning_content="Hm."), user("So?")),
                "reasoning in words",
                ("reasoning.encrypted_content",),
            ),
            ANTHROPIC: Reported(("reasoning", "reasoning.encrypted_content"), PLAIN[ANTHROPIC]),
        },
    ),
    Asking(
        "history",
        "a refusal",
        {
            CHAT: chat(user("Hello"), {"role": "assistant", "content": None, "refusal": "No."}, user("So?")),
            RESPONSES: responses(user("Hello"), assistant([{"type": "refusal", "refusal": "No."}]), user("So?")),
        },
        {
            CHAT: Carried(chat(user("Hello"), {"role": "assistant", "content": None, "refusal": "No."}, user("So?"))),
            RESPONSES: Carried(responses(user("Hello"), assistant([{"type": "refusal", "refusal": "No."}]), user("So?"))),
            ANTHROPIC: Carried(anthropic(user("Hello"), assistant("No."), user("So?")), "text"),
        },
    ),
    Asking(
        "history",
        "citations",
        {ANTHROPIC: anthropic(user("Hello"), assistant([CITED]), user("So?"))},
        {
            CHAT: Reported(("messages[1].content[0].citations",), chat(user("Hello"), assistant("It is so."), user("So?"))),
            RESPONSES: Carried(responses(user("Hello"), assistant([ANNOTATED]), user("So?")), "an annotation with the address"),
        },
    ),
    Asking(
        "history",
        "a tool that the host ran",
        {
            RESPONSES: responses(
                user("Hello"), {"type": "web_search_call", "id": "ws_1", "status": "completed"}, assistant("Hi."), user("So?")
            ),
            ANTHROPIC: anthropic(user("Hello"), assistant([*SERVED, text("Hi.")]), user("So?")),
        },
        {
            f"{ANTHROPIC}>{CHAT}": Refused("messages[1].content[0]"),
            f"{ANTHROPIC}>{RESPONSES}": Refused("messages[1].content[0]"),
            f"{RESPONSES}>{CHAT}": Refused("input[1]"),
            f"{RESPONSES}>{ANTHROPIC}": Refused("input[1]"),
        },
    ),
)
