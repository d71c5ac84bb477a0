"""TranslatedRequest: what is sent to a target."""

from msgspec import Struct

from app.gateway.response_translation.dialect_pair import TargetDialect
from providers.structured_output import ConstraintPlan


class TranslatedRequest(Struct, frozen=True):
    """A request as it goes to one target. `stream`: whether the target is to stream, which the caller may not have requested.

    `raw`: the body. `dropped`: fields of the caller that do not go, in the caller's names. `betas`: the value for `anthropic-beta`.
    `constraint_plan`: how the constraint on the output is enforced; None: there is none.
    `id`: by which the engine knows the request; None: it takes no id. `model`: the host's model where the URL names it, else "".
    """

    raw: bytes
    dialect: TargetDialect
    stream: bool
    dropped: list[str]
    betas: bytes
    constraint_plan: ConstraintPlan | None
    id: str | None = None
    model: str = ""
