"""Reads the sections `[functions.NAME]`, with the tools that they use."""

import contextlib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from app.domain.errors import BadConfiguration
from app.domain.functions import FunctionConfig, FunctionTool, VariantConfig
from app.imports.draft import Draft
from app.imports.source_table import SourceTable
from app.imports.tensorzero.experiments import choose_variants, read_weights
from app.imports.tensorzero.referenced_files import ReferencedFiles, Unreadable
from app.imports.tensorzero.schemas import without_nulls
from app.imports.tensorzero.variants import VariantReader
from app.store.configuration.validation.functions import check_templates

_ROLES = ("system", "user", "assistant")


class _FunctionSource(Struct, frozen=True):
    """A function as it was read."""

    name: str
    table: SourceTable
    bare: FunctionConfig  # without what depends on its variants
    variants: Mapping[str, VariantConfig | None]  # None: one that cannot be brought
    variant_paths: Mapping[str, str]
    weights: Mapping[str, float]

    def alone(self, variant: str, config: VariantConfig) -> FunctionConfig:
        """The function with one of its variants, so that one that is refused does not take the others with it."""
        return replace(self.bare, variants={variant: config})


class FunctionReader:
    """Makes the functions of a draft."""

    def __init__(self, draft: Draft, files: ReferencedFiles, variants: VariantReader) -> None:
        self._draft, self._files, self._variants = draft, files, variants
        self._tools: Mapping[str, SourceTable] = {}
        self._used_tools: set[str] = set()

    def read_all(self, config: SourceTable) -> None:
        self._tools = dict(config.named_tables("tools"))
        sources = [source for name, table in config.named_tables("functions") if (source := self._read(name, table)) is not None]
        _check_all_templates(sources)
        for source in sources:
            self._add(source)
        for name, table in self._tools.items():
            if name not in self._used_tools:
                table.mark_read()
                table.report.leave_out(table.path, "No function that was brought uses it: tools belong to functions.")

    def _read(self, name: str, table: SourceTable) -> _FunctionSource | None:
        """Returns the function, or None if it cannot be imported, which is then reported."""
        kind = table.text("type") or "chat"
        reason = None
        if kind != "json" and kind != "chat":
            reason = "Functions are of type chat or json."
        elif name in self._draft.models:
            reason = f"There is a model {name!r:.100}, and requests name both in `model`: rename one of them."
        else:
            try:
                return self._read_parts(name, table, is_json=kind == "json")
            except Unreadable:
                reason = "One of its schemas, or of those of its tools, cannot be read."
        table.mark_read()
        table.report.leave_out(table.path, reason)
        return None

    def _read_parts(self, name: str, table: SourceTable, *, is_json: bool) -> _FunctionSource:
        """Raises Unreadable."""
        tools = self._read_tools(table)
        choice = _read_tool_choice(table)
        parallel = table.flag("parallel_tool_calls")
        if not tools and (choice not in (None, "auto", "none") or parallel is not None):
            table.report.leave_out(table.path, "`tool_choice` and `parallel_tool_calls` are for functions with tools.")
        bare = FunctionConfig(
            {},
            type="json" if is_json else "chat",
            description=table.text("description"),
            schemas=self._read_schemas(table),
            tools=tools,
            tool_choice=choice if tools else None,
            parallel_tool_calls=parallel if tools else None,
            output_schema=(self._read_schema(table, "output_schema") or {}) if is_json else None,
        )
        tables = dict(table.named_tables("variants"))
        weights = read_weights(tables)
        variants = {key: self._variants.read(each, is_json=is_json) for key, each in tables.items()}
        table.leave_out("evaluators", "Responses are not evaluated here: send scores as feedback on a metric (docs/migrating.md).")
        return _FunctionSource(name, table, bare, variants, {key: each.path for key, each in tables.items()}, weights)

    def _add(self, source: _FunctionSource) -> None:
        table = source.table
        variants = {
            key: config
            for key, config in source.variants.items()
            if config is not None and self._draft.accepts_function(source.name, source.alone(key, config), source.variant_paths[key])
        }
        if not variants:
            table.mark_read()
            table.report.leave_out(table.path, "None of its variants was brought.")
            return
        choice = choose_variants(table, tuple(variants), source.weights, source.variants.keys() - variants.keys())
        config = replace(source.bare, variants=variants, default=choice.default, fallbacks=choice.fallbacks, experiment=choice.experiment)
        self._draft.add_function(source.name, config, table.path)

    def _read_schemas(self, table: SourceTable) -> dict[str, dict[str, Any]]:
        schemas = {role: schema for role in _ROLES if (schema := self._read_schema(table, f"{role}_schema")) is not None}
        for name, each in table.named_tables("schemas"):
            schema = self._read_schema(each, "path")
            if schema is not None:
                schemas[name] = schema
        return schemas

    def _read_tools(self, table: SourceTable) -> tuple[FunctionTool, ...]:
        tools: dict[str, FunctionTool] = {}
        for name in dict.fromkeys(table.texts("tools")):
            tool = self._tools.get(name)
            if tool is None:
                table.report.leave_out(table.path_of("tools"), f"There is no tool {name!r:.100}.")
                continue
            parameters = self._read_schema(tool, "parameters") or {}
            tools[name] = FunctionTool(tool.text("name") or name, tool.text("description"), parameters, tool.flag("strict"))
        self._used_tools.update(tools)
        return tuple(tools.values())

    def _read_schema(self, table: SourceTable, key: str) -> dict[str, Any] | None:
        schema = self._files.read_json(table, key)
        return None if schema is None else without_nulls(schema, table, key)


def _check_all_templates(sources: list[_FunctionSource]) -> None:
    """Checks all templates at once: each check of templates that are not known yet starts a process.

    What is wrong with one is reported when it is added.
    """
    with contextlib.suppress(BadConfiguration):
        check_templates(
            {
                source.variant_paths[key]: source.alone(key, config)
                for source in sources
                for key, config in source.variants.items()
                if config is not None
            }
        )


def _read_tool_choice(table: SourceTable) -> str | None:
    """The name of a tool, where only that may be called."""
    if isinstance(table.read("tool_choice"), dict):
        return table.table("tool_choice").text("specific")
    return table.text("tool_choice")
