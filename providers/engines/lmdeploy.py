"""LMDeploy's api_server, and its proxy, which passes the same dialect on.

Asked by chat and completions alone: those are what every version and the proxy have. Which version answers, nothing of it tells; the
option `version` does, and without it what is asked for is what is right for all of them since 0.10.
Stopping: closing the connection ends its session; /abort_request is off unless its server is started with --enable-abort-handling, and
wants session ids of which two must not be the same.
Its proxy's errors, told with status 200, are read by providers/told.py.
Sources: the documented API (0.12 to 0.16), lmdeploy/serve/openai of 0.18 and /reference/engines.md parts 1.3, 2 and 3; read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from providers import guided
from providers.engines.versions import read_numbers
from providers.engines.xgrammar import honest
from providers.errors import Unsupported
from providers.guided import Constraint, Guiding, JsonSchema, Kind, Output, Regex, Way
from providers.losses import IDLE, UNKNOWN, UNKNOWN_HINTS, Idle, Losses
from providers.provider import BadOption, Bent, Provider
from providers.thoughts import drop_parts, name_reasoning, name_system
from providers.tools import choose_among_allowed, drop_foreign
from providers.wire import Body

_IDLE: Idle = {
    **IDLE,
    "n": (1,),
    "echo": (False,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "parallel_tool_calls": (True,),
    "continue_final_message": (False,),
    "tool_choice": (),
    "do_preprocess": (True,),
    "separate_reasoning": (True,),
    "stop_token_ids": ([],),
    "min_tokens": (0,),
    "min_p": (),
    "logprobs": (),
}

# Fields of its chat that its completions do not have.
_CHAT_ALONE = frozenset(
    {
        *("tools", "tool_choice", "parallel_tool_calls", "top_logprobs", "reasoning_effort", "chat_template_kwargs", "enable_thinking"),
        *("mm_processor_kwargs", "media_io_kwargs", "min_tokens", "min_new_tokens", "include_stop_str_in_output", "logit_bias"),
    }
)

_PARTS = {
    b'"file"': "it reads no documents.",
    b'"input_audio"': "it has no part of that kind.",
    b'"refusal"': "it has no part of that kind.",
}

_EFFORTS = ("low", "medium", "high")


def _asked_in_json(output: Output) -> dict[str, Any]:
    """Schemas are objects there: `true` is said as the schema of anything, `false` cannot be met."""
    if isinstance(output, JsonSchema) and bytes(output.schema).strip() in (b"true", b"false"):
        if bytes(output.schema).strip() == b"false":
            raise Unsupported("no answer is valid by the schema `false`.")
        output = replace(output, schema=msgspec.Raw(b"{}"))
    return guided.as_response_format(output)


def _as_regex_schema(output: Output) -> dict[str, Any]:
    assert isinstance(output, Regex | guided.Choice)
    pattern = output.pattern if isinstance(output, Regex) else guided.choice_to_regex(output.options)
    return {"response_format": {"type": "regex_schema", "regex_schema": pattern}}


def _ways(how: Mapping[Kind, guided.How]) -> guided.Ways:
    return {
        "json_object": Way(how["json_object"], _asked_in_json, plain=True),
        "json_schema": Way(how["json_schema"], _asked_in_json, plain=True),
        "regex": Way(how["regex"], _as_regex_schema),
        "choice": Way(how["choice"], _as_regex_schema),
    }


_WAYS = _ways({"json_object": "enforced", "json_schema": "enforced", "regex": "enforced", "choice": "converted"})
# Up to 0.16 TurboMind writes to its log that it cannot hold to a constraint, and answers 200 without it.
_UNSURE = _ways({"json_object": "validated", "json_schema": "validated", "regex": "validated", "choice": "validated"})


class LMDeploy(Provider):
    name: ClassVar[str] = "lmdeploy"
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions")
    default_base_url: ClassVar[str | None] = None
    guided_in = frozenset({"openai_chat"})
    strict_tools: ClassVar[bool] = False
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "version": 'the engine\'s version ("0.18.0"), which it does not tell: since 0.18 it holds to constraints, to tool_choice and to n',
        "backend": '"turbomind" (default) or "pytorch", which alone honours logit_bias and has always held to constraints',
    }

    refuses = UNKNOWN | {
        *("presence_penalty", "frequency_penalty", "do_preprocess", "stop_token_ids", "separate_reasoning", "continue_final_message"),
        *("lora_path", "echo"),
    }
    hints = UNKNOWN_HINTS | {"priority", "cache_salt"}
    rename: Mapping[str, str] = {"min_tokens": "min_new_tokens"}

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        super().__init__(configured_as, options, version, base_url)
        if options.get("backend", "turbomind") not in ("turbomind", "pytorch"):
            raise BadOption(f'Option backend of provider {configured_as!r} may be "turbomind" or "pytorch".')
        known = version or read_numbers(str(options.get("version", "")))
        self._today = known is not None and known >= (0, 18)
        self._pytorch = options.get("backend") == "pytorch"

    @property
    def guided(self) -> guided.Ways:
        return _WAYS if self._today or self._pytorch or self.vouched else _UNSURE

    def guiding(self, constraint: Constraint, dialect: str, *, as_said: bool) -> Guiding | None:
        return honest(super().guiding(constraint, dialect, as_said=as_said), constraint, self.guided, vouched=self.vouched)

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        losses = Losses(self, body, may_drop)
        if dialect in ("openai_chat", "openai_completions"):
            losses.leave_out(_IDLE)
            top_k = body.value("top_k")
            if isinstance(top_k, int) and top_k < 0:
                body["top_k"] = 0  # off; it answers negative numbers with 400, and left out would mean 40
        if dialect == "openai_chat":
            constraint = self._bend_chat(body, losses, constraint)
        elif dialect == "openai_completions":
            for field in sorted(_CHAT_ALONE & body.keys()):
                losses.without(field, "its completions have no such field.")
            if "n" in body:
                losses.without("n", "it gives one completion of each prompt.")
            if "logprobs" in body:
                losses.without("logprobs", "its completions tell none.")
        bent = super().bend(body, dialect, may_drop, constraint)
        bent.dropped[:0] = losses.dropped
        return bent

    def _bend_chat(self, body: Body, losses: Losses, constraint: Constraint | None) -> Constraint | None:
        losses.lone_top_logprobs()
        if body.value("logprobs") is False:
            del body["logprobs"]
        if "n" in body and not self._today:
            losses.without("n", "before 0.18 it gives one answer, whatever `n` says (its option `version` tells which it is).")
        if "logit_bias" in body and not self._pytorch:
            losses.without("logit_bias", "of its backends PyTorch alone honours it (option `backend`).")
        if not self._today:
            choose_among_allowed(body)
        if body.said("tools"):
            drop_foreign(body, "openai_chat", losses)
        if body.value("parallel_tool_calls") is False and not (body.value("tools") and body.value("tool_choice") != "none"):
            del body["parallel_tool_calls"]
        elif body.value("parallel_tool_calls") is False and not self._today:
            losses.without("parallel_tool_calls", "before 0.18 it makes several calls at once all the same (option `version`).")
        if body.said("reasoning_effort"):
            self._bend_effort(body, losses)
        if body.said("tool_choice"):
            self._bend_choice(body, losses)
        name_reasoning(body)
        name_system(body)
        drop_parts(body, _PARTS, losses)
        return losses.calls_or_obeys(constraint)

    def _bend_effort(self, body: Body, losses: Losses) -> None:
        effort = body.value("reasoning_effort")
        if effort == "none":
            del body["reasoning_effort"]
            body["chat_template_kwargs"] = {"enable_thinking": False, **(body.value("chat_template_kwargs") or {})}
        elif effort not in _EFFORTS and not (effort == "max" and self._today):
            losses.without("reasoning_effort", f"it knows low, medium and high{', and max' if self._today else ''}.")

    def _bend_choice(self, body: Body, losses: Losses) -> None:
        """Documented up to 0.16: a named tool is called; `required` only puts all of them before the model, as `auto` does."""
        choice = body.value("tool_choice")
        if self._today or choice in ("auto", "none") or (isinstance(choice, dict) and "function" in choice):
            return
        tools: Any = body.value("tools")
        if choice == "required" and isinstance(tools, list) and len(tools) == 1:  # pyright: ignore[reportUnknownArgumentType]
            body["tool_choice"] = {"type": "function", "function": {"name": tools[0]["function"]["name"]}}
            return
        losses.without("tool_choice", "before 0.18 it demands no call but of a tool that is named (option `version` tells which it is).")
