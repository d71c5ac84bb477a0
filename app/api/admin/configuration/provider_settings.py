"""Settings of a provider, which the operations on providers and their check share."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from app.api.rest.fields import Drop
from providers.catalogue import ADAPTERS


class ProviderSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that can be set of a provider; what is left out gets its default."""

    adapter: Annotated[
        str, Meta(description="The kind of engine or host, such as openai or vllm.", extra_json_schema={"examples": sorted(ADAPTERS)})
    ]
    base_url: Annotated[str | None, Meta(description="Its address; null: the host's own.")] = None
    credential: Annotated[
        str | list[str] | None,
        Meta(description="Where its secret is, such as env:NAME or store:NAME; of several in rotation. Never the secret."),
    ] = None
    options: Annotated[dict[str, Any], Meta(description="Options of the adapter.")] = {}
    drop: Drop = ()
    accepts_nodes: Annotated[bool, Meta(description="Whether engines may register as its endpoints.")] = False
    trace: Annotated[bool | None, Meta(description="Whether it gets `traceparent`; null: if it is self-hosted.")] = None
