"""Stages of a request: what is known of it, and what it holds, each stage holding the one before.

    Received       nothing but that it came
    Authenticated  the caller; a claim, if the request has an Idempotency-Key
    Admitted       the parsed request, its episode and its tags
    Planned        the targets in order, the reservation against limits, the record in the spool
    Attempted      what was sent to engines, and what came back
    Replayed       the response to an earlier request with the same Idempotency-Key

`RequestContext.stage` is the newest of them. It is set before the next await after something was acquired, so that whatever
ends the request (a response, an error, a disconnect, a shutdown) finds all that is to be recorded, settled and released.
"""

from collections.abc import Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct

from app.domain.callers import Caller
from app.domain.exchange import Attempt, Candidate, Exchange, ShadowRecord
from app.domain.snapshot import Plan
from app.gateway.emulation.emulation import Emulation
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.fleet.endpoint_table import EndpointTable
from app.gateway.functions.function_request import FunctionRequest
from app.gateway.idempotency.claim import Claim
from app.gateway.limits.reservation import Reservation
from app.gateway.limits.rule_matcher import RuleMatcher
from app.gateway.state.episode_id import Episode
from app.gateway.state.request_faults import RequestFaults
from app.gateway.upstream.call import UpstreamCall
from app.gateway.upstream.progress import Charge, ResponseProgress
from app.recording.spool.spool_record import LargeWork
from app.store.redis.idempotent_responses import StoredResponse
from providers.dialect import InboundRequest
from providers.structured_output import Constraint


class ExchangeRecord(Protocol):
    """The record of one exchange while it grows: a SpoolRecord, or the copy of one that a claim keeps beside it."""

    closed: bool

    def append_response(self, data: bytes) -> None: ...

    async def append_large_response(self, data: bytes, large_work: LargeWork) -> None: ...

    def close(self, exchange: Exchange) -> None: ...


class Received(Struct):
    """A request whose caller is not known yet."""


class Authenticated(Struct):
    """A request whose caller is known."""

    caller: Caller
    claim: Claim | None = None  # None without an Idempotency-Key


class Admitted(Struct):
    """A request that has been read and may be served."""

    authenticated: Authenticated
    request: InboundRequest  # of a function, what its variant makes of it
    episode: Episode
    tags: Mapping[str, str]  # the header's, else the body's
    reserved_fields: list[str] = []  # fields for a gateway that this one does not have
    read_as: str = ""  # that it came as a body of another API than the route's; empty: it did not

    @property
    def caller(self) -> Caller:
        return self.authenticated.caller


class Planned(Struct):
    """A request with its plan, and what it has reserved."""

    admitted: Admitted
    plan: Plan
    reservation: Reservation | None  # None if no rule applies. A fallback with rules of its own extends it
    spool_record: ExchangeRecord
    reserved_output: int  # in tokens; known without rules too
    endpoint_table: EndpointTable  # of the configuration by which it was planned, as is `matcher`; another may be in force by now
    matcher: RuleMatcher
    function_request: FunctionRequest | None = None  # what makes the requests of other variants; None: the plan is of no function
    shadow: ShadowRecord | None = None  # what is recorded of a request that is answered again; None: there is a caller
    constraint: Constraint | None = None  # on the response; None: there is none
    upstream_raw: bytes = b""  # the body that is translated for engines, as the variant of a function makes it


class Discarded(Struct, frozen=True):
    """A response that nobody gets, and what is charged for it."""

    attempt: Attempt
    charge: Charge
    reported_model: str | None  # see Attempted.reported_model


class Attempted(Struct):
    """A request with what its attempts have come to so far."""

    planned: Planned
    progress: ResponseProgress
    attempts: list[Attempt] = []
    call: UpstreamCall | None = None  # the newest
    served: Attempt | None = None  # the attempt that answered, or that was stopped after it was sent; None: no engine worked for it
    dropped: list[str] = []  # fields that the response was made without
    structured_output: str | None = None  # how its constraint was kept (enforced, converted, validated, unvalidated); None without one
    # What is charged for responses that nobody gets: they violated the constraint, or the gateway gave up waiting for a host that may have
    # gone on.
    discarded: list[Discarded] = []
    emulation: Emulation | None = None  # what the gateway did itself, as the target could not
    candidates: tuple[Candidate, ...] | None = None  # of the newest attempt; None: no explanation was requested
    reserved_models: set[str] = set()  # against whose rules was reserved
    broken_endpoint: Endpoint | None = None  # whose stream another endpoint goes on with; None: none broke off
    variant: str | None = None  # whose request the newest attempt got; None: the plan has no variants
    faults: RequestFaults | None = None  # the 500s of engines so far; None: there was none

    @classmethod
    def begin(cls, planned: Planned, progress: ResponseProgress) -> "Attempted":
        """Begins the attempts at a request, of which none has been made."""
        plan = planned.plan
        reserved = {plan.name} if plan.experiment_model is None else {plan.name, plan.experiment_model}
        return cls(planned, progress, reserved_models=reserved, variant=plan.variant)

    @property
    def is_shadow(self) -> bool:
        """Returns whether this is a shadow.

        What a shadow meets changes nothing for requests of callers: neither an endpoint's breaker nor the
        cooldown of a credential.
        """
        return self.planned.shadow is not None

    @property
    def served_variant(self) -> str | None:
        """The variant that answered; None: none did, or the plan has none."""
        return None if self.served is None else self.variant

    @property
    def reported_model(self) -> str | None:
        """The model that the host names in its response, if it is not the name that was sent: a version of that model, or another one."""
        return None if self.served is None else self._reported_by(self.served)

    def discard(self, attempt: Attempt, charge: Charge) -> None:
        """Nobody gets the response to this attempt, the newest."""
        self.discarded.append(Discarded(attempt, charge, self._reported_by(attempt)))
        self.progress.usage = None

    def _reported_by(self, attempt: Attempt) -> str | None:
        name = self.progress.model if self.progress.editor is None else self.progress.editor.model
        if name is None or name == attempt.model:
            return None
        return name if self.call is None else self.call.credential_client.secret_mask.mask(name)  # hosts echo what they were sent


class Replayed(Struct):
    """It stands for the earlier inference, and is no exchange of its own."""

    authenticated: Authenticated
    response: StoredResponse


Stage: TypeAlias = Received | Authenticated | Admitted | Planned | Attempted | Replayed


def admitted_of(stage: Stage) -> Admitted | None:
    """Returns the admitted request, or None if the request was not parsed."""
    match stage:
        case Attempted(planned=Planned(admitted=admitted)) | Planned(admitted=admitted) | (Admitted() as admitted):
            return admitted
        case Received() | Authenticated() | Replayed():
            return None


def claim_of(stage: Stage) -> Claim | None:
    """The claim of an Idempotency-Key, which is to be completed however the request ends."""
    match stage:
        case Attempted(planned=Planned(admitted=Admitted(authenticated=authenticated))):
            return authenticated.claim
        case Planned(admitted=Admitted(authenticated=authenticated)):
            return authenticated.claim
        case Admitted(authenticated=authenticated) | (Authenticated() as authenticated):
            return authenticated.claim
        case Received() | Replayed():
            return None
