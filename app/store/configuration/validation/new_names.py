"""Names that are new: each must be one that paths can have, and that looks like no other of its kind."""

from collections.abc import Mapping
from typing import Any

from app.domain.callers import TeamConfig
from app.domain.errors import BadConfiguration
from app.domain.snapshot import Snapshot
from app.store.postgres.name_forms import check_form, explain_homograph, find_homographs


def check_new_names(
    before: Snapshot, after: Snapshot, teams_before: Mapping[str, TeamConfig], teams_after: Mapping[str, TeamConfig]
) -> None:
    """Raises BadConfiguration for a new name that no path can have, or that looks like another one of its kind."""
    kinds: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = [
        ("teams", teams_before, teams_after),
        ("providers", before.providers, after.providers),
        # What callers send as `model` is one of either.
        ("models", {**before.functions, **before.models}, {**after.functions, **after.models}),
        ("metrics", before.metrics, after.metrics),
    ]
    for section, known, names in kinds:
        new = names.keys() - known.keys()
        faults = [(name, fault) for name in new if (fault := check_form(name)) is not None]
        faults += [(name, explain_homograph(name, other)) for name, other in find_homographs(new, names)] if new else []
        for name, fault in sorted(faults)[:1]:
            section = "functions" if section == "models" and name in after.functions else section
            raise BadConfiguration(f"{section}.{name!r:.60}: {fault}")
