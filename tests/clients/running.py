"""Running a client against the gateway, once for each model, and keeping what it told."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

from tests.clients.clients import ONCE, Client
from tests.clients.replying import Replies
from tests.stories.scripted import ScriptedEngine
from tests.stories.service import Service

LIMIT_S = 120.0
# litellm would fetch its prices from the network, and all of them may know a proxy that loopback is not to go through.
_QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1", "LANGSMITH_TRACING": "false"}

Told = dict[str, dict[str, Any]]


class Runs:
    """What each client told of each model. A script runs when the first of its checks is looked at."""

    def __init__(self, service: Service, engine: ScriptedEngine, aborted: Callable[[], Awaitable[float]]) -> None:
        self._service = service
        self._engine = engine
        self._aborted = aborted
        self._told: dict[tuple[Client, str], Told] = {}

    async def saw(self, client: Client, model: str, check: str) -> Any:
        """What one check saw. A failure of it inside the client is a failure here, in the client's words."""
        if (client, model) not in self._told:
            self._told[client, model] = await self._run(client, model)
        told = self._told[client, model].get(check)
        assert told is not None, f"{client} told nothing of {check}"
        assert "failed" not in told, told["failed"]
        return told["saw"]

    async def _run(self, client: Client, model: str) -> Told:
        before = await self._aborted()
        replies = Replies()
        self._engine.script = replies.script
        own = {name: value for name, value in os.environ.items() if name not in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")}
        process = await asyncio.create_subprocess_exec(
            *client.command(),
            *sorted(client.checks if model == "sandbox" else client.checks - ONCE),
            env={
                **own,
                **_QUIET,
                "BASE_URL": self._service.url,
                "API_KEY": self._service.key,
                "SURFACE": client.surface,
                "MODEL": model,
                "SLOW_MODEL": "sandbox-slow",
                "EMBEDDING_MODEL": "sandbox-embed",
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, errors = await asyncio.wait_for(process.communicate(), LIMIT_S)
        lines = out.decode().splitlines()
        assert process.returncode == 0 and lines, errors.decode()
        told: Told = json.loads(lines[-1])
        if "saw" in told.get("abort", {}):
            told["abort"]["saw"]["stopped"] = await self._stopped(before)
        told["seals"] = {"saw": replies.returned}
        return told

    async def _stopped(self, before: float) -> bool:
        """Whether the engine was told to stop; it may take a moment."""
        for _ in range(40):
            if await self._aborted() > before:
                return True
            await asyncio.sleep(0.05)
        return False
