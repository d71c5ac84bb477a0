"""/admin/v1/experiments/{name}/log and /promote: what was done to an experiment because of its results, and making an arm the winner."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.api.admin.experiments import experiment_commands
from app.api.admin.experiments.experiment_lookup import lock_for_change, require_experiment
from app.api.admin.experiments.experiments import Arm, ShownExperiment, answer_experiment
from app.api.rest.credential_places import require_may_send_credentials
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.results.guard.promoting import MAX_REASON_CHARACTERS, PromotionRefused, promote
from app.settings import Settings
from app.store.configuration.experiments.acts import Act, page_acts
from app.store.postgres.paging import After, Limit, Page
from providers.canonical.errors import Conflict, InvalidRequest

Reason = Annotated[str, Meta(min_length=1, max_length=MAX_REASON_CHARACTERS, description="Why it is promoted, for the log.")]


class LogQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 20
    after: After | None = None
    sort: Literal["id", "-id"] = "-id"


class Promote(Struct, frozen=True, forbid_unknown_fields=True):
    """The arm that becomes the winner."""

    arm: Arm
    force: Annotated[bool, Meta(description="Also if conditions are not met; needs `reason` and the permission experiments:force.")] = False
    reason: Reason | None = None

    def __post_init__(self) -> None:
        """Raises InvalidRequest."""
        if self.force and self.reason is None:
            raise InvalidRequest("`force` needs `reason`, which the log keeps.", param="reason")
        if self.reason is not None and not self.force:
            raise InvalidRequest("A `reason` is for a promotion whose conditions are not met: set `force`, too.", param="reason")


class _Acts:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def log(self, call: Call[LogQuery, NoBody]) -> Answer:
        found = await require_experiment(call.connection, call.path["name"])
        return Answer(await page_acts(call.connection, found.id, call.query))

    async def promote(self, call: Call[NoQuery, Promote]) -> Answer:
        body = call.body
        if body.force:
            call.require("experiments:force")
        await lock_for_change(call)
        try:
            promoted = await promote(
                call.connection,
                call.author,
                call.path["name"],
                body.arm,
                reason=body.reason,
                output_tokens=self._settings.limits_output_tokens,
            )
        except PromotionRefused as refused:
            raise Conflict(str(refused), param="arm") from None
        require_may_send_credentials(call, promoted.changed)
        return await answer_experiment(call, promoted.changed.warnings)

    def operations(self) -> list[Operation[Any, Any]]:
        missing = {404: "There is no such experiment."}
        return [
            Operation(
                method="GET",
                path="/experiments/{name}/log",
                id="list_experiment_acts",
                tag="Experiments",
                summary="List what was done to an experiment by its results, with the evidence",
                permission="config:read",
                query=LogQuery,
                response=Page[Act],
                errors=missing,
                commands=(experiment_commands.LOG,),
                handler=self.log,
            ),
            Operation(
                method="POST",
                path="/experiments/{name}/promote",
                id="promote_experiment_arm",
                tag="Experiments",
                summary="End an experiment with an arm that is better as its winner",
                permission="config:write",
                access="write",
                body=Promote,
                response=ShownExperiment,
                conditional=True,
                errors={**missing, 409: "Conditions are not met, which the message lists; or the configuration no longer has it."},
                example={"arm": "large"},
                commands=(experiment_commands.PROMOTE,),
                handler=self.promote,
            ),
        ]


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    return _Acts(settings).operations()
