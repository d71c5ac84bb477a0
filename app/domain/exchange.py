"""Exchanges: a request with its response as they are recorded, and the attempts that were made."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from app.domain.callers import ContentPolicy
from app.domain.experiments import Assignment
from providers.canonical.chat import Usage

# disconnected: the caller left first. aborted: this process stopped first, or something broke in it.
Outcome = Literal["answered", "failed", "disconnected", "aborted"]


# Why the gateway made a request itself. shadow: to compare another variant or model with the one that answered a caller. replay: a recorded
# request once more, to another variant or model. judge: to compare the responses of a replay and its original. playground: somebody who is
# signed in tries a model or function, in the name of a key.
OriginKind = Literal["shadow", "replay", "judge", "playground"]


# How certain a charge is. reported: the engine's own counts. received: estimated by what came of the response. reserved: the output that
# was reserved, because the host may have gone on writing, and billing, after the gateway left.
ChargeBasis = Literal["reported", "received", "reserved"]


class Origin(Struct, frozen=True):
    """Why the gateway made a request itself, and for whom. Whoever had it made is charged for it.

    The record of such a request takes part in no experiment. `original_id` is the caller's inference that the
    request repeats or is about; an erasure of that inference reaches the record, too. It is None in the
    playground. `replay_id` is None if the request belongs to no replay. `content_team_id` is the team whose
    words the request holds, if another team pays, to which they are not shown; None means that they belong to
    the team that pays.
    """

    kind: OriginKind
    original_id: str | None = None
    replay_id: str | None = None
    content_team_id: str | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for the response, who gets what a caller would get."""
        return self.kind == "playground"


class Candidate(Struct, frozen=True):
    """An endpoint that an attempt could have gone to. Tokens are estimates; the least `score` is tried first."""

    number: int  # its place among the target's endpoints, by which callers know it
    endpoint: str
    score: int
    cached_tokens: int
    load_tokens: int
    unavailable: str | None = None  # why it comes last; None: it does not


class Attempt(Struct, frozen=True, array_like=True):
    """One try at one endpoint. Tokens and cost are what is charged for it: 0 if the host did no work, or none that it bills."""

    provider: str
    model: str
    endpoint: str  # empty: it was left out
    started_us: int
    duration_us: int
    status: int | None = None  # None: no response came
    error: str | None = None  # None: it served
    message: str | None = None
    code: str | None = None  # the host's own code of its error
    request_id: str | None = None  # the host's id of the request
    first_token_us: int | None = None  # after the request's start; None: none came
    input_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: int | None = 0  # None: no price is known
    candidates: tuple[Candidate, ...] | None = None  # the best first; None: no explanation was requested
    # after how many characters of text it went on with the stream of the attempt before; None: it began the response
    resumed_at: int | None = None


class ChargedAttempt(Struct, frozen=True, array_like=True):
    """The charge for one attempt, with what is needed to price it again.

    `cost_microusd`, `price` and `reported_model` are as in Exchange. `duration_us` is the time that the
    attempt took, until the end of its response. `continues` marks another part of the same response, which
    the host bills separately; it is rounded once, together with the charge before it.
    """

    provider: str
    model: str
    usage: Usage
    basis: ChargeBasis
    cost_microusd: int | None = None
    price: str | None = None
    reported_model: str | None = None
    duration_us: int = 0
    continues: bool = False


class ShadowRecord(Struct, frozen=True, array_like=True):
    """The part of the record of a shadow, a request that repeats another one, that other records lack.

    `name` is the function or model whose shadow it is. `team_id` is the team whose request is repeated, and
    to which the content belongs; the record's own team is the one that pays. `is_first_turn` means that the
    request holds no earlier response, which would be one of the original's. `is_same` says whether both
    responses have the same text and tool calls; None means that this is not known.
    """

    name: str
    team_id: str
    is_first_turn: bool
    is_same: bool | None = None


class Exchange(Struct, frozen=True, array_like=True):
    """A request and its response, as they are recorded; times in microseconds, offsets from `received_us` (Unix time).

    Fields are only ever appended, with defaults: records written by an older version must still be read.
    `status` is what was sent to the caller (499: the caller disconnected first). `model` is the name that the caller sent.
    """

    id: str
    episode_id: str
    route: str
    model: str
    key_id: str
    team_id: str
    snapshot: str
    received_us: int
    duration_us: int
    streamed: bool
    status: int
    outcome: Outcome
    content: ContentPolicy = "full"
    first_token_us: int | None = None
    finish_reason: str | None = None
    usage: Usage = Usage()
    served_provider: str | None = None
    served_model: str | None = None
    endpoint: str | None = None
    error: str | None = None
    message: str | None = None
    attempts: tuple[Attempt, ...] = ()
    dropped: tuple[str, ...] = ()
    tags: Mapping[str, str] = {}
    end_user: str | None = None
    function: str | None = None
    variant: str | None = None
    # What limits counted in the end: the usage that the engine reported, else an estimate of it.
    charged_input: int = 0
    charged_output: int = 0
    cost_microusd: int | None = None  # None: unknown, as there is no price
    structured_output: str | None = None  # how the constraint was met: enforced, converted, validated, unvalidated; None: there was none
    charge_basis: ChargeBasis | None = None  # of several the least certain; None: nothing was charged, or it was not recorded yet
    reported_model: str | None = None  # the model that the host names in its response, if it is not `served_model`
    emulated: tuple[str, ...] = ()  # fields that the gateway honoured itself, as the target could not
    # W3C trace context: the trace (32 hex digits; None: none), the caller's span (16; None: the trace began here), and whether it is kept.
    trace_id: str | None = None
    parent_span_id: str | None = None
    sampled: bool = False
    request_id: str | None = None  # the id that the caller gave its request, X-Request-Id; None: it gave none, and `id` stands for it
    price: str | None = None  # the price used (of several attempts, the last one's), as price_name() names it; None: there was none
    host_cost_microusd: int | None = None  # what the host says that it cost; None: it does not say so, of all attempts that are charged
    served_us: int | None = None  # how long the attempt that served took, until the end of the response; None: no engine served
    # Empty: `cost_microusd` is that of `usage`, at one attempt. Else all that is charged.
    charges: tuple[ChargedAttempt, ...] = ()
    episode_name: str | None = None  # the text that the caller names its episode by; None: a UUID, or none
    assignment: Assignment | None = None  # None: no running experiment. `variant` is its arm; without one, that which was chosen
    served_variant: str | None = None  # whose model answered; None: nobody's, or there are no variants
    # See Origin; None: a caller's own request.
    origin: OriginKind | None = None
    original_id: str | None = None
    replay_id: str | None = None
    shadow: ShadowRecord | None = None  # None: of another origin
    content_team_id: str | None = None  # see Origin; of a shadow its record has it
