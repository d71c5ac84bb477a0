"""Providers: /admin/v1/providers and /admin/v1/providers/{name}, as [providers.NAME] of a configuration file."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.api.admin.configuration import provider_test
from app.api.admin.configuration.provider_settings import ProviderSettings
from app.api.rest.entry_operations import entry_operations
from app.api.rest.entry_resource import EntryResource
from app.api.rest.fields import Search
from app.api.rest.operation import Operation
from app.gateway.pipeline.gateway import Gateway
from app.settings import Settings
from app.store.configuration.entries import PROVIDERS, providers_with
from app.store.postgres.paging import After, Limit


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
            own_settings=ProviderSettings,
            about="A provider.",
            query=ProviderQuery,
            conditions=lambda query: providers_with(query.adapter),
            example={"adapter": "vllm", "base_url": "http://10.0.0.5:8000", "credential": "env:GPU_KEY"},
            patch_example={"base_url": "http://10.0.0.6:8000", "credential": None},
            identified={"name": "gpu"},
            gateway_settings=settings,
        )
    )
