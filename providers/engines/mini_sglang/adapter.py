"""mini-sglang: a chat of short text messages, always streamed. It ignores fields that it does not have, without an error.

It never reports usage, and ends with `stop` even at the token limit, so that the two cannot be distinguished.
Source: python/minisgl/server/api_server.py of 20fcd7f, docs/sources.md#mini-sglang, and its API's documentation; read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers import structured_output
from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Adapted
from providers.adapters.unknown_fields import drop_unknown_fields
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.engines.mini_sglang.fields import KNOWN_FIELDS, NEUTRAL_VALUES, UNSUPPORTED_FIELDS, UNSUPPORTED_HINT_FIELDS
from providers.participant_names import name_in_text
from providers.structured_output import Constraint

_ROLE_ALIASES = {"developer": "system"}
_TEXT_ONLY = "its messages hold text and nothing else."


class MiniSGLang(OpenAICompatible):
    """Text in, a stream of text out: no tools, no constraints, no usage."""

    name: ClassVar[str] = "mini_sglang"
    unread_parts = dict.fromkeys((b'"image_url"', b'"input_audio"', b'"file"'), _TEXT_ONLY)
    thinking_fields = frozenset()
    is_self_hosted: bool = True
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat",)
    default_base_url: ClassVar[str | None] = None
    stops_on_disconnect = "always"
    accepts_raw_prompt: ClassVar[bool] = True
    strict_tools: ClassVar[bool] = False
    known_options: ClassVar[Mapping[str, str]] = {
        **{key: text for key, text in OpenAICompatible.known_options.items() if key not in ("stream", "stream_usage", "guided")},
        "max_tokens": "the token limit where the caller sets none; mini-sglang's own default is 16",
    }

    renamed_fields: Mapping[str, str] = {"max_completion_tokens": "max_tokens"}
    unsupported_fields = UNSUPPORTED_FIELDS
    hint_fields = UNSUPPORTED_HINT_FIELDS
    restricted_fields: Mapping[str, str] = {}

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        default_max_tokens = options.get("max_tokens")
        if default_max_tokens is not None and (type(default_max_tokens) is not int or default_max_tokens < 1):
            raise InvalidOption(f"Option max_tokens={default_max_tokens!r} must be a number of tokens.")
        self._default_max_tokens = default_max_tokens
        self.streams = "only"
        self.stream_usage = False

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return {}

    def why_no_images(self, model: str) -> str | None:
        return _TEXT_ONLY

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        drop_policy = self.drop_policy(body, may_drop)
        if dialect == "openai_chat":
            drop_policy.drop_neutral(NEUTRAL_VALUES)
            if body.has_value("messages"):
                _MessageAdapter(body, drop_policy).adapt()
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if dialect == "openai_chat":
            drop_unknown_fields(body, KNOWN_FIELDS, drop_policy)
        adapted.dropped[:0] = drop_policy.dropped
        if dialect == "openai_chat":
            if self._default_max_tokens is not None and not body.has_value("max_tokens"):
                body["max_tokens"] = self._default_max_tokens
            if body.value("temperature") == 0 or body.value("top_k") == 1:
                # Greedy decoding, which it does only where top_p is 1; the likeliest token is in every top_p.
                body.pop("top_p", None)
        return adapted


class _MessageAdapter:
    """Adapts messages to its roles (system, user, assistant) and to text contents; anything else is a 422 without a readable reason."""

    def __init__(self, body: Body, drop_policy: DropPolicy) -> None:
        self._body = body
        self._drop_policy = drop_policy

    def adapt(self) -> None:
        adapted: list[dict[str, Any]] = []
        messages: list[dict[str, Any]] = Body(messages=as_raw(self._body["messages"])).value("messages")
        for index, message in enumerate(messages):
            path = f"messages[{index}]"
            role = _ROLE_ALIASES.get(message["role"], message["role"])
            if role not in ("system", "user", "assistant"):
                self._drop_policy.drop_path_or_refuse(f"{path}.role", f"it has no messages of role `{role}`.")
                continue
            for field in message.keys() - {"role", "content"}:
                if message[field] is not None and message[field] != []:
                    self._drop_field(f"{path}.{field}", field, from_assistant=role == "assistant")
            content = self._join_text(message.get("content"), path, from_assistant=role == "assistant")
            if content is not None and role != "assistant" and isinstance(message.get("name"), str):
                content = name_in_text(message["name"], content)
            if content is not None:
                adapted.append({"role": role, "content": content})
        self._body["messages"] = adapted

    def _drop_field(self, path: str, field: str, *, from_assistant: bool) -> None:
        """Drops a field. Fields of an assistant's message request nothing, but for its calls."""
        if field == "name" and not from_assistant:
            return  # it stands in the text
        if from_assistant and field not in ("tool_calls", "function_call"):
            self._drop_policy.report_dropped(path)
        else:
            self._drop_policy.drop_path_or_refuse(path, _TEXT_ONLY)

    def _join_text(self, content: Any, path: str, *, from_assistant: bool) -> str | None:
        """The content as one string; None: the message is left out, which only an assistant's may be, for it answers 500 to no messages."""
        if content is None or isinstance(content, str):
            return "" if content is None and not from_assistant else content
        texts: list[str] = []
        for index, part in enumerate(content):
            if part.get("type") == "text":
                texts.append(part.get("text") or "")
            elif part.get("type") == "refusal":
                texts.append(part.get("refusal") or "")
            else:
                self._drop_policy.drop_path_or_refuse(f"{path}.content[{index}]", _TEXT_ONLY)
        # As vLLM joins several texts into one string.
        return "\n".join(texts)
