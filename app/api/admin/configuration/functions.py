"""/admin/v1/functions: the functions of the configuration, and what they would send."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from app.api.admin.configuration.models import Retries, TimeoutSettings
from app.api.admin.configuration.shadow_settings import ShadowSettings
from app.api.admin.experiments.experiment_settings import ExperimentSettings
from app.api.rest.entry_operations import entry_operations
from app.api.rest.entry_resource import EntryResource
from app.api.rest.fields import Name, Search
from app.api.rest.operation import Answer, Call, Operation
from app.domain.functions import FunctionConfig
from app.gateway.pipeline.gateway import Gateway
from app.gateway.routing.function_preview import FunctionPreview, PreviewDialect, prepare_preview
from app.store.configuration.entries import FUNCTIONS
from app.store.postgres.paging import After, Limit

_MAX_PREVIEW_BYTES = 256 * 1024
# Previews take turns with the large work of teams, as one more team.
_PREVIEWS = "previews"


class VariantSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A model with its prompt and parameters."""

    model: Annotated[str, Meta(description="A model of the configuration.")]
    system_template: Annotated[str | None, Meta(description="MiniJinja; null: the caller's system message goes as it is.")] = None
    user_template: Annotated[str | None, Meta(description="MiniJinja, for every user message.")] = None
    assistant_template: Annotated[str | None, Meta(description="MiniJinja, for every assistant message.")] = None
    templates: Annotated[dict[str, str], Meta(description="By name: for blocks of messages, and to be included by others.")] = {}
    params: Annotated[dict[str, Any], Meta(description="By OpenAI's names; for requests that do not set them.")] = {}
    retries: Retries = None
    timeouts: TimeoutSettings | None = None


class FunctionToolSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A tool that requests to the function offer."""

    name: str
    description: str | None = None
    parameters: Annotated[dict[str, Any], Meta(description="A JSON Schema.")] = {}
    strict: bool | None = None


class FunctionSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that can be set of a function; what is left out gets its default."""

    variants: Annotated[dict[str, VariantSettings], Meta(description="By name, 1 to 100.")]
    type: Annotated[Literal["chat", "json"], Meta(description="json: the response is held to `output_schema`.")] = "chat"
    description: str | None = None
    default: Annotated[str | None, Meta(description="The variant that serves without an experiment; null: the only one.")] = None
    fallbacks: Annotated[list[str], Meta(description="Variants that are tried when the chosen one fails.")] = []
    schemas: Annotated[
        dict[str, dict[str, Any]], Meta(description="JSON Schemas of what templates are rendered with: system, user, assistant, or a name.")
    ] = {}
    tools: Annotated[list[FunctionToolSettings], Meta(description="For requests that offer none.")] = []
    tool_choice: Annotated[str | None, Meta(description="auto, none, required, or the name of a tool.")] = None
    parallel_tool_calls: Annotated[bool | None, Meta(description="Whether it may call several tools at once.")] = None
    output_schema: Annotated[dict[str, Any] | None, Meta(description="Of a function of type json.")] = None
    experiment: Annotated[ExperimentSettings | None, Meta(description="Which variants serve.")] = None
    shadow: Annotated[ShadowSettings | None, Meta(description="Which variant answers a share of its requests again, unseen.")] = None


class NewFunction(FunctionSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A function to create."""

    name: Name


class FunctionEntry(FunctionSettings, frozen=True, kw_only=True):
    """A function: a task that callers name instead of a model, and its variants."""

    name: str
    created_at: str
    updated_at: str


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
        settings=FunctionSettings,
        new=NewFunction,
        shown=FunctionEntry,
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
