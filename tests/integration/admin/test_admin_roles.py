"""Who may do what over the admin API: every operation by every role, and that a team cannot find out what others have."""

import asyncio
import itertools
import uuid
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

import httpx2
import pytest
from litestar.exceptions import LitestarDeprecationWarning

from app.api.admin.routes import operations
from app.api.rest.operation import Operation
from app.domain import uuid7
from app.main import create_applications
from app.settings import Settings
from app.store.postgres.database import connect
from providers.transport.loop_turns import LoopTurns
from providers.transport.write_batcher import WriteBatcher
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import wait_until

ROLES = ("owner", "admin", "editor", "viewer", "auditor")
READ = "owner admin editor viewer auditor"
EDIT = "owner admin editor"
ADMINISTER = "owner admin"
READ_CONTENT = "owner admin editor auditor"
LOOK_AT_ACCESS = "owner admin auditor"
ANYBODY = "owner admin editor viewer auditor none"


class Row(NamedTuple):
    """Who may use an operation: roles for the company, and roles within the team whose resource it is about.

    `path`, `query` and `body` are those of a request about a resource of that team; `{team}` and the like stand for names and ids of it.
    """

    company: str
    team: str = ""
    path: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    body: Any = None
    is_list: bool = False  # whether the operation is about no resource, so roles within any team do
    is_missing: bool = False  # whether it is about a resource that does not exist


_NONE, _PRICE = {"name": "none"}, {"provider": "none", "model": "none", "since": "always"}
_TARGET = {"provider": "sandbox", "model": "none"}
_FUNCTION = {"variants": {"only": {"model": "sandbox"}}}
_LIMIT = {"scope": {"team": "{team}"}, "resource": "requests", "amount": 5, "per": "day"}
_BUDGET = {"scope": {"team": "{team}"}, "amount": 5, "per": "month"}
_DATASET, _VERSION = {"name": "{dataset}"}, {"name": "{dataset}", "number": "1"}
_TEAM, _KEY, _USER, _ACCOUNT = {"name": "{team}"}, {"prefix": "{key}"}, {"id": "{user}"}, {"name": "{account}"}

