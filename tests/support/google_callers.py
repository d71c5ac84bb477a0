"""The official google-genai SDK as applications use it: only the base address is ours."""

import base64
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google import genai
from google.genai import types

from tests.conformance.situations import ALL, GEMINI, HELLO, PARIS, ROME, Situation
from tests.support.processes.service import Service
from tests.support.scripted_dialects import MODELS
from tests.support.scripted_engine import ScriptedEngine

NAMES = {**MODELS, GEMINI: "google"}
DECLARATION: Any = {
    "name": "get_weather",
    "description": "d",
    "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
}
TOOLS: Any = [{"function_declarations": [DECLARATION]}]
GREETING = Situation(name="greeting", parts=(HELLO,))
CALLS = Situation(name="calls", parts=(HELLO, PARIS, ROME), finish="tool_calls")
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
every_engine_api = pytest.mark.parametrize("target", [*ALL, GEMINI])


@pytest.fixture(name="sdk")
async def google_sdk(service: Service, engine: ScriptedEngine) -> AsyncGenerator[Any]:
    """The SDK as applications use it: only the base address is ours."""
    service.apply(f"""
        [providers.google]
        adapter = "gemini"
        base_url = "http://127.0.0.1:{engine.port}"
        [models.google]
        targets = [{{ provider = "google", model = "gemini-3-flash" }}]
    """)
    async with sdk_of(service).aio as client:
        yield client


def sdk_of(service: Service, **options: Any) -> Any:
    """A client of Google's SDK, whose methods have parameters of types that are not known."""
    return genai.Client(api_key=options.pop("key", service.key), http_options=types.HttpOptions(base_url=service.url, **options))
