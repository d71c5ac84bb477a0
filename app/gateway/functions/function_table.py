"""The functions of one configuration with their templates compiled, so that no request compiles one."""

from collections.abc import Mapping

from msgspec import Struct

from app.domain.functions import FunctionConfig, VariantConfig
from app.domain.snapshot import Plan, Snapshot
from app.gateway.functions.default_fields import DefaultField, default_fields
from app.process.thread_steps import in_steps
from app.templating.errors import TemplateFault
from app.templating.input_schema import InputSchema
from app.templating.templates import Templates, templates_of


class CompiledVariant(Struct, frozen=True):
    """A variant of a function, ready to be used."""

    name: str
    templates: Templates
    fields: Mapping[str, tuple[DefaultField, ...]]  # by dialect, what a request gets unless the caller set it


class CompiledFunction(Struct, frozen=True):
    """A function with its variants, ready to be used."""

    name: str
    config: FunctionConfig
    variants: Mapping[str, CompiledVariant]
    fault: str | None = None  # why it cannot serve, as after an update with narrower bounds; None if it can


class FunctionTable:
    """The compiled functions of a snapshot by name, swapped with it.

    It is built in steps; what `previous` has of an equal function is kept.
    """

    def __init__(self, snapshot: Snapshot | None = None, previous: "FunctionTable | None" = None) -> None:
        self.functions: Mapping[str, CompiledFunction] = {}
        if snapshot is not None:
            self.functions = {
                name: _keep_or_compile(None if previous is None else previous.functions.get(name), name, config)
                for name, config in in_steps(snapshot.functions.items())
            }

    def compiled(self, plan: Plan) -> CompiledFunction:
        """The function of a plan, as its own snapshot has it."""
        assert plan.function is not None
        config = plan.snapshot.functions[plan.function]
        return _keep_or_compile(self.functions.get(plan.function), plan.function, config)


def _keep_or_compile(known: CompiledFunction | None, name: str, config: FunctionConfig) -> CompiledFunction:
    return known if known is not None and known.config is config else compile_function(name, config)


def compile_function(name: str, config: FunctionConfig) -> CompiledFunction:
    try:
        schemas = {template: InputSchema(schema) for template, schema in config.schemas.items()}
        variants = {each: _compile_variant(each, variant, config, schemas) for each, variant in config.variants.items()}
    except TemplateFault as fault:
        return CompiledFunction(name, config, {}, fault.message)
    return CompiledFunction(name, config, variants)


def _compile_variant(name: str, variant: VariantConfig, function: FunctionConfig, schemas: Mapping[str, InputSchema]) -> CompiledVariant:
    return CompiledVariant(name, Templates(templates_of(variant), schemas), default_fields(function, variant))
