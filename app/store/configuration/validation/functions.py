"""Validation of functions and their variants."""

import re
from collections.abc import Mapping
from typing import Any, cast

from app.domain.errors import BadConfiguration
from app.domain.functions import FunctionConfig, VariantConfig
from app.domain.snapshot import Snapshot
from app.process.thread_steps import in_steps
from app.store.configuration.validation.experiments import check_experiment, check_has_targets
from app.templating.errors import TemplateFault
from app.templating.templates import ROLES, templates_of
from app.templating.vetting import TemplateSet, vet

_MAX_VARIANTS = 100
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TEMPLATE_NAME = re.compile(r"[A-Za-z0-9_./-]{1,100}")
# What a request is about, how it is answered, and what the function itself sets.
_RESERVED_PARAMS = frozenset(
    {
        *("model", "messages", "prompt", "input", "instructions", "system", "stream", "stream_options", "n", "user", "metadata", "store"),
        *("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "previous_response_id", "episode_id"),
    }
)


def check_function(name: str, function: FunctionConfig, wanted: Snapshot) -> None:
    """Raises BadConfiguration for the first error."""
    path, variants = f"functions.{name}", function.variants
    if name in wanted.models:
        raise BadConfiguration(f"{path}: there is a model {name!r}, and requests name both in `model`. Rename one of them.")
    if not 1 <= len(variants) <= _MAX_VARIANTS:
        raise BadConfiguration(f"{path}.variants: a function has 1 to {_MAX_VARIANTS} variants, not {len(variants)}.")
    for variant_name, variant in variants.items():
        if variant.model not in wanted.models:
            raise BadConfiguration(f"{path}.variants.{variant_name}.model: there is no model {variant.model!r:.100}.")
        check_has_targets(f"{path}.variants.{variant_name}.model", variant.model, wanted.models)
    if function.default is not None and function.default not in variants:
        raise BadConfiguration(f"{path}.default: {function.default!r:.100} is not one of its variants: {', '.join(sorted(variants))}.")
    if function.default is None and function.experiment is None and len(variants) > 1:
        raise BadConfiguration(f"{path}.default is required: it has several variants, and no experiment that chooses one.")
    for fallback in function.fallbacks:
        if fallback not in variants:
            raise BadConfiguration(f"{path}.fallbacks: {fallback!r:.100} is not one of its variants: {', '.join(sorted(variants))}.")
    if len(set(function.fallbacks)) < len(function.fallbacks):
        raise BadConfiguration(f"{path}.fallbacks names one twice.")
    if function.type == "json" and function.output_schema is None:
        raise BadConfiguration(f"{path}.output_schema is required: a function of type json answers with JSON of that schema.")
    if function.type == "chat" and function.output_schema is not None:
        raise BadConfiguration(f'{path}.output_schema is only for a function of type "json".')
    if function.experiment is not None:
        check_experiment(f"{path}.experiment", function.experiment, variants, function.default)
    _check_tools(path, function)
    for variant_name, variant in variants.items():
        _check_variant(f"{path}.variants.{variant_name}", variant)
    values = {
        "output_schema": function.output_schema,
        "schemas": function.schemas,
        "tools": {tool.name: tool.parameters for tool in function.tools},
        **{f"variants.{variant_name}.params": variant.params for variant_name, variant in variants.items()},
    }
    for field, value in values.items():
        if value is not None:
            _check_storable(f"{path}.{field}", value)


def check_templates(functions: Mapping[str, FunctionConfig]) -> None:
    """Raises BadConfiguration for the first template or schema that is wrong. Blocks: it starts a process for those it does not know."""
    places: list[tuple[str, VariantConfig]] = []
    sets: list[TemplateSet] = []
    for name, function in in_steps(functions.items()):
        tool_schemas = {f"tools.{tool.name}.parameters": tool.parameters for tool in function.tools}
        output_schema = {} if function.output_schema is None else {"output_schema": function.output_schema}
        for variant_name, variant in function.variants.items():
            templates = TemplateSet(templates_of(variant), function.schemas, {**tool_schemas, **output_schema})
            if templates.sources or templates.schemas or templates.other_schemas:
                sets.append(templates)
                places.append((f"functions.{name}.variants.{variant_name}", variant))
    try:
        verdicts = vet(sets) if sets else []
    except TemplateFault as fault:
        raise BadConfiguration(f"functions: {fault.message}.") from None
    for (path, variant), verdict in zip(places, verdicts, strict=True):
        if verdict.message:
            line = "" if verdict.line is None else f", line {verdict.line}"
            raise BadConfiguration(f"{_path_of(path, variant, verdict.place)}{line}: {verdict.message}.")


def _path_of(path: str, variant: VariantConfig, place: str) -> str:
    if place in ROLES:
        return f"{path}.{place}_template"
    if place in variant.templates:
        return f"{path}.templates.{place}"
    return f"{path.partition('.variants.')[0]}.{place}" if place else path


def _check_variant(path: str, variant: VariantConfig) -> None:
    for name in variant.templates:
        if name in ROLES or not _TEMPLATE_NAME.fullmatch(name):
            raise BadConfiguration(
                f"{path}.templates.{name!r:.100}: the name of a template has 1 to 100 letters, digits, _, -, . or /, and is none of"
                f" {', '.join(ROLES)}, which are {', '.join(f'{role}_template' for role in ROLES)}."
            )
    for name in variant.params:
        if name in _RESERVED_PARAMS or "::" in name:
            raise BadConfiguration(
                f"{path}.params.{name:.100}: this is not for a variant to set: it belongs to the request or the function."
            )


def _check_tools(path: str, function: FunctionConfig) -> None:
    names = [tool.name for tool in function.tools]
    for name in names:
        if not _TOOL_NAME.fullmatch(name):
            raise BadConfiguration(f"{path}.tools: {name!r:.100} is not a name of a tool: 1 to 64 letters, digits, _ or -.")
    if len(set(names)) < len(names):
        raise BadConfiguration(f"{path}.tools names one twice.")
    choice = function.tool_choice
    if choice is not None and choice not in ("auto", "none", "required", *names):
        raise BadConfiguration(f"{path}.tool_choice: {choice!r:.100} is not auto, none, required or one of its tools: {', '.join(names)}.")
    if not names and (choice is not None or function.parallel_tool_calls is not None):
        raise BadConfiguration(f"{path}.{'parallel_tool_calls' if choice is None else 'tool_choice'} is only for a function with tools.")


def _check_storable(path: str, value: object) -> None:
    """Raises BadConfiguration for what Postgres or a file of TOML cannot hold, deep inside a value of JSON."""
    match value:
        case None:
            raise BadConfiguration(f"{path}: a null cannot be written in a configuration file. Leave the field out.")
        case str() if "\0" in value:
            raise BadConfiguration(f"{path}: a NUL character cannot be stored.")
        case dict():
            for key, each in cast("Mapping[str, Any]", value).items():
                _check_storable(path, key)
                _check_storable(f"{path}.{key:.50}", each)
        case list() | tuple():
            for at, each in enumerate(cast("list[Any]", value)):
                _check_storable(f"{path}[{at}]", each)
        case _:
            return
