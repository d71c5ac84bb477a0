"""Functions: tasks with variants, which are models with their prompts and parameters."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from app.domain.experiments import ExperimentConfig
from app.domain.routing import ShadowConfig, TimeoutConfig

# Names of requests may put this before a function's name, as MODEL_PREFIXES before a model's.
FUNCTION_PREFIXES = ("tensorzero::function_name::", "narthex::function_name::")


class VariantConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """`[functions.NAME.variants.NAME]`: a model with its prompt and parameters.

    Templates are MiniJinja. `system_template`, `user_template`, `assistant_template`: of messages of that role; `templates`: further ones,
    by the names that requests and other templates refer to them by. `params`: by their names in OpenAI's chat API, for requests that do not
    set them. `retries`, `timeouts`: None: the model's.
    """

    model: str
    system_template: str | None = None
    user_template: str | None = None
    assistant_template: str | None = None
    templates: Mapping[str, str] = {}
    params: Mapping[str, Any] = {}
    retries: int | None = None
    timeouts: TimeoutConfig | None = None


class FunctionTool(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A tool that every request to a function offers. `parameters`: a JSON Schema."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] = {}
    strict: bool | None = None


class FunctionConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """`[functions.NAME]`: a task that callers name instead of a model, and its variants.

    `type`: a function of type json answers with JSON of its `output_schema`. `default`: the variant that serves without an experiment;
    None: the only one. `fallbacks`: variants that are tried when the chosen one fails. `schemas`: JSON Schemas of what templates are
    rendered with, by "system", "user", "assistant" or a template's name. `tools`, `tool_choice` and `parallel_tool_calls` as in OpenAI's
    chat API, for requests that do not set them. `shadow`: None: nothing is answered again.
    """

    variants: Mapping[str, VariantConfig]
    type: Literal["chat", "json"] = "chat"
    description: str | None = None
    default: str | None = None
    fallbacks: tuple[str, ...] = ()
    schemas: Mapping[str, Mapping[str, Any]] = {}
    tools: tuple[FunctionTool, ...] = ()
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    output_schema: Mapping[str, Any] | None = None
    experiment: ExperimentConfig | None = None
    shadow: ShadowConfig | None = None
