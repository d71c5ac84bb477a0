"""Variants of a function: a model with its templates and parameters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.domain.functions import VariantConfig
from app.imports.source_table import SourceTable
from app.imports.tensorzero.attempts import read_retries, read_timeouts
from app.imports.tensorzero.models import ModelReader
from app.imports.tensorzero.referenced_files import ReferencedFiles, Unreadable

_ROLES = ("system", "user", "assistant")
# Parameters, with the names of OpenAI's chat API.
_NUMBERS = ("temperature", "top_p", "max_tokens", "presence_penalty", "frequency_penalty", "seed")
_TEXTS = ("reasoning_effort", "service_tier", "verbosity")
_TYPES: Mapping[str, str] = {
    "experimental_best_of_n": "Responses are not chosen among several: its candidates are variants by themselves.",
    "experimental_best_of_n_sampling": "Responses are not chosen among several: its candidates are variants by themselves.",
    "experimental_mixture_of_n": "Responses are not made of several: its candidates are variants by themselves.",
    "experimental_dynamic_in_context_learning": "Examples are not looked up: put good ones into a template.",
    "experimental_chain_of_thought": "Reasoning is the model's own: `params` has its `reasoning_effort`.",
    "chain_of_thought": "Reasoning is the model's own: `params` has its `reasoning_effort`.",
}
_LEFT_OUT: Mapping[str, str] = {
    "extra_body": "Requests are not edited on their way; `params` of a variant may have any field of OpenAI's chat API.",
    "extra_headers": "Variants have no headers of their own; a provider's betas are in its options.",
    "input_wrappers": "Name it as a template of its role: `user_template`, `system_template` or `assistant_template`.",
}


class VariantReader:
    """Reads variants of functions. `base` is the folder of the templates that others include; None means that there is none."""

    def __init__(self, models: ModelReader, files: ReferencedFiles, base: Path | None) -> None:
        self._models, self._files, self._base = models, files, base

    def read(self, table: SourceTable, *, is_json: bool) -> VariantConfig | None:
        """Returns the variant, or None if it cannot be imported, which is then reported."""
        kind = table.text("type") or "chat_completion"
        if kind != "chat_completion":
            table.mark_read()
            table.report.leave_out(table.path, _TYPES.get(kind, "There is no such type of variant."))
            return None
        name = table.text("model")
        model = None if name is None else self._models.find(name, table, "model")
        if model is None:
            table.mark_read()
            table.report.leave_out(table.path_of("model"), "It is no model that was brought.")
            return None
        try:
            by_role, templates = self._read_templates(table)
        except Unreadable:
            table.mark_read()
            table.report.leave_out(table.path, "One of its templates cannot be read.")
            return None
        params = _read_params(table)
        mode = table.text("json_mode")
        if is_json and mode in ("off", "on", "tool"):
            table.report.changed(table.path_of("json_mode"), "The output is always demanded by its schema, and checked (docs/guided.md).")
        table.leave_all_out(_LEFT_OUT)
        return VariantConfig(
            model,
            system_template=by_role.get("system"),
            user_template=by_role.get("user"),
            assistant_template=by_role.get("assistant"),
            templates=templates,
            params=params,
            retries=read_retries(table),
            timeouts=read_timeouts(table),
        )

    def _read_templates(self, table: SourceTable) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Returns the templates of roles, and the other templates. Raises Unreadable."""
        found: dict[str, str] = {}
        included: dict[str, str] = {}
        named = [(name, each, "path") for name, each in table.named_tables("templates")]
        for name, each, key in (*((role, table, f"{role}_template") for role in _ROLES), *named):
            text = self._files.read_template(each, key)
            if text is not None:
                found[name] = text
                included |= self._files.read_included(text, self._base, each, each.path_of(key))
        for name in included.keys() & found.keys():
            if included[name] != found[name]:
                table.report.changed(table.path_of("templates"), f"Of two templates {name!r:.100} the included one is left out.")
        others = {name: text for name, text in found.items() if name not in _ROLES}
        return {role: found[role] for role in _ROLES if role in found}, {**included, **others}


def _read_params(table: SourceTable) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for key in _NUMBERS:
        number = table.number(key)
        if number is not None:
            params[key] = int(number) if isinstance(table.read(key), int) else number
    params |= {key: text for key in _TEXTS if (text := table.text(key)) is not None}
    if stops := table.texts("stop_sequences"):
        params["stop"] = stops
    budget = table.whole("thinking_budget_tokens")
    if budget is not None:
        params["thinking"] = {"type": "enabled", "budget_tokens": budget}
    return params
