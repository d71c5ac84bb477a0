"""Providers, targets, models and nodes: where requests go."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from app.domain.callers import DroppableFields
from app.domain.experiments import ExperimentConfig

# Prefixes that a request may put before a model's name, in this order: TensorZero's, which its clients send, and ours.
MODEL_PREFIXES = ("tensorzero::model_name::", "narthex::model_name::")


class ProviderConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A host or an engine: the section `[providers.NAME]`."""

    adapter: str
    base_url: str | None = None
    # references to where it is stored (providers/credentials/references.py); several are used in rotation
    credential: str | tuple[str, ...] | None = None
    options: Mapping[str, Any] = {}
    drop: DroppableFields = ()  # what may be left out of a request that is sent to it
    accepts_nodes: bool = False  # whether engines may register as its endpoints
    trace: bool | None = None  # whether it gets the trace of a request (`traceparent`); None: if it is self-hosted

    @property
    def credentials(self) -> tuple[str, ...]:
        if self.credential is None:
            return ()
        return (self.credential,) if isinstance(self.credential, str) else self.credential


class TimeoutConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The timeouts of one attempt, in seconds, and of the wait in a queue before it.

    They are the time to connect, the time until a stream's first byte, the time between its blocks, and the
    time in all. `queue_s` limits the wait for a place at a target with `max_concurrency`. `None` means that
    the timeout of the next level applies. The levels are a target, its model, and the gateway's settings.
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
    """A second attempt for a request that has waited longer than the `quantile` of the newest ones."""

    quantile: float = 0.95
    budget: float = 0.05  # for at most this part of a model's requests


# What callers may choose a model by. The gateway does not know it of the models of others, so operators say it.
Capability = Literal[
    "chat", "tools", "vision", "audio_input", "audio_output", "reasoning", "structured_output", "embeddings", "reranking", "classification"
]


class ShadowConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The section `shadow` of a function or a model: a share of its requests is answered again by another one, for comparison.

    No caller sees that.
    """

    to: str  # a variant of the function, or another model
    team: str  # who wants to know, and pays
    share: float  # of requests, chosen by a hash of the inference's id
    max_concurrent: int = 4  # over all gateway processes, as are the next two
    per_minute: int = 60
    usd_per_day: float | None = None  # a day is of UTC; None: no bound of its own


class ModelConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A name that callers may use, its targets, and the models to fall back to when all of them fail: the section `[models.NAME]`."""

    targets: tuple[Target, ...] = ()
    fallbacks: tuple[str, ...] = ()
    fallback_on: Mapping[str, tuple[FallbackReason, ...]] = {}  # why a fallback is used; without an entry for USUAL_REASONS
    retries: int | None = None  # how often a target whose endpoints have all failed is tried again; None: the setting
    timeouts: TimeoutConfig | None = None
    hedge: HedgeConfig | None = None  # None: no request has two attempts at once
    # what limits reserve for a response whose length the caller does not bound; None: the setting for all models
    output_tokens: int | None = None
    drop: DroppableFields = ()  # what may be left out of a request for it, also at the targets of its fallbacks
    # of prompt and response, in tokens; shown to callers who list models; without it what probing has found
    context_length: int | None = None
    capabilities: tuple[Capability, ...] = ()  # shown to callers who list models; without them what probing has found
    experiment: ExperimentConfig | None = None  # which models serve it instead; None: its own targets, of which there must be one
    shadow: ShadowConfig | None = None  # None: nothing is answered again


class Node(Struct, frozen=True):
    """An engine that registered itself as an endpoint of a provider. `speed`: how much it can take, compared with others; None: not said.

    Source: LMDeploy's proxy, lmdeploy/serve/proxy/proxy.py, read 2026-11.
    """

    provider: str
    address: str
    models: tuple[str, ...]
    speed: float | None = None
