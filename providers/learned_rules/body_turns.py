"""The order of turns in a body that is ready to be sent: for callers who speak the target's dialect, whose bytes are edited.

Only roles are decoded, and the contents of messages that are said otherwise: a history may have thousands of others.
"""

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import Raw

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.template_errors import TemplateRule
from providers.drop_policy import DropPolicy
from providers.learned_rules.rule import LearnedRule
from providers.learned_rules.turn_order import Kind, order_turns

_Item = dict[str, Any]
"""A message, whose values are bytes until they are replaced."""

_decode_items = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_MESSAGE_TYPE = "message"
_REASONING = ("reasoning", "reasoning_content", "thinking")
_CALL_OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output", "shell_call_output", "mcp_call_output")


class _BodyShape:
    """Messages of OpenAI's Chat, and of Ollama's, whose contents are strings alone."""

    joins_results = False
    items_field = "messages"
    leading_field = ""
    text_type = "text"
    answer_type = "text"
    # The first instruction has no other place than `leading_field`: behind it a template sees another one.
    leads_in_field = False

    def kind(self, message: _Item) -> Kind:
        match _text(message.get("role")):
            case "system" | "developer":
                return "instruction"
            case "user":
                return "user"
            case "tool" | "function":
                return "results"
            case "assistant":
                return "assistant"
            case _:
                return "other"

    def as_leading(self, message: _Item) -> _Item:
        return message if _text(message.get("role")) == "system" else {**message, "role": "system"}

    def mark(self, message: _Item) -> _Item:
        content = _decode(message.get("content"))
        if isinstance(content, list):
            content = [self._mark_part(part) for part in cast("list[Any]", content)]
        else:
            content = f"<system>\n{content or ''}\n</system>"
        return {**message, "role": "user", "content": content}

    def _mark_part(self, part: Any) -> Any:
        text = _part_text(part)
        return part if text is None else {**part, "type": self.text_type, "text": f"<system>\n{text}\n</system>"}

    def merge(self, first: _Item, second: _Item) -> _Item:
        merged = {**second, **{key: value for key, value in first.items() if value != NULL}}
        for key in first.keys() & second.keys() - {"content"}:
            one, other = _decode(first[key]), _decode(second[key])
            if isinstance(one, list) and isinstance(other, list):  # calls of tools, Ollama's images
                merged[key] = [*cast("list[Any]", one), *cast("list[Any]", other)]
            elif key in _REASONING and isinstance(one, str) and isinstance(other, str):
                merged[key] = f"{one}\n\n{other}"
        contents = _decode(first.get("content")), _decode(second.get("content"))
        merged["content"] = self._merge_contents(*contents, is_answer=self.kind(first) == "assistant")
        return merged

    def _merge_contents(self, first: Any, second: Any, *, is_answer: bool) -> Any:
        if not first or not second:
            return first or second or ""
        if isinstance(first, str) and isinstance(second, str):
            return f"{first}\n\n{second}"
        text_type = self.answer_type if is_answer else self.text_type
        parts, more = (
            [{"type": text_type, "text": each}] if isinstance(each, str) else [*cast("list[Any]", each)] for each in (first, second)
        )
        if _part_text(parts[-1]) is not None and (text := _part_text(more[0])) is not None:
            more[0] = {**more[0], "text": f"\n\n{text}"}
        return [*parts, *more]

    def split_results(self, message: _Item) -> tuple[_Item, _Item | None]:
        return message, None

    def say(self, role: Literal["user", "assistant"], text: str) -> _Item:
        return {"role": role, "content": text}

    def write_leading(self, body: Body, message: _Item) -> None:
        """Writes the first instruction into `leading_field`, where that is no item."""
        assert self.leading_field
        body[self.leading_field] = message["content"]