# Written down apart from the code: a change of what a role permits must be made in both.
TABLE = {
    "get_session": Row(ANYBODY, ANYBODY, is_list=True),
    "list_roles": Row(ANYBODY, ANYBODY, is_list=True),
    # Refused by 400 here: whoever signs in without a key has none of their own.
    "get_own_key": Row(ANYBODY, ANYBODY, is_list=True),
    "list_own_inferences": Row(ANYBODY, ANYBODY, is_list=True),
    "show_own_inference": Row(ANYBODY, ANYBODY, {"id": str(uuid.uuid4())}, is_list=True),
    "sign_out": Row(ANYBODY, ANYBODY, is_list=True),  # refused by 400 here: only users have sessions
    "list_keys": Row(READ, READ, is_list=True),
    "create_key": Row(EDIT, EDIT, body={"team": "{team}"}),
    "get_key": Row(READ, READ, _KEY),
    "patch_key": Row(EDIT, EDIT, _KEY, body={"name": "changed"}),
    "revoke_key": Row(EDIT, EDIT, _KEY),
    "list_key_sessions": Row(LOOK_AT_ACCESS, "", _KEY),
    "end_key_sessions": Row("owner", "", _KEY),
    "rotate_key": Row(EDIT, EDIT, _KEY, body={"overlap_s": 0}),
    "list_teams": Row(READ, READ, is_list=True),
    "create_team": Row(EDIT, body={"name": "{unused}"}),
    "get_team": Row(READ, READ, _TEAM),
    "put_team": Row(EDIT, "", _TEAM, body={}),
    "patch_team": Row(EDIT, "", _TEAM, body={"priority": 1}),
    "delete_team": Row(EDIT, "", {"name": "{empty_team}"}),
    "list_users": Row(LOOK_AT_ACCESS, LOOK_AT_ACCESS, is_list=True),
    "get_user": Row(LOOK_AT_ACCESS, LOOK_AT_ACCESS, _USER),
    "patch_user": Row(ADMINISTER, "", _USER, body={"disabled": True}),
    "list_sessions": Row(LOOK_AT_ACCESS, "", _USER),
    "end_sessions": Row(ADMINISTER, "", _USER),
    "list_service_accounts": Row(LOOK_AT_ACCESS, LOOK_AT_ACCESS, is_list=True),
    "create_service_account": Row(
        ADMINISTER, ADMINISTER, body={"name": "{team}/{unused}", "roles": [{"role": "viewer", "team": "{team}"}]}
    ),
    "get_service_account": Row(LOOK_AT_ACCESS, LOOK_AT_ACCESS, _ACCOUNT),
    "patch_service_account": Row(ADMINISTER, ADMINISTER, _ACCOUNT, body={"disabled": True}),
    "delete_service_account": Row(ADMINISTER, ADMINISTER, _ACCOUNT),
    "list_tokens": Row(LOOK_AT_ACCESS, LOOK_AT_ACCESS, _ACCOUNT),
    "create_token": Row(ADMINISTER, ADMINISTER, _ACCOUNT, body={"name": "ci"}),
    "revoke_token": Row(ADMINISTER, ADMINISTER, {**_ACCOUNT, "id": "{token}"}),
    "list_role_grants": Row(LOOK_AT_ACCESS, LOOK_AT_ACCESS, is_list=True),
    "create_role_grant": Row(ADMINISTER, ADMINISTER, body={"role": "viewer", "team": "{team}", "group": "{unused}"}),
    "get_role_grant": Row(LOOK_AT_ACCESS, LOOK_AT_ACCESS, {"id": "{grant}"}),
    "delete_role_grant": Row(ADMINISTER, ADMINISTER, {"id": "{grant}"}),
    "take_role": Row(ADMINISTER, ADMINISTER, query={"role": "viewer", "team": "{team}", "user": "{user}"}),
    "list_credentials": Row(READ, is_list=True),
    "get_credential": Row(READ, "", {"name": "none"}, is_missing=True),
    "put_credential": Row(ADMINISTER, "", {"name": "none"}, body={"value": "sk-none"}),
    "delete_credential": Row(ADMINISTER, "", {"name": "none"}, is_missing=True),
    "export_configuration": Row(READ, is_list=True),
    "get_configuration_schema": Row(ANYBODY, ANYBODY, is_list=True),
    "apply_configuration": Row(EDIT),
    "list_configuration_versions": Row(READ, is_list=True),
    "get_configuration_version": Row(READ, "", {"version": "999999999"}, is_missing=True),
    "restore_configuration_version": Row(EDIT, "", {"version": "999999999"}, is_missing=True),
    "list_settings": Row(READ, is_list=True),
    "get_analytics": Row(READ, READ, is_list=True),
    "answer_analytics": Row(READ, READ, body={"questions": {"by_team": {"group_by": "team"}}}, is_list=True),
    "list_feedback": Row(READ, READ, is_list=True),
    "export_feedback": Row(READ, READ, is_list=True),
    "sum_feedback": Row(READ, READ, query={"metric": "comment"}, is_list=True),
    "get_feedback": Row(READ, READ, {"id": "{feedback}"}),
    "list_refusals": Row(READ, READ, is_list=True),
    "list_retention": Row(READ, is_list=True),
    "list_workers": Row(READ, is_list=True),
    "list_snapshots": Row(READ, is_list=True),
    "get_snapshot": Row(READ, "", {"hash": "none"}, is_missing=True),
    "list_providers": Row(READ, is_list=True),
    "get_provider": Row(READ, "", _NONE, is_missing=True),
    "create_provider": Row(EDIT, body={"name": "{unused}", "adapter": "openai"}),
    "put_provider": Row(EDIT, "", _NONE, body={"adapter": "openai"}, is_missing=True),
    "patch_provider": Row(EDIT, "", _NONE, body={}, is_missing=True),
    "delete_provider": Row(EDIT, "", _NONE, is_missing=True),
    "test_provider": Row(EDIT, "", _NONE, body={}, is_missing=True),
    "list_configured_models": Row(READ, is_list=True),
    "get_configured_model": Row(READ, "", _NONE, is_missing=True),
    "create_configured_model": Row(EDIT, body={"name": "{unused}", "targets": [_TARGET]}),
    "put_configured_model": Row(EDIT, "", _NONE, body={"targets": [_TARGET]}, is_missing=True),
    "patch_configured_model": Row(EDIT, "", _NONE, body={}, is_missing=True),
    "delete_configured_model": Row(EDIT, "", _NONE, is_missing=True),
    "list_metrics": Row(READ, is_list=True),
    "get_metric": Row(READ, "", _NONE, is_missing=True),
    "create_metric": Row(EDIT, body={"name": "{unused}", "kind": "float", "level": "inference"}),
    "put_metric": Row(EDIT, "", _NONE, body={"kind": "float", "level": "inference"}, is_missing=True),
    "patch_metric": Row(EDIT, "", _NONE, body={}, is_missing=True),
    "delete_metric": Row(EDIT, "", _NONE, is_missing=True),
    "list_model_targets": Row(READ, "", _NONE, is_missing=True),
    "add_model_target": Row(EDIT, "", _NONE, body=_TARGET, is_missing=True),
    "put_model_target": Row(EDIT, "", {**_NONE, "number": "0"}, body=_TARGET, is_missing=True),
    "remove_model_target": Row(EDIT, "", {**_NONE, "number": "0"}, is_missing=True),
    "list_functions": Row(READ, is_list=True),
    "get_function": Row(READ, "", _NONE, is_missing=True),
    "create_function": Row(EDIT, body={"name": "{unused}", **_FUNCTION}),
    "put_function": Row(EDIT, "", _NONE, body=_FUNCTION, is_missing=True),
    "patch_function": Row(EDIT, "", _NONE, body={}, is_missing=True),
    "delete_function": Row(EDIT, "", _NONE, is_missing=True),
    "render_function": Row(READ, "", _NONE, body={}, is_missing=True),
    "list_experiments": Row(READ, is_list=True),
    "get_experiment_results": Row(READ, "", _NONE, is_missing=True),
    "get_experiment_series": Row(READ, "", _NONE, is_missing=True),
    "get_experiment_power": Row(READ, query={"effect": "0.01", "rate": "0.1"}),
    "get_experiment": Row(READ, "", _NONE, is_missing=True),
    "get_shadow_results": Row(READ, "", _NONE, is_missing=True),
    "list_experiment_versions": Row(READ, "", _NONE, is_missing=True),
    "start_experiment": Row(EDIT, "", _NONE, is_missing=True),
    "stop_experiment": Row(EDIT, "", _NONE, body={}, is_missing=True),
    "resume_experiment_arm": Row(EDIT, "", _NONE, body={"arm": "none"}, is_missing=True),
    "promote_experiment_arm": Row(EDIT, "", _NONE, body={"arm": "none"}, is_missing=True),
    "list_experiment_acts": Row(READ, "", _NONE, is_missing=True),
    "set_experiment_weights": Row(EDIT, "", _NONE, body={"arms": {"none": 1}}, is_missing=True),
    "set_experiment_enrolment": Row(EDIT, "", _NONE, body={"enrolment": 1}, is_missing=True),
    "list_configured_limits": Row(READ, READ, is_list=True),
    "get_configured_limit": Row(READ, READ, {"name": "{limit}"}),
    "create_configured_limit": Row(EDIT, body={"name": "{unused}", **_LIMIT}),
    "put_configured_limit": Row(EDIT, "", {"name": "{limit}"}, body=_LIMIT),
    "patch_configured_limit": Row(EDIT, "", {"name": "{limit}"}, body={"amount": 5}),
    "delete_configured_limit": Row(EDIT, "", {"name": "{limit}"}),
    "list_budgets": Row(READ, READ, is_list=True),
    "get_budget": Row(READ, READ, {"name": "{budget}"}),
    "create_budget": Row(EDIT, body={"name": "{unused}", **_BUDGET}),
    "put_budget": Row(EDIT, "", {"name": "{budget}"}, body=_BUDGET),
    "patch_budget": Row(EDIT, "", {"name": "{budget}"}, body={"amount": 5}),
    "list_budget_subjects": Row(READ, READ, {"name": "{budget}"}),
    "delete_budget": Row(EDIT, "", {"name": "{budget}"}),
    "list_limit_overrides": Row(READ, is_list=True),
    "create_limit_override": Row(EDIT, body={"limit": "{limit}", "amount": 5, "ends_at": "{soon}", "reason": "a test"}),
    "get_limit_override": Row(READ, "", {"id": "{override}"}),
    "patch_limit_override": Row(EDIT, "", {"id": "{override}"}, body={"amount": 6}),
    "end_limit_override": Row(EDIT, "", {"id": "{override}"}),
    "list_unmatched_limits": Row(READ, is_list=True),
    "list_webhooks": Row(READ, is_list=True),
    "create_webhook": Row(ADMINISTER, body={"name": "{unused}", "url": "https://hooks.test/narthex"}),
    "get_webhook": Row(READ, "", {"name": "none"}, is_missing=True),
    "patch_webhook": Row(ADMINISTER, "", {"name": "none"}, body={"enabled": False}, is_missing=True),
    "delete_webhook": Row(ADMINISTER, "", {"name": "none"}, is_missing=True),
    "test_webhook": Row(ADMINISTER, "", {"name": "none"}, is_missing=True),
    "list_webhook_deliveries": Row(READ, "", {"name": "none"}, is_missing=True),
    "redeliver_webhook": Row(ADMINISTER, "", {"name": "none", "id": "none"}, is_missing=True),
    "list_prices": Row(READ, is_list=True),
    "get_price": Row(READ, "", _PRICE, is_missing=True),
    "create_price": Row(EDIT, body={"provider": "sandbox", "model": "{unused}", "input": 1}),
    "put_price": Row(EDIT, "", _PRICE, body={"input": 1}, is_missing=True),
    "patch_price": Row(EDIT, "", _PRICE, body={}, is_missing=True),
    "delete_price": Row(EDIT, "", _PRICE, is_missing=True),
    "list_inferences": Row(READ, READ, is_list=True),
    "count_inferences": Row(READ, READ, is_list=True),
    "list_inference_facets": Row(READ, READ, query={"of": "team,key,end_user"}, is_list=True),
    "tail_inferences": Row(READ, READ, is_list=True, query={"duration_s": "1"}),
    "export_inferences": Row(READ, READ, is_list=True),
    "get_inference": Row(READ, READ, {"id": "{inference}"}),
    "get_inference_neighbours": Row(READ, READ, {"id": "{inference}"}),
    "write_feedback": Row(EDIT, EDIT, {"id": "{inference}"}, body={"metric": "comment", "value": "a comment"}),
    "get_inference_media": Row(READ_CONTENT, READ_CONTENT, {"id": "{inference}", "number": "1"}),
    "list_episodes": Row(READ, READ, is_list=True),
    "get_episode": Row(READ, READ, {"id": "{episode}"}),
    "get_episode_timeline": Row(READ, READ, {"id": "{episode}"}),
    "summarize_dropped_fields": Row(READ, READ, is_list=True),
    "list_replays": Row(READ, READ, is_list=True),
    "start_replay": Row(EDIT, EDIT, body={"model": "sandbox", "key": "{key}", "filter": {"key": "{key}"}}),
    "get_replay": Row(READ, READ, {"id": "{replay}"}),
    "list_replay_items": Row(READ, READ, {"id": "{replay}"}),
    "get_replay_results": Row(READ, READ, {"id": "{replay}"}),
    "cancel_replay": Row(EDIT, EDIT, {"id": "{replay}"}),
    "resume_replay": Row(EDIT, EDIT, {"id": "{replay}"}),
    "delete_replay": Row(EDIT, EDIT, {"id": "{replay}"}),
    "list_datasets": Row(READ, READ, is_list=True),
    "create_dataset": Row(EDIT, EDIT, body={"name": "{team}/{unused}", "team": "{team}"}),
    "get_dataset": Row(READ, READ, _DATASET),
    "delete_dataset": Row(EDIT, EDIT, _DATASET),
    "list_dataset_versions": Row(READ, READ, _DATASET),
    "create_dataset_version": Row(EDIT, EDIT, _DATASET, body={}),
    "get_dataset_version": Row(READ, READ, _VERSION),
    "delete_dataset_version": Row(EDIT, EDIT, _VERSION),
    "cancel_dataset_version": Row(EDIT, EDIT, _VERSION),
    "list_dataset_rows": Row(READ, READ, _VERSION),
    "get_dataset_row": Row(READ, READ, {**_VERSION, "row": "1"}),
    "list_dataset_skips": Row(READ, READ, _VERSION),
    "export_dataset_version": Row(READ_CONTENT, READ_CONTENT, _VERSION),
    "list_erasures": Row(LOOK_AT_ACCESS, is_list=True),
    "create_erasure": Row(ADMINISTER, body={"end_user": "nobody"}),
    "get_erasure": Row(LOOK_AT_ACCESS, "", {"id": "none"}, is_missing=True),
    "verify_erasure": Row(LOOK_AT_ACCESS, "", {"id": "none"}, body={}, is_missing=True),
    "recompute_costs": Row(EDIT, body={"since": "2020-01-01", "until": "2020-01-02"}),
    "list_cost_changes": Row(READ, is_list=True),
    "reconcile_costs": Row(READ, query={"format": "openai"}, body={}),
    "export_focus": Row(READ, query={"since": "2020-01-01", "until": "2020-01-02"}),
    "list_endpoints": Row(READ, is_list=True),
    "list_learned_rules": Row(READ, is_list=True),
    "get_endpoint_metrics": Row(READ, query={"endpoint": "http://none"}, is_missing=True),
    "read_engine": Row(READ, "", {"model": "none", "operation": "version"}, is_missing=True),
    "operate_engine": Row(ADMINISTER, "", {"model": "none", "operation": "sleep"}, body={}, is_missing=True),
    "get_fleet": Row(READ, is_list=True),
    "get_diagnosis": Row(READ, is_list=True),
    "drain_endpoint": Row(ADMINISTER, body={"endpoint": "http://none"}, is_missing=True),
    "list_audit_events": Row(LOOK_AT_ACCESS, LOOK_AT_ACCESS, is_list=True),
    "export_audit_events": Row(LOOK_AT_ACCESS, LOOK_AT_ACCESS, is_list=True),
    "get_audit_event": Row(LOOK_AT_ACCESS, LOOK_AT_ACCESS, {"id": "{event}"}),
}

