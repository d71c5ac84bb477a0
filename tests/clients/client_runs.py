"""Runs of clients against the gateway, once for each model, and their reports."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from tests.clients.clients import CHECKS_FOR_ONE_MODEL, Client
from tests.clients.scripted_model import ScriptedModel
from tests.support.processes.service import Service
from tests.support.scripted_engine import ScriptedEngine

LIMIT_S = 300.0
STOP_WITHIN_S = 30.0
# litellm would fetch prices from the network, and a configured proxy must not be used for loopback.
_OFFLINE_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "NO_PROXY": "127.0.0.1",
    "LANGSMITH_TRACING": "false",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "OTEL_SDK_DISABLED": "true",
}

Report = dict[str, dict[str, Any]]


async def run_client(client: Client, service: Service, model: str, checks: Iterable[str]) -> Report:
    """Runs the script of a client with these checks, and returns its report."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")}
    process = await asyncio.create_subprocess_exec(
        *client.command(),
        *checks,
        env={
            **inherited,
            **_OFFLINE_ENVIRONMENT,
            "BASE_URL": service.url,
            "API_KEY": service.key,
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
    return json.loads(lines[-1])


class ClientRuns:
    """The reports of each client for each model. A client runs when the first of its checks is requested."""

    def __init__(self, service: Service, engine: ScriptedEngine, aborted: Callable[[], Awaitable[float]]) -> None:
        self._service = service
        self._engine = engine
        self._aborted = aborted
        self._reports: dict[tuple[Client, str], Report] = {}

    async def result_of(self, client: Client, model: str, check: str) -> Any:
        """The result of one check. A failure inside the client is a failure here, with the client's message."""
        if (client, model) not in self._reports:
            self._reports[client, model] = await self._run(client, model)
        outcome = self._reports[client, model].get(check)
        assert outcome is not None, f"{client} did not report {check}"
        assert "error" not in outcome, outcome["error"]
        return outcome["result"]

    async def _run(self, client: Client, model: str) -> Report:
        before = await self._aborted()
        scripted_model = ScriptedModel()
        self._engine.script = scripted_model.script
        checks = client.checks if model == "sandbox" else client.checks - CHECKS_FOR_ONE_MODEL
        report = await run_client(client, self._service, model, sorted(checks))
        if "result" in report.get("abort", {}):
            report["abort"]["result"]["stopped"] = await self._stopped(before)
        report["signatures"] = {"result": scripted_model.signatures_returned}
        return report

    async def _stopped(self, before: float) -> bool:
        """Returns whether the engine noticed the disconnect, which may take a moment."""
        deadline = asyncio.get_running_loop().time() + STOP_WITHIN_S
        while asyncio.get_running_loop().time() < deadline:
            if await self._aborted() > before:
                return True
            await asyncio.sleep(0.05)
        return False