class _MessagesShape(_BodyShape):
    """Anthropic's Messages: the first instruction is the field `system`, and results are the user's."""

    joins_results = True
    leading_field = "system"
    leads_in_field = True

    def kind(self, message: _Item) -> Kind:
        kind = super().kind(message)
        if kind != "user" or b'"tool_result"' not in bytes(as_raw(message.get("content"))):
            return kind
        return "results" if any(map(_is_result, self._blocks(message))) else kind

    def split_results(self, message: _Item) -> tuple[_Item, _Item | None]:
        blocks = self._blocks(message)
        others = [block for block in blocks if not _is_result(block)]
        if not others:
            return message, None
        return {**message, "content": [block for block in blocks if _is_result(block)]}, {**message, "content": others}

    def _blocks(self, message: _Item) -> list[Any]:
        content = _decode(message.get("content"))
        return cast("list[Any]", content) if isinstance(content, list) else []


class _ResponsesShape(_BodyShape):
    """OpenAI's Responses: items, of which messages are one kind; the first instruction may be the field `instructions`."""

    items_field = "input"
    leading_field = "instructions"
    text_type = "input_text"
    answer_type = "output_text"

    def kind(self, message: _Item) -> Kind:
        item_type = _text(message.get("type")) or _MESSAGE_TYPE
        if item_type == _MESSAGE_TYPE:
            return super().kind(message)
        return "results" if item_type in _CALL_OUTPUTS else "other"

    def say(self, role: Literal["user", "assistant"], text: str) -> _Item:
        return {"type": _MESSAGE_TYPE, "role": role, "content": text}

    def write_leading(self, body: Body, message: _Item) -> None:
        content = _decode(message.get("content"))
        if isinstance(content, list):
            content = "".join(text for part in cast("list[Any]", content) if (text := _part_text(part)) is not None)
        body["instructions"] = content


_SHAPES: Mapping[str, _BodyShape] = {
    "openai_chat": _BodyShape(),
    "ollama_chat": _BodyShape(),
    "anthropic_messages": _MessagesShape(),
    "anthropic_count_tokens": _MessagesShape(),
    "openai_responses": _ResponsesShape(),
}


def order_body(body: Body, rule: LearnedRule, drop_policy: DropPolicy) -> bool:
    """Orders the messages of a body in place as a template takes them, reports those that changed, and returns whether any did."""
    shape = _SHAPES.get(rule.dialect)
    if shape is None or not body.has_value(shape.items_field):
        return False
    try:
        return _order(body, shape, cast("TemplateRule", rule.kind), drop_policy)
    except (*DECODE_ERRORS, TypeError):  # what is no list of messages: the host says what is wrong with it
        return False


def _order(body: Body, shape: _BodyShape, rule: TemplateRule, drop_policy: DropPolicy) -> bool:
    items = _read_items(body, shape)
    has_leading_field = bool(shape.leading_field) and bool(_decode(body.get(shape.leading_field)))
    if has_leading_field:
        items = [{"role": "system", "content": body[shape.leading_field]}, *items]
    ordered = order_turns(items, shape, rule)
    messages = items if ordered is None else ordered.messages
    is_led = rule != "no_instructions" and bool(messages) and shape.kind(messages[0]) == "instruction"
    goes_to_field = is_led and (has_leading_field or shape.leads_in_field)
    if ordered is None and (has_leading_field or not goes_to_field):
        return False
    if goes_to_field:
        shape.write_leading(body, messages[0])
        messages = messages[1:]
    elif has_leading_field:
        del body[shape.leading_field]
    body[shape.items_field] = messages
    for index in () if ordered is None else ordered.changed:
        at = index - has_leading_field
        drop_policy.report_dropped(shape.leading_field if at < 0 else f"{shape.items_field}[{at}].role")
    return True


def _read_items(body: Body, shape: _BodyShape) -> list[_Item]:
    value = body[shape.items_field]
    if isinstance(value, str) or bytes(as_raw(value))[:1] == b'"':  # the whole input of Responses
        return [shape.say("user", _decode(value))]
    return cast("list[_Item]", _decode_items(bytes(as_raw(value))))


def _decode(value: Any) -> Any:
    if value is None:
        return None
    return msgspec.json.decode(value if isinstance(value, Raw) else msgspec.json.encode(value))


def _text(value: Any) -> str:
    decoded = value if isinstance(value, str) else _decode(value)
    return decoded if isinstance(decoded, str) else ""


def _part_text(part: Any) -> str | None:
    text = cast("_Item", part).get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else None


def _is_result(block: Any) -> bool:
    return isinstance(block, dict) and cast("_Item", block).get("type") == "tool_result"
