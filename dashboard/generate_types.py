"""Writes dashboard/src/generated/api.ts: the types of the admin API as this checkout serves it.

python dashboard/generate_types.py
"""

import asyncio
import warnings
from pathlib import Path

from litestar.exceptions import LitestarDeprecationWarning

from app.api.admin.routes import operations
from app.api.openapi.document import build_document
from app.api.openapi.typescript import write_types
from app.main import create_applications
from app.settings import Settings
from providers.transport.loop_turns import LoopTurns
from providers.transport.write_batcher import WriteBatcher

GENERATED = Path(__file__).parent / "src" / "generated" / "api.ts"


async def current_types() -> str:
    """The types of a gateway process that connects to nothing, as it is not started."""
    settings = Settings(database_url="postgresql://nobody@127.0.0.1:9/none", redis_url="redis://127.0.0.1:9")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LitestarDeprecationWarning)  # about the style of parameters
        applications = create_applications(settings, WriteBatcher(), LoopTurns(), name="types")
    return write_types(build_document(operations(applications.gateway)))


if __name__ == "__main__":
    GENERATED.write_text(asyncio.run(current_types()))
