"""Models and their targets: /admin/v1/models, /{name} and /{name}/targets, as [models.NAME] of a configuration file."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from app.api.admin.configuration.shadow_settings import ShadowSettings
from app.api.admin.experiments.experiment_settings import ExperimentSettings
from app.api.rest.entry_operations import entry_operations
from app.api.rest.entry_resource import EntryResource, etag
from app.api.rest.fields import Drop, Name, Search, Warnings
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.replacement import check_read_only, replacement_type
from app.domain.routing import Capability, FallbackReason
from app.settings import Settings
from app.store.configuration.entries import MODELS, Entry, models_with
from app.store.postgres.paging import After, Limit
from providers.canonical.errors import UnknownRecord

Retries = Annotated[int | None, Meta(description="How often a target whose endpoints have all failed is tried again.")]


class TimeoutSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The timeouts of one attempt, in seconds.

    Null means that the next level's value applies; the last level is the gateway's settings.
    """

    connect_s: Annotated[float | None, Meta(description="To connect.")] = None
    first_token_s: Annotated[float | None, Meta(description="Until the first byte of a stream.")] = None
    silence_s: Annotated[float | None, Meta(description="Between two blocks of a stream.")] = None
    total_s: Annotated[float | None, Meta(description="In all.")] = None
    queue_s: Annotated[float | None, Meta(description="Before it, for a place at a target with max_concurrency.")] = None


class TargetSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A provider, and its model that serves the name."""

    provider: Annotated[str, Meta(description="The name of a provider.")]
    model: Annotated[str, Meta(description="The provider's own name of its model.")]
    weight: Annotated[
        float | None, Meta(description="Null in all targets: they are tried in order; else drawn by weight for each episode.")
    ] = None
    endpoints: Annotated[list[str], Meta(description="Addresses; empty: the provider's base_url.")] = []
    endpoint_weights: Annotated[dict[str, float], Meta(description="By address, how much it can take compared with others.")] = {}
    dialect: Annotated[str | None, Meta(description="The dialect that is spoken to it; null: the best of its own.")] = None
    lora: Annotated[str | None, Meta(description="The LoRA adapter of its model that serves the name.")] = None
    retries: Retries = None
    timeouts: TimeoutSettings | None = None
    max_concurrency: Annotated[int | None, Meta(description="Requests at once, over all gateway processes.")] = None


class HedgeSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A second attempt for a request that has waited longer than the `quantile` of the newest ones."""

    quantile: float = 0.95
    budget: Annotated[float, Meta(description="For at most this part of the model's requests.")] = 0.05


class ModelSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that can be set of a model; what is left out gets its default."""

    targets: Annotated[list[TargetSettings], Meta(description="What serves it; may be empty if it has an experiment.")] = []
    fallbacks: Annotated[list[str], Meta(description="Models that are tried when its targets cannot serve.")] = []
    fallback_on: Annotated[dict[str, list[FallbackReason]], Meta(description="By fallback, why it is used.")] = {}
    retries: Retries = None
    timeouts: TimeoutSettings | None = None
    hedge: Annotated[HedgeSettings | None, Meta(description="When a second attempt is sent beside one that takes long.")] = None
    output_tokens: Annotated[int | None, Meta(description="What limits reserve for a response of unknown length.")] = None
    drop: Drop = ()
    context_length: Annotated[int | None, Meta(description="Prompt and response, in tokens, as callers are told; null: as probed.")] = None
    capabilities: Annotated[list[Capability], Meta(description="What callers may choose it by; empty: as probed.")] = []
    experiment: Annotated[ExperimentSettings | None, Meta(description="Which models serve it instead.")] = None
    shadow: Annotated[ShadowSettings | None, Meta(description="Which model answers a share of its requests again, unseen.")] = None


class NewModel(ModelSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A model to create."""

    name: Name


class ModelEntry(ModelSettings, frozen=True, kw_only=True):
    """A model: a name that callers may use."""

    name: str
    created_at: str
    updated_at: str


class ModelQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"] = "name"
    search: Search | None = None
    provider: Annotated[str, Meta(description="Only with a target of this provider.")] | None = None


class NumberedTarget(TargetSettings, frozen=True, kw_only=True):
    """A target of a model. `number`: its place among the model's targets, from 0."""

    number: int


_TargetReplacement = replacement_type(TargetSettings, NumberedTarget)


class ModelTargets(Struct, frozen=True):
    """The targets of a model."""

    data: list[NumberedTarget]
    warnings: Warnings | UnsetType = UNSET


