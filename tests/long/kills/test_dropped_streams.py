"""Ten thousand streams, opened and dropped at random: no task, socket, place or slot is left behind."""

from tests.support.processes import service as services
from tests.support.scripted_engine import ScriptedEngine
from tests.support.scripted_fleet import answer, assert_nothing_is_left, drop_streams, fleet_configuration, send_many, socket_count


async def test_ten_thousand_dropped_streams_leave_nothing_behind():
    fleet = [ScriptedEngine() for _ in range(6)]
    for engine in fleet:
        await engine.start()
        engine.script = answer
    service = services.start(workers=1)
    try:
        service.apply(fleet_configuration(fleet))
        await send_many(service, 20)
        before = socket_count(service)
        await drop_streams(service, fleet, 10_000)
        await assert_nothing_is_left(service, fleet, before)
    finally:
        services.stop(service)
        for engine in fleet:
            await engine.stop()
