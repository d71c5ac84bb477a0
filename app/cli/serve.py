"""narthex serve: apart from the other commands that run Narthex, as a start waits for what is imported here."""

import click

from app.cli.report_line import print_line
from app.doctor.check_servers import check_servers
from app.settings import Settings
from app.supervisor import serve as machine
from app.supervisor.machine import server_addresses


@click.command()
def serve() -> None:
    """Start the gateway alone, on servers that run elsewhere.

    Runs NARTHEX_WORKERS processes on one port and restarts those that end. Each machine that serves also needs a `narthex writer`.

    \b
    Example:
      DATABASE_URL=postgresql://narthex@db/narthex REDIS_URL=redis://cache narthex serve
    """
    settings = server_addresses.resolve(Settings.read())
    check_servers(settings, print_line)
    machine.serve(settings, print_line)
