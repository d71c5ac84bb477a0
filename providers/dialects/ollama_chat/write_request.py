"""A chat as a request to Ollama's /api/chat; what the API cannot express is dropped or refused.

Source: api/types.go (ChatRequest, Options) of ollama 0.33, by docs/sources.md#ollama, read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from providers.canonical.chat import ChatRequest, HostTool, Thinking, Tool
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.dialects.ollama_chat.messages import write_messages
from providers.dialects.ollama_chat.output_format import write_format
from providers.drop_policy import DropPolicy
from providers.fields import drop_extra_fields
from providers.host_tools import leave_out_host_tool
from providers.unsupported import check_unsupported, drop_part_fields

# Fields of engines that Ollama has too, with its names for them.
_ENGINE_OPTIONS: Mapping[str, str] = {"min_p": "min_p", "typical_p": "typical_p", "repetition_penalty": "repeat_penalty"}
# Effort as Ollama's level, which has no `minimal` and no `xhigh`. Models without levels take any level as `true`.
_LEVELS: Mapping[str, bool | str] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "max",
}
_NO_SUCH_FIELD = "Ollama's chat has no such field."
_UNSUPPORTED_FIELDS = {"n": "it gives one answer.", "logit_bias": _NO_SUCH_FIELD, "verbosity": _NO_SUCH_FIELD}


def write_request(chat: ChatRequest, drop_policy: DropPolicy) -> Body:
    return _RequestWriter(chat, drop_policy).write_body()


class _RequestWriter:
    def __init__(self, chat: ChatRequest, drop_policy: DropPolicy) -> None:
        self._chat = chat
        self._drop_policy = drop_policy

    def write_body(self) -> Body:
        chat = self._chat
        if chat.prompt is not None:
            self._drop_policy.drop_or_refuse("prompt", "its chat cannot continue a raw prompt.")
        body = Body(model=chat.model, messages=write_messages(chat, self._drop_policy))
        format = self._output_format()
        tools = self._tools(constrained=format is not None)
        think = self._think(chat.thinking)
        for key, value in {"tools": tools or None, "format": format, "think": think}.items():
            if value is not None:
                body[key] = value
        if chat.logprobs:
            body["logprobs"] = True
            if chat.top_logprobs:
                body["top_logprobs"] = chat.top_logprobs
        elif chat.top_logprobs:
            self._drop_policy.drop_or_refuse("top_logprobs", "it reports none without `logprobs`.")
        options = self._options()
        if options:
            body["options"] = options
        check_unsupported(chat, self._drop_policy, _UNSUPPORTED_FIELDS)
        drop_extra_fields(chat.extra, self._drop_policy, _NO_SUCH_FIELD, {*_ENGINE_OPTIONS, "enable_thinking"})
        return body

    def _output_format(self) -> Any:
        if self._chat.output is None:
            return None
        try:
            return write_format(self._chat.output)
        except Unsupported as refusal:
            self._drop_policy.drop_or_refuse("output", refusal.message)
            return None

    def _tools(self, *, constrained: bool) -> list[Any]:
        """Writes the tools that may be called.

        `constrained` says that a format holds from the first token on, so that the model could write no call (ollama-python#546).
        """
        choice = self._chat.tool_choice
        if choice is not None and choice.mode == "none":
            return []
        allowed = None if choice is None or choice.allowed is None else frozenset(choice.allowed)
        selected = [
            (index, tool)
            for index, tool in enumerate(self._chat.tools)
            if allowed is None or (isinstance(tool, Tool) and tool.name in allowed)
        ]
        if selected and constrained:
            self._drop_policy.drop_or_refuse("tools", "under a constraint on its answer (format) it calls no tools.")
            return []
        if choice is not None and choice.mode in ("required", "named"):
            self._drop_policy.drop_or_refuse("tool_choice", "it ignores it: the model decides whether to call a tool.")
        if selected and self._chat.parallel_calls is False:
            self._drop_policy.drop_or_refuse("parallel_calls", "it cannot limit a model to one call.")
        written = [self._tool(tool, f"tools[{at}]") for at, tool in selected]
        return [tool for tool in written if tool is not None]

    def _tool(self, tool: Tool | HostTool, path: str) -> dict[str, Any] | None:
        if isinstance(tool, HostTool):
            leave_out_host_tool(tool, path, f"only another API has the tool `{tool.kind}`, which its host runs itself.", self._drop_policy)
            return None
        if tool.custom:
            self._drop_policy.drop_or_refuse(path, "its tools take JSON, not free text.")
            return None
        drop_part_fields(tool.extra, path, self._drop_policy)
        function: dict[str, Any] = {"name": tool.name}
        if tool.description is not None:
            function["description"] = tool.description
        function["parameters"] = tool.parameters or {"type": "object", "properties": {}}
        return {"type": "function", "function": function}

    def _think(self, thinking: Thinking | None) -> bool | str | None:
        """The value of `think`. None leaves it to the model."""
        if thinking is None:
            enable_thinking = self._chat.extra.get("enable_thinking")
            return None if enable_thinking is None else bool(msgspec.json.decode(enable_thinking))
        if thinking.summary is not None:
            self._drop_policy.drop_hint("thinking.summary")
        if thinking.effort is not None:
            if thinking.effort in ("minimal", "xhigh"):
                self._drop_policy.drop_hint("thinking.effort")
            return _LEVELS[thinking.effort]
        if thinking.budget_tokens is not None:
            self._drop_policy.drop_hint("thinking.budget_tokens")
            return True
        return None

    def _options(self) -> dict[str, Any]:
        chat = self._chat
        options: dict[str, Any] = {
            "num_predict": chat.max_tokens,
            "temperature": chat.temperature,
            "top_p": chat.top_p,
            # Other engines write -1 for "all tokens", llama.cpp 0.
            "top_k": None if chat.top_k is None else max(0, chat.top_k),
            "seed": chat.seed,
            "stop": chat.stop or None,
            "frequency_penalty": chat.frequency_penalty,
            "presence_penalty": chat.presence_penalty,
        }
        options |= {option: chat.extra[engine_field] for engine_field, option in _ENGINE_OPTIONS.items() if engine_field in chat.extra}
        return {key: value for key, value in options.items() if value is not None}
