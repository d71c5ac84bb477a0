"""Running a client against the gateway, once for each model, and keeping what it told."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

from tests.clients.clients import CHECKS_FOR_ONE_MODEL, Client
from tests.clients.scripted_model import ScriptedModel
from tests.support.scripted_engine import ScriptedEngine
from tests.support.service import Service

LIMIT_S = 120.0
# litellm would fetch its prices from the network, and all of them may know a proxy that loopback is not to go through.
_OFFLINE_ENVIRONMENT = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1", "LANGSMITH_TRACING": "false"}

Report = dict[str, dict[str, Any]]


class ClientRuns:
    """What each client told of each model. A script runs when the first of its checks is looked at."""

    def __init__(self, service: Service, engine: ScriptedEngine, aborted: Callable[[], Awaitable[float]]) -> None:
        self._service = service
        self._engine = engine
        self._aborted = aborted
        self._reports: dict[tuple[Client, str], Report] = {}

    async def result_of(self, client: Client, model: str, check: str) -> Any:
        """What one check saw. A failure of it inside the client is a failure here, in the client's words."""
        if (client, model) not in self._reports:
            self._reports[client, model] = await self._run(client, model)
        outcome = self._reports[client, model].get(check)
        assert outcome is not None, f"{client} told nothing of {check}"
        assert "failed" not in outcome, outcome["failed"]
        return outcome["saw"]

    async def _run(self, client: Client, model: str) -> Report:
        before = await self._aborted()
        scripted_model = ScriptedModel()
        self._engine.script = scripted_model.script
        own = {name: value for name, value in os.environ.items() if name not in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")}
        process = await asyncio.create_subprocess_exec(
            *client.command(),
            *sorted(client.checks if model == "sandbox" else client.checks - CHECKS_FOR_ONE_MODEL),
            env={
                **own,
                **_OFFLINE_ENVIRONMENT,
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
        report: Report = json.loads(lines[-1])
        if "saw" in report.get("abort", {}):
            report["abort"]["saw"]["stopped"] = await self._stopped(before)
        report["seals"] = {"saw": scripted_model.signatures_returned}
        return report

    async def _stopped(self, before: float) -> bool:
        """Whether the engine was told to stop; it may take a moment."""
        for _ in range(40):
            if await self._aborted() > before:
                return True
            await asyncio.sleep(0.05)
        return False
