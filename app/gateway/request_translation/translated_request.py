"""TranslatedRequest: what is sent to a target."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from app.gateway.emulation.emulation import Emulation
from app.gateway.response_translation.dialect_pair import TargetDialect
from providers.structured_output import ConstraintPlan


class RequestPart(Struct, frozen=True):
    """One of the requests that are sent instead of one. `input_tokens`: an estimate."""

    make: "Callable[[], Awaitable[TranslatedRequest]]"
    input_tokens: int


class TranslatedRequest(Struct, frozen=True):
    """A request as it goes to one target. `stream`: whether the target is to stream, which the caller may not have requested.

    `raw`: the body. `dropped`: fields of the caller that do not go, in the caller's names. `betas`: the value for `anthropic-beta`.
    `constraint_plan`: how the constraint on the output is enforced; None: there is none.
    `id`: by which the engine knows the request; None: it takes no id. `model`: the host's model where the URL names it, else "".
    `emulation`: what the gateway does itself, as the target cannot; None: nothing. `parts`: the requests that are sent instead of this
    one, and whose responses are merged; empty: this one is sent. `header_lines`: of headers that the caller adds.
    """

    raw: bytes
    dialect: TargetDialect
    stream: bool
    dropped: list[str]
    betas: bytes
    constraint_plan: ConstraintPlan | None
    id: str | None = None
    model: str = ""
    emulation: Emulation | None = None
    parts: Sequence[RequestPart] = ()
    header_lines: bytes = b""

    @property
    def is_checked(self) -> bool:
        """Whether the response is held back until it is complete, and checked."""
        plan, emulation = self.constraint_plan, self.emulation
        return (plan is not None and (plan.enforcement == "validated" or plan.is_json_string)) or (
            emulation is not None and emulation.checks
        )

    @property
    def response_editing(self) -> Emulation | None:
        """The emulation, if the response is to be edited by it."""
        return self.emulation if self.emulation is not None and self.emulation.edits else None
