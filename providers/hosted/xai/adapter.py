"""xAI: Responses is its API, and chat its legacy one; what a model does not take is refused by each model in its own way."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from providers.adapters.provider import Adapted
from providers.adapters.tools import check_strict_tools
from providers.adapters.unsupported_fields import UnsupportedFields
from providers.canonical.errors import CredentialRefused, UpstreamError, UpstreamNotFound, UpstreamRejected
from providers.canonical.raw_json import Body
from providers.hosted.rules.host_spec_provider import HostSpecProvider
from providers.hosted.rules.loose_schemas import validate_loose_schema
from providers.structured_output import Constraint, ConstraintPlan

# Answered with 400 by models that reason: https://docs.x.ai/docs/guides/reasoning, read 2026-11 (/reference/providers.md part 2).
_REASONING_MODEL = re.compile(r"grok-(?:3-mini|[4-9]|code|build)(?!.*non-reasoning)")
_UNSUPPORTED_WHILE_REASONING: Mapping[str, tuple[Any, ...]] = {"stop": ([],), "presence_penalty": (0,), "frequency_penalty": (0,)}
# "Model ... does not support parameter reasoningEffort": all before 4.3 but grok-3-mini and the one of several agents.
_MODEL_WITHOUT_EFFORT = re.compile(r"grok-(?:2|3(?!-mini)|code|4(?:$|-)|4\.20(?!-multi-agent))")

# What its messages say, whose codes tell less: recorded, xai/19-error-400-a and xai/20-error-400-b.
_INVALID_KEY_PHRASE, _UNKNOWN_MODEL_PHRASE = "Incorrect API key", "Model not found"
# With 403 and the code of a credential's: UKGovernmentBEIS/inspect_ai#2267, theopenco/llmgateway#1785, read 2026-11.
_UNSAFE_PHRASE = "violates usage guidelines"


class XAI(HostSpecProvider, host="xai"):
    constrained_dialects = frozenset({"openai_chat", "openai_responses"})

    def plan_constraint(self, constraint: Constraint, dialect: str, *, as_said: bool) -> ConstraintPlan | None:
        return validate_loose_schema(super().plan_constraint(constraint, dialect, as_said=as_said), constraint, trusted=self.trusted)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        unsupported_fields = UnsupportedFields(self, body, may_drop)
        _enforce_model_limits(body, dialect, unsupported_fields)
        check_strict_tools(unsupported_fields, constraint, trusted=self.trusted)
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = unsupported_fields.dropped
        return adapted

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        error = super().read_error(status, headers, body)
        classified = _reclassify(status, error)
        classified.upstream_code = error.upstream_code
        return classified


def _enforce_model_limits(body: Body, dialect: str, unsupported_fields: UnsupportedFields) -> None:
    model = body.value("model")
    if not isinstance(model, str):
        return
    if dialect == "openai_chat" and _REASONING_MODEL.match(model):
        unsupported_fields.drop_neutral(_UNSUPPORTED_WHILE_REASONING)
        for field in [field for field in _UNSUPPORTED_WHILE_REASONING if body.has_value(field)]:
            unsupported_fields.drop_or_refuse(field, f"its model {model} reasons, and takes none.")
    if not _MODEL_WITHOUT_EFFORT.match(model):
        return
    if dialect == "openai_chat" and body.has_value("reasoning_effort"):
        unsupported_fields.drop_or_refuse("reasoning_effort", f"how much its model {model} reasons cannot be said.")
    elif dialect == "openai_responses" and body.has_value("reasoning"):
        reasoning = body.value("reasoning")
        if reasoning.get("effort") is not None:
            unsupported_fields.drop_path_or_refuse("reasoning.effort", f"how much its model {model} reasons cannot be said.")
            body["reasoning"] = {key: value for key, value in reasoning.items() if key != "effort"}


def _reclassify(status: int, error: UpstreamError) -> UpstreamError:
    if status == 400 and _INVALID_KEY_PHRASE in error.message:
        return CredentialRefused(
            f"The host refused the gateway's own credential: {error.message}", upstream_status=status, reason=error.message
        )
    if status == 400 and _UNKNOWN_MODEL_PHRASE in error.message:
        return UpstreamNotFound(error.message, upstream_status=status, param="model")
    if status == 403 and isinstance(error, CredentialRefused) and _UNSAFE_PHRASE in error.reason:
        return UpstreamRejected(error.reason, upstream_status=status)
    return error
