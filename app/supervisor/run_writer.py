"""The writer process: python -m app.supervisor.run_writer, or `narthex writer`. On SIGTERM it empties the spool if it can, and ends.

It also sends webhooks, builds datasets, counts units of experiments, stops their arms and adapts their weights.
"""

import asyncio
import signal

import uvloop

from app.datasets.builder import datasets_in_background
from app.process import logs
from app.recording.writer.writer import run_spool_writer
from app.results.guard.background import acting_in_background
from app.results.units.background import counting_in_background
from app.settings import Settings
from app.supervisor.machine import secret_key
from app.webhooks.background import webhooks_in_background


def main(settings: Settings) -> None:
    logs.configure(settings.log_level)
    uvloop.run(_write(settings))


async def _write(settings: Settings) -> None:
    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    vault = secret_key.open_vault(secret_key.resolve(settings))
    async with (
        webhooks_in_background(settings, vault),
        datasets_in_background(settings),
        counting_in_background(settings),
        acting_in_background(settings),
    ):
        await run_spool_writer(settings, stop=stop)


if __name__ == "__main__":
    main(Settings.read())
