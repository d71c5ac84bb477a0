"""The records that all packages of the service share, all frozen."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast, get_args

from msgspec import NODEFAULT, Meta, Struct

from providers.canonical.chat import Usage

# What is recorded of requests and responses: everything; everything but what the rules of MaskConfig find; only structure and numbers; or
# nothing.
ContentPolicy = Literal["full", "masked", "redacted", "none"]
# Of users and service accounts in the admin API, the strongest first; app/store/access/roles.py has what each permits.
Role = Literal["owner", "admin", "editor", "viewer", "auditor"]
# disconnected: the caller left first. aborted: this process stopped first, or something broke in it.
Outcome = Literal["answered", "failed", "disconnected", "aborted"]

# Why the gateway made a request itself. shadow: to compare another variant or model with the one that answered a caller. replay: a recorded
# request once more, to another variant or model. judge: to compare the responses of a replay and its original.
OriginKind = Literal["shadow", "replay", "judge"]

# How certain a charge is. reported: the engine's own counts. received: estimated by what came of the response. reserved: the output that
# was reserved, because the host may have gone on writing, and billing, after the gateway left.
ChargeBasis = Literal["reported", "received", "reserved"]

# Fields that may be dropped where a target cannot honour them: all, or these, by the names that callers give them.
DroppableFields = Literal["all"] | tuple[str, ...]

# Prefixes that a request may put before a model's name, in this order: TensorZero's, which its clients send, and ours.
MODEL_PREFIXES = ("tensorzero::model_name::", "narthex::model_name::")


Detector = Literal["email", "phone", "card", "iban", "ip_address", "secret"]
ALL_DETECTORS: tuple[Detector, ...] = get_args(Detector)


class MaskConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`mask` of a team: what its content policy `masked` keeps out of the records.

    `detectors`: what is found by built-in rules. `patterns`: regular expressions of RE2, by the name that takes the place of a match.
    """

    detectors: tuple[Detector, ...] = ALL_DETECTORS
    patterns: Mapping[str, str] = {}


class Caller(Struct, frozen=True):
    """Whom a key stands for, and what it may do.

    None means no restriction. `prefix`: the key's public part, as `nx-` and twelve hex digits. Entries of `models` and `routes` may
    end in `*`; `networks` are in CIDR notation. `expires_s`: Unix time at which the key expires. `drop`: what may be left out of its
    requests, by the choice of its team or of the key. `priority`: from -100 to 100; where requests wait, the highest go first. `mask`: its
    team's rules for content that is `masked`. `shadow`: whose shadow it is, a caller that no key stands for: it has the id NO_KEY, and no
    prefix. `counts_as`: the prefix of the first of the keys that it replaces, as which limits count it; empty: its own.
    `models`, `routes` and `networks`: what the key and its team permit; `fallbacks`: its team's.
    """

    key_id: str
    team_id: str
    team: str
    content: ContentPolicy
    admin: bool = False
    prefix: str = ""
    models: tuple[str, ...] | None = None
    routes: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None
    expires_s: float | None = None
    drop: DroppableFields = ()
    priority: int = 0
    mask: MaskConfig = MaskConfig()
    shadow: str | None = None
    counts_as: str = ""
    fallbacks: "Fallbacks" = "any"

    @property
    def counted_prefix(self) -> str:
        """The prefix under which what it spends is counted: the same for all keys that replace each other."""
        return self.counts_as or self.prefix


# The id of the key of requests that were sent with none.
NO_KEY = "00000000-0000-0000-0000-000000000000"


Fallbacks = Literal["any", "allowed"]


