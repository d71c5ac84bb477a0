"""A request to a function: what it becomes for each variant, in the caller's own dialect. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from app.gateway.functions.default_fields import CHAT, COUNT, DIALECTS_OF_FUNCTIONS, GOOGLE, INFERENCE, MESSAGES, RESPONSES, written_tools
from app.gateway.functions.function_table import CompiledFunction, CompiledVariant
from app.gateway.functions.google_contents import read_system_text, render_contents
from app.gateway.functions.inference_input import edit_inference
from app.gateway.functions.message_templates import MAX_INPUT_BYTES, MessageTemplates
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.canonical.token_estimate import text_tokens
from providers.dialect import CallerDialect, InboundRequest

_CHAT_TEXT_TYPES: Mapping[str, str] = dict.fromkeys(("system", "user", "assistant"), "text")
_RESPONSES_TEXT_TYPES: Mapping[str, str] = {"system": "input_text", "user": "input_text", "assistant": "output_text"}
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class FunctionRequest:
    """A request of a function, from which the requests of its variants are made. Raises InvalidRequest if the function does not answer such
    requests.

    `sent` is the request as the caller sent it, with the history of its conversation, and `input_field` its `narthex::input`. `size_bytes`
    counts all that; it is 0 until write(), as a thread should find it for a large one.
    """

    def __init__(self, function: CompiledFunction, dialect: CallerDialect, sent: InboundRequest, input_field: Raw | None) -> None:
        if dialect.name not in DIALECTS_OF_FUNCTIONS or sent.raw_prompt:
            raise InvalidRequest(
                f"{sent.model!r:.100} is a function, which answers chats: send it to /v1/chat/completions, /v1/responses, /v1/messages"
                " or Google's :generateContent."
                " Other requests name a model.",
                param="model",
            )
        if function.fault is not None:
            raise InvalidRequest(f"The function {function.name!r} cannot be used: {function.fault}.", param="model")
        self.function = function
        self.dialect = dialect
        self._sent = sent
        self.size_bytes = 0
        self.input_field = input_field
        self._system_input = read_system_input(input_field)

    def write(self, variant_name: str) -> tuple[InboundRequest, bytes]:
        """The request that the variant makes of it, and its body. Raises InvalidRequest for what the variant's templates do not take."""
        body = Body(self._sent.body)
        self.size_bytes = self.size_bytes or len(body.write())
        return self.finish(variant_name, edit_body(self.function, self.dialect.name, variant_name, body, self._system_input))

    def is_bounded(self, variant_name: str) -> bool:
        """Whether write() takes time that is bounded; if not, edit_body() belongs into a process."""
        return self.function.variants[variant_name].templates.is_bounded

    def sent_body(self) -> bytes:
        written = Body(self._sent.body).write()
        self.size_bytes = self.size_bytes or len(written)
        return written

    def finish(self, variant_name: str, body: Body) -> tuple[InboundRequest, bytes]:
        """Returns what write() does, given what edit_body() made of the request. Raises InvalidRequest."""
        variant = self.function.variants[variant_name]
        if self.dialect.name == INFERENCE:
            return self._finish_inference(body, variant)
        raw = body.write()
        try:
            parsed = self.dialect.parse_request(raw)
        except InvalidRequest as fault:
            why = f"What the variant {variant_name!r} of {self.function.name!r} makes of this is no valid request: {fault.message}"
            raise fault.reworded(why, param=fault.param) from None
        sent = self._sent
        written = replace(
            sent,
            body=parsed.body,
            input_tokens=sent.input_tokens + text_tokens(max(0, len(raw) - self.size_bytes)),
            output_tokens=parsed.output_tokens,
            has_strict_tools=parsed.has_strict_tools,
            holds_only_text=parsed.holds_only_text,
        )
        return written, raw

    def _finish_inference(self, body: Body, variant: CompiledVariant) -> tuple[InboundRequest, bytes]:
        """Its body is not as it came: the fields of a request stand where they were not. See the dialect's parse_request."""
        config, sent = self.function.config, self._sent
        if config.tools:
            body["tools"] = [*({**tool, "type": "function"} for tool in written_tools(config)), *(body.value("tools") or ())]
        if body.has_value("allowed_tools"):
            self._check_allowed_tools(body)
        body["variant_name"] = variant.name
        raw = body.write()
        tokens = sent.input_tokens + text_tokens(max(0, len(raw) - self.size_bytes))
        strict = None if config.tools else sent.has_strict_tools
        return replace(sent, body=body, input_tokens=tokens, output_tokens=body.value("max_tokens"), has_strict_tools=strict), raw

    def _check_allowed_tools(self, body: Body) -> None:
        names = {tool["name"] for tool in body.value("tools") or ()}
        for index, name in enumerate(body.value("allowed_tools")):
            if name not in names:
                raise InvalidRequest(
                    f"`allowed_tools[{index}]`: no tool {name!r:.60} is of the function {self.function.name!r} or in `additional_tools`.",
                    param=f"allowed_tools[{index}]",
                )