class _TargetRoutes:
    """The targets of a model one by one. Their ETag is the model's: adding one to a model that has changed is a conflict, too."""

    def __init__(self, models: EntryResource[Any]) -> None:
        self._models = models

    async def show(self, call: Call[NoQuery, NoBody]) -> Answer:
        return self._answer(await self._models.find(call))

    async def add(self, call: Call[NoQuery, TargetSettings]) -> Answer:
        before = await self._models.find_to_change(call)
        return await self._store(call, before, [*before.config.get("targets", []), msgspec.to_builtins(call.body)], status=201)

    async def put(self, call: Call[NoQuery, TargetSettings]) -> Answer:
        before = await self._models.find_to_change(call)
        targets: list[Any] = before.config.get("targets", [])
        at = _target_number(call, targets)
        check_read_only(call.body, TargetSettings, {"number": at})
        target = {name: value for name, value in msgspec.to_builtins(call.body).items() if name != "number"}
        return await self._store(call, before, [*targets[:at], target, *targets[at + 1 :]])

    async def delete(self, call: Call[NoQuery, NoBody]) -> Answer:
        before = await self._models.find_to_change(call)
        targets: list[Any] = before.config.get("targets", [])
        at = _target_number(call, targets)
        return await self._store(call, before, [*targets[:at], *targets[at + 1 :]])

    async def _store(self, call: Call[Any, Any], before: Entry, targets: list[Any], status: int = 200) -> Answer:
        settings = {**self._models.settings_of(before), "targets": targets}
        stored = await self._models.store(call, before.key, settings)
        return self._answer(await self._models.find(call), status, stored.warnings)

    def _answer(self, entry: Entry, status: int = 200, warnings: Any = ()) -> Answer:
        numbered = [
            msgspec.convert({**target, "number": number}, NumberedTarget) for number, target in enumerate(entry.config.get("targets", []))
        ]
        return Answer(ModelTargets(numbered, list(warnings) or UNSET), etag=etag(entry), status=status, warnings=warnings)

    def operations(self) -> list[Operation[Any, Any]]:
        path, tag, missing = "/models/{name}/targets", "Models", {404: "There is no such model, or no such target of it."}
        example = {"provider": "gpu", "model": "Qwen/Qwen3-4B"}
        return [
            Operation(
                method="GET",
                path=path,
                id="list_model_targets",
                tag=tag,
                summary="List the targets of a model",
                permission="config:read",
                response=ModelTargets,
                errors=missing,
                handler=self.show,
            ),
            Operation(
                method="POST",
                path=path,
                id="add_model_target",
                tag=tag,
                summary="Add a target to a model, as its last",
                permission="config:write",
                access="write",
                body=TargetSettings,
                response=ModelTargets,
                status=201,
                conditional=True,
                errors=missing,
                example=example,
                handler=self.add,
            ),
            Operation(
                method="PUT",
                path=path + "/{number}",
                id="put_model_target",
                tag=tag,
                summary="Replace a target of a model",
                permission="config:write",
                access="write",
                body=_TargetReplacement,
                response=ModelTargets,
                conditional=True,
                errors=missing,
                example=example,
                handler=self.put,
            ),
            Operation(
                method="DELETE",
                path=path + "/{number}",
                id="remove_model_target",
                tag=tag,
                summary="Remove a target of a model",
                description="Not the last one: nothing would serve the model.",
                permission="config:write",
                access="write",
                response=ModelTargets,
                conditional=True,
                errors=missing,
                handler=self.delete,
            ),
        ]


def _target_number(call: Call[Any, Any], targets: list[Any]) -> int:
    text = call.path["number"]
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < len(targets)):
        numbers = f"0 to {len(targets) - 1}" if len(targets) > 1 else "0"
        raise UnknownRecord(f"The model has no target {text!r:.60}. Its targets are numbered {numbers}.")
    return int(text)


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    models = EntryResource(
        section=MODELS,
        noun="model",
        id_noun="configured_model",
        path="/models",
        key_path="/{name}",
        tag="Models",
        settings=ModelSettings,
        new=NewModel,
        shown=ModelEntry,
        query=ModelQuery,
        conditions=lambda query: models_with(query.provider),
        example={"targets": [{"provider": "gpu", "model": "Qwen/Qwen3-4B"}], "timeouts": {"total_s": 60}},
        patch_example={"timeouts": {"total_s": None, "connect_s": 2}},
        identified={"name": "qwen3-4b"},
        gateway_settings=settings,
    )
    return [*entry_operations(models), *_TargetRoutes(models).operations()]
