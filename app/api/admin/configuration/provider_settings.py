"""Settings of a provider, which the operations on providers and their check share."""

from typing import Annotated

from msgspec import Meta

from app.api.rest.settings_types import settings_type
from app.domain.routing import Adapter, ProviderConfig
from providers.catalogue import ADAPTERS


class ProviderSettings(settings_type(ProviderConfig), frozen=True, kw_only=True):
    """Everything that can be set of a provider; what is left out gets its default."""

    adapter: Annotated[Adapter, Meta(extra_json_schema={"examples": sorted(ADAPTERS)})]
