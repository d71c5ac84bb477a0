"""What commands tell: tables for people, plain aligned text where nobody looks, one JSON document for programs."""

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

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead, for programs.")

_EMPTY_CELL = "-"
_MIN_FIRST_COLUMN_WIDTH = (
    20  # of the first column, which names the thing: on a narrow terminal the others break first, so that it can be copied
)
_MIN_COLUMN_WIDTH = 10  # of every other column: where a terminal has not even that, a frame would only break words


def print_json(document: Any) -> None:
    """Structs too: their fields by name, and None for what is not known."""
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Under the same titles either way. Without a terminal: columns padded with spaces, no frame, no escape codes."""
    cells = [[printable(cell) or _EMPTY_CELL for cell in row] for row in rows]
    lines = [list(titles), *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    if sys.stdout.isatty() and _print_framed_table(titles, cells, widths):
        return
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _print_framed_table(titles: Sequence[str], cells: Sequence[Sequence[str]], widths: Sequence[int]) -> bool:
    """False: the terminal is too narrow, and nothing was told."""
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
    # rich itself leaves bold and dim there where NO_COLOR is set.
    colours = None if os.environ.get("NO_COLOR") else "auto"
    return Console(stderr=stderr, color_system=colours, markup=False, highlight=False, emoji=False)


@contextlib.contextmanager
def progress(activity: str) -> Generator[Status]:
    """Something moves on standard error while this lasts, if a terminal is there; update() tells what is being done now."""
    console = _console(stderr=True)
    status = console.status(activity)
    if not console.is_terminal or os.environ.get("NO_COLOR"):  # what moves is made of escape codes
        yield status
        return
    with status:
        yield status


def printable(text: str) -> str:
    """What others wrote, unable to move a terminal's cursor: a control character becomes U+FFFD; line ends and tabs stay."""
    return text if text.isprintable() else "".join("\ufffd" if _is_control(each) else each for each in text)


def _is_control(character: str) -> bool:
    """C0, DEL, C1, and the signs that turn the direction of writing; other characters that nobody sees are harmless."""
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
    """In the largest unit of which there is at least one."""
    amount = float(size_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
