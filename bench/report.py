"""Report: one run as tables, in Markdown and for a terminal."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.system import Figures
from bench.targets import DIRECT, NARTHEX, NARTHEX_LIMITS, TARGETS, Run, added_ms


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table. The first row has the column titles."""

    title: str
    rows: Sequence[Sequence[str]]


def report_tables(run: Run, descriptions: Mapping[str, str], not_measured: Mapping[str, str]) -> list[ReportTable]:
    tables = [
        _systems_table(run),
        ReportTable("What is on", [("system", ""), *((name, descriptions[name]) for name in run)]),
        _targets_table(run),
    ]
    if NARTHEX_LIMITS in run:
        tables.append(_recording_table(run[NARTHEX_LIMITS]))
    if not_measured:
        reasons = [(name, " ".join(reason.split())) for name, reason in not_measured.items()]
        tables.append(ReportTable("Not measured", [("system", "reason"), *reasons]))
    return tables


def markdown(tables: Sequence[ReportTable], notes: Sequence[str]) -> str:
    lines = [f"{note}  " for note in notes]
    for table in tables:
        head, *body_rows = table.rows
        lines += ["", f"**{table.title}**", "", _markdown_row(head), _markdown_row(["---"] * len(head)), *map(_markdown_row, body_rows)]
    return "\n".join(lines) + "\n"


def print_report(tables: Sequence[ReportTable], notes: Sequence[str]) -> None:
    console = Console()
    for note in notes:
        console.print(note, highlight=False, markup=False)
    for report_table in tables:
        head, *body_rows = report_table.rows
        table = Table(*head, title=report_table.title, title_justify="left")
        for row in body_rows:
            table.add_row(*row)
        console.print(table)


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _systems_table(run: Run) -> ReportTable:
    figures: Sequence[tuple[str, Callable[[str, Figures], str]]] = (
        ("processor µs / request", lambda _, f: _number(f.get("us_per_request"))),
        ("requests/s per core", lambda _, f: _number(f.get("requests_per_s_per_core"))),
        ("answered/s, 32 connections", lambda _, f: _number(f.get("requests_per_s"))),
        ("… its core busy", lambda _, f: _percent(f.get("busy"))),
        *((f"added p50 / p99 at {rate}/s, ms", lambda name, f, rate=rate: _added_latency(run, name, f, rate)) for rate in (100, 500)),
        ("processor µs / chunk", lambda _, f: _number(f.get("us_per_chunk"))),
        ("chunk delay p50 / p99, ms", lambda _, f: f"{_ms(f.get('chunk_delay_p50_us'))} / {_ms(f.get('chunk_delay_p99_us'))}"),
        ("KiB / held stream", lambda _, f: _number(f.get("kib_per_held_stream"))),
        ("failed requests", lambda _, f: _failed_requests(f)),
        ("failed streams", lambda _, f: _number(f.get("failed_streams"))),
        ("failed held streams", lambda _, f: _number(f.get("failed_held"))),
    )
    first = (DIRECT, NARTHEX_LIMITS, NARTHEX)
    ordered = sorted(run.items(), key=lambda item: (*(item[0] != name for name in first), item[1].get("us_per_request", math.inf)))
    rows = [[title, *(cell(name, system_figures) for name, system_figures in ordered)] for title, cell in figures]
    return ReportTable("The same work", [["", *(name for name, _ in ordered)], *rows])


def _targets_table(run: Run) -> ReportTable:
    rows = [
        (
            target.title,
            f"{_number(target.measure(run))} {target.unit}".strip(),
            f"{'≥' if target.at_least else '≤'} {target.required:,g}",
            {True: "met", False: "MISSED", None: "not measured"}[target.is_met(run)],
            f"{'≥' if target.at_least else '≤'} {target.goal:,g}",
        )
        for target in TARGETS
    ]
    return ReportTable(
        "Narthex, with five limits on every request, against its targets", [("target", "measured", "first version", "", "the goal"), *rows]
    )


def _recording_table(figures: Figures) -> ReportTable:
    """The cost of recording in other processes, which the proxy's core does not show."""
    total_us = sum(figures.get(name, 0.0) for name in ("us_per_request", "writer_us_per_row", "postgres_us_per_row", "valkey_us_per_row"))
    rows = [
        ("writer, µs / inference", _number(figures.get("writer_us_per_row"))),
        ("Postgres, µs / inference", _number(figures.get("postgres_us_per_row"))),
        ("Valkey, µs / inference", _number(figures.get("valkey_us_per_row"))),
        ("all of Narthex with Postgres and Valkey, µs / request", _number(total_us)),
        ("inferences/s into Postgres", _number(figures.get("writer_rows_per_s"))),
        ("still in the spool when the load stopped", _number(figures.get("writer_backlog_rows"))),
        ("answered but never recorded", _number(figures.get("recorded_missing"))),
        ("writer's largest memory, MiB", _number(figures.get("writer_peak_mib"))),
    ]
    return ReportTable("Behind the gateway, with five limits on every request", [("what", "measured"), *rows])


def _added_latency(run: Run, name: str, figures: Figures, rate: int) -> str:
    if f"overloaded_at_{rate}" in figures:
        return "overloaded"
    if name == DIRECT:
        return f"takes {_ms(figures[f'p50_us_at_{rate}'])} / {_ms(figures[f'p99_us_at_{rate}'])}"
    return f"{_number(added_ms(run, name, f'p50_us_at_{rate}'))} / {_number(added_ms(run, name, f'p99_us_at_{rate}'))}"


def _failed_requests(figures: Figures) -> str:
    return _number(sum(value for name, value in figures.items() if name.startswith(("failed_saturated", "failed_at_"))))


def _ms(value_us: float | None) -> str:
    return _number(None if value_us is None else value_us / 1e3)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value * 100:.0f} %"


def _number(value: float | None) -> str:
    """Three or four digits: the measurements are no more precise."""
    if value is None:
        return "–"
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
