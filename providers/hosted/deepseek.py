"""DeepSeek: chat, Responses and Messages; it thinks unless it is told not to, and can be asked for JSON, but for no schema."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import httpx
import msgspec

from providers import guided
from providers.errors import Unsupported
from providers.guided import Constraint, JsonSchema, Output, Way
from providers.hosted import deepseek_messages
from providers.hosted.claude import OPTIONS, read_demands
from providers.hosted.deepseek_thinking import settle_thinking
from providers.hosted.rowed import Rowed
from providers.losses import Losses
from providers.provider import BadOption, Bent, Provider, server_root
from providers.rest import as_raw
from providers.wire import Body

# JSON mode wants that word in the messages: https://api-docs.deepseek.com/guides/json_mode, read 2026-11.
_INSTRUCTION = "Answer with one JSON object and nothing else (json). It must be valid by this JSON schema:\n"
_INSTRUCTING = ("system", "developer")

_messages = msgspec.json.Decoder(list[msgspec.Raw]).decode
_role = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class DeepSeek(Rowed, row="deepseek"):
    """`strict` of tools it obeys in its beta alone: https://api-docs.deepseek.com/guides/tool_calls, read 2026-11."""

    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "max_tokens": OPTIONS["max_tokens"].replace("Claude", "Messages"),
        "beta": "true: its chat is asked below /beta, where `strict` of tools is obeyed",
    }

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises BadOption."""
        super().__init__(configured_as, options, version, base_url)
        if not isinstance(options.get("beta", False), bool):
            raise BadOption(f"Option beta of provider {configured_as!r} may be true or false.")
        self._beta = bool(options.get("beta"))
        self._demands = read_demands(configured_as, options)

    @property
    def guided(self) -> guided.Ways:
        return {**super().guided, "json_schema": Way("validated", _write_json_mode)}

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx.URL:
        root = server_root(base_url)
        if dialect == "anthropic_messages":
            return httpx.URL(f"{root}/anthropic/v1/messages")
        if dialect == "openai_chat" and self._beta:
            return httpx.URL(f"{root}/beta/chat/completions")
        return super().url(base_url, dialect, model, stream)

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        if dialect != "anthropic_messages":
            return super().headers(credential, dialect)
        return [*([("x-api-key", credential)] if credential else []), ("anthropic-version", "2023-06-01")]

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        losses = Losses(self, body, may_drop)
        thinks = settle_thinking(body, dialect, losses)
        if dialect == "anthropic_messages":
            deepseek_messages.hold(body, losses, thinks=thinks)
            self._demands.fill(body)
        for path, _ in () if constraint is None or (self._beta and dialect == "openai_chat") else constraint.tools:
            losses.part_with(path.rpartition(".")[0] + ".strict", "only its beta's chat (option `beta`) holds arguments to their schema.")
        bent = super().bend(body, dialect, may_drop, constraint)
        if dialect == "openai_chat" and bent.guiding is not None and isinstance(bent.guiding.output, JsonSchema):
            _instruct(body, bent.guiding.output)
        bent.dropped[:0] = losses.dropped
        return bent


def _write_json_mode(output: Output) -> Mapping[str, Any]:
    """The schema itself is said in the messages. JSON mode gives objects."""
    if isinstance(output, JsonSchema):
        schema: Any = msgspec.json.decode(output.schema)
        if schema is False or (isinstance(schema, dict) and schema.get("type", "object") not in ("object", ["object"])):  # pyright: ignore[reportUnknownMemberType]
            raise Unsupported("it can be asked for JSON objects alone, and this schema is of something else.")
    return {"response_format": {"type": "json_object"}}


def _instruct(body: Body, output: JsonSchema) -> None:
    """After the instructions that there are."""
    messages = _messages(as_raw(body["messages"]))
    told: list[Any] = [*messages]
    at = next((at for at, each in enumerate(messages) if msgspec.json.decode(_role(each)["role"]) not in _INSTRUCTING), len(messages))
    told.insert(at, {"role": "system", "content": _INSTRUCTION + bytes(output.schema).decode()})
    body["messages"] = told
