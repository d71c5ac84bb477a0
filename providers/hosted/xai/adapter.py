"""xAI: Responses is its main API and chat its legacy one. Unsupported parameters differ by model."""

from collections.abc import Callable, Mapping
from typing import Any

from providers.adapters.provider import Adapted
from providers.adapters.tools import check_strict_tools
from providers.canonical.errors import CredentialRefused, UpstreamError, UpstreamNotFound, UpstreamRejected
from providers.canonical.raw_json import Body
from providers.canonical.reclassify_error import reclassify
from providers.drop_policy import DropPolicy
from providers.hosted.host_spec_provider import HostSpecProvider
from providers.hosted.rules.loose_schemas import validate_loose_schema
from providers.profiles.chat_models import find_chat_rules
from providers.structured_output import Constraint, ConstraintPlan

# Reasoning models answer 400 to these: https://docs.x.ai/docs/guides/reasoning, read 2026-11 (docs/sources.md#xai).
_UNSUPPORTED_WHILE_REASONING: Mapping[str, tuple[Any, ...]] = {"stop": ([],), "presence_penalty": (0,), "frequency_penalty": (0,)}

# Only the messages tell these errors apart, not their codes: recordings xai/19-error-400-a and xai/20-error-400-b.
_INVALID_KEY_PHRASE, _UNKNOWN_MODEL_PHRASE = "Incorrect API key", "Model not found"
# With 403 and the code of a credential error: UKGovernmentBEIS/inspect_ai#2267, theopenco/llmgateway#1785, read 2026-11.
_UNSAFE_PHRASE = "violates usage guidelines"


class XAI(HostSpecProvider, host="xai"):
    constrained_dialects = frozenset({"openai_chat", "openai_responses"})

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        return validate_loose_schema(
            super().plan_constraint(constraint, dialect, in_own_fields=in_own_fields), constraint, trusted=self.trusted
        )

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        drop_policy = self.drop_policy(body, may_drop)
        if dialect == "openai_chat":
            _enforce_model_limits(body, drop_policy)
        check_strict_tools(drop_policy, constraint, trusted=self.trusted)
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = drop_policy.dropped
        return adapted

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        error = super().read_error(status, headers, body)
        return reclassify(error, _classify(status, error))


def _enforce_model_limits(body: Body, drop_policy: DropPolicy) -> None:
    """Drops or refuses fields of chat that a reasoning model does not support.

    Efforts, which differ by model too, are adapted in providers/hosted/rules/model_rules.py.
    """
    model = body.value("model")
    rules = find_chat_rules(model) if isinstance(model, str) else None
    if rules is None or rules.thinking == "never":
        return
    drop_policy.drop_neutral(_UNSUPPORTED_WHILE_REASONING)
    for field in [field for field in _UNSUPPORTED_WHILE_REASONING if body.has_value(field)]:
        drop_policy.drop_or_refuse(field, f"its model {model} is a reasoning model and does not support it.")


def _classify(status: int, error: UpstreamError) -> UpstreamError:
    """The error that xAI's message stands for; the same error where it says no more than the status."""
    if status == 400 and _INVALID_KEY_PHRASE in error.message:
        return CredentialRefused(
            f"The host refused the gateway's own credential: {error.message}", upstream_status=status, reason=error.message
        )
    if status == 400 and _UNKNOWN_MODEL_PHRASE in error.message:
        return UpstreamNotFound(error.message, upstream_status=status, param="model")
    if status == 403 and isinstance(error, CredentialRefused) and _UNSAFE_PHRASE in error.reason:
        return UpstreamRejected(error.reason, upstream_status=status)
    return error
