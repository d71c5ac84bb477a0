"""The messages of a caller with templates rendered in them, in its own dialect. What no template is about stays the caller's bytes.

A block of content may hold the input of a template instead of a text:

    {"type": "text", "narthex::arguments": {...}}                                the template of the message's role
    {"type": "narthex::template", "name": "NAME", "arguments": {...}}            a template by name; without one that of the role
    {"type": "narthex::raw_text", "value": "..."}                                a text that no template gets

each with `tensorzero::` as well. Messages needs a `text` beside arguments, so that its callers use the second form.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

import msgspec
from msgspec import Raw, Struct, field

from app.gateway.functions.function_table import CompiledVariant
from app.templating.errors import RenderFault
from app.templating.templates import TEXT_VARIABLES
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import DECODE_ERRORS

MAX_INPUT_BYTES = 256 * 1024
MAX_RENDERED_CHARACTERS = 1024 * 1024
# Of this thread, all templates of a request together: a usual one takes a hundredth of a millisecond.
_MAX_RENDER_S = 0.02
# Of one template no more counts, and so much for each byte that is checked by its schema: its fuel is bounded, and what took longer was
# something else, as a collection of garbage.
_MAX_COUNTED_S, _MAX_COUNTED_S_PER_BYTE = 0.002, 1e-7

_TEMPLATE_TYPES = frozenset({"narthex::template", "tensorzero::template"})
_RAW_TEXT_TYPES = frozenset({"narthex::raw_text", "tensorzero::raw_text"})
_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_MARKERS = (b"::arguments", b"::template", b"::raw_text")
_ROLES: Mapping[str, str] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


class _Block(Struct):
    type: str = ""
    text: str | None = None
    name: str | None = None
    value: str | None = None
    arguments: dict[str, Any] | None = None
    narthex_arguments: dict[str, Any] | None = field(default=None, name="narthex::arguments")
    tensorzero_arguments: dict[str, Any] | None = field(default=None, name="tensorzero::arguments")


_decode_items = msgspec.json.Decoder(list[Raw]).decode
_decode_message = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_block = msgspec.json.Decoder(_Block).decode
_encode = msgspec.json.encode


class MessageTemplates:
    """Renders the messages of one request for one variant. All methods raise InvalidRequest.

    `system_input` is what the request has for the system template apart from its messages; None means nothing. `dotted` says that paths are
    written as Anthropic does.
    """

    def __init__(self, variant: CompiledVariant, system_input: Mapping[str, Any] | None, *, dotted: bool = False) -> None:
        self._templates = variant.templates
        self._variant_name = variant.name
        self._system_input = system_input
        self._dotted = dotted
        self._rendered_characters = 0
        self._render_s = 0.0
        self.has_system = "system" in variant.templates
        self._roles = frozenset(role for role in ("user", "assistant") if role in variant.templates)
        if system_input is not None and not self.has_system:
            raise InvalidRequest(
                f"The variant {variant.name!r} has no system template that `narthex::input` could be for.", param="narthex::input"
            )

    def render_system(self, text: str | None, path: str) -> str:
        """Returns what the system template makes of the caller's own `text` at `path`, or of the input.

        `text` is None if the caller sent none.
        """
        if text is None:
            takes_text = self._templates.takes_text("system")
            return self._render(
                "system", {"system_text": ""} if takes_text and self._system_input is None else self._system_input or {}, path
            )
        return self._render_text("system", text, path)

    def is_untouched(self, items: Any) -> bool:
        """Whether no template is about any of these messages, as a look at their bytes shows."""
        if self._roles or not isinstance(items, Raw):
            return False
        raw = bytes(items)
        if any([marker in raw for marker in _MARKERS]):
            return False
        return not self.has_system or (b'"system"' not in raw and b'"developer"' not in raw and b"\\u" not in raw)

    def render_messages(self, items: Any, path: str, text_types: Mapping[str, str]) -> tuple[list[Any], bool]:
        """The messages, and whether one of them is of the system. `text_types` has the type of a block of text by role."""
        decoded: Sequence[Any] = _decode_items(items) if isinstance(items, Raw) else items
        rendered: list[Any] = []
        system_messages = 0
        for at, item in enumerate(decoded):
            message = _as_message(item)
            role = None if message is None else _ROLES.get(_text_of(message.get("role")))
            if message is None or role is None or "content" not in message:
                rendered.append(item)
                continue
            if role == "system" and self.has_system:
                system_messages += 1
                if system_messages > 1 or self._system_input is not None:
                    self._refuse(
                        "The system template takes one system message, or `narthex::input`, and the request has more.", self._at(path, at)
                    )
            content = self._render_content(message["content"], role, self._join(self._at(path, at), "content"), text_types[role])
            rendered.append(item if content is None else {**message, "content": content})
        return rendered, system_messages > 0

    def _render_content(self, raw: Raw, role: str, path: str, text_type: str) -> Any:
        """Returns the content as the template makes it, or None if it stays as it is."""
        beginning = bytes(raw)[:1]
        if beginning == b'"':
            if not self._has_template(role):
                return None
            return self._render_text(role, msgspec.json.decode(raw), path)
        if beginning != b"[":
            return None
        parts: list[Any] = []
        is_changed = False
        for at, part in enumerate(_decode_items(raw)):
            text = self._render_part(part, role, self._at(path, at))
            is_changed = is_changed or text is not None
            parts.append(part if text is None else {"type": text_type, "text": text})
        if not is_changed:
            return None
        if len(parts) == 1:  # which every engine takes as a text
            return cast("dict[str, str]", parts[0])["text"]
        return parts

    def _render_part(self, part: Raw, role: str, path: str) -> str | None:
        raw = bytes(part)
        if not self._has_template(role) and b"::" not in raw:
            return None
        try:
            block = _decode_block(raw)
        except DECODE_ERRORS as fault:
            if b"::" not in raw:  # a block that is the host's to judge
                return None
            raise InvalidRequest(f"{fault} (in the block at `{path}`).", param=path) from None
        arguments, arguments_path = _arguments_of(block)
        if block.type in _RAW_TEXT_TYPES:
            if block.value is None:
                self._refuse("Object missing required field `value`", path)
            return block.value
        if block.type in _TEMPLATE_TYPES or arguments is not None:
            if len(raw) > MAX_INPUT_BYTES:
                self._refuse(f"The input of a template may have {MAX_INPUT_BYTES} bytes, not {len(raw)}", path)
            name = (block.name if block.type in _TEMPLATE_TYPES else None) or role
            if name not in self._templates:
                self._refuse(f"The variant {self._variant_name!r} has no template {name!r:.100}", path)
            inputs = block.arguments or {} if arguments is None else arguments
            return self._render(name, inputs, self._join(path, arguments_path), len(raw))
        if block.type in _TEXT_TYPES and block.text is not None and self._has_template(role):
            return self._render_text(role, block.text, path)
        return None

    def _render_text(self, role: str, text: str, path: str) -> str:
        if not self._templates.takes_text(role):
            if self._templates.has_schema(role):
                how = 'send {"type": "narthex::template", "arguments": {...}} with the variables of its schema'
                how += " (or the field `narthex::input`)" if role == "system" else ' (or a "narthex::raw_text", which no template gets)'
            else:
                how = "leave the message out"
            self._refuse(f"The variant {self._variant_name!r} has a template for {role} messages that takes no text: {how}", path)
        return self._render(role, {TEXT_VARIABLES[role]: text}, path)

    def _render(self, name: str, inputs: Mapping[str, Any], path: str, size_bytes: int = 0) -> str:
        began_s = time.thread_time()
        try:
            text = self._templates.render(name, inputs)
        except RenderFault as fault:
            where = f"{path}{fault.path}"
            raise InvalidRequest(f"{fault.message[:1].upper()}{fault.message[1:]} (at `{where}`).", param=where) from None
        self._render_s += min(time.thread_time() - began_s, _MAX_COUNTED_S + size_bytes * _MAX_COUNTED_S_PER_BYTE)
        self._rendered_characters += len(text)
        if self._rendered_characters > MAX_RENDERED_CHARACTERS or self._render_s > _MAX_RENDER_S:
            self._refuse("The templates of this request, all together, take too long or write too much", path)
        return text

    def _has_template(self, role: str) -> bool:
        return role in self._roles or (role == "system" and self.has_system)

    def _at(self, path: str, index: int) -> str:
        return f"{path}.{index}" if self._dotted else f"{path}[{index}]"

    def _join(self, path: str, name: str) -> str:
        return f"{path}.{name}" if name else path

    def _refuse(self, message: str, path: str) -> NoReturn:
        raise InvalidRequest(f"{message.removesuffix('.')} (at `{path}`).", param=path)


def _arguments_of(block: _Block) -> tuple[dict[str, Any] | None, str]:
    """The arguments beside a text, and the name of their field. None: the block has none."""
    if block.narthex_arguments is not None:
        return block.narthex_arguments, "narthex::arguments"
    if block.tensorzero_arguments is not None:
        return block.tensorzero_arguments, "tensorzero::arguments"
    return None, "arguments" if block.type in _TEMPLATE_TYPES else ""


def _as_message(item: Any) -> Mapping[str, Raw] | None:
    """Returns the item as a message, or None if it is no object."""
    try:
        return _decode_message(item if isinstance(item, Raw) else _encode(item))
    except msgspec.DecodeError:
        return None


def _text_of(value: Raw | None) -> str:
    decoded = None if value is None else msgspec.json.decode(value)
    return decoded if isinstance(decoded, str) else ""
