"""xgrammar, the default by which vLLM, SGLang and LMDeploy enforce constraints: what it ignores without an error.

Observed on 0.2.8, alone and in vLLM 0.32, in 2026-11: tests/engines/test_xgrammar_direct.py, test_vllm_direct_schemas.py.
"""

from msgspec.structs import replace

from providers.canonical.output_format import JsonSchema, Regex, StructuralTag
from providers.structured_output import Constraint, ConstraintPlan, SupportByKind

_ANY_BUT_NEWLINE = "[^\\n]"


def account_for_coverage(
    plan: ConstraintPlan | None, constraint: Constraint, support: SupportByKind, *, trusted: bool
) -> ConstraintPlan | None:
    """The plan, lowered to what xgrammar enforces: a partly covered schema is validated, unless the operator trusts the server."""
    if plan is None or plan.enforcement != "enforced":
        return plan
    match plan.output:
        case JsonSchema() | StructuralTag() if constraint.field in constraint.uncovered_paths and not trusted:
            return replace(plan, enforcement="validated")
        case Regex(pattern) if exclude_newline_from_dot(pattern) != pattern:
            return replace(plan, enforcement="converted", fields=support["regex"].write(Regex(exclude_newline_from_dot(pattern))))
        case _:
            return plan


def exclude_newline_from_dot(pattern: str) -> str:
    """A pattern whose `.` matches no newline; xgrammar's does."""
    parts: list[str] = []
    in_class = escaping = False
    for character in pattern:
        parts.append(_ANY_BUT_NEWLINE if character == "." and not in_class and not escaping else character)
        if escaping or character == "\\":
            escaping = not escaping
        elif character == "[":
            in_class = True
        elif character == "]":
            in_class = False
    return "".join(parts)
