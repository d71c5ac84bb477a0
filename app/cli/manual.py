"""The manual of the commands, made from the commands (python -m app.cli.manual); docs/cli.md holds it, and a test compares the two."""

from collections.abc import Iterator

import click

from app.cli import main

_WIDTH = 110


def commands_manual() -> str:
    """Markdown: a heading for each command, and what its -h says."""
    return "\n\n".join(
        f"### {context.command_path}\n\n```text\n{context.get_help()}\n```" for context in _walk_commands(main, "narthex", None)
    )


def _walk_commands(command: click.Command, name: str, parent: click.Context | None) -> Iterator[click.Context]:
    """The command and all below it, in the order in which help lists them."""
    names = command.context_settings.get("help_option_names")
    context = click.Context(command, parent, name, terminal_width=_WIDTH, max_content_width=_WIDTH, help_option_names=names)
    yield context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            subcommand = command.get_command(context, each)
            if subcommand is not None:
                yield from _walk_commands(subcommand, each, context)


if __name__ == "__main__":
    click.echo(commands_manual())
