"""The narthex command, with its subcommands in sections."""

import click

from app.cli.errors import MADE, RootGroup

# By section, as help lists them: command -> the module that defines it.
_SECTIONS = {
    "Run it": {"up": "run", "serve": "serve", "writer": "run", "sandbox": "run", "migrate": "run"},
    "Configuration": {
        "apply": "configuration",
        "export": "configuration",
        "schema": MADE,
        "import": "import_files",
        "history": "configuration_history",
        "rollback": "configuration",
        "models": "nouns.models",
        "functions": "nouns.functions",
        "experiments": MADE,
        "shadow": MADE,
        "providers": "nouns.providers",
        "credentials": "nouns.credentials",
        "prices": "nouns.prices",
        "budgets": MADE,
        "limits": MADE,
        "webhooks": MADE,
        "settings": MADE,
        "snapshots": MADE,
        "workers": MADE,
    },
    "Access": {
        "keys": MADE,
        "teams": MADE,
        "users": MADE,
        "service-accounts": MADE,
        "roles": MADE,
        "login": "sign_in",
        "logout": "sign_in",
        "whoami": "sign_in",
    },
    "Usage and diagnostics": {
        "chat": "chat.chat",
        "clients": "clients.setup",
        "analytics": "nouns.analytics",
        "inferences": "nouns.inferences",
        "records": MADE,
        "episode": MADE,
        "episodes": MADE,
        "feedback": "nouns.feedback",
        "metrics": "nouns.metrics",
        "refusals": MADE,
        "replay": "nouns.replay",
        "datasets": MADE,
        "erase": MADE,
        "audit": MADE,
        "dropped": MADE,
        "costs": MADE,
        "retention": MADE,
        "views": "nouns.views",
        "engines": "engines",
        "status": "diagnostics",
        "doctor": "diagnostics",
    },
}


@click.group(cls=RootGroup, sections=_SECTIONS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="narthex")
def main() -> None:
    """Narthex: one gateway to every language model a company uses.

    \b
    To start:
      narthex up                             start everything on this machine
      narthex chat sandbox "Hello!"          in another terminal: send a message
      narthex keys create --team search      create a key for a team
      narthex doctor                         find out why something does not work

    `narthex COMMAND -h` explains a command. Settings are environment variables (NARTHEX_HOME, NARTHEX_PORT, DATABASE_URL ...);
    docs/settings.md lists them all. Exit status: 0 success, 1 failed or something is wrong, 2 an invalid command line or setting,
    130 Ctrl-C.
    """
