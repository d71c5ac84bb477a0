"""The records that all rooms share. Frozen: whoever holds one may keep it."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from providers.chat import Usage

ContentPolicy = Literal["full", "redacted", "none"]
Outcome = Literal["answered", "failed", "hung_up", "cut"]


class Caller(Struct, frozen=True):
    """Whom a key stands for."""

    key_id: str
    team_id: str
    team: str
    content: ContentPolicy
    admin: bool = False


class ProviderConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[providers.NAME]`: a place to speak to. `credential`: env:NAME or file:PATH; None = none."""

    adapter: str
    base_url: str | None = None
    credential: str | None = None
    options: Mapping[str, Any] = {}


class Target(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A provider and its model that serve a name.

    `weight` None in all targets of a model: tried in order; else drawn by weight. `endpoints` empty: the provider's base_url.
    """

    provider: str
    model: str
    weight: float | None = None
    endpoints: tuple[str, ...] = ()


class ModelConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[models.NAME]`: a name that callers may use, what serves it, and the names to fall back to when all of it fails."""

    targets: tuple[Target, ...]
    fallbacks: tuple[str, ...] = ()


class Directory(Struct, frozen=True):
    """The whole configuration at one moment. `hash` is of its content; `version` grows with each change."""

    version: int
    hash: str
    providers: Mapping[str, ProviderConfig]
    models: Mapping[str, ModelConfig]


class Plan(Struct, frozen=True):
    """What will be tried for one ask, in order: the targets of the model, then those of its fallbacks."""

    model: str
    targets: tuple[Target, ...]
    directory: Directory


class Attempt(Struct, frozen=True, array_like=True):
    """One try at one endpoint. `status` None: no answer came. `error` None: it served."""

    provider: str
    model: str
    endpoint: str
    started_us: int
    duration_us: int
    status: int | None = None
    error: str | None = None
    message: str | None = None


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
