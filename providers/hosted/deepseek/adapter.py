"""DeepSeek: chat, Responses and Messages; it thinks unless it is told not to, and can be asked for JSON, but for no schema."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import httpx
import msgspec

from providers import structured_output
from providers.adapters.provider import Adapted, InvalidOption, Provider, server_root
from providers.adapters.unsupported_fields import UnsupportedFields
from providers.canonical.errors import Unsupported
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import Body
from providers.hosted.deepseek import anthropic_messages
from providers.hosted.deepseek.thinking import adapt_thinking
from providers.hosted.rules.host_spec_provider import HostSpecProvider
from providers.profiles.claude.request_body import CLAUDE_OPTIONS, read_defaults
from providers.structured_output import Constraint, ConstraintSupport, JsonSchema, OutputFormat

# JSON mode wants that word in the messages: https://api-docs.deepseek.com/guides/json_mode, read 2026-11.
_SCHEMA_INSTRUCTION = "Answer with one JSON object and nothing else (json). It must be valid by this JSON schema:\n"
_INSTRUCTION_ROLES = ("system", "developer")

_decode_messages = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_message = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class DeepSeek(HostSpecProvider, host="deepseek"):
    """`strict` of tools it obeys in its beta alone: https://api-docs.deepseek.com/guides/tool_calls, read 2026-11."""

    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "max_tokens": CLAUDE_OPTIONS["max_tokens"].replace("Claude", "Messages"),
        "beta": "true: its chat is asked below /beta, where `strict` of tools is obeyed",
    }

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises BadOption."""
        super().__init__(configured_as, options, version, base_url)
        if not isinstance(options.get("beta", False), bool):
            raise InvalidOption(f"Option beta of provider {configured_as!r} may be true or false.")
        self._uses_beta = bool(options.get("beta"))
        self._defaults = read_defaults(configured_as, options)

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return {**super().constraint_support, "json_schema": ConstraintSupport("validated", _write_json_mode)}

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx.URL:
        root = server_root(base_url)
        if dialect == "anthropic_messages":
            return httpx.URL(f"{root}/anthropic/v1/messages")
        if dialect == "openai_chat" and self._uses_beta:
            return httpx.URL(f"{root}/beta/chat/completions")
        return super().url(base_url, dialect, model, stream)

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        if dialect != "anthropic_messages":
            return super().headers(credential, dialect)
        return [*([("x-api-key", credential)] if credential else []), ("anthropic-version", "2023-06-01")]

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        unsupported_fields = UnsupportedFields(self, body, may_drop)
        may_think = adapt_thinking(body, dialect, unsupported_fields)
        if dialect == "anthropic_messages":
            anthropic_messages.adapt_messages_body(body, unsupported_fields, may_think=may_think)
            self._defaults.fill_in(body)
        for path, _ in () if constraint is None or (self._uses_beta and dialect == "openai_chat") else constraint.strict_tools:
            unsupported_fields.drop_path_or_refuse(
                path.rpartition(".")[0] + ".strict", "only its beta's chat (option `beta`) holds arguments to their schema."
            )
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if dialect == "openai_chat" and adapted.constraint_plan is not None and isinstance(adapted.constraint_plan.output, JsonSchema):
            _add_schema_instruction(body, adapted.constraint_plan.output)
        adapted.dropped[:0] = unsupported_fields.dropped
        return adapted


def _write_json_mode(output: OutputFormat) -> Mapping[str, Any]:
    """The schema itself is said in the messages. JSON mode gives objects."""
    if isinstance(output, JsonSchema):
        schema: Any = msgspec.json.decode(output.schema)
        if schema is False or (isinstance(schema, dict) and schema.get("type", "object") not in ("object", ["object"])):  # pyright: ignore[reportUnknownMemberType]
            raise Unsupported("it can be asked for JSON objects alone, and this schema is of something else.")
    return {"response_format": {"type": "json_object"}}


def _add_schema_instruction(body: Body, output: JsonSchema) -> None:
    """After the instructions that there are."""
    messages = _decode_messages(as_raw(body["messages"]))
    extended: list[Any] = [*messages]
    at = next(
        (at for at, each in enumerate(messages) if msgspec.json.decode(_decode_message(each)["role"]) not in _INSTRUCTION_ROLES),
        len(messages),
    )
    extended.insert(at, {"role": "system", "content": _SCHEMA_INSTRUCTION + bytes(output.schema).decode()})
    body["messages"] = extended
