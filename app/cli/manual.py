"""The manual of the commands, generated from their help (python -m app.cli.manual); docs/cli.md holds a copy, which a test compares."""

from collections.abc import Iterator

import click

from app.cli import main

_WIDTH = 110


def commands_manual() -> str:
    """Markdown with a heading and the help text of each command."""
    return "\n\n".join(
        f"### {context.command_path}\n\n```text\n{context.get_help()}\n```" for context in _walk_commands(main, "narthex", None)
    )


def _walk_commands(command: click.Command, name: str, parent: click.Context | None) -> Iterator[click.Context]:
    """The command and all its subcommands, in the order in which help lists them."""
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
