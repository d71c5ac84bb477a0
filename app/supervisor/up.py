"""Starts this machine's processes in order, keeps them alive, and ends them in order, as `narthex up`."""

from collections.abc import Callable
from dataclasses import replace

from app.settings import Settings
from app.store.schema.migrate import migrate
from app.supervisor import banner, bootstrap, local_engines
from app.supervisor.database_query import query_database
from app.supervisor.http_processes import SandboxProcess
from app.supervisor.machine import ports, secret_key, server_addresses
from app.supervisor.machine.errors import OperatorError
from app.supervisor.postgres import Postgres
from app.supervisor.processes.process import SupervisedProcess
from app.supervisor.serve import module_process, start_gateways, supervised
from app.supervisor.supervisor import Supervisor
from app.supervisor.valkey import Valkey

_SERVER_STOP_TIMEOUT_S = 30.0
_WRITER_STOP_TIMEOUT_S = 30.0


def up(settings: Settings, report: Callable[[str], None]) -> None:
    """Runs everything. Returns after a signal, once every process has ended.

    Raises OperatorError if something is in the way; nothing runs then.
    """
    with supervised(settings, report) as (settings, supervisor, listeners):
        secret_key.create_if_missing(settings)
        settings = _start_servers(settings, supervisor)
        query_database(settings.session_url, lambda url: migrate(url, wait_s=settings.migrate_wait_s, report=report))
        _start_sandbox(settings, supervisor)
        key = bootstrap.ensure_first_keys(settings.home, settings.database_url)
        supervisor.start(
            [SupervisedProcess(module_process(settings, "writer", "app.supervisor.run_writer"))], stop_timeout_s=_WRITER_STOP_TIMEOUT_S
        )
        start_gateways(settings, supervisor, listeners)
        supervisor.wait_until_ready()
        report(banner.banner_text(settings, key, bootstrap.one_time_code(settings.home, settings.database_url)))
        configured = query_database(settings.database_url, bootstrap.provider_addresses)
        own_ports = {each.port for each in ports.listener_settings(settings)}
        for suggestion in local_engines.find_engines(local_engines.USUAL_PORTS, own_ports=own_ports, configured=configured):
            report(suggestion)
        supervisor.run()


def _start_servers(settings: Settings, supervisor: Supervisor) -> Settings:
    """Starts the servers for which no address is set. Returns the settings with the addresses of servers that answer."""
    if not settings.database_url and settings.database_direct_url:
        raise OperatorError(
            "DATABASE_DIRECT_URL is set, and DATABASE_URL, whose server it leads to past a pooler, is not. Set both, or neither."
        )
    if not settings.database_url:
        postgres = Postgres(settings.home)
        supervisor.start([postgres], stop_timeout_s=_SERVER_STOP_TIMEOUT_S)
        settings = replace(settings, database_url=postgres.url)
    if not settings.redis_url:
        valkey = Valkey(settings.home)
        supervisor.start([valkey], stop_timeout_s=_SERVER_STOP_TIMEOUT_S)
        settings = replace(settings, redis_url=valkey.url)
    supervisor.wait_until_ready()
    server_addresses.publish(settings)
    return settings


def _start_sandbox(settings: Settings, supervisor: Supervisor) -> None:
    # The port of the last run if it is free, so that the configuration need not change.
    sandbox_port = query_database(settings.database_url, bootstrap.sandbox_port) or settings.port + 1
    sandbox_port = ports.find_free_port(sandbox_port)
    engine = SandboxProcess(module_process(settings, "sandbox", "app.supervisor.run_sandbox", "127.0.0.1", str(sandbox_port)), sandbox_port)
    supervisor.start([engine], stop_timeout_s=_SERVER_STOP_TIMEOUT_S)
    query_database(settings.database_url, lambda url: bootstrap.configure_sandbox(url, sandbox_port))
