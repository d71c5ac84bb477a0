"""The work of a worker until it serves, in calls: time would depend on the machine."""

import copy
import sys
import warnings
from types import FrameType

from litestar.exceptions import LitestarDeprecationWarning

from app.main import create_applications
from app.settings import Settings
from providers.transport.loop_turns import LoopTurns
from providers.transport.write_batcher import WriteBatcher


async def test_admin_routes_are_not_copied() -> None:
    settings = Settings(database_url="postgresql://nobody@127.0.0.1:9/none", redis_url="redis://127.0.0.1:9")
    copies = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal copies
        copies += event == "call" and frame.f_code is copy.deepcopy.__code__

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LitestarDeprecationWarning)  # about the style of parameters
        sys.setprofile(count)
        try:
            create_applications(settings, WriteBatcher(), LoopTurns(), name="start")
        finally:
            sys.setprofile(None)
    assert copies < 25_000  # 15,000 of other routers; 64,000 with the admin API's
