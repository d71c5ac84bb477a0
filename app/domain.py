"""The records that all rooms share. Frozen: whoever holds one may keep it."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from providers.canonical.chat import Usage

ContentPolicy = Literal["full", "redacted", "none"]
Outcome = Literal["answered", "failed", "hung_up", "cut"]

# What may stand before a model's name in an ask, in this order: TensorZero's word, which its clients send, and ours.
MODEL_PREFIXES = ("tensorzero::model_name::", "narthex::model_name::")


class Caller(Struct, frozen=True):
    """Whom a key stands for, and what it may do.

    `prefix`: the key's public part, as `nx-` and twelve hex digits. None: no restriction. `models` and `routes` may end in `*`;
    `networks` in CIDR notation. `expires_s`: Unix time from which the key is no longer good.
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


class TeamConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[teams.NAME]`: `content` is what is kept of its asks and replies."""

    content: ContentPolicy = "full"


class ProviderConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[providers.NAME]`: a place to speak to. `credential`: where it is (providers/credentials/references.py); several take turns."""

    adapter: str
    base_url: str | None = None
    credential: str | tuple[str, ...] | None = None
    options: Mapping[str, Any] = {}

    @property
    def credentials(self) -> tuple[str, ...]:
        if self.credential is None:
            return ()
        return (self.credential,) if isinstance(self.credential, str) else self.credential


class Target(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A provider and its model that serve a name.

    `weight` None in all targets of a model: tried in order; else drawn by weight. `endpoints` empty: the provider's base_url.
    `dialect`: which of the provider's is spoken with it; None: the caller's own if it is among them, else the best that can say the ask.
    `lora`: the LoRA adapter of that model which serves the name.
    """

    provider: str
    model: str
    weight: float | None = None
    endpoints: tuple[str, ...] = ()
    dialect: str | None = None
    lora: str | None = None


class ModelConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[models.NAME]`: a name that callers may use, what serves it, and the names to fall back to when all of it fails.

    `output_tokens`: what limits reserve for an answer whose length the caller does not bound; None: the setting for all models.
    """

    targets: tuple[Target, ...]
    fallbacks: tuple[str, ...] = ()
    output_tokens: int | None = None


Resource = Literal["requests", "input_tokens", "output_tokens", "tokens", "cost_usd", "concurrency"]
Period = Literal["second", "minute", "hour", "day", "month"]


class Limit(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[[limits]]`: at most `amount` of a resource, for each subject of a scope, in any second, minute or hour, or calendar day or month.

    `scope`: dimension (key, team, model, tag:NAME, all) to "each" or one name (of a key: its public part); all of them must match.
    `on_outage`: while Redis is away each worker enforces its share, or requests are refused. `dry_run`: counted and told, never refused.
    `time_zone`: of days and months.
    """

    name: str
    scope: Mapping[str, str]
    resource: Resource
    amount: float
    per: Period | None = None
    on_outage: Literal["local", "refuse"] = "local"
    dry_run: bool = False
    time_zone: str = "UTC"


class Price(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[[prices]]`: what a provider's model costs, in US dollars for a million tokens.

    `cached_input`, `audio_input`, `image_input` None: as `input`; `audio_output` None: as `output`. `cache_write` None: as `input`;
    `cache_write_hour`, of what is kept for an hour: as `cache_write`, unless that is said: then it is unknown.
    `tiers`: by a tier of the provider's service (batch, flex, priority), what all of it is multiplied by; the price of others is unknown.
    `since`: the first day (UTC, ISO 8601) on which it holds; None: ever. `source`: where it was read.
    """

    provider: str
    model: str
    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    cache_write_hour: float | None = None
    audio_input: float | None = None
    audio_output: float | None = None
    image_input: float | None = None
    tiers: Mapping[str, float] = {}
    since: str | None = None
    source: str | None = None


class Snapshot(Struct, frozen=True):
    """The whole configuration at one moment. `hash` is of its content; `version` grows with each change.

    `credentials`: those that are stored, by name, encrypted (app/store/vault.py).
    """

    version: int
    hash: str
    providers: Mapping[str, ProviderConfig]
    models: Mapping[str, ModelConfig]
    limits: tuple[Limit, ...] = ()
    prices: tuple[Price, ...] = ()
    credentials: Mapping[str, str] = {}


class Plan(Struct, frozen=True):
    """What will be tried for one ask, in order: the targets of the model, then those of its fallbacks.

    `model` is the name as it was asked for, `name` the configured model that it means, `names[i]` the one that `targets[i]` is of.
    """

    model: str
    name: str
    targets: tuple[Target, ...]
    names: tuple[str, ...]
    snapshot: Snapshot


class Attempt(Struct, frozen=True, array_like=True):
    """One try at one endpoint. `status` None: no answer came. `error` None: it served.

    `code`: the host's own word for its error; `request_id`: by which it knows the request.
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


class Exchange(Struct, frozen=True, array_like=True):
    """A request from door to door, as it is recorded; times in microseconds, offsets from `received_us` (Unix time).

    Fields are only ever appended, with defaults: records written by an older version must still be read.
    `status` is what the caller was told (499: the caller left before being told). `model` is the name asked for.
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
    # What limits counted in the end: the usage where an engine told it, else what was estimated to have been used.
    charged_input: int = 0
    charged_output: int = 0
    cost_microusd: int | None = None  # None: unknown, for want of a price
    guided: str | None = None  # how what constrained the answer was obeyed; None: nothing did
