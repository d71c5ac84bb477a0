"""LMDeploy's api_server, and its proxy, which passes the same dialect on.

Asked by chat and completions alone: those are what every version and the proxy have. Which version answers, nothing of it tells; the
option `version` does, and without it what is asked for is what is right for all of them since 0.10.
Stopping: closing the connection ends its session; /abort_request is off unless its server is started with --enable-abort-handling, and
wants session ids of which two must not be the same.
Its proxy's errors, told with status 200, are read by providers/canonical/upstream_errors.py.
Sources: the documented API (0.12 to 0.16), lmdeploy/serve/openai of 0.18 and /reference/engines.md parts 1.3, 2 and 3; read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from providers import structured_output
from providers.adapters.messages import drop_unsupported_parts, rename_developer_role, rename_reasoning
from providers.adapters.provider import Adapted, InvalidOption, Provider
from providers.adapters.tools import drop_unsupported_tools, send_allowed_tools_only
from providers.adapters.unsupported_fields import NEUTRAL_VALUES, UNKNOWN_FIELDS, UNKNOWN_HINTS, NeutralValues, UnsupportedFields
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.engines.versions import parse_version
from providers.engines.xgrammar import account_for_coverage
from providers.structured_output import Constraint, ConstraintPlan, ConstraintSupport, JsonSchema, OutputFormat, OutputKind, Regex

_NEUTRAL_VALUES: NeutralValues = {
    **NEUTRAL_VALUES,
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
_CHAT_ONLY_FIELDS = frozenset(
    {
        *("tools", "tool_choice", "parallel_tool_calls", "top_logprobs", "reasoning_effort", "chat_template_kwargs", "enable_thinking"),
        *("mm_processor_kwargs", "media_io_kwargs", "min_tokens", "min_new_tokens", "include_stop_str_in_output", "logit_bias"),
    }
)

_UNSUPPORTED_PARTS = {
    b'"file"': "it reads no documents.",
    b'"input_audio"': "it has no part of that kind.",
    b'"refusal"': "it has no part of that kind.",
}

_REASONING_EFFORTS = ("low", "medium", "high")


def _write_json_format(output: OutputFormat) -> dict[str, Any]:
    """Schemas are objects there: `true` is said as the schema of anything, `false` cannot be met."""
    if isinstance(output, JsonSchema) and bytes(output.schema).strip() in (b"true", b"false"):
        if bytes(output.schema).strip() == b"false":
            raise Unsupported("no answer is valid by the schema `false`.")
        output = replace(output, schema=msgspec.Raw(b"{}"))
    return structured_output.write_response_format(output)


def _write_regex_schema(output: OutputFormat) -> dict[str, Any]:
    assert isinstance(output, Regex | structured_output.Choice)
    pattern = output.pattern if isinstance(output, Regex) else structured_output.choice_to_regex(output.options)
    return {"response_format": {"type": "regex_schema", "regex_schema": pattern}}


def _support_with(enforcement: Mapping[OutputKind, structured_output.Enforcement]) -> structured_output.SupportByKind:
    return {
        "json_object": ConstraintSupport(enforcement["json_object"], _write_json_format, keeps_response_format=True),
        "json_schema": ConstraintSupport(enforcement["json_schema"], _write_json_format, keeps_response_format=True),
        "regex": ConstraintSupport(enforcement["regex"], _write_regex_schema),
        "choice": ConstraintSupport(enforcement["choice"], _write_regex_schema),
    }


_CONSTRAINT_SUPPORT = _support_with({"json_object": "enforced", "json_schema": "enforced", "regex": "enforced", "choice": "converted"})
# Up to 0.16 TurboMind writes to its log that it cannot hold to a constraint, and answers 200 without it.
_UNRELIABLE_CONSTRAINT_SUPPORT = _support_with(
    {"json_object": "validated", "json_schema": "validated", "regex": "validated", "choice": "validated"}
)


class LMDeploy(Provider):
    name: ClassVar[str] = "lmdeploy"
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions")
    default_base_url: ClassVar[str | None] = None
    constrained_dialects = frozenset({"openai_chat"})
    strict_tools: ClassVar[bool] = False
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "version": 'the engine\'s version ("0.18.0"), which it does not tell: since 0.18 it holds to constraints, to tool_choice and to n',
        "backend": '"turbomind" (default) or "pytorch", which alone honours logit_bias and has always held to constraints',
    }

    unsupported_fields = UNKNOWN_FIELDS | {
        *("presence_penalty", "frequency_penalty", "do_preprocess", "stop_token_ids", "separate_reasoning", "continue_final_message"),
        *("lora_path", "echo"),
    }
    hint_fields = UNKNOWN_HINTS | {"priority", "cache_salt"}
    renamed_fields: Mapping[str, str] = {"min_tokens": "min_new_tokens"}

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        super().__init__(configured_as, options, version, base_url)
        if options.get("backend", "turbomind") not in ("turbomind", "pytorch"):
            raise InvalidOption(f'Option backend of provider {configured_as!r} may be "turbomind" or "pytorch".')
        known = version or parse_version(str(options.get("version", "")))
        self._is_since_0_18 = known is not None and known >= (0, 18)
        self._is_pytorch = options.get("backend") == "pytorch"

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return _CONSTRAINT_SUPPORT if self._is_since_0_18 or self._is_pytorch or self.trusted else _UNRELIABLE_CONSTRAINT_SUPPORT

    def plan_constraint(self, constraint: Constraint, dialect: str, *, as_said: bool) -> ConstraintPlan | None:
        return account_for_coverage(
            super().plan_constraint(constraint, dialect, as_said=as_said), constraint, self.constraint_support, trusted=self.trusted
        )

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        unsupported_fields = UnsupportedFields(self, body, may_drop)
        if dialect in ("openai_chat", "openai_completions"):
            unsupported_fields.drop_neutral(_NEUTRAL_VALUES)
            top_k = body.value("top_k")
            if isinstance(top_k, int) and top_k < 0:
                body["top_k"] = 0  # off; it answers negative numbers with 400, and left out would mean 40
        if dialect == "openai_chat":
            constraint = self._adapt_chat_body(body, unsupported_fields, constraint)
        elif dialect == "openai_completions":
            for field in sorted(_CHAT_ONLY_FIELDS & body.keys()):
                unsupported_fields.drop_or_refuse(field, "its completions have no such field.")
            if "n" in body:
                unsupported_fields.drop_or_refuse("n", "it gives one completion of each prompt.")
            if "logprobs" in body:
                unsupported_fields.drop_or_refuse("logprobs", "its completions tell none.")
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = unsupported_fields.dropped
        return adapted

    def _adapt_chat_body(self, body: Body, unsupported_fields: UnsupportedFields, constraint: Constraint | None) -> Constraint | None:
        unsupported_fields.drop_lone_top_logprobs()
        if body.value("logprobs") is False:
            del body["logprobs"]
        if "n" in body and not self._is_since_0_18:
            unsupported_fields.drop_or_refuse(
                "n", "before 0.18 it gives one answer, whatever `n` says (its option `version` tells which it is)."
            )
        if "logit_bias" in body and not self._is_pytorch:
            unsupported_fields.drop_or_refuse("logit_bias", "of its backends PyTorch alone honours it (option `backend`).")
        if not self._is_since_0_18:
            send_allowed_tools_only(body)
        if body.has_value("tools"):
            drop_unsupported_tools(body, "openai_chat", unsupported_fields)
        if body.value("parallel_tool_calls") is False and not (body.value("tools") and body.value("tool_choice") != "none"):
            del body["parallel_tool_calls"]
        elif body.value("parallel_tool_calls") is False and not self._is_since_0_18:
            unsupported_fields.drop_or_refuse(
                "parallel_tool_calls", "before 0.18 it makes several calls at once all the same (option `version`)."
            )
        if body.has_value("reasoning_effort"):
            self._adapt_reasoning_effort(body, unsupported_fields)
        if body.has_value("tool_choice"):
            self._adapt_tool_choice(body, unsupported_fields)
        rename_reasoning(body)
        rename_developer_role(body)
        drop_unsupported_parts(body, _UNSUPPORTED_PARTS, unsupported_fields)
        return unsupported_fields.drop_tools_or_constraint(constraint)

    def _adapt_reasoning_effort(self, body: Body, unsupported_fields: UnsupportedFields) -> None:
        effort = body.value("reasoning_effort")
        if effort == "none":
            del body["reasoning_effort"]
            body["chat_template_kwargs"] = {"enable_thinking": False, **(body.value("chat_template_kwargs") or {})}
        elif effort not in _REASONING_EFFORTS and not (effort == "max" and self._is_since_0_18):
            unsupported_fields.drop_or_refuse(
                "reasoning_effort", f"it knows low, medium and high{', and max' if self._is_since_0_18 else ''}."
            )

    def _adapt_tool_choice(self, body: Body, unsupported_fields: UnsupportedFields) -> None:
        """Documented up to 0.16: a named tool is called; `required` only puts all of them before the model, as `auto` does."""
        choice = body.value("tool_choice")
        if self._is_since_0_18 or choice in ("auto", "none") or (isinstance(choice, dict) and "function" in choice):
            return
        tools: Any = body.value("tools")
        if choice == "required" and isinstance(tools, list) and len(tools) == 1:  # pyright: ignore[reportUnknownArgumentType]
            body["tool_choice"] = {"type": "function", "function": {"name": tools[0]["function"]["name"]}}
            return
        unsupported_fields.drop_or_refuse(
            "tool_choice", "before 0.18 it demands no call but of a tool that is named (option `version` tells which it is)."
        )
