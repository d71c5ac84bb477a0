"""Commands that run Narthex: up, writer, sandbox, migrate."""

import os
import socket
import sys

import click

from app.cli.output import json_option, print_json, progress
from app.cli.report_line import print_line
from app.doctor.check_servers import check_redis
from app.settings import Settings
from app.store.schema.migrate import migrate as migrate_database
from app.store.schema.postgres_status import revisions
from app.supervisor import run_writer
from app.supervisor import up as machine
from app.supervisor.database_query import query_database
from app.supervisor.machine import server_addresses
from app.supervisor.machine.errors import OperatorError
from app.supervisor.machine.home import make_home


@click.command()
def up() -> None:
    """Start everything on this machine; Ctrl-C ends it.

    Starts the gateway, the writer and the sandbox engine; PostgreSQL and Valkey too, unless DATABASE_URL and REDIS_URL name servers of
    your own. Once everything answers, it prints an address, a first key and examples to paste. Processes that end are restarted.

    \b
    Examples:
      narthex up
      NARTHEX_PORT=9000 NARTHEX_WORKERS=4 narthex up
    """
    settings = Settings.read()
    if settings.redis_url:
        check_redis(settings, print_line)
    machine.up(settings, print_line)


@click.command()
def writer() -> None:
    """Write this machine's records to the database.

    `narthex up` includes it; beside `narthex serve`, start it once on each machine. It runs until SIGTERM, and empties the spool before
    it ends. Its log goes to standard error.

    \b
    Example:
      DATABASE_URL=postgresql://narthex@db/narthex narthex writer
    """
    settings = server_addresses.resolve(Settings.read())
    make_home(settings.home)  # the writer may be started before the gateway
    run_writer.main(settings)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8788, show_default=True, help="Port to listen on.")
def sandbox(host: str, port: int) -> None:
    """Run only the sandbox engine, to test clients with.

    It offers OpenAI's API without a model: its responses are random, and follow schemas, tools and max_tokens exactly. `narthex up`
    includes one.

    \b
    Example:
      narthex sandbox --port 9001
    """
    # Bound here and released, so that a port that is taken is reported as by any other command.
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[:1]:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as fault:
        raise OperatorError(f"Cannot listen on {host}, port {port}: {fault.strerror}. --host and --port choose another address.") from None
    click.echo(f"The sandbox engine listens on http://{f'[{host}]' if ':' in host else host}:{port}/v1; Ctrl-C ends it.", err=True)
    # Replaces this process: the engine needs nothing of the gateway, not even in memory.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "app.supervisor.run_sandbox", host, str(port)])


@click.command()
@json_option
def migrate(as_json: bool) -> None:
    """Create or upgrade the database's tables.

    Creates the tables of a new database, upgrades those of an older version, and leaves current ones alone. Safe to run again, and from
    several machines at once. `narthex up` does it by itself. Where others hold the tables, it says who, and ends after
    NARTHEX_MIGRATE_WAIT_S.

    \b
    Example:
      DATABASE_URL=postgresql://narthex@db/narthex narthex migrate

    With --json: {"before": revision or null, "now": revision, "changed": true or false}.
    """
    settings = server_addresses.resolve(Settings.read())
    before, newest = query_database(settings.session_url, revisions)
    with progress(f"Migrating the tables to {newest}"):
        query_database(
            settings.session_url,
            lambda url: migrate_database(url, wait_s=settings.migrate_wait_s, report=lambda text: click.echo(text, err=True)),
        )
    if as_json:
        print_json({"before": before, "now": newest, "changed": before != newest})
    elif before == newest:
        click.echo(f"The database was up to date already ({newest}).")
    else:
        click.echo(f"The database is up to date: migrated from {before or 'empty'} to {newest}.")