class TeamLimit(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """At most `amount` of a resource for each key of a team. `model`: only of requests for this model."""

    resource: "Resource"
    amount: float
    per: "Period | None" = None
    model: str | None = None
    time_zone: str = "UTC"


class TeamRestrictions(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False, kw_only=True):
    """What a team's keys are held to, which they narrow and cannot widen. None: no restriction, as in Caller.

    `limits`: of each key for itself. `fallbacks`: whether models may fall back to any, or to those alone that the key may use.
    """

    models: tuple[str, ...] | None = None
    routes: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None
    limits: tuple[TeamLimit, ...] = ()
    fallbacks: Fallbacks = "any"


class TeamConfig(TeamRestrictions, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[teams.NAME]`: `content` sets how much of the team's requests and responses is recorded, `drop` what may be left out of them.

    `priority`: of keys without one of their own; see Caller. `mask`: the rules of the policy `masked`. `search`: whether the text of what
    is recorded can be searched. See TeamRestrictions, too.
    """

    content: ContentPolicy = "full"
    drop: DroppableFields = ()
    priority: int = 0
    mask: MaskConfig = MaskConfig()
    search: bool = False


class ProviderConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """`[providers.NAME]`: a host or an engine.

    `credential`: references to where it is stored (providers/credentials/references.py); several are used in rotation.
    `drop`: what may be left out of a request that is sent to it. `accepts_nodes`: engines may register as its endpoints.
    `trace`: whether it gets the trace of a request (`traceparent`); None: if it is self-hosted.
    """

    adapter: str
    base_url: str | None = None
    credential: str | tuple[str, ...] | None = None
    options: Mapping[str, Any] = {}
    drop: DroppableFields = ()
    accepts_nodes: bool = False
    trace: bool | None = None

    @property
    def credentials(self) -> tuple[str, ...]:
        if self.credential is None:
            return ()
        return (self.credential,) if isinstance(self.credential, str) else self.credential


class TimeoutConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Of one attempt, in seconds: to connect, until a stream's first byte, between its blocks, and in all; and before it, in a queue.

    None: the next level's. The levels are a target, its model, and the gateway's settings. `queue_s`: for a place at a target with
    `max_concurrency`.
    """

    connect_s: float | None = None
    first_token_s: float | None = None
    silence_s: float | None = None
    total_s: float | None = None
    queue_s: float | None = None


class Target(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A provider, and its model that serves a configured name.

    `weight` None in all targets of a model: they are tried in order; else they are drawn by weight for each episode. `endpoints` empty:
    the provider's base_url. `endpoint_weights`: by address, how much it can take compared with the others (1.0). `dialect`: which dialect
    is spoken to it; None: the caller's own if the provider speaks it, else the one that can express most of the request. `lora`: the LoRA
    adapter of that model which serves the name. `retries`, `timeouts`: None: the model's. `max_concurrency`: requests at once, over all
    gateway processes; None: no limit.
    """

    provider: str
    model: str
    weight: float | None = None
    endpoints: tuple[str, ...] = ()
    endpoint_weights: Mapping[str, float] = {}
    dialect: str | None = None
    lora: str | None = None
    retries: int | None = None
    timeouts: TimeoutConfig | None = None
    max_concurrency: int | None = None


# Why a fallback is used. failure: every endpoint failed, or was too busy. unsupported: no target can honour the request. context_length:
# the prompt is too long. content_refused: the host refuses to answer it. constraint: the response did not have the demanded format.
FallbackReason = Literal["failure", "unsupported", "context_length", "content_refused", "constraint"]
USUAL_REASONS: tuple[FallbackReason, ...] = ("failure", "unsupported", "constraint")


class HedgeConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A second attempt for a request that has waited longer than the `quantile` of the newest ones.

    `budget`: for at most this part of a model's requests.
    """

    quantile: float = 0.95
    budget: float = 0.05


# What callers may choose a model by. The gateway does not know it of the models of others, so operators say it.
Capability = Literal[
    "chat", "tools", "vision", "audio_input", "audio_output", "reasoning", "structured_output", "embeddings", "reranking", "classification"
]


ExperimentStatus = Literal["draft", "running", "ended"]


class RampStep(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """From `after_hours` after the experiment's start on, the share `enrolment` of units takes part."""

    after_hours: float
    enrolment: float


# What experiments can compare without any feedback. Of each less is better.
BuiltInOutcome = Literal["error", "schema_failure", "refusal", "latency", "time_to_first_token", "cost", "input_tokens", "output_tokens"]
BUILT_IN_OUTCOMES: tuple[BuiltInOutcome, ...] = get_args(BuiltInOutcome)
# Of these a unit has 1 if any of its inferences had one, else 0.
BOOLEAN_OUTCOMES: tuple[BuiltInOutcome, ...] = ("error", "schema_failure", "refusal")


class AnalysisConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """How an experiment is read. The start freezes all of it, because results hold only if it was chosen without having seen them.

    `metrics`: of BUILT_IN_OUTCOMES, and declared ones of kind boolean or float; the first is the primary one. Empty: BUILT_IN_OUTCOMES.
    `alpha`: the chance that any of them says something false at any time. `planned_units`: of control and arm together, for which
    intervals are narrowest. `caps`: a unit's value counts as at most this much, by metric. `slices`: names of tags by which results are
    shown, too. `window_minutes`: after its first inference a unit is complete. `feedback_hours`: feedback counts until so long after that
    inference. `guardrails`: by metric and in its own unit, how much worse than the control an arm may be before it is stopped.
    `minimum_units`: without so many in each of both, no arm is promoted, nor before `minimum_days` since the start: a full week or more, as
    days differ.
    """

    metrics: tuple[str, ...] = ()
    alpha: float = 0.05
    planned_units: int = 10_000
    caps: Mapping[str, float] = {}
    slices: tuple[str, ...] = ()
    window_minutes: int = 60
    feedback_hours: int = 24
    guardrails: Mapping[str, float] = {}
    minimum_units: int = 500
    minimum_days: float = 7.0


class AdaptiveConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Weights that follow the primary metric: every `every_minutes` a version with other ones, none with a share below `minimum_share`.

    thompson: an arm's share is the chance that it is the best. best_arm: shares that find the best arm soonest.
    """

    rule: Literal["thompson", "best_arm"]
    every_minutes: int = 60
    minimum_share: float = 0.05


class ExperimentConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """`experiment` of a function, whose arms are variants, or of a model.

    `arms`: weights of 0 or more, not all 0, by a variant of the function; by another model, by the model's own name (all of its targets),
    or by "provider/model" of one of its targets. They are absolute, so that a change of one moves units only to or from that arm.
    `name` None: the function's or model's name. `unit`: what is randomised: episode, user, team, or tag:NAME. `enrolment`: the share of
    units that take part; the others get the control. `ramp`: later shares, the earliest first. `control` None: the function's default
    variant, the model itself, or the first of `arms` by name. `salt` None: a random one. `eligible`: by key, team or tag:NAME, the values
    that take part. `holdout`: the share of units kept out of this and every other experiment with a holdout. `layer`: experiments of one
    layer share no unit; each has its own `slots`, from the first up to and without the last of 10,000. `stopped`: arms whose units get the
    control at once. `winner`: the arm that serves once the experiment has ended; None: the control. `adaptive` None: weights change by
    hand only.
    """

    arms: Mapping[str, float]
    name: str | None = None
    status: ExperimentStatus = "running"
    unit: str = "episode"
    enrolment: float = 1.0
    control: str | None = None
    salt: str | None = None
    ramp: tuple[RampStep, ...] = ()
    eligible: Mapping[str, tuple[str, ...]] = {}
    holdout: float = 0.0
    layer: str | None = None
    slots: tuple[int, int] | None = None
    stopped: tuple[str, ...] = ()
    winner: str | None = None
    analysis: AnalysisConfig = AnalysisConfig()
    adaptive: AdaptiveConfig | None = None

    def control_arm(self, default: str | None) -> str:
        """`default`: the function's default variant, or the model's own name."""
        if self.control is not None:
            return self.control
        return default if default is not None and default in self.arms else min(self.arms)


# A version of an experiment takes effect at least so long after it was committed. A unit that began at a time takes part only by a snapshot
# that was the newest at that time less the lead and the tolerated difference of clocks: then no later version can be in force at that time.
# Longer than workers need to learn of a change. A shorter one needs all processes stopped.
EXPERIMENT_LEAD_MS = 10_000
EXPERIMENT_CLOCK_TOLERANCE_MS = 2_000


class ExperimentVersion(Struct, frozen=True):
    """The weights and the enrolment of a running experiment from `effective_ms` on, in Unix time by Postgres's clock."""

    number: int
    effective_ms: int
    arms: Mapping[str, float]
    enrolment: float


class Experiment(Struct, frozen=True):
    """A running experiment. What its start has frozen, and all versions, the earliest first: of each at least one.

    `holdout`, `layer`, `slots`, `eligible`: see ExperimentConfig.
    """

    name: str
    salt: str
    unit: str
    control: str
    versions: tuple[ExperimentVersion, ...]
    holdout: float = 0.0
    layer: str | None = None
    slots: tuple[int, int] | None = None
    eligible: Mapping[str, tuple[str, ...]] = {}


# Why a unit takes no part. pinned: the caller named the arm. ineligible: see ExperimentConfig.eligible. no_unit: the request names no user,
# or lacks the tag. holdout, layer, share: see `holdout`, `slots` and `enrolment`. before: the episode began before the experiment.
# late: this process may lack the version by which another one assigns it. future: the episode's id lies in the future.
NotEnrolled = Literal["pinned", "ineligible", "no_unit", "holdout", "layer", "share", "before", "late", "future"]


# minted: by a gateway with the same secret key, for this team. caller_uuid7: a UUIDv7 from anywhere else. text: any other name.
EpisodeKind = Literal["minted", "caller_uuid7", "text"]


class Assignment(Struct, frozen=True, array_like=True):
    """An arm of an experiment, as a request was assigned to it.

    `probability`: of the arm, among units that take part; 0 for a unit that is left out. `not_enrolled` None: the unit takes part, and
    counts in the results. `unit`: a hash of what was randomised, with the experiment's salt; None: there is none. `episode_kind`: results
    of units that a caller could choose are kept apart.
    """

    experiment: str
    version: int
    arm: str
    probability: float
    not_enrolled: NotEnrolled | None = None
    unit: str | None = None
    episode_kind: EpisodeKind | None = None


class ShadowConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """`shadow` of a function or a model: a share of its requests is answered again by another one, for comparison. No caller sees that.

    `to`: a variant of the function, or another model. `team`: who wants to know, and pays. `share`: of requests, chosen by a hash of the
    inference's id. `max_concurrent`, `per_minute`, `usd_per_day` (None: no bound of its own): over all gateway processes; a day is of UTC.
    """

    to: str
    team: str
    share: float
    max_concurrent: int = 4
    per_minute: int = 60
    usd_per_day: float | None = None


class ModelConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """`[models.NAME]`: a name that callers may use, its targets, and the models to fall back to when all of them fail.

    `output_tokens`: what limits reserve for a response whose length the caller does not bound; None: the setting for all models.
    `drop`: what may be left out of a request for it, also at the targets of its fallbacks. `fallback_on`: why a fallback is used;
    without an entry for USUAL_REASONS. `retries`: how often a target whose endpoints have all failed is tried again; None: the setting.
    `hedge`: None: no request has two attempts at once. `context_length` (prompt and response, in tokens) and `capabilities`: shown to
    callers who list models; without them what probing has found. `experiment`: which models serve it instead; None: its own
    targets, of which there must be one. `shadow`: None: nothing is answered again.
    """

    targets: tuple[Target, ...] = ()
    fallbacks: tuple[str, ...] = ()
    fallback_on: Mapping[str, tuple[FallbackReason, ...]] = {}
    retries: int | None = None
    timeouts: TimeoutConfig | None = None
    hedge: HedgeConfig | None = None
    output_tokens: int | None = None
    drop: DroppableFields = ()
    context_length: int | None = None
    capabilities: tuple[Capability, ...] = ()
    experiment: ExperimentConfig | None = None
    shadow: ShadowConfig | None = None


# Names of requests may put this before a function's name, as MODEL_PREFIXES before a model's.
FUNCTION_PREFIXES = ("tensorzero::function_name::", "narthex::function_name::")


class VariantConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """`[functions.NAME.variants.NAME]`: a model with its prompt and parameters.

    Templates are MiniJinja. `system_template`, `user_template`, `assistant_template`: of messages of that role; `templates`: further ones,
    by the names that requests and other templates refer to them by. `params`: by their names in OpenAI's chat API, for requests that do not
    set them. `retries`, `timeouts`: None: the model's.
    """

    model: str
    system_template: str | None = None
    user_template: str | None = None
    assistant_template: str | None = None
    templates: Mapping[str, str] = {}
    params: Mapping[str, Any] = {}
    retries: int | None = None
    timeouts: TimeoutConfig | None = None


class FunctionTool(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A tool that every request to a function offers. `parameters`: a JSON Schema."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] = {}
    strict: bool | None = None


class FunctionConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """`[functions.NAME]`: a task that callers name instead of a model, and its variants.

    `type`: a function of type json answers with JSON of its `output_schema`. `default`: the variant that serves without an experiment;
    None: the only one. `fallbacks`: variants that are tried when the chosen one fails. `schemas`: JSON Schemas of what templates are
    rendered with, by "system", "user", "assistant" or a template's name. `tools`, `tool_choice` and `parallel_tool_calls` as in OpenAI's
    chat API, for requests that do not set them. `shadow`: None: nothing is answered again.
    """

    variants: Mapping[str, VariantConfig]
    type: Literal["chat", "json"] = "chat"
    description: str | None = None
    default: str | None = None
    fallbacks: tuple[str, ...] = ()
    schemas: Mapping[str, Mapping[str, Any]] = {}
    tools: tuple[FunctionTool, ...] = ()
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    output_schema: Mapping[str, Any] | None = None
    experiment: ExperimentConfig | None = None
    shadow: ShadowConfig | None = None


MetricKind = Literal["boolean", "float", "comment", "demonstration"]
MetricLevel = Literal["inference", "episode"]


class MetricConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """`[metrics.NAME]`: feedback that callers may send on an inference or an episode.

    `optimize`: whether more of it is better; None: neither, as of every comment and demonstration.
    """

    kind: MetricKind
    level: MetricLevel
    optimize: Literal["max", "min"] | None = None
    description: str | None = None


# Every gateway has these. A comment may also be of an episode.
BUILT_IN_METRICS: Mapping[str, MetricConfig] = {
    "comment": MetricConfig(kind="comment", level="inference", description="A text about an inference or an episode."),
    "demonstration": MetricConfig(kind="demonstration", level="inference", description="What the response should have been."),
}

Resource = Literal["requests", "input_tokens", "output_tokens", "tokens", "cost_usd", "concurrency"]
Period = Literal["second", "minute", "hour", "day", "week", "month"]
AfterLoss = Literal["rebuild", "spent", "empty"]


class Limit(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """`[[limits]]`: at most `amount` of a resource, for each subject of a scope, in any second, minute or hour, or calendar day,
    week (from Monday) or month.

    `scope`: dimension (key, team, model, function, tag:NAME, all) to "each" or one name (a key's public part); all of them must match.
    `on_outage`: while Redis is unavailable each worker enforces its share, or requests are refused. `after_loss`: once Redis has lost its
    memory, what was used is read from the records, or counts as all of the amount until the window or period has passed, or as nothing.
    `dry_run`: counted and reported, never refused. `time_zone`: of days, weeks and months.
    """

    name: str
    scope: Mapping[str, str]
    resource: Resource
    amount: float
    per: Period | None = None
    on_outage: Literal["local", "refuse"] = "local"
    after_loss: AfterLoss = "rebuild"
    dry_run: bool = False
    time_zone: str = "UTC"


class LimitOverride(Struct, frozen=True):
    """Another amount of a limit for one subject, until a time (Unix time in ms). `subject`: values of the dimensions that are "each".

    `counts`: the resource and period of the limit when it was made; it is of no effect on a limit of others.
    """

    id: str
    limit: str
    subject: Mapping[str, str]
    amount: float
    until_ms: int
    counts: tuple[Resource, Period | None]


# US dollars for a million tokens. None: what a token costs of which these are a part.
_PartPrice = Annotated[float | None, Meta(description="For a million tokens; null: the price of which it is a part.")]
_LongCachePrice = Annotated[
    float | None,
    Meta(description="As `cache_write`, of what is kept so long; null: as `input`, and not known where `cache_write` is set."),
]


class TokenPrices(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False, kw_only=True):
    """The prices of tokens by kind. Price, PriceStep and the bodies of REST have these fields.

    `cache_write`: of what is kept for as long as the host keeps it unless it is asked for longer (Anthropic: 5 minutes, OpenAI: 30).
    """

    input: float | None = None
    output: float | None = None
    cached_input: _PartPrice = None
    cache_write: _PartPrice = None
    cache_write_hour: _LongCachePrice = None
    cache_write_12_hours: _LongCachePrice = None
    audio_input: _PartPrice = None
    audio_output: _PartPrice = None
    image_input: _PartPrice = None


class PriceStep(TokenPrices, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The prices of a whole request with more than `above` input tokens, instead of those of the row."""

    # Required here: an override without a default would be an error to the type checker.
    input: float = cast(Any, NODEFAULT)
    output: float = cast(Any, NODEFAULT)
    above: Annotated[int, Meta(description="Tokens of the input, cached ones included.")]


Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)


class PriceHours(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Hours at which the prices of tokens are multiplied by `factor`, by when the request came."""

    factor: Annotated[float, Meta(description="Of all prices of tokens of the row, its steps included.")]
    start: Annotated[str, Meta(description="UTC, as 16:30.")] = "00:00"
    end: Annotated[str, Meta(description="UTC, later than `start`; 24:00 is the end of the day.")] = "24:00"
    days: Annotated[tuple[Weekday, ...], Meta(description="Days of the week in UTC: mon, tue, wed, thu, fri, sat, sun.")] = WEEKDAYS


class GpuPrice(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """What an engine of one's own costs: the time of each request, at its share of the GPUs."""

    usd_per_hour: Annotated[float, Meta(description="Of one GPU.")]
    gpus: Annotated[float, Meta(description="Of one endpoint.")] = 1.0
    concurrency: Annotated[float, Meta(description="Requests that an endpoint serves at once, on average while it serves any.")] = 1.0
    tokens_per_s: Annotated[
        float, Meta(description="That one request writes, at least; what limits reserve is by it, and nothing else.")
    ] = 20.0


class PriceFields(TokenPrices, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What can be set of a price, in US dollars for a million tokens. `input` and `output`, or `gpu`, are required."""

    tiers: Annotated[
        Mapping[str, float],
        Meta(description="Factors by how it was served: batch, flex, priority, fast, ultrafast. Others' price is unknown."),
    ] = {}
    source: Annotated[str | None, Meta(description="Where it was read.")] = None
    steps: Annotated[tuple[PriceStep, ...], Meta(description="Prices of long requests, by growing `above`.")] = ()
    gpu: GpuPrice | None = None
    hours: Annotated[
        tuple[PriceHours, ...], Meta(description="Factors by the time of the request; the first that matches. No match: 1.")
    ] = ()
    regions: Annotated[
        Mapping[str, float], Meta(description="Factors by where it was served, as the host names it (Anthropic: us). Others: 1.")
    ] = {}
    tool_uses: Annotated[
        Mapping[str, float],
        Meta(description="US dollars for 1,000 uses of what the host bills by the use, as web_search. Others: 0."),
    ] = {}


class Price(PriceFields, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[[prices]]`: what a provider's model costs. `since`: the first day (UTC, ISO 8601) on which that holds; None: always."""

    provider: str
    model: str
    since: str | None = None


class Node(Struct, frozen=True):
    """An engine that registered itself as an endpoint of a provider. `speed`: how much it can take, compared with others; None: not said.

    Source: LMDeploy's proxy, lmdeploy/serve/proxy/proxy.py, read 2026-11.
    """

    provider: str
    address: str
    models: tuple[str, ...]
    speed: float | None = None


class CountedAs(Struct, frozen=True):
    """What counters are named after. `keys`: of keys in scopes, by public part, the first of those that each replaces; `limits`: by name,
    the names that limits had before they were renamed. Without an entry: their own.
    """

    keys: Mapping[str, str] = {}
    limits: Mapping[str, str] = {}


class Snapshot(Struct, frozen=True):
    """The configuration at one moment. `hash` is of its content; `version` grows with each change.

    `nodes`, and `drained` (endpoints without new requests, by provider and address), are what operations made of it, and not in the hash.
    `credentials`: stored credentials by name, encrypted (app/store/vault.py). `limits_since`: since when a limit, by name, has counted
    what it counts (Unix time in ms, by Postgres's clock); without an entry that is not known. `models_created`: when a model or function
    was first configured, in Unix time. `overrides`: of limits, those that have not ended; not in the hash. `experiments`: that run, by the
    function or model that has them; not in the hash. `shadow_teams`: the ids of teams that own a shadow, by name; not in the hash.
    `read_ms`: when Postgres had it as the newest, by its own clock; 0: not known. `team_limits`: of each key of teams that have
    any; not in the hash.
    """

    version: int
    hash: str
    providers: Mapping[str, ProviderConfig]
    models: Mapping[str, ModelConfig]
    limits: tuple[Limit, ...] = ()
    prices: tuple[Price, ...] = ()
    credentials: Mapping[str, str] = {}
    limits_since: Mapping[str, int] = {}
    nodes: tuple[Node, ...] = ()
    drained: frozenset[tuple[str, str]] = frozenset()
    models_created: Mapping[str, int] = {}
    overrides: tuple[LimitOverride, ...] = ()
    functions: Mapping[str, FunctionConfig] = {}
    metrics: Mapping[str, MetricConfig] = {}
    experiments: Mapping[str, Experiment] = {}
    read_ms: int = 0
    shadow_teams: Mapping[str, str] = {}
    counted_as: CountedAs = CountedAs()
    team_limits: Mapping[str, tuple[TeamLimit, ...]] = {}


class Origin(Struct, frozen=True):
    """Of a request that the gateway makes itself, charged to whoever had it made. Its record takes part in no experiment.

    `original_id`: the inference of a caller that it repeats, or is about: an erasure of that reaches it. `replay_id`: None: of no replay.
    `content_team_id`: the team whose words it holds, where another one pays, to which they are not shown; None: that is who pays.
    """

    kind: OriginKind
    original_id: str
    replay_id: str | None = None
    content_team_id: str | None = None


class Plan(Struct, frozen=True):
    """What is tried for one request, in order: the targets of the model, then those of its fallbacks.

    `model` is the name that the caller sent, `name` the configured model that it means, `names[i]` the model of `targets[i]`.
    `function`: the one that the caller named instead; None: it named a model. Then `variant` is the one that was chosen, `name` that
    variant's model, and `variants[i]` the variant whose prompt `targets[i]` gets. The same, without `function`, of arms of a model's
    experiment, which is then `experiment_model`. Else `variants` is empty. `assignment`: None: no running experiment.
    """

    model: str
    name: str
    targets: tuple[Target, ...]
    names: tuple[str, ...]
    snapshot: Snapshot
    function: str | None = None
    variant: str | None = None
    variants: tuple[str, ...] = ()
    assignment: Assignment | None = None
    experiment_model: str | None = None


class Candidate(Struct, frozen=True):
    """An endpoint that an attempt could have gone to. Tokens are estimates; the least `score` is tried first.

    `number`: its place among the target's endpoints, by which callers know it. `unavailable`: why it comes last; None: it does not.
    """

    number: int
    endpoint: str
    score: int
    cached_tokens: int
    load_tokens: int
    unavailable: str | None = None


class Attempt(Struct, frozen=True, array_like=True):
    """One try at one endpoint. `status` None: no response came. `error` None: it served. `endpoint` empty: it was left out.

    `code`: the host's own code of its error; `request_id`: the host's id of the request. `first_token_us`: after the request's start; None:
    none came. Tokens and cost are what is charged for it: 0 if the host did no work, or none that it bills; cost None: no price is known.
    `candidates`: the best first; None: no explanation was requested. `resumed_at`: after how many characters of text it went on with the
    stream of the attempt before; None: it began the response.
    """

    provider: str
    model: str
    endpoint: str
    started_us: int
    duration_us: int
    status: int | None = None
    error: str | None = None
    message: str | None = None
    code: str | None = None
    request_id: str | None = None
    first_token_us: int | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: int | None = 0
    candidates: tuple[Candidate, ...] | None = None
    resumed_at: int | None = None


class ChargedAttempt(Struct, frozen=True, array_like=True):
    """What one attempt is charged, so that it can be priced again.

    `cost_microusd`, `price`, `reported_model`: as in Exchange. `duration_us`: how long the attempt took, until the end of its response.
    `continues`: another part of the same response, which the host bills by itself; with the charge before it, it is rounded once.
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
    """Of a request of origin `shadow`, which repeats another one.

    `name`: the function or model whose shadow it is. `team_id`: the team whose request that was, and
    whose content this is: the record's own team is the one that pays. `is_first_turn`: the request holds no earlier response: that would
    be one of the original's. `is_same`: the responses are the same, text and calls of tools; None: that is not known.
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
