"""Webhooks: /admin/v1/webhooks and /admin/v1/webhooks/{name}. Secrets are write-only, but for one that is made here: shown once."""

from typing import Any, Literal

from msgspec import Struct

from app.api.rest.command import Column, Command, Option
from app.api.rest.etags import etag_of
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.settings import Settings
from app.store.postgres.paging import After, Limit, Page
from app.store.postgres.vault import NoEncryptionKey, Vault
from app.store.webhooks import webhooks as store
from app.store.webhooks.webhooks import DEFAULT_THRESHOLDS, Budgets, Secret, Thresholds, Url, Webhook, WebhookEdit, WebhookExists
from providers.canonical.errors import Conflict, UnknownRecord, Unsupported

_BUDGET_HELP = "Only of this budget. Can be repeated."
_OPTIONS = {
    "thresholds": Option(flag="--threshold", metavar="PERCENT", help="Percent of a budget's amount. Can be repeated."),
    "budgets": Option(flag="--budget", metavar="NAME", help=_BUDGET_HELP),
    "secret": Option(is_stdin=True, help="Read the secret (whsec_...) from standard input."),
}
_COLUMNS = (
    Column("name", "WEBHOOK"),
    Column("url"),
    Column("thresholds", form="percents"),
    Column("budgets", null="all"),
)


