"""/admin/v1/experiments: how they run, the versions of their weights, and what changes them: start, stop, weights, enrol."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from app.api.admin.experiments import experiment_commands
from app.api.admin.experiments.experiment_list import list_operation
from app.api.admin.experiments.experiment_lookup import lock_for_change, require_experiment
from app.api.rest.credential_places import require_may_send_credentials
from app.api.rest.etags import etag_of
from app.api.rest.fields import Warnings
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.settings_types import settings_type
from app.domain.experiments import ExperimentConfig
from app.settings import Settings
from app.store.configuration.configuration import change_configuration
from app.store.experiments import edits as experiment_edits
from app.store.experiments.edits import Edit
from app.store.experiments.queries import (
    ExperimentRow,
    ExperimentVersionRow,
    find_settings,
    newest_versions,
    page_versions,
)
from app.store.postgres.paging import After, Limit, Page
from providers.canonical.errors import InvalidRequest

Arm = Annotated[str, Meta(min_length=1, max_length=256, description="The name of an arm.")]

if TYPE_CHECKING:
    ExperimentSettings = ExperimentConfig
else:
    ExperimentSettings = settings_type(ExperimentConfig)


class VersionsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["number", "-number"] = "-number"


class ShownExperiment(ExperimentRow, frozen=True, kw_only=True):
    """An experiment with its settings. Its ETag is theirs."""

    version: Annotated[ExperimentVersionRow | None, Meta(description="In force, or the first that will be; null: of a draft.")]
    settings: Annotated[ExperimentSettings | None, Meta(description="Null: the configuration no longer has the experiment.")]
    warnings: Warnings | UnsetType = UNSET


class Stop(Struct, frozen=True, forbid_unknown_fields=True):
    """A request to stop an arm, or the whole experiment if it names none."""

    arm: Annotated[Arm | None, Meta(description="Gets no new episodes, while those that are in it stay. Null: the experiment ends.")] = None
    now: Annotated[bool, Meta(description="The control serves the episodes that are in the arm, too.")] = False
    winner: Annotated[Arm | None, Meta(description="The arm that serves once the experiment has ended; null: the control.")] = None

    def __post_init__(self) -> None:
        """Raises InvalidRequest."""
        if self.arm is None and self.now:
            raise InvalidRequest("`now` is for one arm: name it in `arm`.", param="now")
        if self.arm is not None and self.winner is not None:
            raise InvalidRequest("Give an `arm` to stop, or a `winner` to end the experiment, not both.", param="winner")


class Resume(Struct, frozen=True, forbid_unknown_fields=True):
    """A stopped arm that is put back."""

    arm: Arm
    weight: Annotated[float | None, Meta(description="Its weight from now on; null: as it has.")] = None


class Weights(Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of some arms."""

    arms: Annotated[dict[str, float], Meta(min_length=1, description="By arm, absolute; arms that are left out keep theirs.")]


class Enrolment(Struct, frozen=True, forbid_unknown_fields=True):
    """The share of units that take part."""

    enrolment: Annotated[float, Meta(ge=0, le=1, description="Also in place of what is left of a ramp.")]


