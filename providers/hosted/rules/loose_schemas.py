"""What a host promises of schemas: it holds answers to what it supports, and of the rest nobody knows."""

from msgspec.structs import replace

from providers.structured_output import Constraint, ConstraintPlan, JsonSchema


def validate_loose_schema(plan: ConstraintPlan | None, constraint: Constraint, *, trusted: bool) -> ConstraintPlan | None:
    """A schema that says what grammars are not known to hold to is looked at in the answer, unless the operator vouches for the host."""
    if plan is None or plan.enforcement != "enforced" or not isinstance(plan.output, JsonSchema):
        return plan
    return replace(plan, enforcement="validated") if constraint.field in constraint.uncovered_paths and not trusted else plan
