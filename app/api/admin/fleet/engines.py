"""Engines: what each endpoint is, and operations on it.

/admin/v1/endpoints, /admin/v1/endpoints/learned-rules, /admin/v1/endpoints/metrics and /admin/v1/models/{model}/engine/{operation}.
"""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from app.api.admin.fleet.endpoint_state import EndpointQuery, EndpointState, page_endpoints
from app.api.rest.command import Column, Command
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.gateway.fleet.operations import OperationResult, Operations, worst_status
from app.gateway.learned_rules.store import StoredRule
from app.gateway.pipeline.gateway import Gateway
from app.store.postgres.audit_log import AuditEvent, record
from app.store.postgres.paging import Page
from providers.canonical.errors import InvalidRequest

log = logging.getLogger(__name__)

_PROMETHEUS = "text/plain; version=0.0.4"  # Litestar adds the charset
_JSON = "application/json"


class MetricsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    endpoint: Annotated[str, Meta(description="An address, as GET /admin/v1/endpoints lists it.")]


class EngineResult(Struct, frozen=True, omit_defaults=True):
    """The result of one endpoint: either `response`, the engine's JSON or text, or `error`."""

    endpoint: str
    engine: str
    status: int
    response: Any | UnsetType = UNSET
    error: str | UnsetType = UNSET


class EngineError(Struct, frozen=True):
    message: str
    type: str
    code: int
    param: str | None = None


class EngineResults(Struct, frozen=True):
    """The results of all endpoints. `error`: if any failed; the response has the worst of their statuses."""

    operation: str
    data: Sequence[EngineResult]
    error: EngineError | UnsetType = UNSET


class LearnedRule(Struct, frozen=True):
    """A rule that a host taught by refusing a request.

    `field` is the field that it concerns, in the target's dialect, or null if `rule` says it all. `values`
    are the values that are accepted. From `until` on, the host is tried again without the rule.
    """

    provider: str
    model: str
    rule: str
    dialect: str
    field: str | None
    values: Sequence[str]
    until: str


class LearnedRules(Struct, frozen=True):
    data: Sequence[LearnedRule]


class EngineHandlers:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._operations = Operations(gateway.fleet, gateway.settings.total_timeout_s, gateway.settings.max_reply_bytes)

    async def list(self, call: Call[EndpointQuery, NoBody]) -> Answer:
        return Answer(page_endpoints(self._gateway, call.query))

    async def list_learned_rules(self, call: Call[NoQuery, NoBody]) -> Answer:
        return Answer(LearnedRules([_to_learned_rule(each) for each in self._gateway.fleet.learned_rules.rules]))

    async def pass_metrics(self, call: Call[MetricsQuery, NoBody]) -> Answer:
        outcome = await self._operations.metrics(call.query.endpoint)
        return _answer("metrics", [outcome]) if outcome.error is not None else Answer(str(outcome.response or "").encode())

    async def read(self, call: Call[dict[str, str], NoBody]) -> Answer:
        model, name = call.path["model"], call.path["operation"]
        planned = self._operations.plan(self._gateway.snapshot_cache.snapshot, model, name, call.query, read_only=True)
        return _answer(name, await self._operations.run(planned))

    async def run(self, call: Call[Any, dict[str, Any]]) -> Answer:
        model, name, arguments = call.path["model"], call.path["operation"], call.body
        if not isinstance(arguments.get("endpoint", ""), str):
            raise InvalidRequest("`endpoint` must be an address, as GET /admin/v1/endpoints lists it.", param="endpoint")
        planned = self._operations.plan(self._gateway.snapshot_cache.snapshot, model, name, arguments, read_only=False)
        # Names of arguments only: their values may hold secrets, or gigabytes of weights. Before it is sent: a gateway that is killed in
        # between must not leave a change that nobody made.
        sent = {"arguments": sorted(arguments), "endpoints": sorted({endpoint.base_url for endpoint, _, _ in planned.calls})}
        async with call.write_transaction() as connection:
            await record(connection, call.author, AuditEvent(name, "engine", model, None, sent))
        outcomes = await self._operations.run(planned)
        statuses = {each.endpoint: each.status for each in outcomes}
        by = {"author": call.author.name, "request_id": call.author.request_id}
        log.info("an operation was run on an engine", extra={**by, "operation": name, "model": model, "statuses": statuses})
        return _answer(name, outcomes)


