"""The narthex command: every subcommand in its section. Each lives in a file of its own kind."""

import click

from app.cli.chat import chat
from app.cli.configuration import apply, export, models
from app.cli.credentials import credentials
from app.cli.diagnostics import doctor, status
from app.cli.engines import engines
from app.cli.errors import RootGroup
from app.cli.keys import keys
from app.cli.prices import prices
from app.cli.providers import providers
from app.cli.run import migrate, sandbox, serve, up, writer
from app.cli.teams import teams


@click.group(cls=RootGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="narthex")
def main() -> None:
    """Narthex: one gateway to every language model a company uses.

    \b
    To begin:
      narthex up                             start everything on this machine
      narthex chat sandbox "Hello!"          in another terminal: ask something
      narthex keys create --team search      make a key for a team
      narthex doctor                         when something does not work

    `narthex COMMAND -h` explains a command. Settings are environment variables (NARTHEX_HOME, NARTHEX_PORT, DATABASE_URL ...);
    docs/settings.md lists them all. Exit status: 0 done, 1 failed or something is wrong, 2 a bad command line or setting, 130 Ctrl-C.
    """


main.add_section("Run it", (up, serve, writer, sandbox, migrate))
main.add_section("Say what there is", (apply, export, models, providers, credentials, prices))
main.add_section("Say who may ask", (keys, teams))
main.add_section("Use it and look after it", (chat, engines, status, doctor))
