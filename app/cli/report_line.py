"""The lines that long-running commands print meanwhile."""

import contextlib
import sys

import click


def print_line(text: str) -> None:
    # The reader may be gone (a closed terminal, a broken pipe); the gateway keeps running.
    with contextlib.suppress(OSError):
        click.echo(text)
        sys.stdout.flush()  # for readers of a pipe
