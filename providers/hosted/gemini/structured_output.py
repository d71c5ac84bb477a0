"""Constraint plans for Gemini models, at AI Studio and Vertex: the dialect has already written the constraint into the request."""

from msgspec.structs import replace

from providers.canonical.errors import Unsupported
from providers.canonical.output_format import Choice
from providers.canonical.raw_json import Body
from providers.dialects.gemini.output_format import is_enforced, write_format
from providers.structured_output import Constraint, ConstraintPlan


def without_dropped_output(constraint: Constraint | None, body: Body) -> Constraint | None:
    """The constraint without an output that the dialect dropped, because of tools or because Gemini cannot express it."""
    config = body.value("generationConfig")
    if constraint is None or (isinstance(config, dict) and "responseMimeType" in config):
        return constraint
    return replace(constraint, output=None, whitespace=None)


def plan_gemini_constraint(constraint: Constraint, *, trusted: bool) -> ConstraintPlan | None:
    """Validated where Google does not document that it enforces the output, unless the operator trusts the host; None: no constraint."""
    output = constraint.output
    if output is None:
        return None
    try:
        write_format(output)
    except Unsupported:
        return None
    if not trusted and not is_enforced(output):
        return ConstraintPlan("validated", output)
    return ConstraintPlan("converted" if isinstance(output, Choice) else "enforced", output)
