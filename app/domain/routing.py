"""Providers, targets, models and nodes: where requests go."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.domain.callers import DroppableFields
from app.domain.experiments import ExperimentConfig

# Prefixes that a request may put before a model's name, in this order: TensorZero's, which its clients send, and ours.
MODEL_PREFIXES = ("tensorzero::model_name::", "narthex::model_name::")


Adapter = Annotated[str, Meta(description="The kind of engine or host, such as openai or vllm.")]


# The option `drop` of a provider and of a model.
Drop = Annotated[
    DroppableFields, Meta(description='Fields that may be left out where a target cannot honour them: "all", or a list of names.')
]


# Of a target, a model or a variant.
Retries = Annotated[int | None, Meta(description="How often a target whose endpoints have all failed is tried again.")]


class ProviderConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A host or an engine: the section `[providers.NAME]`."""

    adapter: Adapter
    base_url: Annotated[str | None, Meta(description="Its address; null: the host's own.")] = None
    credential: Annotated[  # references, as providers/credentials/references.py reads them
        str | tuple[str, ...] | None,
        Meta(description="Where its secret is, such as env:NAME or store:NAME; of several in rotation. Never the secret."),
    ] = None
    options: Annotated[Mapping[str, Any], Meta(description="Options of the adapter.")] = {}
    drop: Drop = ()
    accepts_nodes: Annotated[bool, Meta(description="Whether engines may register as its endpoints.")] = False
    trace: Annotated[bool | None, Meta(description="Whether it gets `traceparent`; null: if it is self-hosted.")] = None

    @property
    def credentials(self) -> tuple[str, ...]:
        if self.credential is None:
            return ()
        return (self.credential,) if isinstance(self.credential, str) else self.credential


class TimeoutConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The timeouts of one attempt, in seconds.

    Null means that the next level's value applies; the last level is the gateway's settings.
    """

    connect_s: Annotated[float | None, Meta(description="To connect.")] = None
    first_token_s: Annotated[float | None, Meta(description="Until the first byte of a stream.")] = None
    silence_s: Annotated[float | None, Meta(description="Between two blocks of a stream.")] = None
    total_s: Annotated[float | None, Meta(description="In all.")] = None
    queue_s: Annotated[float | None, Meta(description="Before it, for a place at a target with max_concurrency.")] = None


class Target(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A provider, and its model that serves the name."""

    provider: Annotated[str, Meta(description="The name of a provider.")]
    model: Annotated[str, Meta(description="The provider's own name of its model.")]
    weight: Annotated[
        float | None, Meta(description="Null in all targets: they are tried in order; else drawn by weight for each episode.")
    ] = None
    endpoints: Annotated[tuple[str, ...], Meta(description="Addresses; empty: the provider's base_url.")] = ()
    # without an entry: 1.0
    endpoint_weights: Annotated[Mapping[str, float], Meta(description="By address, how much it can take compared with others.")] = {}
    # the best one: the caller's own if the provider speaks it, else the one that can express most of the request
    dialect: Annotated[str | None, Meta(description="The dialect that is spoken to it; null: the best of its own.")] = None
    lora: Annotated[str | None, Meta(description="The LoRA adapter of its model that serves the name.")] = None
    retries: Retries = None  # None: the model's, as of the next one
    timeouts: TimeoutConfig | None = None
    max_concurrency: Annotated[int | None, Meta(description="Requests at once, over all gateway processes.")] = None


# Why a fallback is used. failure: every endpoint failed, or was too busy. unsupported: no target can honour the request. context_length:
# the prompt is too long. content_refused: the host refuses to answer it. constraint: the response did not have the demanded format.
FallbackReason = Literal["failure", "unsupported", "context_length", "content_refused", "constraint"]


USUAL_REASONS: tuple[FallbackReason, ...] = ("failure", "unsupported", "constraint")


class HedgeConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A second attempt for a request that has waited longer than the `quantile` of the newest ones."""

    quantile: float = 0.95
    budget: Annotated[float, Meta(description="For at most this part of the model's requests.")] = 0.05


# What callers may choose a model by. The gateway does not know it of the models of others, so operators say it.
Capability = Literal[
    "chat", "tools", "vision", "audio_input", "audio_output", "reasoning", "structured_output", "embeddings", "reranking", "classification"
]


class ShadowConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A share of the requests is answered again by another variant or model, for comparison. No caller sees that."""

    to: Annotated[str, Meta(description="A variant of the function, or another model.")]
    team: Annotated[str, Meta(description="The team that wants to know, and pays.")]
    share: Annotated[float, Meta(description="The share of requests, from 0 to 1.")]  # chosen by a hash of the inference's id
    max_concurrent: Annotated[int, Meta(description="Shadows at once, over all gateway processes.")] = 4
    per_minute: Annotated[int, Meta(description="Shadows in any minute.")] = 60  # over all gateway processes, as is the next one
    usd_per_day: Annotated[float | None, Meta(description="What they may cost in a day of UTC; null: the team's limits bound it.")] = None


class ModelConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A name that callers may use, its targets, and the models to fall back to when all of them fail: the section `[models.NAME]`."""

    targets: Annotated[tuple[Target, ...], Meta(description="What serves it; may be empty if it has an experiment.")] = ()
    fallbacks: Annotated[tuple[str, ...], Meta(description="Models that are tried when its targets cannot serve.")] = ()
    # without an entry: for USUAL_REASONS
    fallback_on: Annotated[Mapping[str, tuple[FallbackReason, ...]], Meta(description="By fallback, why it is used.")] = {}
    retries: Retries = None  # None: the setting
    timeouts: TimeoutConfig | None = None
    # None: no request has two attempts at once
    hedge: Annotated[HedgeConfig | None, Meta(description="When a second attempt is sent beside one that takes long.")] = None
    # None: the setting for all models
    output_tokens: Annotated[int | None, Meta(description="What limits reserve for a response of unknown length.")] = None
    drop: Drop = ()  # also at the targets of its fallbacks
    context_length: Annotated[int | None, Meta(description="Prompt and response, in tokens, as callers are told; null: as probed.")] = None
    capabilities: Annotated[tuple[Capability, ...], Meta(description="What callers may choose it by; empty: as probed.")] = ()
    experiment: Annotated[ExperimentConfig | None, Meta(description="Which models serve it instead.")] = None
    shadow: Annotated[ShadowConfig | None, Meta(description="Which model answers a share of its requests again, unseen.")] = None


class Node(Struct, frozen=True):
    """An engine that registered itself as an endpoint of a provider. `speed`: how much it can take, compared with others; None: not said.

    Source: LMDeploy's proxy, lmdeploy/serve/proxy/proxy.py, read 2026-11.
    """

    provider: str
    address: str
    models: tuple[str, ...]
    speed: float | None = None
