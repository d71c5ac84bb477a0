"""Requests: who says what."""

from tests.conformance.asking import Asking, Carried, Refused, Reported, anthropic, assistant, chat, responses, user
from tests.conformance.asks_words import everywhere
from tests.conformance.situations import ANTHROPIC, CHAT, RESPONSES

CONVERSATION = {
    CHAT: chat(user("Hello"), assistant("Good day."), user("Go on.")),
    RESPONSES: responses(user("Hello"), assistant("Good day."), user("Go on.")),
    ANTHROPIC: anthropic(user("Hello"), assistant("Good day."), user("Go on.")),
}

MESSAGES = (
    everywhere("messages", "a conversation", CONVERSATION),
    Asking(
        "messages",
        "system prompt",
        {
            CHAT: chat({"role": "system", "content": "Be brief."}, user("Hello")),
            RESPONSES: {"instructions": "Be brief."},
            ANTHROPIC: {"system": "Be brief."},
        },
        {
            CHAT: Carried(chat({"role": "system", "content": "Be brief."}, user("Hello"))),
            RESPONSES: Carried({"instructions": "Be brief."}),
            ANTHROPIC: Carried({"system": "Be brief."}),
        },
    ),
    Asking(
        "messages",
        "developer message",
        {
            CHAT: chat({"role": "developer", "content": "Be brief."}, user("Hello")),
            RESPONSES: responses({"role": "developer", "content": "Be brief."}, user("Hello")),
        },
        {
            CHAT: Carried(chat({"role": "developer", "content": "Be brief."}, user("Hello"))),
            RESPONSES: Carried(responses({"role": "developer", "content": "Be brief."}, user("Hello"))),
            ANTHROPIC: Carried({"system": "Be brief."}, "system prompt"),
        },
    ),
    Asking(
        "messages",
        "system message in mid-conversation",
        {
            CHAT: chat(user("Hello"), assistant("Hi."), {"role": "system", "content": "Be brief."}, user("Go on.")),
            RESPONSES: responses(user("Hello"), assistant("Hi."), {"role": "system", "content": "Be brief."}, user("Go on.")),
            ANTHROPIC: anthropic(user("Hello"), assistant("Hi."), {"role": "system", "content": "Be brief."}, user("Go on.")),
        },
        {
            CHAT: Carried(chat(user("Hello"), assistant("Hi."), {"role": "system", "content": "Be brief."}, user("Go on."))),
            RESPONSES: Carried(responses(user("Hello"), assistant("Hi."), {"role": "system", "content": "Be brief."}, user("Go on."))),
            ANTHROPIC: Carried(anthropic(user("Hello"), assistant("Hi."), {"role": "system", "content": "Be brief."}, user("Go on."))),
        },
    ),
    Asking(
        "messages",
        "name of a participant",
        {CHAT: chat({"role": "user", "name": "anna", "content": "Hello"})},
        {RESPONSES: Refused("messages[0].name"), ANTHROPIC: Refused("messages[0].name")},
    ),
    Asking(
        "messages",
        "the answer's beginning given",
        {CHAT: chat(user("Hello"), assistant("Dear")), ANTHROPIC: anthropic(user("Hello"), assistant("Dear"))},
        {
            f"{CHAT}>{RESPONSES}": Carried(responses(user("Hello"), assistant("Dear"))),
            f"{CHAT}>{ANTHROPIC}": Carried(anthropic(user("Hello"), assistant("Dear"))),
            f"{ANTHROPIC}>{CHAT}": Reported(("prefill",), chat(user("Hello"), assistant("Dear"))),
            f"{ANTHROPIC}>{RESPONSES}": Reported(("prefill",), responses(user("Hello"), assistant("Dear"))),
        },
    ),
)
