"""mini-sglang: a chat of one short text a message, always streamed. What it has no field for it passes over without a word.

It never tells what was used, and ends with `stop` even where the most tokens were written: nobody can tell the two apart.
Source: python/minisgl/server/api_server.py of 20fcd7f, by /reference/engines.md 1.7 and 3, and its API's documentation, read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers import guided
from providers.guided import Constraint
from providers.losses import IDLE, UNKNOWN, UNKNOWN_HINTS, Idle, Losses
from providers.provider import BadOption, Bent, Provider
from providers.rest import as_raw
from providers.wire import Body

_IDLE: Idle = {
    **IDLE,
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
_ROLES = {"developer": "system"}


class MiniSGLang(Provider):
    name: ClassVar[str] = "mini_sglang"
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat",)
    default_base_url: ClassVar[str | None] = None
    takes_prompt: ClassVar[bool] = True
    strict_tools: ClassVar[bool] = False
    known_options: ClassVar[Mapping[str, str]] = {
        **{key: meaning for key, meaning in Provider.known_options.items() if key not in ("stream", "stream_usage", "guided")},
        "max_tokens": "the most tokens of an answer to a caller who does not say; mini-sglang's own default is 16",
    }

    rename: Mapping[str, str] = {"max_completion_tokens": "max_tokens"}
    # `stop` and the penalties are fields there, of which nothing is made.
    refuses = UNKNOWN | {
        *("n", "stop", "presence_penalty", "frequency_penalty", "repetition_penalty", "min_p", "min_tokens", "seed"),
        *("logprobs", "top_logprobs", "logit_bias", "stop_token_ids", "include_stop_str_in_output", "skip_special_tokens"),
        *("spaces_between_special_tokens", "priority", "cache_salt", "lora_path", "session_id", "separate_reasoning"),
        *("enable_thinking", "chat_template_kwargs", "mm_processor_kwargs", "continue_final_message", "reasoning_effort"),
        *("tools", "tool_choice", "do_preprocess"),
    }
    hints = UNKNOWN_HINTS

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        super().__init__(configured_as, options, version, base_url)
        most = options.get("max_tokens")
        if most is not None and (type(most) is not int or most < 1):
            raise BadOption(f"Option max_tokens={most!r} of provider {configured_as!r} must be a number of tokens.")
        self._most = most
        self.streams = "only"
        self.stream_usage = False

    @property
    def guided(self) -> guided.Ways:
        return {}

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        losses = Losses(self, body, may_drop)
        if dialect == "openai_chat":
            losses.leave_out(_IDLE)
            if body.said("messages"):
                _Messages(body, losses).bend()
        bent = super().bend(body, dialect, may_drop, constraint)
        bent.dropped[:0] = losses.dropped
        if dialect == "openai_chat":
            if self._most is not None and not body.said("max_tokens"):
                body["max_tokens"] = self._most
            if body.value("temperature") == 0 or body.value("top_k") == 1:
                # The likeliest token is what is asked for, and of the likeliest ones it is one: it is greedy only where top_p is 1.
                body.pop("top_p", None)
        return bent


class _Messages:
    """Roles are system, user and assistant, and contents are strings: another is a 422 there, of which no caller could tell the reason."""

    def __init__(self, body: Body, losses: Losses) -> None:
        self._body = body
        self._losses = losses

    def bend(self) -> None:
        told: list[dict[str, Any]] = []
        messages: list[dict[str, Any]] = Body(messages=as_raw(self._body["messages"])).value("messages")
        for at, message in enumerate(messages):
            path = f"messages[{at}]"
            role = _ROLES.get(message["role"], message["role"])
            if role not in ("system", "user", "assistant"):
                self._losses.part_with(f"{path}.role", f"it has no messages of role `{role}`.")
                continue
            for field in message.keys() - {"role", "content"}:
                if message[field] is not None and message[field] != []:
                    self._field(f"{path}.{field}", field, given_back=role == "assistant")
            content = self._text(message.get("content"), path, given_back=role == "assistant")
            if content is not None:
                told.append({"role": role, "content": content})
        self._body["messages"] = told

    def _field(self, path: str, field: str, *, given_back: bool) -> None:
        """Of what an assistant said, all but its calls asks for nothing."""
        if given_back and field not in ("tool_calls", "function_call", "name"):
            self._losses.dropped.append(path)
        else:
            self._losses.part_with(path, "its messages hold a text and nothing else.")

    def _text(self, content: Any, path: str, *, given_back: bool) -> str | None:
        """Of who said nothing, an empty text: without any message it answers 500."""
        if content is None or isinstance(content, str):
            return "" if content is None and not given_back else content
        texts: list[str] = []
        for at, part in enumerate(content):
            if part.get("type") == "text":
                texts.append(part.get("text") or "")
            elif part.get("type") == "refusal":
                texts.append(part.get("refusal") or "")
            else:
                self._losses.part_with(f"{path}.content[{at}]", "its messages hold a text and nothing else.")
        # Where an engine takes one string for several texts, lines are kept apart, as vLLM does it.
        return "\n".join(texts)
