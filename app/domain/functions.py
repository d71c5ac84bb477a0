"""Functions: tasks with variants, which are models with their prompts and parameters."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from app.domain.experiments import ExperimentConfig
from app.domain.routing import ShadowConfig, TimeoutConfig

# Names of requests may put this before a function's name, as MODEL_PREFIXES before a model's.
FUNCTION_PREFIXES = ("tensorzero::function_name::", "narthex::function_name::")


class VariantConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A model with its prompt and parameters: the section `[functions.NAME.variants.NAME]`. Templates are MiniJinja."""

    model: str
    system_template: str | None = None  # of messages with the role system, as the next two are of user and assistant
    user_template: str | None = None
    assistant_template: str | None = None
    templates: Mapping[str, str] = {}  # further ones, by the names that requests and other templates refer to them by
    params: Mapping[str, Any] = {}  # by their names in OpenAI's chat API, for requests that do not set them
    retries: int | None = None  # None: the model's
    timeouts: TimeoutConfig | None = None  # None: the model's


class FunctionTool(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A tool that every request to a function offers."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] = {}  # a JSON Schema
    strict: bool | None = None


class FunctionConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A task that callers name instead of a model, and its variants: the section `[functions.NAME]`."""

    variants: Mapping[str, VariantConfig]
    type: Literal["chat", "json"] = "chat"  # a function of type json answers with JSON of its `output_schema`
    description: str | None = None
    default: str | None = None  # the variant that serves without an experiment; None: the only one
    fallbacks: tuple[str, ...] = ()  # variants that are tried when the chosen one fails
    # JSON Schemas of what templates are rendered with, by "system", "user", "assistant" or a template's name
    schemas: Mapping[str, Mapping[str, Any]] = {}
    # as in OpenAI's chat API, for requests that do not set them; so are `tool_choice` and `parallel_tool_calls`
    tools: tuple[FunctionTool, ...] = ()
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    output_schema: Mapping[str, Any] | None = None
    experiment: ExperimentConfig | None = None
    shadow: ShadowConfig | None = None  # None: nothing is answered again
