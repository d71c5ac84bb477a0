"""The output of commands: framed tables on a terminal, plain aligned columns in a pipe, or one JSON document."""

import contextlib
import importlib
import os
import sys
from collections.abc import Generator, Sequence
from typing import Any, Protocol

import click
import msgspec

from app.domain.callers import DroppableFields

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead, for programs.")

_EMPTY_CELL = "-"


def print_json(document: Any) -> None:
    """Prints it indented; takes what msgspec encodes, structs included."""
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows under titles. Without a terminal: columns padded with spaces, no frame, no escape codes."""
    cells = [[printable(cell) or _EMPTY_CELL for cell in row] for row in rows]
    lines = [list(titles), *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    if sys.stdout.isatty() and _terminal().print_framed_table(titles, cells, widths):
        return
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def format_drop(drop: DroppableFields) -> str:
    """Option `drop`, as a cell."""
    return drop if isinstance(drop, str) else ", ".join(drop)


class Spinner(Protocol):
    def update(self, activity: str) -> None:
        """Changes its text."""
        ...


@contextlib.contextmanager
def progress(activity: str) -> Generator[Spinner]:
    """Shows a spinner on standard error while it is entered, if that is a terminal; update() changes its text."""
    # The spinner consists of escape codes.
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        with _terminal().spinner(activity) as spinner:
            yield spinner
    else:
        yield _NoSpinner()


class _NoSpinner:
    def update(self, activity: str) -> None: ...


def _terminal() -> Any:
    """The module that draws on terminals. Without one it is not imported: rich takes as long as all else that a command prints."""
    return importlib.import_module("app.cli.terminal")


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
