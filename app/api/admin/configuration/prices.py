"""Prices: /admin/v1/prices and /admin/v1/prices/{provider}/{model}/{since}, as [[prices]] of a configuration file."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.api.rest.entry_operations import entry_operations
from app.api.rest.entry_resource import EntryResource
from app.api.rest.fields import Name, Search
from app.api.rest.operation import Operation
from app.api.rest.settings_types import settings_type
from app.domain.prices import Price
from app.settings import Settings
from app.store.configuration.entries import PRICES, prices_with
from app.store.postgres.paging import After, Limit

# In a path, where a price that always applies has no day.
ALWAYS = "always"

_ModelName = Annotated[Name, Meta(description="The provider's own name of its model.")]
_Since = Annotated[str | None, Meta(description="The first day on which it applies (UTC), such as 2026-11-01; null: always.")]


class PriceSettings(settings_type(Price, ("provider", "model", "since")), frozen=True, kw_only=True):
    """Everything that can be set of a price, in US dollars for a million tokens. `input` and `output`, or `gpu`, are required.

    As the record of the configuration; what is not set is shown as null.
    """


class PriceQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["provider", "-provider", "model", "-model", "created_at", "-created_at", "updated_at", "-updated_at"] = "provider"
    search: Search | None = None
    provider: Annotated[str, Meta(description="Only of this provider.")] | None = None
    model: Annotated[str, Meta(description="Only of the provider's model of this name.")] | None = None


def _read_key(path: Mapping[str, str]) -> dict[str, str]:
    return {**path, "since": "" if path["since"] == ALWAYS else path["since"]}


def _write_key(key: Mapping[str, str]) -> list[str]:
    return [key["provider"], key["model"], key["since"] or ALWAYS]


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    return entry_operations(
        EntryResource(
            section=PRICES,
            noun="price",
            path="/prices",
            key_path="/{provider}/{model}/{since}",
            tag="Prices",
            own_settings=PriceSettings,
            about="The price of a provider's model. It applies from the day `since` (UTC) on, or always if that is null.",
            key={"provider": Name, "model": _ModelName, "since": _Since},
            query=PriceQuery,
            conditions=lambda query: prices_with(query.provider, query.model),
            example={"input": 0.15, "output": 0.6, "tiers": {"batch": 0.5}},
            patch_example={"output": 0.5, "tiers": {"batch": None}},
            identified={"provider": "gpu", "model": "Qwen/Qwen3-4B", "since": "2026-11-01"},
            read_key=_read_key,
            write_key=_write_key,
            gateway_settings=settings,
        )
    )
