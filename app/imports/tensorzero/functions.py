"""`[functions.NAME]`, with the tools that they use."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from app.domain import FunctionConfig, FunctionTool, VariantConfig
from app.imports.draft import Draft
from app.imports.source_table import SourceTable
from app.imports.tensorzero.experiments import choose_variants, read_weights
from app.imports.tensorzero.referenced_files import ReferencedFiles, Unreadable
from app.imports.tensorzero.schemas import without_nulls
from app.imports.tensorzero.variants import VariantReader

_ROLES = ("system", "user", "assistant")


class FunctionReader:
    """Makes the functions of a draft."""

    def __init__(self, draft: Draft, files: ReferencedFiles, variants: VariantReader) -> None:
        self._draft, self._files, self._variants = draft, files, variants

    def read_all(self, config: SourceTable) -> None:
        tools = dict(config.named_tables("tools"))
        used: set[str] = set()
        for name, table in config.named_tables("functions"):
            try:
                self._read(name, table, tools, used)
            except Unreadable:
                table.mark_read()
                table.report.leave_out(table.path, "One of its schemas, or of those of its tools, cannot be read.")
        for name, table in tools.items():
            if name not in used:
                table.mark_read()
                table.report.leave_out(table.path, "No function that was brought uses it: tools belong to functions.")

    def _read(self, name: str, table: SourceTable, all_tools: Mapping[str, SourceTable], used: set[str]) -> None:
        """Raises Unreadable."""
        is_json = table.text("type") == "json"
        if not is_json and table.text("type") not in (None, "chat"):
            table.mark_read()
            table.report.leave_out(table.path, "Functions are of type chat or json.")
            return
        if name in self._draft.models:
            table.mark_read()
            table.report.leave_out(table.path, f"There is a model {name!r:.100}, and requests name both in `model`: rename one of them.")
            return
        output_schema = (self._read_schema(table, "output_schema") or {}) if is_json else None
        schemas = self._read_schemas(table)
        variant_tables = dict(table.named_tables("variants"))
        weights = read_weights(variant_tables)
        read = {key: self._variants.read(each, is_json=is_json) for key, each in variant_tables.items()}
        # Each by itself, so that one that is refused does not take the others with it.
        bare = FunctionConfig({}, type="json" if is_json else "chat", schemas=schemas, output_schema=output_schema)
        variants: dict[str, VariantConfig] = {
            key: each
            for key, each in read.items()
            if each is not None and self._draft.accepts_function(name, replace(bare, variants={key: each}), variant_tables[key].path)
        }
        table.leave_out("evaluators", "Responses are not evaluated here: send scores as feedback on a metric (docs/migrating.md).")
        if not variants:
            table.mark_read()
            table.report.leave_out(table.path, "None of its variants was brought.")
            return
        tools = self._read_tools(table, all_tools)
        choice = choose_variants(table, tuple(variants), weights, read.keys() - variants.keys())
        config = FunctionConfig(
            variants,
            type=bare.type,
            description=table.text("description"),
            default=choice.default,
            fallbacks=choice.fallbacks,
            schemas=schemas,
            tools=tuple(tools.values()),
            tool_choice=_read_tool_choice(table),
            parallel_tool_calls=table.flag("parallel_tool_calls"),
            output_schema=output_schema,
            experiment=choice.experiment,
        )
        used.update(tools)
        self._draft.add_function(name, config, table.path)

    def _read_schemas(self, table: SourceTable) -> dict[str, dict[str, Any]]:
        schemas = {role: schema for role in _ROLES if (schema := self._read_schema(table, f"{role}_schema")) is not None}
        for name, each in table.named_tables("schemas"):
            schema = self._read_schema(each, "path")
            if schema is not None:
                schemas[name] = schema
        return schemas

    def _read_tools(self, table: SourceTable, all_tools: Mapping[str, SourceTable]) -> dict[str, FunctionTool]:
        tools: dict[str, FunctionTool] = {}
        for name in dict.fromkeys(table.texts("tools")):
            tool = all_tools.get(name)
            if tool is None:
                table.report.leave_out(table.path_of("tools"), f"There is no tool {name!r:.100}.")
                continue
            parameters = self._read_schema(tool, "parameters") or {}
            tools[name] = FunctionTool(tool.text("name") or name, tool.text("description"), parameters, tool.flag("strict"))
        return tools

    def _read_schema(self, table: SourceTable, key: str) -> dict[str, Any] | None:
        schema = self._files.read_json(table, key)
        return None if schema is None else without_nulls(schema, table, key)


def _read_tool_choice(table: SourceTable) -> str | None:
    """The name of a tool, where only that may be called."""
    if isinstance(table.read("tool_choice"), dict):
        return table.table("tool_choice").text("specific")
    return table.text("tool_choice")
