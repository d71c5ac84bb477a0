"""TranslatedRequest: what is sent to a target."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from app.gateway.emulation.emulation import Emulation
from app.gateway.response_translation.dialect_pair import TargetDialect
from providers.structured_output import ConstraintPlan


class RequestPart(Struct, frozen=True):
    """One of the requests that are sent instead of one."""

    make: "Callable[[], Awaitable[TranslatedRequest]]"
    input_tokens: int  # an estimate


class TranslatedRequest(Struct, frozen=True):
    """A request as it goes to one target."""

    raw: bytes  # the body
    dialect: TargetDialect
    stream: bool  # whether the target is to stream, which the caller may not have requested
    dropped: list[str]  # fields of the caller that do not go, in the caller's names
    betas: bytes  # the value for `anthropic-beta`
    constraint_plan: ConstraintPlan | None  # how the constraint on the output is enforced; None: there is none
    id: str | None = None  # by which the engine knows the request; None: it takes no id
    model: str = ""  # the host's model where the URL names it, else ""
    emulation: Emulation | None = None  # what the gateway does itself, as the target cannot; None: nothing
    # the requests that are sent instead of this one, and whose responses are merged; empty: this one is sent
    parts: Sequence[RequestPart] = ()
    header_lines: bytes = b""  # of headers that the caller adds

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
