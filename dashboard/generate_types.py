"""Writes dashboard/src/generated: the types of the admin API as this checkout serves it, and the schemas of the forms.

python dashboard/generate_types.py
"""

import asyncio
import warnings
from pathlib import Path

from litestar.exceptions import LitestarDeprecationWarning

from app.api.admin.routes import operations
from app.api.openapi.document import build_document
from app.api.openapi.form_schemas import write_form_schemas
from app.api.openapi.typescript import write_types
from app.main import create_applications
from app.settings import Settings
from providers.transport.loop_turns import LoopTurns
from providers.transport.write_batcher import WriteBatcher

_FOLDER = Path(__file__).parent / "src" / "generated"
# What the dashboard has forms for.
_FORMS = (
    *("POST /providers", "POST /models", "POST /prices", "POST /functions", "POST /metrics"),
    *("POST /datasets", "POST /datasets/{name}/versions", "POST /replays"),
)


async def current_files() -> dict[Path, str]:
    """The files, of a gateway process that connects to nothing, as it is not started."""
    settings = Settings(database_url="postgresql://nobody@127.0.0.1:9/none", redis_url="redis://127.0.0.1:9")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LitestarDeprecationWarning)  # about the style of parameters
        applications = create_applications(settings, WriteBatcher(), LoopTurns(), name="types")
    document = build_document(operations(applications.gateway))
    return {_FOLDER / "api.ts": write_types(document), _FOLDER / "forms.ts": write_form_schemas(document, _FORMS)}


if __name__ == "__main__":
    for path, content in asyncio.run(current_files()).items():
        path.write_text(content)
