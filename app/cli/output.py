"""The output of commands: framed tables on a terminal, plain aligned columns in a pipe, or one JSON document."""

import contextlib
import os
import sys
from collections.abc import Generator, Sequence
from typing import Any

import click
import msgspec
from rich import box
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from app.domain.callers import DroppableFields

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead, for programs.")

_EMPTY_CELL = "-"
# The first column names the thing. On a narrow terminal the others wrap before it does, so that the name can be copied.
_MIN_FIRST_COLUMN_WIDTH = 20
_MIN_COLUMN_WIDTH = 10  # on a terminal too narrow for this, a frame would only break words


def print_json(document: Any) -> None:
    """Prints it indented; takes what msgspec encodes, structs included."""
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows under titles. Without a terminal: columns padded with spaces, no frame, no escape codes."""
    cells = [[printable(cell) or _EMPTY_CELL for cell in row] for row in rows]
    lines = [list(titles), *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    if sys.stdout.isatty() and _print_framed_table(titles, cells, widths):
        return
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def format_drop(drop: DroppableFields) -> str:
    """Option `drop`, as a cell."""
    return drop if isinstance(drop, str) else ", ".join(drop)


def _print_framed_table(titles: Sequence[str], cells: Sequence[Sequence[str]], widths: Sequence[int]) -> bool:
    """Returns False, and prints nothing, if the terminal is too narrow."""
    console = _console(stderr=False)
    min_widths = [min(width, _MIN_COLUMN_WIDTH if column else _MIN_FIRST_COLUMN_WIDTH) for column, width in enumerate(widths)]
    if sum(min_widths) + 3 * len(min_widths) > console.width:
        return False
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for title, width in zip(titles, min_widths, strict=True):
        table.add_column(title, overflow="fold", min_width=width)
    for line in cells:
        table.add_row(*(Text(cell) for cell in line))
    console.print(table)
    return True


def _console(*, stderr: bool) -> Console:
    # With NO_COLOR, rich by itself would still print bold and dim.
    colours = None if os.environ.get("NO_COLOR") else "auto"
    return Console(stderr=stderr, color_system=colours, markup=False, highlight=False, emoji=False)


@contextlib.contextmanager
def progress(activity: str) -> Generator[Status]:
    """Shows a spinner on standard error while it is entered, if that is a terminal; update() changes its text."""
    console = _console(stderr=True)
    status = console.status(activity)
    if not console.is_terminal or os.environ.get("NO_COLOR"):  # the spinner consists of escape codes
        yield status
        return
    with status:
        yield status


def printable(text: str) -> str:
    """Text from elsewhere, made safe for a terminal: control characters become U+FFFD; line ends and tabs stay."""
    return text if text.isprintable() else "".join("\ufffd" if _is_control(each) else each for each in text)


def _is_control(character: str) -> bool:
    """C0, DEL, C1, and the characters that change the direction of text; other invisible characters are harmless."""
    code_point = ord(character)
    return (
        (code_point < 0x20 and character not in "\n\t")
        or 0x7F <= code_point < 0xA0
        or 0x202A <= code_point <= 0x202E
        or 0x2066 <= code_point <= 0x2069
    )


def pluralize(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_size(size_bytes: int) -> str:
    """The size in the largest decimal unit that it reaches."""
    amount = float(size_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
