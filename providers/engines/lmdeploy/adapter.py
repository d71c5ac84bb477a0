"""LMDeploy's api_server, and its proxy, which forwards the same dialect.

Only its chat and completions are used: those are what every version and the proxy have. Nothing reports which version answers; the option
`version` does, and without it requests are what is right for all versions since 0.10.
Stopping: closing the connection ends its session. /abort_request is off unless its server is started with --enable-abort-handling, and
takes session ids, which must be unique.
Errors that its proxy reports with status 200 are read by providers/canonical/upstream_errors.py.
Sources: the documented API (0.12 to 0.16), lmdeploy/serve/openai of 0.18 and docs/sources.md#lmdeploy; read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers import structured_output
from providers.adapters.logprobs import drop_lone_top_logprobs
from providers.adapters.lora import AdapterNaming, name_adapter_as_model
from providers.adapters.messages import drop_unsupported_parts, rename_developer_role, rename_reasoning
from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Adapted
from providers.adapters.tools import drop_tools_or_constraint, drop_unsupported_tools, send_allowed_tools_only
from providers.canonical.output_format import Choice, OutputFormat, OutputKind, Regex
from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.engines.lmdeploy.fields import (
    ACCEPTED_IN_COMPLETIONS,
    NEUTRAL_VALUES,
    REASONING_EFFORTS,
    RESTRICTED_FIELDS,
    UNSUPPORTED_FIELDS,
    UNSUPPORTED_HINT_FIELDS,
    UNSUPPORTED_IN_COMPLETIONS,
    UNSUPPORTED_PARTS,
)
from providers.engines.object_schemas import write_object_response_format
from providers.engines.versions import parse_version
from providers.engines.xgrammar import account_for_coverage
from providers.structured_output import Constraint, ConstraintPlan, ConstraintSupport
from providers.structured_output.regexes import choice_to_regex


def _write_regex_schema(output: OutputFormat) -> dict[str, Any]:
    assert isinstance(output, Regex | Choice)
    pattern = output.pattern if isinstance(output, Regex) else choice_to_regex(output.options)
    return {"response_format": {"type": "regex_schema", "regex_schema": pattern}}


def _support_with(enforcement: Mapping[OutputKind, structured_output.Enforcement]) -> structured_output.SupportByKind:
    return {
        "json_object": ConstraintSupport(enforcement["json_object"], write_object_response_format, keeps_response_format=True),
        "json_schema": ConstraintSupport(enforcement["json_schema"], write_object_response_format, keeps_response_format=True),
        "regex": ConstraintSupport(enforcement["regex"], _write_regex_schema),
        "choice": ConstraintSupport(enforcement["choice"], _write_regex_schema),
    }


_CONSTRAINT_SUPPORT = _support_with({"json_object": "enforced", "json_schema": "enforced", "regex": "enforced", "choice": "converted"})
# Up to 0.16 TurboMind answers 200 without the constraint, and writes to its log that it cannot enforce it.
_UNRELIABLE_CONSTRAINT_SUPPORT = _support_with(
    {"json_object": "validated", "json_schema": "validated", "regex": "validated", "choice": "validated"}
)


class LMDeploy(OpenAICompatible):
    """LMDeploy. Its version and backend, which are options, decide what it enforces."""

    name: ClassVar[str] = "lmdeploy"
    thinking_fields = frozenset()
    is_self_hosted: bool = True
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions")
    default_base_url: ClassVar[str | None] = None
    stops_on_disconnect = "always"
    constrained_dialects = frozenset({"openai_chat"})
    strict_tools: ClassVar[bool] = False
    lora_naming: ClassVar[AdapterNaming | None] = staticmethod(name_adapter_as_model)
    known_options: ClassVar[Mapping[str, str]] = {
        **OpenAICompatible.known_options,
        "version": 'the engine\'s version ("0.18.0"), which it does not report: since 0.18 it honours constraints, tool_choice and n',
        "backend": '"turbomind" (default) or "pytorch", the only one that honours logit_bias and has always enforced constraints',
    }

    unsupported_fields = UNSUPPORTED_FIELDS
    hint_fields = UNSUPPORTED_HINT_FIELDS
    restricted_fields = RESTRICTED_FIELDS
    unread_parts = UNSUPPORTED_PARTS
    renamed_fields: Mapping[str, str] = {"min_tokens": "min_new_tokens"}

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        if options.get("backend", "turbomind") not in ("turbomind", "pytorch"):
            raise InvalidOption('Option backend may be "turbomind" or "pytorch".')
        known = version or parse_version(str(options.get("version", "")))
        self._is_since_0_18 = known is not None and known >= (0, 18)
        self._is_pytorch = options.get("backend") == "pytorch"

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return _CONSTRAINT_SUPPORT if self._is_since_0_18 or self._is_pytorch or self.trusted else _UNRELIABLE_CONSTRAINT_SUPPORT

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        plan = super().plan_constraint(constraint, dialect, in_own_fields=in_own_fields)
        return account_for_coverage(plan, constraint, self.constraint_support, trusted=self.trusted)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        drop_policy = self.drop_policy(body, may_drop)
        if dialect in ("openai_chat", "openai_completions"):
            drop_policy.drop_neutral(NEUTRAL_VALUES)
            top_k = body.value("top_k")
            if isinstance(top_k, int) and top_k < 0:
                body["top_k"] = 0  # off; it answers 400 to negative numbers, and its default is 40
        if dialect == "openai_chat":
            constraint = self._adapt_chat_body(body, drop_policy, constraint)
        elif dialect == "openai_completions":
            for field in sorted(UNSUPPORTED_IN_COMPLETIONS & body.keys()):
                drop_policy.drop_or_refuse(field, "its completions have no such field.")
            if "n" in body:
                drop_policy.drop_or_refuse("n", "it generates one completion of each prompt.")
            for field in sorted(ACCEPTED_IN_COMPLETIONS & body.keys()):
                drop_policy.drop_hint(field)
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = drop_policy.dropped
        return adapted

    def _adapt_chat_body(self, body: Body, drop_policy: DropPolicy, constraint: Constraint | None) -> Constraint | None:
        drop_lone_top_logprobs(body, drop_policy)
        if body.value("logprobs") is False:
            del body["logprobs"]
        if "n" in body and not self._is_since_0_18:
            drop_policy.drop_or_refuse("n", "before 0.18 it generates one choice, whatever `n` is (option `version`).")
        if "logit_bias" in body and not self._is_pytorch:
            drop_policy.drop_or_refuse("logit_bias", "only its backend PyTorch honours it (option `backend`).")
        if not self._is_since_0_18:
            send_allowed_tools_only(body)
        if body.has_value("tools"):
            drop_unsupported_tools(body, "openai_chat", drop_policy)
        if body.value("parallel_tool_calls") is False and not (body.value("tools") and body.value("tool_choice") != "none"):
            del body["parallel_tool_calls"]
        elif body.value("parallel_tool_calls") is False and not self._is_since_0_18:
            drop_policy.drop_or_refuse("parallel_tool_calls", "before 0.18 it makes several calls at once all the same (option `version`).")
        if body.has_value("reasoning_effort"):
            self._adapt_reasoning_effort(body, drop_policy)
        if body.has_value("tool_choice"):
            self._adapt_tool_choice(body, drop_policy)
        rename_reasoning(body)
        rename_developer_role(body)
        drop_unsupported_parts(body, UNSUPPORTED_PARTS, drop_policy)
        return drop_tools_or_constraint(body, constraint, drop_policy)

    def _adapt_reasoning_effort(self, body: Body, drop_policy: DropPolicy) -> None:
        effort = body.value("reasoning_effort")
        if effort == "none":
            del body["reasoning_effort"]
            body["chat_template_kwargs"] = {"enable_thinking": False, **(body.value("chat_template_kwargs") or {})}
        elif effort not in REASONING_EFFORTS and not (effort == "max" and self._is_since_0_18):
            drop_policy.drop_missing("reasoning_effort", f"it knows low, medium and high{', and max' if self._is_since_0_18 else ''}.")

    def _adapt_tool_choice(self, body: Body, drop_policy: DropPolicy) -> None:
        """Adapts the tool choice to versions before 0.18, which enforce a named tool only and treat `required` as `auto`.

        This is documented up to 0.16.
        """
        choice = body.value("tool_choice")
        if self._is_since_0_18 or choice in ("auto", "none") or (isinstance(choice, dict) and "function" in choice):
            return
        tools: Any = body.value("tools")
        if choice == "required" and isinstance(tools, list) and len(tools) == 1:  # pyright: ignore[reportUnknownArgumentType]
            body["tool_choice"] = {"type": "function", "function": {"name": tools[0]["function"]["name"]}}
            return
        drop_policy.drop_or_refuse("tool_choice", "before 0.18 it demands a call only of a named tool (option `version`).")
