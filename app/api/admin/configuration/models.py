"""Models and their targets: /admin/v1/models, /{name} and /{name}/targets, as [models.NAME] of a configuration file."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from app.api.rest.entry_operations import entry_operations
from app.api.rest.entry_resource import EntryResource, etag
from app.api.rest.fields import Search, Warnings
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.replacement import check_read_only, replacement_type
from app.api.rest.settings_types import settings_type
from app.domain.routing import Target
from app.settings import Settings
from app.store.configuration.entries import MODELS, Entry, models_with
from app.store.postgres.paging import After, Limit
from providers.canonical.errors import UnknownRecord

_TargetSettings = settings_type(Target)


class ModelQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"] = "name"
    search: Search | None = None
    provider: Annotated[str, Meta(description="Only with a target of this provider.")] | None = None


class NumberedTarget(settings_type(Target), frozen=True, kw_only=True):
    """A target of a model. `number`: its place among the model's targets, from 0."""

    number: int


_TargetReplacement = replacement_type(_TargetSettings, NumberedTarget)


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

    async def add(self, call: Call[NoQuery, Target]) -> Answer:
        before = await self._models.find_to_change(call)
        return await self._store(call, before, [*before.config.get("targets", []), msgspec.to_builtins(call.body)], status=201)

    async def put(self, call: Call[NoQuery, Target]) -> Answer:
        before = await self._models.find_to_change(call)
        targets: list[Any] = before.config.get("targets", [])
        at = _target_number(call, targets)
        check_read_only(call.body, _TargetSettings, {"number": at})
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
                body=_TargetSettings,
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
        about="A model: a name that callers may use.",
        query=ModelQuery,
        conditions=lambda query: models_with(query.provider),
        example={"targets": [{"provider": "gpu", "model": "Qwen/Qwen3-4B"}], "timeouts": {"total_s": 60}},
        patch_example={"timeouts": {"total_s": None, "connect_s": 2}},
        identified={"name": "qwen3-4b"},
        gateway_settings=settings,
    )
    return [*entry_operations(models), *_TargetRoutes(models).operations()]