def edit_body(function: CompiledFunction, dialect_name: str, variant_name: str, body: Body, system_input: Mapping[str, Any] | None) -> Body:
    """The body, with what the variant makes of it. Raises InvalidRequest."""
    variant = function.variants[variant_name]
    _EDITS[dialect_name](body, variant, system_input)
    for default in variant.fields[dialect_name]:
        default.set_in(body)
    return body


def read_system_input(field: Raw | None) -> Mapping[str, Any] | None:
    if field is None:
        return None
    if len(memoryview(field)) > MAX_INPUT_BYTES:
        raise InvalidRequest(f"`narthex::input` may have {MAX_INPUT_BYTES} bytes, not {len(memoryview(field))}.", param="narthex::input")
    try:
        inputs = _decode_object(field)
    except DECODE_ERRORS as fault:
        raise InvalidRequest(f'`narthex::input` must be an object as {{"system": {{...}}}}: {fault}.', param="narthex::input") from None
    system = inputs.pop("system", None)
    if inputs or not isinstance(system, dict):
        raise InvalidRequest(
            '`narthex::input` must be {"system": {...}}, an object of the system template\'s variables; the input of other templates is in'
            " their messages.",
            param="narthex::input",
        )
    return system  # pyright: ignore[reportUnknownVariableType]


def _edit_chat(body: Body, variant: CompiledVariant, system_input: Mapping[str, Any] | None) -> None:
    templates = MessageTemplates(variant, system_input)
    messages = body["messages"]
    has_system = False
    if not templates.is_untouched(messages):
        messages, has_system = templates.render_messages(messages, "messages", _CHAT_TEXT_TYPES)
        body["messages"] = messages
    if templates.has_system and not has_system:
        body["messages"] = _prepend({"role": "system", "content": templates.render_system(None, "narthex::input.system")}, messages)


def _edit_responses(body: Body, variant: CompiledVariant, system_input: Mapping[str, Any] | None) -> None:
    templates = MessageTemplates(variant, system_input)
    items = body["input"]
    has_system = False
    if isinstance(items, Raw) and bytes(items)[:1] == b'"' and "user" in variant.templates:
        items = [{"role": "user", "content": items}]
    is_text = isinstance(items, Raw) and bytes(items)[:1] == b'"'
    if not is_text and not templates.is_untouched(items):
        body["input"], has_system = templates.render_messages(items, "input", _RESPONSES_TEXT_TYPES)
    if templates.has_system:
        instructions = body.value("instructions")
        if not has_system:
            body["instructions"] = _render_own(templates, instructions, system_input, "instructions")
        elif instructions:
            raise InvalidRequest("The system template takes `instructions` or one system message, not both.", param="instructions")


def _edit_messages(body: Body, variant: CompiledVariant, system_input: Mapping[str, Any] | None) -> None:
    templates = MessageTemplates(variant, system_input, dotted=True)
    has_system = False
    if not templates.is_untouched(body["messages"]):
        body["messages"], has_system = templates.render_messages(body["messages"], "messages", _CHAT_TEXT_TYPES)
    if not body.has_value("system"):
        if templates.has_system and not has_system:
            body["system"] = templates.render_system(None, "narthex::input.system")
        return
    if has_system:
        raise InvalidRequest("system: the system template takes `system` or one system message, not both", param="system")
    system = body.value("system")
    if isinstance(system, list):  # of blocks, which may hold the input
        [message], _ = templates.render_messages([{"role": "system", "content": body["system"]}], "system", _CHAT_TEXT_TYPES)
        if message["content"] is not body["system"]:
            body["system"] = message["content"]
    elif templates.has_system:
        body["system"] = _render_own(templates, system, system_input, "system")


def _edit_google(body: Body, variant: CompiledVariant, system_input: Mapping[str, Any] | None) -> None:
    templates = MessageTemplates(variant, system_input)
    if not templates.is_untouched(body["contents"]):
        body["contents"] = render_contents(templates, body["contents"])
    if templates.has_system:
        text = read_system_text(body.value("systemInstruction"))
        body["systemInstruction"] = {"parts": [{"text": _render_own(templates, text, system_input, "systemInstruction")}]}


def _render_own(templates: MessageTemplates, text: str | None, system_input: Mapping[str, Any] | None, field: str) -> str:
    """The system prompt of a dialect with a field for it, of the caller's text in that field."""
    if text and system_input is not None:
        raise InvalidRequest(f"The system template takes `{field}` or `narthex::input`, not both.", param=field)
    return templates.render_system(text or None, field if text else "narthex::input.system")


def _prepend(message: Mapping[str, str], messages: Any) -> Any:
    """Returns the messages after this one, without decoding what the caller sent."""
    if isinstance(messages, Raw):
        return Raw(b"[" + msgspec.json.encode(message) + b"," + bytes(messages)[1:])
    return [message, *messages]


_EDITS: Mapping[str, Callable[[Body, CompiledVariant, Mapping[str, Any] | None], None]] = {
    CHAT: _edit_chat,
    RESPONSES: _edit_responses,
    MESSAGES: _edit_messages,
    COUNT: _edit_messages,
    INFERENCE: edit_inference,
    GOOGLE: _edit_google,
}
