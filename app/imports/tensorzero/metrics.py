"""Reads the sections `[metrics.NAME]`. Comments and demonstrations are there without a declaration, as in TensorZero."""

from app.domain.experiments import MetricConfig
from app.imports.draft import Draft
from app.imports.source_table import SourceTable


def add_metrics(draft: Draft, config: SourceTable) -> None:
    for name, table in config.named_tables("metrics"):
        kind, level, optimize = table.text("type"), table.text("level"), table.text("optimize")
        if (kind != "boolean" and kind != "float") or (level != "inference" and level != "episode"):
            table.mark_read()
            draft.report.leave_out(table.path, "A metric has a type, boolean or float, and a level, inference or episode.")
            continue
        direction = optimize if optimize == "max" or optimize == "min" else None
        if optimize is not None and direction is None:
            draft.report.leave_out(table.path_of("optimize"), "It may be max or min.")
        draft.add_metric(name, MetricConfig(kind, level, direction, table.text("description")), table.path)
