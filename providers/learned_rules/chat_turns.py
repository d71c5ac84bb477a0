"""The order of turns in a canonical chat: what is translated for a strict template."""

from typing import Literal

from msgspec.structs import replace

from providers.canonical.chat import ChatRequest, Message, Text, ToolResult
from providers.canonical.instructions import is_instruction, mark_instruction
from providers.canonical.template_errors import TemplateRule
from providers.drop_policy import DropPolicy
from providers.learned_rules.turn_order import Kind, order_turns


class _CanonicalShape:
    joins_results = True

    def kind(self, message: Message) -> Kind:
        if is_instruction(message):
            return "instruction"
        if message.role == "assistant":
            return "assistant"
        return "results" if any(isinstance(part, ToolResult) for part in message.parts) else "user"

    def as_leading(self, message: Message) -> Message:
        return message if message.role == "system" else replace(message, role="system")

    def mark(self, message: Message) -> Message:
        return mark_instruction(message)

    def merge(self, first: Message, second: Message) -> Message:
        parts, more = first.parts, second.parts
        if parts and more and isinstance(last := parts[-1], Text) and isinstance(text := more[0], Text):
            if last.extra or text.extra or last.citations or text.citations:
                more = (replace(text, text=f"\n\n{text.text}"), *more[1:])
            else:
                parts, more = parts[:-1], (Text(f"{last.text}\n\n{text.text}"), *more[1:])
        return replace(first, parts=(*parts, *more), extra={**second.extra, **first.extra})

    def split_results(self, message: Message) -> tuple[Message, Message | None]:
        results = tuple(part for part in message.parts if isinstance(part, ToolResult))
        others = tuple(part for part in message.parts if not isinstance(part, ToolResult))
        return (message, None) if not others else (replace(message, parts=results), Message("user", others, message.name))

    def say(self, role: Literal["user", "assistant"], text: str) -> Message:
        return Message(role, (Text(text),))


_SHAPE = _CanonicalShape()


def order_chat(chat: ChatRequest, rule: TemplateRule, drop_policy: DropPolicy) -> ChatRequest:
    """The chat as a template with this rule takes it; each message that changed its place or role is reported."""
    ordered = order_turns(chat.messages, _SHAPE, rule)
    if ordered is None:
        return chat
    for index in ordered.changed:
        drop_policy.drop_hint(f"messages[{index}].role")
    drop_policy.renumber_messages(ordered.indexes)
    return replace(chat, messages=tuple(ordered.messages))
