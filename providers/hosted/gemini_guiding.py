"""How Gemini models are held to a constraint, at AI Studio and at Vertex alike: it stands in the ask as the dialect wrote it."""

from msgspec.structs import replace

from providers import guided
from providers.dialects.gemini.formats import is_held, write_format
from providers.errors import Unsupported
from providers.guided import Constraint, Guiding
from providers.wire import Body


def left(constraint: Constraint | None, body: Body) -> Constraint | None:
    """The constraint without an output that the dialect has let go: beside tools, or because there is no word for it."""
    config = body.get("generationConfig")
    if constraint is None or (isinstance(config, dict) and "responseMimeType" in config):
        return constraint
    return replace(constraint, output=None, spacing=None)


def gemini_guiding(constraint: Constraint, *, vouched: bool) -> Guiding | None:
    """What Google does not say that it holds to, is looked at; unless the operator `vouched` for it."""
    output = constraint.output
    if output is None:
        return None
    try:
        write_format(output)
    except Unsupported:
        return None
    if not vouched and not is_held(output):
        return Guiding("validated", output)
    return Guiding("converted" if isinstance(output, guided.Choice) else "enforced", output)