# Filters of lists that name something of a team.
FILTERS = {
    "list_keys": ({"team": "{team}"}, {"search": "{key}"}),
    "list_teams": ({"search": "{team}"},),
    "list_users": ({"search": "{user_name}"},),
    "list_service_accounts": ({"search": "{account}"},),
    "list_role_grants": ({"team": "{team}"}, {"service_account": "{account}"}, {"user": "{user}"}, {"user": "{user_name}"}),
    "list_configured_limits": ({"team": "{team}"}, {"key": "{key}"}, {"search": "{limit}"}),
    "list_budgets": ({"team": "{team}"}, {"key": "{key}"}, {"search": "{budget}"}),
    "list_inferences": (
        {"text": "x", "team": "{team}"},
        {"team": "{team}"},
        {"team_id": "{team_id}"},
        {"key": "{key}"},
        {"episode_id": "{episode}"},
    ),
    "count_inferences": ({"team": "{team}"}, {"key": "{key}"}, {"episode_id": "{episode}"}),
    "list_episodes": ({"team": "{team}"}, {"team_id": "{team_id}"}, {"key": "{key}"}),
    "list_inference_facets": ({"of": "key", "team": "{team}"}, {"of": "team", "key": "{key}"}),
    "export_inferences": ({"team": "{team}"}, {"key": "{key}", "format": "csv"}),
    "get_analytics": ({"team": "{team}", "group_by": "key"}, {"key": "{key}"}),
    "list_feedback": ({"team": "{team}"}, {"key": "{key}"}, {"episode_id": "{episode}"}, {"inference_id": "{inference}"}),
    "export_feedback": ({"team": "{team}"}, {"key": "{key}", "format": "csv"}),
    "sum_feedback": ({"metric": "comment", "team": "{team}"},),
    "list_refusals": ({"team": "{team}"}, {"key": "{key}"}),
    "summarize_dropped_fields": ({"team": "{team}"}, {"key": "{key}"}),
    "list_audit_events": ({"team": "{team}"}, {"name": "{key}"}, {"name": "{account}"}, {"search": "{account}"}, {"search": "{key}"}),
    "export_audit_events": ({"team": "{team}"}, {"search": "{key}", "format": "csv"}),
}


