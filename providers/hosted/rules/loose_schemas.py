"""Loose schemas: those that go beyond what grammars are known to enforce, at hosts that enforce only what they support."""

from msgspec.structs import replace

from providers.canonical.output_format import JsonSchema
from providers.structured_output import Constraint, ConstraintPlan


def validate_loose_schema(plan: ConstraintPlan | None, constraint: Constraint, *, trusted: bool) -> ConstraintPlan | None:
    """The plan, validated instead of enforced for a schema that grammars are not known to cover, unless the operator trusts the host."""
    if plan is None or plan.enforcement != "enforced" or not isinstance(plan.output, JsonSchema):
        return plan
    return replace(plan, enforcement="validated") if constraint.field in constraint.uncovered_paths and not trusted else plan