def _answer(name: str, outcomes: Sequence[OperationResult]) -> Answer:
    """One response for all endpoints, with the worst status, and an error in the usual shape if any failed."""
    status = worst_status(list(outcomes))
    error: EngineError | UnsetType = UNSET
    if status != 200:
        failed = [outcome for outcome in outcomes if outcome.error is not None]
        worst_outcome = next(outcome for outcome in failed if outcome.status == status)
        failed_share = f"{len(failed)} of {len(outcomes)} endpoints failed. " if len(outcomes) > 1 else ""
        kind = "unsupported" if status == 501 else "invalid_request_error" if status < 500 else "backend_error"
        error = EngineError(f"{failed_share}{worst_outcome.error}", kind, status)
    return Answer(EngineResults(name, [_to_result(each) for each in outcomes], error), status=status, media_type=_JSON)


def _to_learned_rule(stored: StoredRule) -> LearnedRule:
    rule = stored.rule
    until = datetime.fromtimestamp(stored.until_s, UTC).isoformat(timespec="seconds")
    return LearnedRule(stored.provider, stored.model, rule.kind, rule.dialect, rule.field or None, rule.values, until)


def _to_result(outcome: OperationResult) -> EngineResult:
    result = EngineResult(outcome.endpoint, outcome.engine, outcome.status)
    if outcome.error is not None:
        return msgspec.structs.replace(result, error=outcome.error)
    return msgspec.structs.replace(result, response=outcome.response)


def operations(gateway: Gateway) -> list[Operation[Any, Any]]:
    tag = "Engines"
    handlers = EngineHandlers(gateway)
    failures = {
        404: "There is no such model, endpoint or operation.",
        501: "No engine of the model has the operation.",
        502: "An endpoint could not be reached, or failed; other statuses are the engine's own.",
        504: "An endpoint did not respond in time.",
    }
    return [
        Operation(
            method="GET",
            path="/endpoints",
            id="list_endpoints",
            tag=tag,
            summary="List endpoints, as the responding process sees them",
            permission="config:read",
            access="memory",
            query=EndpointQuery,
            response=Page[EndpointState],
            commands=(
                Command(
                    name="engines list",
                    summary="List endpoints: the engine of each, and whether it answers.",
                    help="Shows the state in one of the gateway's processes.",
                    render="fleet.endpoints",
                ),
            ),
            handler=handlers.list,
        ),
        Operation(
            method="GET",
            path="/endpoints/learned-rules",
            id="list_learned_rules",
            tag=tag,
            summary="List what hosts refuse for their models, and requests are adapted to for a while",
            description="Rules that no table has, as a host taught them with a 400. All processes share them by way of Redis.",
            permission="config:read",
            access="memory",
            response=LearnedRules,
            commands=(
                Command(
                    name="engines rules",
                    summary="List the rules of models that hosts taught by refusing a request.",
                    help="Other requests are adapted to them for a while, within the drop policy of each. docs/providers.md says more.",
                    columns=(
                        *(Column("provider"), Column("model"), Column("rule"), Column("field"), Column("values")),
                        *(Column("dialect"), Column("until", form="time")),
                    ),
                    nothing="No host has refused what the rules of its models allow.",
                ),
            ),
            handler=handlers.list_learned_rules,
        ),
        Operation(
            method="GET",
            path="/endpoints/metrics",
            id="get_endpoint_metrics",
            tag=tag,
            summary="An engine's own metrics, unchanged",
            permission="config:read",
            access="memory",
            query=MetricsQuery,
            response=bytes,
            response_media_type=_PROMETHEUS,
            errors=failures,
            commands=(Command(name="engines metrics"),),
            handler=handlers.pass_metrics,
        ),
        Operation(
            method="GET",
            path="/models/{model}/engine/{operation}",
            id="read_engine",
            tag=tag,
            summary="Run an operation that changes nothing on the engines of a model",
            description="The query has the operation's arguments, and `endpoint` to run it on that one only.",
            permission="config:read",
            access="memory",
            query=dict[str, str],
            response=EngineResults,
            errors=failures,
            commands=(),
            handler=handlers.read,
        ),
        Operation(
            method="POST",
            path="/models/{model}/engine/{operation}",
            id="operate_engine",
            tag=tag,
            summary="Run an operation on the engines of a model",
            description="The body has the operation's arguments; `endpoint` runs it on that one only, `confirm` (true) is needed where it"
            " cannot be undone. docs/engines/operations.md lists the operations of each engine.",
            permission="engines:operate",
            access="memory",
            body=dict[str, Any],
            body_is_optional=True,
            max_body_bytes=gateway.settings.max_body_bytes,
            response=EngineResults,
            errors=failures,
            example={"level": 1},
            commands=(Command(name="engines run"),),
            handler=handlers.run,
        ),
    ]
