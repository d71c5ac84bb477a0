"""Fallbacks between models, in general and by reason."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from app.domain.routing import USUAL_REASONS, FallbackReason
from app.imports.draft import Draft
from app.imports.source_table import SourceTable

_KEYS: Mapping[str, tuple[FallbackReason, ...]] = {
    "fallbacks": USUAL_REASONS,
    "context_window_fallbacks": ("context_length",),
    "content_policy_fallbacks": ("content_refused",),
}
_ANY = "*"
# One request makes fewer attempts than this.
_MAX_FALLBACKS = 50


class Fallbacks:
    """The models to fall back to, by reasons and model. Of several sections with a list, the first one decides on it."""

    def __init__(self, sections: Sequence[SourceTable], ids: Mapping[str, str]) -> None:
        """Reads the lists. `ids` leads from LiteLLM's ids of single entries to the models that these belong to."""
        self._ids = ids
        self._lists = {key: self._read_first(sections, key) for key in _KEYS}
        self._default_path, self._defaults = self._read_defaults(sections)

    def apply(self, draft: Draft, aliases: Mapping[str, str]) -> None:
        """Gives the models of the draft their fallbacks. `aliases` are names that stand for other models, and have their fallbacks."""
        for name, config in tuple(draft.models.items()):
            reasons: dict[str, list[FallbackReason]] = {}
            path = ""
            for key, (list_path, by_model) in self._lists.items():
                own_path, fallbacks = by_model.get(name) or by_model.get(aliases.get(name, name)) or by_model.get(_ANY) or (list_path, ())
                if key == "fallbacks" and not fallbacks:
                    own_path, fallbacks = self._default_path, self._defaults
                for fallback in fallbacks:
                    if aliases.get(fallback, fallback) == aliases.get(name, name):
                        continue
                    if fallback not in draft.models:
                        draft.report.leave_out(own_path, self._explain_missing(fallback))
                        continue
                    if fallback not in reasons and len(reasons) == _MAX_FALLBACKS:
                        draft.report.leave_out(own_path, f"A model has at most {_MAX_FALLBACKS} fallbacks: further ones are left out.")
                        break
                    path = own_path
                    reasons.setdefault(fallback, []).extend(each for each in self._reasons(key) if each not in reasons[fallback])
            if reasons:
                fallback_on = {each: tuple(of_it) for each, of_it in reasons.items() if tuple(of_it) != USUAL_REASONS}
                draft.replace_model(name, replace(config, fallbacks=tuple(reasons), fallback_on=fallback_on), path)

    def _reasons(self, key: str) -> tuple[FallbackReason, ...]:
        """Returns the reasons that a list is for.

        As in LiteLLM, the general fallbacks also serve for the reasons of lists that are not configured.
        """
        if key != "fallbacks":
            return _KEYS[key]
        unlisted: list[FallbackReason] = []
        for other, of_it in _KEYS.items():
            if other != key and not self._lists[other][1]:
                unlisted.extend(of_it)
        return (*USUAL_REASONS, *unlisted)

    def _explain_missing(self, fallback: str) -> str:
        if fallback in self._ids:
            return f"Fallbacks are models, not single entries: give the entry with the id {fallback!r:.60} a model_name of its own."
        return f"The fallback {fallback!r:.100} is no model that was brought."

    def _read_first(self, sections: Sequence[SourceTable], key: str) -> tuple[str, dict[str, tuple[str, tuple[str, ...]]]]:
        """The path of the list, and by model the path of its entry and its fallbacks."""
        found: tuple[str, dict[str, tuple[str, tuple[str, ...]]]] = "", {}
        for section in sections:
            by_model = dict(_read_list(section, key))
            if by_model and not found[1]:
                found = section.path_of(key), by_model
            elif by_model:
                section.report.leave_out(section.path_of(key), "Another section has this list too, which counts before this one.")
        return found

    def _read_defaults(self, sections: Sequence[SourceTable]) -> tuple[str, Sequence[str]]:
        for section in sections:
            if "default_fallbacks" in section:
                return section.path_of("default_fallbacks"), section.texts("default_fallbacks")
        return "", ()


def _read_list(section: SourceTable, key: str) -> Iterator[tuple[str, tuple[str, tuple[str, ...]]]]:
    for table in section.tables(key):
        for name in table.keys:
            path = table.path_of(name)
            values: Any = table.read(name)
            named = tuple(each for each in cast("list[Any]", values) if isinstance(each, str)) if isinstance(values, list) else ()
            if not isinstance(values, list) or len(named) < len(cast("list[Any]", values)):
                section.report.leave_out(path, "Fallbacks are names of models; messages and parameters of their own they cannot have.")
            yield name, (path, named)
