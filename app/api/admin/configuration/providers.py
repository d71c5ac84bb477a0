"""Providers: /admin/v1/providers and /admin/v1/providers/{name}, as [providers.NAME] of a configuration file."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.api.admin.configuration import provider_test
from app.api.rest.entry_operations import entry_operations
from app.api.rest.entry_resource import EntryResource
from app.api.rest.fields import Name, Search
from app.api.rest.operation import Operation
from app.domain.callers import DroppableFields
from app.gateway.pipeline.gateway import Gateway
from app.settings import Settings
from app.store.configuration.entries import PROVIDERS, providers_with
from app.store.postgres.paging import After, Limit

Drop = Annotated[
    DroppableFields, Meta(description='Fields that may be left out where a target cannot honour them: "all", or a list of names.')
]


class ProviderSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that can be set of a provider; what is left out gets its default."""

    adapter: Annotated[str, Meta(description="The kind of engine or host, such as openai or vllm.")]
    base_url: Annotated[str | None, Meta(description="Its address; null: the host's own.")] = None
    credential: Annotated[
        str | list[str] | None,
        Meta(description="Where its secret is, such as env:NAME or store:NAME; of several in rotation. Never the secret."),
    ] = None
    options: Annotated[dict[str, Any], Meta(description="Options of the adapter.")] = {}
    drop: Drop = ()
    accepts_nodes: Annotated[bool, Meta(description="Whether engines may register as its endpoints.")] = False
    trace: Annotated[bool | None, Meta(description="Whether it gets `traceparent`; null: if it is self-hosted.")] = None


class NewProvider(ProviderSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A provider to create."""

    name: Name


class ProviderEntry(ProviderSettings, frozen=True, kw_only=True):
    """A provider."""

    name: str
    created_at: str
    updated_at: str


class ProviderQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"] = "name"
    search: Search | None = None
    adapter: Annotated[str, Meta(description="Only with this adapter.")] | None = None


def operations(gateway: Gateway) -> list[Operation[Any, Any]]:
    return [*_entries(gateway.settings), *provider_test.operations(gateway)]


def _entries(settings: Settings) -> list[Operation[Any, Any]]:
    return entry_operations(
        EntryResource(
            section=PROVIDERS,
            noun="provider",
            path="/providers",
            key_path="/{name}",
            tag="Providers",
            settings=ProviderSettings,
            new=NewProvider,
            shown=ProviderEntry,
            query=ProviderQuery,
            conditions=lambda query: providers_with(query.adapter),
            example={"adapter": "vllm", "base_url": "http://10.0.0.5:8000", "credential": "env:GPU_KEY"},
            patch_example={"base_url": "http://10.0.0.6:8000", "credential": None},
            identified={"name": "gpu"},
            gateway_settings=settings,
        )
    )
