"""Every admin route, made of the declared operations."""

from collections.abc import Awaitable
from typing import Any, Self

from litestar import Router
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.admin.access import account_tokens, credentials, key_sessions, keys, role_grants, service_accounts, session, teams, users
from app.api.admin.configuration import (
    configuration,
    file_schema,
    functions,
    metrics,
    models,
    prices,
    providers,
    retention,
    settings,
    snapshots,
    webhook_deliveries,
    webhooks,
)
from app.api.admin.experiments import dataset_export, datasets, experiment_acts, experiment_results, experiments, replays, shadows
from app.api.admin.fleet import doctor, engines, fleet
from app.api.admin.limits import budgets, limit_overrides, limits, unmatched_limits
from app.api.admin.limits.budgets import BudgetCounts
from app.api.admin.records import (
    audit,
    dropped,
    episodes,
    erasures,
    feedback,
    inference_counts,
    inference_detail,
    inference_neighbours,
    inference_tail,
    inferences,
    refusals,
    written_feedback,
)
from app.api.admin.usage import analytics, costs
from app.api.own import operations as own_key
from app.api.rest.admin_authentication import AdminAuthentication
from app.api.rest.dispatch import Dispatcher
from app.api.rest.operation import Operation
from app.gateway.pipeline.gateway import Gateway
from app.store.access.accounts import configured_group_roles
from app.store.workers.applied_changes import Applied
from app.store.workers.reports import ServedVersions


def operations(gateway: Gateway) -> list[Operation[Any, Any]]:
    """Every declared operation, in the order in which the documentation shows them."""
    group_roles = configured_group_roles(gateway.settings)
    return [
        *session.operations(gateway.settings),
        *keys.operations(gateway.settings.limits_output_tokens),
        *key_sessions.operations(),
        *teams.operations(),
        *users.operations(group_roles),
        *service_accounts.operations(group_roles),
        *account_tokens.operations(group_roles),
        *role_grants.operations(group_roles),
        *credentials.operations(gateway.fleet.vault),
        *configuration.operations(gateway.settings),
        *file_schema.operations(),
        *providers.operations(gateway),
        *models.operations(gateway.settings),
        *functions.operations(gateway),
        *metrics.operations(gateway.settings),
        *experiments.operations(gateway.settings),
        *experiment_results.operations(),
        *experiment_acts.operations(gateway.settings),
        *shadows.operations(),
        *limits.operations(gateway.settings),
        *budgets.operations(gateway.settings, BudgetCounts(gateway.limits.read_counts, lambda: gateway.limits.matcher.table.by_name)),
        *limit_overrides.operations(),
        *unmatched_limits.operations(),
        *webhooks.operations(gateway.fleet.vault, gateway.settings),
        *webhook_deliveries.operations(),
        *prices.operations(gateway.settings),
        *settings.operations(gateway.settings),
        *retention.operations(gateway.settings),
        *snapshots.operations(),
        *inferences.operations(gateway.settings),
        *inference_counts.operations(gateway.settings),
        *inference_detail.operations(gateway.settings),
        *inference_neighbours.operations(gateway.settings),
        *inference_tail.operations(lambda: gateway.draining),
        *episodes.operations(gateway.settings),
        *analytics.operations(gateway.settings),
        *feedback.operations(),
        *written_feedback.operations(gateway),
        *refusals.operations(),
        *datasets.operations(gateway.settings),
        *dataset_export.operations(),
        *dropped.operations(),
        *erasures.operations(gateway.settings),
        *replays.operations(),
        *costs.operations(costs.MAX_FOCUS_DAYS),
        *engines.operations(gateway),
        *fleet.operations(gateway),
        *doctor.operations(),
        *audit.operations(),
        *own_key.operations(gateway.settings),
    ]


def admin_router(gateway: Gateway, database: AsyncEngine, authentication: AdminAuthentication) -> Router:
    """The routes of the admin API, whose own pool `database` is."""
    settings = gateway.settings

    def wait_until_applied(change: ServedVersions, wait: bool) -> Awaitable[Applied]:
        return gateway.snapshot_cache.wait_until_applied(change, settings.apply_wait_s if wait else 0)

    dispatcher = Dispatcher(
        database, gateway.fleet.vault, authentication.authenticate_principal, settings.trusted_proxies.parsed, wait_until_applied
    )
    return _AdminRouter("/admin/v1", route_handlers=[dispatcher.route(operation) for operation in operations(gateway)])


class _AdminRouter(Router):
    """A router that is registered once, itself: Litestar's deep copy takes a fifth of the time in which a worker starts."""

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self
