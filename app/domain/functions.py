"""Functions: tasks with variants, which are models with their prompts and parameters."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.domain.experiments import ExperimentConfig
from app.domain.routing import Retries, ShadowConfig, TimeoutConfig

# Names of requests may put this before a function's name, as MODEL_PREFIXES before a model's.
FUNCTION_PREFIXES = ("tensorzero::function_name::", "narthex::function_name::")


class VariantConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A model with its prompt and parameters."""

    model: Annotated[str, Meta(description="A model of the configuration.")]
    system_template: Annotated[str | None, Meta(description="MiniJinja; null: the caller's system message goes as it is.")] = None
    user_template: Annotated[str | None, Meta(description="MiniJinja, for every user message.")] = None
    assistant_template: Annotated[str | None, Meta(description="MiniJinja, for every assistant message.")] = None
    templates: Annotated[Mapping[str, str], Meta(description="By name: for blocks of messages, and to be included by others.")] = {}
    params: Annotated[Mapping[str, Any], Meta(description="By OpenAI's names; for requests that do not set them.")] = {}
    retries: Retries = None  # None: the model's, as of the next one
    timeouts: TimeoutConfig | None = None


class FunctionTool(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A tool that requests to the function offer."""

    name: str
    description: str | None = None
    parameters: Annotated[Mapping[str, Any], Meta(description="A JSON Schema.")] = {}
    strict: bool | None = None


class FunctionConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A task that callers name instead of a model, and its variants: the section `[functions.NAME]`."""

    variants: Annotated[Mapping[str, VariantConfig], Meta(description="By name, 1 to 100.")]
    type: Annotated[Literal["chat", "json"], Meta(description="json: the response is held to `output_schema`.")] = "chat"
    description: str | None = None
    default: Annotated[str | None, Meta(description="The variant that serves without an experiment; null: the only one.")] = None
    fallbacks: Annotated[tuple[str, ...], Meta(description="Variants that are tried when the chosen one fails.")] = ()
    schemas: Annotated[
        Mapping[str, Mapping[str, Any]],
        Meta(description="JSON Schemas of what templates are rendered with: system, user, assistant, or a name."),
    ] = {}
    # as in OpenAI's chat API, as are `tool_choice` and `parallel_tool_calls`
    tools: Annotated[tuple[FunctionTool, ...], Meta(description="For requests that offer none.")] = ()
    tool_choice: Annotated[str | None, Meta(description="auto, none, required, or the name of a tool.")] = None
    parallel_tool_calls: Annotated[bool | None, Meta(description="Whether it may call several tools at once.")] = None
    output_schema: Annotated[Mapping[str, Any] | None, Meta(description="Of a function of type json.")] = None
    experiment: Annotated[ExperimentConfig | None, Meta(description="Which variants serve.")] = None
    shadow: Annotated[ShadowConfig | None, Meta(description="Which variant answers a share of its requests again, unseen.")] = None
