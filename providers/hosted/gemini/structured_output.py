"""How Gemini models are held to a constraint, at AI Studio and at Vertex alike: it stands in the ask as the dialect wrote it."""

from msgspec.structs import replace

from providers import structured_output
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.dialects.gemini.output_format import is_enforced, write_format
from providers.structured_output import Constraint, ConstraintPlan


def without_dropped_output(constraint: Constraint | None, body: Body) -> Constraint | None:
    """The constraint without an output that the dialect has let go: beside tools, or because there is no word for it."""
    config = body.get("generationConfig")
    if constraint is None or (isinstance(config, dict) and "responseMimeType" in config):
        return constraint
    return replace(constraint, output=None, whitespace=None)


def plan_gemini_constraint(constraint: Constraint, *, trusted: bool) -> ConstraintPlan | None:
    """What Google does not say that it holds to, is looked at; unless the operator `vouched` for it."""
    output = constraint.output
    if output is None:
        return None
    try:
        write_format(output)
    except Unsupported:
        return None
    if not trusted and not is_enforced(output):
        return ConstraintPlan("validated", output)
    return ConstraintPlan("converted" if isinstance(output, structured_output.Choice) else "enforced", output)
