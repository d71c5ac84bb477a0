"""mini-sglang: a chat of one short text a message, always streamed. What it has no field for it passes over without a word.

It never tells what was used, and ends with `stop` even where the most tokens were written: nobody can tell the two apart.
Source: python/minisgl/server/api_server.py of 20fcd7f, by /reference/engines.md 1.7 and 3, and its API's documentation, read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers import structured_output
from providers.adapters.provider import Adapted, InvalidOption, Provider
from providers.adapters.unsupported_fields import NEUTRAL_VALUES, UNKNOWN_FIELDS, UNKNOWN_HINTS, NeutralValues, UnsupportedFields
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import Body
from providers.structured_output import Constraint

_NEUTRAL_VALUES: NeutralValues = {
    **NEUTRAL_VALUES,
    # Typed there, so that null, which means not said to callers, would be a 422.
    **dict.fromkeys(("max_tokens", "temperature", "top_k", "top_p", "ignore_eos"), ()),
    "n": (1,),
    "stop": ([],),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "min_tokens": (0,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "stop_token_ids": ([],),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "priority": (0,),
    "separate_reasoning": (True,),
    "continue_final_message": (False,),
    "chat_template_kwargs": ({},),
    "tools": ([],),
    "tool_choice": ("auto", "none"),
    "parallel_tool_calls": (True, False),
    "do_preprocess": (True,),
    "response_format": ({"type": "text"},),
}
_ROLE_ALIASES = {"developer": "system"}


class MiniSGLang(Provider):
    name: ClassVar[str] = "mini_sglang"
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat",)
    default_base_url: ClassVar[str | None] = None
    accepts_raw_prompt: ClassVar[bool] = True
    strict_tools: ClassVar[bool] = False
    known_options: ClassVar[Mapping[str, str]] = {
        **{key: meaning for key, meaning in Provider.known_options.items() if key not in ("stream", "stream_usage", "guided")},
        "max_tokens": "the most tokens of an answer to a caller who does not say; mini-sglang's own default is 16",
    }

    renamed_fields: Mapping[str, str] = {"max_completion_tokens": "max_tokens"}
    # `stop` and the penalties are fields there, of which nothing is made.
    unsupported_fields = UNKNOWN_FIELDS | {
        *("n", "stop", "presence_penalty", "frequency_penalty", "repetition_penalty", "min_p", "min_tokens", "seed"),
        *("logprobs", "top_logprobs", "logit_bias", "stop_token_ids", "include_stop_str_in_output", "skip_special_tokens"),
        *("spaces_between_special_tokens", "priority", "cache_salt", "lora_path", "session_id", "separate_reasoning"),
        *("enable_thinking", "chat_template_kwargs", "mm_processor_kwargs", "continue_final_message", "reasoning_effort"),
        *("tools", "tool_choice", "do_preprocess"),
    }
    hint_fields = UNKNOWN_HINTS

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        super().__init__(configured_as, options, version, base_url)
        default_max_tokens = options.get("max_tokens")
        if default_max_tokens is not None and (type(default_max_tokens) is not int or default_max_tokens < 1):
            raise InvalidOption(f"Option max_tokens={default_max_tokens!r} of provider {configured_as!r} must be a number of tokens.")
        self._default_max_tokens = default_max_tokens
        self.streams = "only"
        self.stream_usage = False

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return {}

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        unsupported_fields = UnsupportedFields(self, body, may_drop)
        if dialect == "openai_chat":
            unsupported_fields.drop_neutral(_NEUTRAL_VALUES)
            if body.has_value("messages"):
                _MessageAdapter(body, unsupported_fields).adapt()
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = unsupported_fields.dropped
        if dialect == "openai_chat":
            if self._default_max_tokens is not None and not body.has_value("max_tokens"):
                body["max_tokens"] = self._default_max_tokens
            if body.value("temperature") == 0 or body.value("top_k") == 1:
                # The likeliest token is what is asked for, and of the likeliest ones it is one: it is greedy only where top_p is 1.
                body.pop("top_p", None)
        return adapted


class _MessageAdapter:
    """Roles are system, user and assistant, and contents are strings: another is a 422 there, of which no caller could tell the reason."""

    def __init__(self, body: Body, unsupported_fields: UnsupportedFields) -> None:
        self._body = body
        self._unsupported_fields = unsupported_fields

    def adapt(self) -> None:
        adapted: list[dict[str, Any]] = []
        messages: list[dict[str, Any]] = Body(messages=as_raw(self._body["messages"])).value("messages")
        for index, message in enumerate(messages):
            path = f"messages[{index}]"
            role = _ROLE_ALIASES.get(message["role"], message["role"])
            if role not in ("system", "user", "assistant"):
                self._unsupported_fields.drop_path_or_refuse(f"{path}.role", f"it has no messages of role `{role}`.")
                continue
            for field in message.keys() - {"role", "content"}:
                if message[field] is not None and message[field] != []:
                    self._drop_field(f"{path}.{field}", field, from_assistant=role == "assistant")
            content = self._join_text(message.get("content"), path, from_assistant=role == "assistant")
            if content is not None:
                adapted.append({"role": role, "content": content})
        self._body["messages"] = adapted

    def _drop_field(self, path: str, field: str, *, from_assistant: bool) -> None:
        """Of what an assistant said, all but its calls asks for nothing."""
        if from_assistant and field not in ("tool_calls", "function_call", "name"):
            self._unsupported_fields.dropped.append(path)
        else:
            self._unsupported_fields.drop_path_or_refuse(path, "its messages hold a text and nothing else.")

    def _join_text(self, content: Any, path: str, *, from_assistant: bool) -> str | None:
        """Of who said nothing, an empty text: without any message it answers 500."""
        if content is None or isinstance(content, str):
            return "" if content is None and not from_assistant else content
        texts: list[str] = []
        for index, part in enumerate(content):
            if part.get("type") == "text":
                texts.append(part.get("text") or "")
            elif part.get("type") == "refusal":
                texts.append(part.get("refusal") or "")
            else:
                self._unsupported_fields.drop_path_or_refuse(f"{path}.content[{index}]", "its messages hold a text and nothing else.")
        # Where an engine takes one string for several texts, lines are kept apart, as vLLM does it.
        return "\n".join(texts)
