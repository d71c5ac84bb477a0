"""Validation of functions and their variants."""

from collections.abc import Mapping
from typing import Any, cast

from app.domain import FunctionConfig, Snapshot
from app.store.errors import BadConfiguration
from app.store.experiment_validation import check_experiment

_MAX_VARIANTS = 100


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
    values = {
        "output_schema": function.output_schema,
        "schemas": function.schemas,
        "tools": {tool.name: tool.parameters for tool in function.tools},
        **{f"variants.{variant_name}.params": variant.params for variant_name, variant in variants.items()},
    }
    for field, value in values.items():
        if value is not None:
            _check_storable(f"{path}.{field}", value)


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
