"""Output that only a terminal gets: tables in a frame, and a spinner."""

import os
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

# The first column names the thing. On a narrow terminal the others wrap before it does, so that the name can be copied.
_MIN_FIRST_COLUMN_WIDTH = 20
_MIN_COLUMN_WIDTH = 10  # on a terminal too narrow for this, a frame would only break words


def print_framed_table(titles: Sequence[str], cells: Sequence[Sequence[str]], widths: Sequence[int]) -> bool:
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


def spinner(activity: str) -> Status:
    """Returns a spinner on standard error, which turns while it is entered."""
    return _console(stderr=True).status(activity)


def _console(*, stderr: bool) -> Console:
    # With NO_COLOR, rich by itself would still print bold and dim.
    colours = None if os.environ.get("NO_COLOR") else "auto"
    return Console(stderr=stderr, color_system=colours, markup=False, highlight=False, emoji=False)
