"""What a host promises of schemas: it holds answers to what it supports, and of the rest nobody knows."""

from msgspec.structs import replace

from providers.guided import Constraint, Guiding, JsonSchema


def as_promised(told: Guiding | None, constraint: Constraint, *, vouched: bool) -> Guiding | None:
    """A schema that says what grammars are not known to hold to is looked at in the answer, unless the operator vouches for the host."""
    if told is None or told.how != "enforced" or not isinstance(told.output, JsonSchema):
        return told
    return replace(told, how="validated") if constraint.field in constraint.loose and not vouched else told
