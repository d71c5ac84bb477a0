"""The pages, commands and settings that reports advise exist."""

import re
from pathlib import Path

import click

from app.cli import main

ROOT = Path(__file__).parents[3]
ADVICE = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "app" / "imports").rglob("*")) if path.suffix in (".py", ".toml"))


def test_pages_exist() -> None:
    pages = set(re.findall(r"docs/[\w/-]+\.md", ADVICE))
    assert len(pages) > 10 and [page for page in sorted(pages) if not (ROOT / page).exists()] == []


def test_commands_exist() -> None:
    context = click.Context(main)
    for words in sorted(set(re.findall(r"`narthex ([a-z-]+(?: [a-z-]+)?)", ADVICE))):
        name, _, sub = words.partition(" ")
        command = main.get_command(context, name)
        assert command is not None, words
        if sub and isinstance(command, click.Group):
            assert command.get_command(context, sub) is not None, words


def test_settings_exist() -> None:
    page = (ROOT / "docs" / "settings.md").read_text("utf-8")
    settings = set(re.findall(r"NARTHEX_[A-Z_]+[A-Z]", ADVICE))
    assert settings and [name for name in sorted(settings) if f"`{name}`" not in page] == []
