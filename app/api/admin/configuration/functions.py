"""/admin/v1/functions: the functions of the configuration, and what they would send."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from app.api.rest.entry_operations import entry_operations
from app.api.rest.entry_resource import EntryResource
from app.api.rest.fields import Search
from app.api.rest.operation import Answer, Call, Operation
from app.domain.functions import FunctionConfig
from app.gateway.pipeline.gateway import Gateway
from app.gateway.routing.function_preview import FunctionPreview, PreviewDialect, prepare_preview
from app.store.configuration.entries import FUNCTIONS
from app.store.postgres.paging import After, Limit

_MAX_PREVIEW_BYTES = 256 * 1024
# Previews take turns with the large work of teams, as one more team.
_PREVIEWS = "previews"


class FunctionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"] = "name"
    search: Search | None = None


class PreviewQuery(Struct, frozen=True, forbid_unknown_fields=True):
    variant: Annotated[str | None, Meta(description="Null: the one that serves without an experiment.")] = None
    dialect: Annotated[PreviewDialect, Meta(description="The caller's API.")] = "openai_chat"


class PreviewRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A request to preview."""

    request: Annotated[
        dict[str, Any], Meta(description="As a caller sends it, without `model`; without messages there is a placeholder.")
    ] = {}


def operations(gateway: Gateway) -> list[Operation[Any, Any]]:
    functions = EntryResource(
        section=FUNCTIONS,
        noun="function",
        path="/functions",
        key_path="/{name}",
        tag="Functions",
        about="A function: a task that callers name instead of a model, and its variants.",
        query=FunctionQuery,
        conditions=lambda _: (),
        example={
            "variants": {"terse": {"model": "qwen3-4b", "system_template": "Answer {{ name }} in one sentence."}},
            "schemas": {"system": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
        },
        patch_example={"variants": {"terse": {"params": {"temperature": 0.2}}}},
        identified={"name": "answer"},
        gateway_settings=gateway.settings,
    )

    async def render(call: Call[PreviewQuery, PreviewRequest]) -> Answer:
        entry = await functions.find(call)
        function = msgspec.convert(entry.config, FunctionConfig)
        query = call.query
        prepared = prepare_preview(entry.key["name"], function, call.body.request, query.variant, query.dialect)
        return Answer(await prepared.render(gateway.large_requests.of_team(_PREVIEWS)))

    return [
        *entry_operations(functions),
        Operation(
            method="POST",
            path="/functions/{name}/render",
            id="render_function",
            tag="Functions",
            summary="Show what a function would send",
            description="Nothing is sent, and nothing is changed. Errors (400) are those that the request itself would get.",
            permission="config:read",
            query=PreviewQuery,
            body=PreviewRequest,
            body_is_optional=True,
            max_body_bytes=_MAX_PREVIEW_BYTES,
            response=FunctionPreview,
            errors={
                404: "There is no such function.",
                422: "To render its templates takes more processor time or memory than the gateway has for it.",
            },
            example={"request": {"narthex::input": {"system": {"name": "Ada"}}, "messages": [{"role": "user", "content": "Hello!"}]}},
            handler=render,
        ),
    ]
