"""Cases of requests: roles and messages."""

from tests.conformance.request_case import DropReported, RequestCase, Translated, anthropic, assistant, chat, responses, user
from tests.conformance.request_samples import translated_everywhere
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES

CONVERSATION = {
    CHAT: chat(user("Hello"), assistant("Good day."), user("Go on.")),
    RESPONSES: responses(user("Hello"), assistant("Good day."), user("Go on.")),
    ANTHROPIC: anthropic(user("Hello"), assistant("Good day."), user("Go on.")),
}

MESSAGES = (
    translated_everywhere("messages", "conversation", CONVERSATION),
    RequestCase(
        "messages",
        "system prompt",
        {
            CHAT: chat({"role": "system", "content": "Be brief."}, user("Hello")),
            RESPONSES: {"instructions": "Be brief."},
            ANTHROPIC: {"system": "Be brief."},
        },
        {
            CHAT: Translated(chat({"role": "system", "content": "Be brief."}, user("Hello"))),
            RESPONSES: Translated({"instructions": "Be brief."}),
            ANTHROPIC: Translated({"system": "Be brief."}),
        },
    ),
    RequestCase(
        "messages",
        "developer message",
        {
            CHAT: chat({"role": "developer", "content": "Be brief."}, user("Hello")),
            RESPONSES: responses({"role": "developer", "content": "Be brief."}, user("Hello")),
        },
        {
            CHAT: Translated(chat({"role": "developer", "content": "Be brief."}, user("Hello"))),
            RESPONSES: Translated(responses({"role": "developer", "content": "Be brief."}, user("Hello"))),
            ANTHROPIC: Translated({"system": "Be brief."}, "system prompt"),
        },
    ),
    RequestCase(
        "messages",
        "system message in the middle",
        {
            CHAT: chat(user("Hello"), assistant("Hi."), {"role": "system", "content": "Be brief."}, user("Go on.")),
            RESPONSES: responses(user("Hello"), assistant("Hi."), {"role": "system", "content": "Be brief."}, user("Go on.")),
            ANTHROPIC: anthropic(user("Hello"), assistant("Hi."), {"role": "system", "content": "Be brief."}, user("Go on.")),
        },
        {
            CHAT: Translated(chat(user("Hello"), assistant("Hi."), {"role": "system", "content": "Be brief."}, user("Go on."))),
            RESPONSES: Translated(responses(user("Hello"), assistant("Hi."), {"role": "system", "content": "Be brief."}, user("Go on."))),
            ANTHROPIC: Translated(anthropic(user("Hello"), assistant("Hi."), {"role": "system", "content": "Be brief."}, user("Go on."))),
        },
    ),
    RequestCase(
        "messages",
        "name of a participant",
        {CHAT: chat({"role": "user", "name": "anna", "content": "Hello"})},
        {
            RESPONSES: Translated(responses(user("anna said:\nHello")), "the beginning of the text"),
            ANTHROPIC: Translated(anthropic(user("anna said:\nHello")), "the beginning of the text"),
        },
    ),
    RequestCase(
        "messages",
        "prefill of the response",
        {CHAT: chat(user("Hello"), assistant("Dear")), ANTHROPIC: anthropic(user("Hello"), assistant("Dear"))},
        {
            f"{CHAT}>{RESPONSES}": Translated(responses(user("Hello"), assistant("Dear"))),
            f"{CHAT}>{ANTHROPIC}": Translated(anthropic(user("Hello"), assistant("Dear"))),
            f"{ANTHROPIC}>{CHAT}": DropReported(("prefill",), chat(user("Hello"), assistant("Dear"))),
            f"{ANTHROPIC}>{RESPONSES}": DropReported(("prefill",), responses(user("Hello"), assistant("Dear"))),
        },
    ),
)