class World(NamedTuple):
    """A team with one of everything, and a token of an account for each role: for the company, in that team, in another team."""

    operations: Mapping[str, Operation[Any, Any]]
    names: Mapping[str, str]
    other_team: str
    tokens: Mapping[tuple[str, str], str]


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def as_holder(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def made(response: httpx2.Response) -> Any:
    assert response.status_code in (200, 201), response.text
    return response.json()


@pytest.fixture(scope="module")
async def world(service: Service) -> World:
    async with service.admin_client() as admin:
        return await _build_world(service, admin)


async def _build_world(service: Service, admin: httpx2.AsyncClient) -> World:
    team, other = unique("team"), unique("team")
    names: dict[str, str] = {"team": team, "empty_team": unique("empty"), "unused": unique("unused")}
    for each in (other, names["empty_team"]):
        await made(await admin.post("/admin/v1/teams", json={"name": each}))
    limit: dict[str, Any] = {"name": unique("limit"), "resource": "requests", "amount": 1000, "per": "day"}
    key = await made(await admin.post("/admin/v1/keys", json={"team": team, "name": unique("key"), "limits": [limit]}))
    budgeted = await made(await admin.post("/admin/v1/keys", json={"team": team, "budget": {"amount_usd": 5}}))
    names |= {"key": key["prefix"], "key_name": key["name"], "limit": limit["name"], "budget": budgeted["limits"][0]["name"]}
    names["soon"] = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    overridden = {"limit": names["budget"], "amount": 6, "ends_at": names["soon"], "reason": "a test"}
    names["override"] = (await made(await admin.post("/admin/v1/limit-overrides", json=overridden)))["id"]
    names["team_id"] = (await made(await admin.get(f"/admin/v1/teams/{team}")))["id"]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    chat = {"model": "sandbox", "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, image]}]}
    async with service.keyless_client() as client:
        answer = await client.post("/v1/chat/completions", json=chat, headers=as_holder(key["key"]))
        assert answer.status_code == 200, answer.text
        refused = await client.post("/v1/chat/completions", json={**chat, "model": "none"}, headers=as_holder(key["key"]))
        assert refused.status_code == 404, refused.text
        sent = {"metric": "comment", "inference_id": answer.headers["x-narthex-inference-id"], "value": "a comment"}
        names["feedback"] = (await made(await client.post("/v1/feedback", json=sent, headers=as_holder(key["key"]))))["id"]
    names |= {"inference": answer.headers["x-narthex-inference-id"], "episode": answer.headers["x-narthex-episode-id"]}
    tokens: dict[tuple[str, str], str] = {}
    for where, in_team in (("the company", None), ("the team", team), ("another team", other)):
        for role in ROLES:
            _, tokens[role, where], _ = await _create_account(admin, {"role": role, "team": in_team})
    _, tokens["none", "the company"], _ = await _create_account(admin)
    names["account"], _, names["token"] = await _create_account(admin, {"role": "viewer", "team": team})
    names |= {"user": uuid7.mint(), "user_name": unique("user")}
    connection = await connect(database_url(service))  # users come by signing in, which is not what is tested here
    insert = "INSERT INTO principals (id, kind, name, issuer, subject) VALUES ($1, 'user', $2, 'https://issuer.test', $2)"
    await connection.execute(insert, names["user"], names["user_name"])
    await connection.close()
    grant = {"role": "viewer", "team": team, "user": names["user"]}
    names["grant"] = (await made(await admin.post("/admin/v1/role-grants", json=grant)))["id"]
    names["event"] = (await made(await admin.get("/admin/v1/audit", params={"name": names["key"]})))["data"][0]["id"]
    await service.wait_for_record(names["inference"])
    replay = {"model": "sandbox", "key": key["prefix"], "filter": {"key": key["prefix"]}}
    names["replay"] = (await made(await admin.post("/admin/v1/replays", json=replay)))["id"]

    async def is_listed() -> bool:
        return refused.headers["x-narthex-inference-id"] in (await admin.get("/admin/v1/refusals", params={"team": team})).text

    async def is_feedback_stored() -> bool:
        return (await admin.get(f"/admin/v1/feedback/{names['feedback']}")).status_code == 200

    await wait_until(is_listed)
    await wait_until(is_feedback_stored)
    names["dataset"] = f"{team}/{unique('dataset')}"
    await made(await admin.post("/admin/v1/datasets", json={"name": names["dataset"], "team": team, "selection": {}}))

    async def is_built() -> bool:
        version = await made(await admin.get(f"/admin/v1/datasets/{names['dataset'].replace('/', '%2F')}/versions/1"))
        return version["status"] == "complete"

    await wait_until(is_built)
    return World({each.id: each for each in _declared_operations()}, names, other, tokens)


def _declared_operations() -> list[Operation[Any, Any]]:
    settings = Settings(database_url="postgresql://nobody@127.0.0.1:9/none", redis_url="redis://127.0.0.1:9")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LitestarDeprecationWarning)
        return operations(create_applications(settings, WriteBatcher(), LoopTurns(), name="operations").gateway)


async def _create_account(admin: httpx2.AsyncClient, *roles: Mapping[str, str | None]) -> tuple[str, str, str]:
    """Its name, its token, and the token's id."""
    name = unique("account")
    await made(await admin.post("/admin/v1/service-accounts", json={"name": name, "roles": list(roles)}))
    created = await made(await admin.post(f"/admin/v1/service-accounts/{name}/tokens"))
    return name, created["token"], created["id"]


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    """Returns the value with names and ids in place of `{team}` and the like."""
    match value:
        case str():
            return value.format_map(names)
        case dict():
            return {name: _filled(each, names) for name, each in cast("dict[str, Any]", value).items()}
        case list():
            return [_filled(each, names) for each in cast("list[Any]", value)]
        case _:
            return value


async def _send(
    client: httpx2.AsyncClient, operation: Operation[Any, Any], row: Row, token: str, names: Mapping[str, str], **headers: str
) -> httpx2.Response:
    """The row's request, as a dry run."""
    path = operation.path.format_map({name: value.replace("/", "%2F") for name, value in _filled(dict(row.path), names).items()})
    query = {**_filled(dict(row.query), names), **({"dry_run": "true"} if operation.access == "write" else {})}
    body = None if row.body is None else _filled(row.body, names)
    headers = {**as_holder(token), "if-match": "*", **headers}
    return await client.request(operation.method, f"/admin/v1{path}", params=query, json=body, headers=headers)


async def test_every_operation_is_served_to_whom_the_table_says_and_refused_to_others(world: World, service: Service) -> None:
    missing, gone = world.operations.keys() - TABLE.keys(), TABLE.keys() - world.operations.keys()
    assert not missing, f"Add a row to TABLE in {__file__} for each of these operations, which says who may use it: {sorted(missing)}"
    assert not gone, f"Remove the rows of these operations, which are gone, from TABLE in {__file__}: {sorted(gone)}"
    slots = asyncio.Semaphore(8)
    wrong: list[str] = []

    async def check(client: httpx2.AsyncClient, id: str, role: str, where: str) -> None:
        row = TABLE[id]
        async with slots:
            status = (await _send(client, world.operations[id], row, world.tokens[role, where], world.names)).status_code
        is_permitted = role in (row.company if where == "the company" else row.team).split()
        if where == "another team" and not row.is_list:
            is_permitted = False
        is_served = status not in ((401, 403) if row.is_missing else (401, 403, 404))
        if is_served != is_permitted or status >= 500:
            wrong.append(f"{id}, {role} of {where}: {status}, but it must be {'served' if is_permitted else 'refused'}")

    async with service.keyless_client() as client:
        # An operation of the company makes no difference between teams.
        checks = [each for each in itertools.product(TABLE, world.tokens) if each[1][1] != "another team" or TABLE[each[0]].team]
        await asyncio.gather(*(check(client, id, *holder) for id, holder in checks))
    assert not wrong, "\n".join(sorted(wrong))


async def test_a_team_cannot_tell_what_another_has_from_what_does_not_exist(world: World, service: Service) -> None:
    owner = world.tokens["owner", "another team"]
    absent = {name: uuid7.mint() if uuid7.is_uuid7(value) else unique(name) for name, value in world.names.items()}
    absent |= {"key": f"nx-{uuid.uuid4().hex[:12]}", "unused": world.names["unused"]}
    ours = {"role": "viewer", "team": world.other_team}
    limit = {"name": "{limit}", "resource": "requests", "amount": 5, "per": "day"}
    probes = [(id, row) for id, row in TABLE.items() if row.team and not row.is_list]
    probes += [(id, Row(READ, query=query, is_list=True)) for id, queries in FILTERS.items() for query in queries]
    probes += [
        ("create_role_grant", Row("", body={**ours, "service_account": "{account}"})),
        ("create_service_account", Row("", body={"name": "{account}", "roles": [ours]})),
        ("create_key", Row("", body={"team": world.other_team, "limits": [limit]})),
        ("get_episode", Row("", path={"id": "{episode}"}, query={"team_id": "{team_id}"})),
        ("get_episode_timeline", Row("", path={"id": "{episode}"}, query={"team_id": "{team_id}"})),
    ]

    def seen(response: httpx2.Response, names: Mapping[str, str]) -> tuple[int, str, str | None]:
        text = response.text
        for name, value in names.items():
            text = text.replace(value, f"{{{name}}}")
        if response.status_code == 200 and response.headers["content-type"] == "application/json":  # of an empty list
            return 200, str(response.json().get("data")), None
        return response.status_code, text, response.headers.get("etag")

    async with service.keyless_client() as client:
        for id, row in probes:
            for if_match in ("*", '"0"'):
                operation = world.operations[id]
                theirs = await _send(client, operation, row, owner, world.names, **{"if-match": if_match})
                none = await _send(client, operation, row, owner, absent, **{"if-match": if_match})
                assert seen(theirs, world.names) == seen(none, absent), f"{id} {row.query} {row.body} tells that a resource exists"
                assert row.is_list or theirs.status_code in (403, 404), f"{id} {row.body}: {theirs.status_code} {theirs.text}"


async def test_a_record_shows_what_was_written_and_endpoints_to_roles_that_include_them(world: World, service: Service) -> None:
    async with service.keyless_client() as client:
        for role, where in itertools.product(ROLES, ("the company", "the team")):
            holder = as_holder(world.tokens[role, where])
            record = await made(await client.get(f"/admin/v1/inferences/{world.names['inference']}", headers=holder))
            assert record["content_hidden"] == (record["content"] is None) == (role == "viewer"), (role, where)
            assert (record["endpoint"] is None) == (where == "the team"), (role, where)
            [listed] = (await made(await client.get(f"/admin/v1/episodes/{world.names['episode']}", headers=holder)))["inferences"]
            assert listed["endpoint"] == record["endpoint"]
            timeline = await made(await client.get(f"/admin/v1/episodes/{world.names['episode']}/timeline", headers=holder))
            [drawn] = timeline["inferences"]
            assert timeline["content_hidden"] == (drawn["tool_calls"] is None) == record["content_hidden"], (role, where)
            assert [each["endpoint"] for each in drawn["attempts"]] == [record["endpoint"]]


async def test_lists_and_cursors_of_a_team_have_nothing_of_another(world: World, service: Service) -> None:
    whole, ours = as_holder(world.tokens["owner", "the company"]), as_holder(world.tokens["owner", "another team"])
    secret = {value for name, value in world.names.items() if name != "unused"}
    async with service.keyless_client() as client:
        for id, row in TABLE.items():
            operation = world.operations[id]
            if not row.is_list or operation.method != "GET" or not row.team or operation.scope == "company":
                continue
            if operation.response_media_type == "text/event-stream":  # has a test of its own
                continue
            path = f"/admin/v1{operation.path}"
            pages = [await client.get(path, params=row.query, headers=ours)]
            has_limit = not id.startswith(("export_", "sum_", "count_"))
            first = await client.get(path, params={**row.query, **({"limit": 1} if has_limit else {})}, headers=whole)
            cursor = first.json().get("next") if first.headers["content-type"] == "application/json" else None
            if cursor is not None:
                after = "before" if id in ("list_inferences", "list_episodes") else "after"
                pages.append(await client.get(path, params={"limit": 1, after: cursor}, headers=ours))
            for page in pages:
                assert page.status_code == 200, page.text
                assert not [each for each in secret if each in page.text], f"{id} shows what belongs to another team"


async def test_a_repeated_request_of_another_account_gets_no_answer_of_the_first(world: World, service: Service) -> None:
    body, headers = {"team": world.names["team"], "name": "once"}, {"idempotency-key": unique("key")}
    async with service.keyless_client() as client:

        async def create(role: str, where: str) -> httpx2.Response:
            return await client.post("/admin/v1/keys", json=body, headers={**headers, **as_holder(world.tokens[role, where])})

        first = await create("editor", "the team")
        assert first.status_code == 201, first.text
        assert (await create("owner", "another team")).status_code == 403
        other = await create("admin", "the team")
        assert other.status_code != 201 or other.json()["prefix"] != first.json()["prefix"]
