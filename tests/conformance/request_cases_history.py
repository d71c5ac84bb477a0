"""Cases of requests: what earlier responses leave in the history of a conversation."""

from typing import Any

from tests.conformance.request_case import DropReported, Refused, RequestCase, Translated, anthropic, assistant, chat, responses, user
from tests.conformance.request_samples import PDF_URL, text
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES

SIGNED_THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
ENCRYPTED_REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "gAAA"}
HOST_TOOL_BLOCKS: list[dict[str, Any]] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
]
CODE_CALL = {"type": "code_interpreter_call", "id": "ci_1", "container_id": "c", "code": "1", "outputs": None, "status": "completed"}
CITED_TEXT = {
    "type": "text",
    "text": "It is so.",
    "citations": [{"type": "web_search_result_location", "url": PDF_URL, "encrypted_index": "Eo"}],
}
URL_ANNOTATION = {"type": "url_citation", "url": PDF_URL, "title": PDF_URL, "start_index": 0, "end_index": 9}
ANNOTATED_TEXT = {"type": "output_text", "text": "It is so.", "annotations": [URL_ANNOTATION]}
PLAIN_HISTORY = {
    CHAT: chat(user("Hello"), assistant("Hi."), user("So?")),
    RESPONSES: responses(user("Hello"), assistant("Hi."), user("So?")),
    ANTHROPIC: anthropic(user("Hello"), assistant("Hi."), user("So?")),
}

HISTORY = (
    RequestCase(
        "history",
        "reasoning as text",
        {CHAT: chat(user("Hello"), assistant("Hi.", reasoning_content="Hm."), user("So?"))},
        {
            RESPONSES: DropReported(("reasoning_content",), PLAIN_HISTORY[RESPONSES]),
            ANTHROPIC: DropReported(("reasoning_content",), PLAIN_HISTORY[ANTHROPIC]),
        },
    ),
    RequestCase(
        "history",
        "signed thinking (Anthropic's)",
        {ANTHROPIC: anthropic(user("Hello"), assistant([SIGNED_THINKING, text("Hi.")]), user("So?"))},
        {
            CHAT: Translated(
                chat(user("Hello"), assistant("Hi.", reasoning_content="Hm."), user("So?")), "reasoning as text", ("thinking.signature",)
            ),
            RESPONSES: DropReported(("thinking", "thinking.signature"), PLAIN_HISTORY[RESPONSES]),
        },
    ),
    RequestCase(
        "history",
        "redacted thinking (Anthropic's)",
        {ANTHROPIC: anthropic(user("Hello"), assistant([{"type": "redacted_thinking", "data": "Em"}, text("Hi.")]), user("So?"))},
        {
            CHAT: DropReported(("thinking.signature",), PLAIN_HISTORY[CHAT]),
            RESPONSES: DropReported(("thinking.signature",), PLAIN_HISTORY[RESPONSES]),
        },
    ),
    RequestCase(
        "history",
        "encrypted reasoning (OpenAI's)",
        {RESPONSES: responses(user("Hello"), ENCRYPTED_REASONING, assistant("Hi."), user("So?"))},
        {
            CHAT: Translated(
                chat(user("Hello"), assistant("Hi.", reasoning_content="Hm."), user("So?")),
                "reasoning as text",
                ("reasoning.encrypted_content",),
            ),
            ANTHROPIC: DropReported(("reasoning", "reasoning.encrypted_content"), PLAIN_HISTORY[ANTHROPIC]),
        },
    ),
    RequestCase(
        "history",
        "refusal",
        {
            CHAT: chat(user("Hello"), {"role": "assistant", "content": None, "refusal": "No."}, user("So?")),
            RESPONSES: responses(user("Hello"), assistant([{"type": "refusal", "refusal": "No."}]), user("So?")),
        },
        {
            CHAT: Translated(chat(user("Hello"), {"role": "assistant", "content": None, "refusal": "No."}, user("So?"))),
            RESPONSES: Translated(responses(user("Hello"), assistant([{"type": "refusal", "refusal": "No."}]), user("So?"))),
            ANTHROPIC: Translated(anthropic(user("Hello"), assistant("No."), user("So?")), "text"),
        },
    ),
    RequestCase(
        "history",
        "citations",
        {ANTHROPIC: anthropic(user("Hello"), assistant([CITED_TEXT]), user("So?"))},
        {
            CHAT: DropReported(("messages[1].content[0].citations",), chat(user("Hello"), assistant("It is so."), user("So?"))),
            RESPONSES: Translated(responses(user("Hello"), assistant([ANNOTATED_TEXT]), user("So?")), "an annotation with the URL"),
        },
    ),
    RequestCase(
        "history",
        "a tool run by the host",
        {
            RESPONSES: responses(user("Hello"), CODE_CALL, assistant("Hi."), user("So?")),
            ANTHROPIC: anthropic(user("Hello"), assistant([*HOST_TOOL_BLOCKS, text("Hi.")]), user("So?")),
        },
        {
            f"{ANTHROPIC}>{CHAT}": Refused("messages[1].content[0]"),
            f"{ANTHROPIC}>{RESPONSES}": Refused("messages[1].content[0]"),
            f"{RESPONSES}>{CHAT}": Refused("input[1]"),
            f"{RESPONSES}>{ANTHROPIC}": Refused("input[1]"),
        },
    ),
    RequestCase(
        "history",
        "a search run by the host",
        {
            RESPONSES: responses(
                user("Hello"), {"type": "web_search_call", "id": "ws_1", "status": "completed"}, assistant("Hi."), user("So?")
            ),
        },
        {
            CHAT: DropReported(("input[1]",), chat(user("Hello"), assistant("Hi."), user("So?"))),
            ANTHROPIC: DropReported(("input[1]",), anthropic(user("Hello"), assistant("Hi."), user("So?"))),
        },
    ),
)