class NewWebhook(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A webhook to create. Without a `secret`, one is made and shown once."""

    name: str
    url: Url
    secret: Secret | None = None
    thresholds: Thresholds = DEFAULT_THRESHOLDS
    budgets: Budgets = None

    def __repr__(self) -> str:
        return f"NewWebhook({self.name!r})"


class CreatedWebhook(Webhook, frozen=True):
    """A new webhook. `secret` is the secret that was generated, shown once, or null if you gave one."""

    secret: str | None

    def __repr__(self) -> str:
        return f"CreatedWebhook({self.name!r})"


class DeletedWebhook(Struct, frozen=True):
    """A webhook that was deleted, with its deliveries."""

    name: str
    deleted: Literal[True] = True


class WebhookQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["name", "-name", "created_at", "-created_at"] = "name"


class WebhookOperations:
    def __init__(self, vault: Vault, settings: Settings) -> None:
        self._vault = vault
        self._settings = settings

    async def page(self, call: Call[WebhookQuery, NoBody]) -> Answer:
        return Answer(await store.page_webhooks(call.connection, call.query))

    async def show(self, call: Call[NoQuery, NoBody]) -> Answer:
        return _answer(await find_webhook(call))

    async def create(self, call: Call[NoQuery, NewWebhook]) -> Answer:
        body = call.body
        made = store.new_secret() if body.secret is None else None
        try:
            created = await store.create_webhook(
                call.connection,
                self._vault,
                call.author,
                body.name,
                body.url,
                made or body.secret or "",
                thresholds=body.thresholds,
                budgets=body.budgets,
                settings=self._settings,
            )
        except WebhookExists as fault:
            raise Conflict(f"{fault} PATCH changes it.") from None
        except NoEncryptionKey as fault:
            raise Unsupported(str(fault)) from None
        fields = {name: getattr(created, name) for name in Webhook.__struct_fields__}
        return Answer(CreatedWebhook(**fields, secret=made), etag=_etag(created), status=201)

    async def patch(self, call: Call[NoQuery, WebhookEdit]) -> Answer:
        before = await find_webhook(call, lock=True)
        call.check_match(_etag(before))
        try:
            changed = await store.change_webhook(call.connection, self._vault, call.author, before, call.body, settings=self._settings)
        except NoEncryptionKey as fault:
            raise Unsupported(str(fault)) from None
        return _answer(changed)

    async def delete(self, call: Call[NoQuery, NoBody]) -> Answer:
        before = await find_webhook(call, lock=True)
        call.check_match(_etag(before))
        await store.delete_webhook(call.connection, call.author, before)
        return Answer(DeletedWebhook(before.name))


async def find_webhook(call: Call[Any, Any], *, lock: bool = False) -> Webhook:
    webhook = await store.find_webhook(call.connection, call.path["name"], lock=lock)
    if webhook is None:
        raise UnknownRecord("There is no such webhook. GET /admin/v1/webhooks lists them.")
    return webhook


def _answer(webhook: Webhook) -> Answer:
    return Answer(webhook, etag=_etag(webhook))


def _etag(webhook: Webhook) -> str:
    return etag_of([webhook.url, webhook.thresholds, webhook.budgets, webhook.enabled, webhook.updated_at])


def operations(vault: Vault, settings: Settings) -> list[Operation[Any, Any]]:
    tag, handlers = "Webhooks", WebhookOperations(vault, settings)
    missing, no_key = {404: "There is no such webhook."}, {422: "The gateway has no NARTHEX_SECRET_KEY to encrypt the secret with."}
    return [
        Operation(
            method="GET",
            path="/webhooks",
            id="list_webhooks",
            tag=tag,
            summary="List webhooks, without their secrets",
            permission="config:read",
            query=WebhookQuery,
            response=Page[Webhook],
            commands=(
                Command(
                    columns=(*_COLUMNS, Column("enabled")),
                    nothing="There are no webhooks; `narthex webhooks create -h` shows how to make one.",
                    data="webhooks",
                ),
            ),
            handler=handlers.page,
        ),
        Operation(
            method="POST",
            path="/webhooks",
            id="create_webhook",
            tag=tag,
            summary="Have an address notified of budgets that reach a threshold",
            description="Thresholds that were reached before, in a present period, are notified, too, unless another webhook was.",
            permission="credentials:write",
            access="write",
            body=NewWebhook,
            response=CreatedWebhook,
            status=201,
            secret_response=True,
            errors={409: "There is such a webhook already.", **no_key},
            example={"name": "finance", "url": "https://finance.example.com/hooks/narthex", "thresholds": [80, 100]},
            commands=(
                Command(
                    summary="Create webhook NAME: URL is notified. Prints the secret that signs, once.",
                    help="URL is https, and its host has a public address, unless NARTHEX_WEBHOOK_NETWORKS allows others. Without"
                    " --threshold: 50, 80 and 100 %. Thresholds that were reached before, in a present period, are notified, too, unless"
                    " another webhook was.",
                    examples=(
                        "webhooks create finance https://finance.example.com/hooks/narthex",
                        "webhooks create pager https://pager.example.com/hook --threshold 100 --budget company",
                    ),
                    options={**_OPTIONS, "url": Option(is_argument=True)},
                    render="webhooks.created",
                ),
            ),
            handler=handlers.create,
        ),
        Operation(
            method="GET",
            path="/webhooks/{name}",
            id="get_webhook",
            tag=tag,
            summary="Show a webhook, without its secret",
            permission="config:read",
            response=Webhook,
            errors=missing,
            handler=handlers.show,
        ),
        Operation(
            method="PATCH",
            path="/webhooks/{name}",
            id="patch_webhook",
            tag=tag,
            summary="Change a webhook",
            description="A new secret signs what is sent from then on, also what is sent again.",
            permission="credentials:write",
            access="write",
            body=WebhookEdit,
            response=Webhook,
            conditional=True,
            errors={**missing, **no_key},
            example={"enabled": False},
            commands=(
                Command(
                    name="webhooks set",
                    summary="Change webhook NAME; what is not given stays.",
                    examples=("webhooks set finance --threshold 80 --threshold 100", "webhooks set finance --disable"),
                    options={
                        **_OPTIONS,
                        "url": Option(flag="--url", help="The new address."),
                        "budgets": Option(
                            flag="--budget", metavar="NAME", help=_BUDGET_HELP, constants={"--all-budgets": (None, "Of all budgets.")}
                        ),
                        "enabled": Option(flag="--enable/--disable", help="Whether anything is sent."),
                    },
                    done="{name} is changed.",
                ),
            ),
            handler=handlers.patch,
        ),
        Operation(
            method="DELETE",
            path="/webhooks/{name}",
            id="delete_webhook",
            tag=tag,
            summary="Delete a webhook, with its deliveries",
            permission="credentials:write",
            access="write",
            response=DeletedWebhook,
            conditional=True,
            errors=missing,
            commands=(
                Command(
                    name="webhooks remove",
                    summary="Remove webhook NAME, with its deliveries.",
                    confirm="Remove the webhook {name}?",
                    done="{name} is removed.",
                    only=("name",),
                ),
            ),
            handler=handlers.delete,
        ),
    ]