class _Experiments:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def show(self, call: Call[NoQuery, NoBody]) -> Answer:
        return await answer_experiment(call)

    async def versions(self, call: Call[VersionsQuery, NoBody]) -> Answer:
        found = await require_experiment(call.connection, call.path["name"])
        return Answer(await page_versions(call.connection, found.id, call.query))

    async def start(self, call: Call[NoQuery, NoBody]) -> Answer:
        return await self._change(call, experiment_edits.start(call.path["name"]))

    async def stop(self, call: Call[NoQuery, Stop]) -> Answer:
        name, body = call.path["name"], call.body
        edit = experiment_edits.end(name, body.winner) if body.arm is None else experiment_edits.stop_arm(name, body.arm, now=body.now)
        return await self._change(call, edit)

    async def resume(self, call: Call[NoQuery, Resume]) -> Answer:
        return await self._change(call, experiment_edits.resume_arm(call.path["name"], call.body.arm, call.body.weight))

    async def weights(self, call: Call[NoQuery, Weights]) -> Answer:
        return await self._change(call, experiment_edits.set_weights(call.path["name"], call.body.arms))

    async def enrol(self, call: Call[NoQuery, Enrolment]) -> Answer:
        return await self._change(call, experiment_edits.set_enrolment(call.path["name"], call.body.enrolment))

    async def _change(self, call: Call[Any, Any], edit: Edit) -> Answer:
        await lock_for_change(call)
        output_tokens = self._settings.limits_output_tokens
        changed = await change_configuration(call.connection, call.author, edit, output_tokens=output_tokens)
        require_may_send_credentials(call, changed)
        return await answer_experiment(call, changed.warnings)

    def operations(self) -> list[Operation[Any, Any]]:
        missing = {404: "There is no such experiment."}
        changing = {**missing, 409: "The configuration no longer has the experiment."}
        return [
            list_operation(),
            Operation(
                method="GET",
                path="/experiments/{name}",
                id="get_experiment",
                tag="Experiments",
                summary="Show the newest experiment of a name",
                permission="config:read",
                response=ShownExperiment,
                errors=missing,
                commands=(experiment_commands.SHOW,),
                handler=self.show,
            ),
            Operation(
                method="GET",
                path="/experiments/{name}/versions",
                id="list_experiment_versions",
                tag="Experiments",
                summary="List the versions of an experiment's weights and enrolment",
                permission="config:read",
                query=VersionsQuery,
                response=Page[ExperimentVersionRow],
                errors=missing,
                commands=(experiment_commands.VERSIONS,),
                handler=self.versions,
            ),
            Operation(
                method="POST",
                path="/experiments/{name}/start",
                id="start_experiment",
                tag="Experiments",
                summary="Start an experiment, which freezes its arms",
                permission="config:write",
                access="write",
                response=ShownExperiment,
                conditional=True,
                errors=changing,
                commands=(experiment_commands.START,),
                handler=self.start,
            ),
            Operation(
                method="POST",
                path="/experiments/{name}/stop",
                id="stop_experiment",
                tag="Experiments",
                summary="End an experiment, or stop one of its arms",
                permission="config:write",
                access="write",
                body=Stop,
                response=ShownExperiment,
                conditional=True,
                errors=changing,
                example={"arm": "large", "now": True},
                commands=(experiment_commands.STOP,),
                handler=self.stop,
            ),
            Operation(
                method="POST",
                path="/experiments/{name}/resume",
                id="resume_experiment_arm",
                tag="Experiments",
                summary="Put a stopped arm of an experiment back",
                permission="config:write",
                access="write",
                body=Resume,
                response=ShownExperiment,
                conditional=True,
                errors=changing,
                example={"arm": "large", "weight": 0.5},
                commands=(experiment_commands.RESUME,),
                handler=self.resume,
            ),
            Operation(
                method="POST",
                path="/experiments/{name}/weights",
                id="set_experiment_weights",
                tag="Experiments",
                summary="Set weights of arms of an experiment",
                permission="config:write",
                access="write",
                body=Weights,
                response=ShownExperiment,
                conditional=True,
                errors=changing,
                example={"arms": {"large": 0.2}},
                commands=(experiment_commands.WEIGHTS,),
                handler=self.weights,
            ),
            Operation(
                method="POST",
                path="/experiments/{name}/enrol",
                id="set_experiment_enrolment",
                tag="Experiments",
                summary="Set the share of units that take part in an experiment",
                permission="config:write",
                access="write",
                body=Enrolment,
                response=ShownExperiment,
                conditional=True,
                errors=changing,
                example={"enrolment": 0.5},
                commands=(experiment_commands.ENROL,),
                handler=self.enrol,
            ),
        ]


async def answer_experiment(call: Call[Any, Any], warnings: Sequence[str] = ()) -> Answer:
    found = await require_experiment(call.connection, call.path["name"])
    settings = await find_settings(call.connection, found)
    shown = ShownExperiment(
        **asdict(found),
        version=(await newest_versions(call.connection, [found.id])).get(found.id),
        settings=None if settings is None else msgspec.convert(settings, ExperimentSettings),
        warnings=list(warnings) or UNSET,
    )
    return Answer(shown, etag=etag_of(settings), warnings=warnings)


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    return _Experiments(settings).operations()
