"""narthex import: another gateway's configuration as a file for `narthex apply`."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from app.cli.output import json_option, pluralize, print_json, printable
from app.imports.draft import Imported
from app.imports.litellm.read_config import import_litellm
from app.imports.report import NoteKind, paths_by_message
from app.imports.source_files import read_source
from app.imports.tensorzero.read_config import import_tensorzero
from app.supervisor.machine.errors import OperatorError

_MAX_PATHS_SHOWN = 8
_TITLES: Sequence[tuple[NoteKind, str]] = (
    ("left_out", "Not imported:"),
    ("changed", "Imported, with a difference:"),
    ("to_do", "To do before it works:"),
)


@click.command()
@click.argument("source")
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write the configuration to FILE, not to the output.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--root", type=click.Path(path_type=Path), metavar="FOLDER", help="Read templates below FOLDER (default: the source's own).")
@json_option
def import_(source: str, output: Path | None, force: bool, root: Path | None, as_json: bool) -> None:
    """Make a configuration from that of another gateway.

    SOURCE is the config.yaml of LiteLLM's proxy, or the configuration of TensorZero: a file, a folder, or a pattern such as
    "config/**/*.toml"; its templates and schemas are included. Prints a file for `narthex apply`, which accepts it as it is; on standard
    error everything in the source that could not be brought, or behaves differently, with its path there and what to do instead. Nothing
    is applied. Secrets are neither written nor reported: a key in the source becomes a reference, and the report says which command stores
    it. Exits with 1 if nothing could be brought. docs/migrating.md says what is brought.

    \b
    Examples:
      narthex import config.yaml --output narthex.toml
      narthex import config/tensorzero.toml | narthex apply --dry-run -

    With --json: {"configuration": text, "counts": {section: number}, "notes": [{"kind", "path", "message"}]}. "kind": left_out, changed
    or to_do.
    """
    if output is not None and not force and os.path.lexists(output):
        raise OperatorError(f"{str(output)!r} exists already; --force replaces it.")
    if output is not None and output.exists() and os.path.exists(source) and output.samefile(source):
        raise OperatorError("The output would replace the source.")
    imported = _import(source, root)
    is_empty = not any(imported.counts.values())
    if output is not None and not is_empty:
        output.write_text(imported.text, encoding="utf-8")
    if as_json:
        print_json({"configuration": imported.text, "counts": imported.counts, "notes": imported.notes})
    else:
        if output is None and not is_empty:
            click.echo(imported.text, nl=False)
        _print_report(imported, source, output)
    if is_empty:
        why = "`notes` say why of each entry" if as_json else "the report above says why of each entry"
        raise OperatorError(f"Nothing in {source!r:.200} could be imported: {why if imported.notes else 'it has no entries'}.")


def _import(source: str, root: Path | None) -> Imported:
    """Imports a file or folder. YAML is read as LiteLLM's, TOML and folders as TensorZero's."""
    path = Path(source)
    if path.suffix.lower() in (".yaml", ".yml"):
        if root is not None:
            raise click.UsageError("--root is for TensorZero's templates: LiteLLM's configuration names no files.")
        return import_litellm(read_source(path), os.environ, path.parent)
    if path.is_dir() or path.suffix.lower() == ".toml":
        return import_tensorzero(source, root, os.environ)
    raise OperatorError(f"{source!r:.200} is neither a folder nor a file that ends in .yaml, .yml or .toml.")


def _print_report(imported: Imported, source: str, output: Path | None) -> None:
    for kind, title in _TITLES:
        paths = paths_by_message(imported.notes, kind)
        if paths:
            click.echo(f"{title}", err=True)
        for message, of_it in paths.items():
            shown = ", ".join(of_it[:_MAX_PATHS_SHOWN])
            more = f" and {len(of_it) - _MAX_PATHS_SHOWN} more (--json lists all)" if len(of_it) > _MAX_PATHS_SHOWN else ""
            click.echo(printable(f"  {shown}{more}\n      {message}"), err=True)
        if paths:
            click.echo(err=True)
    if not any(imported.counts.values()):
        return
    counted = ", ".join(pluralize(number, section.removesuffix("s")) for section, number in imported.counts.items() if number)
    where = "" if output is None else f" to {output}"
    click.echo(printable(f"{counted} imported from {source}{where}."), err=True)
    if output is not None:
        click.echo(printable(f"Read it, then: narthex apply {output}"), err=True)
