"""Open WebUI: its own server, started in a new folder, and used by its REST API as its front end does."""

import json
import os
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from report import API_KEY, BASE_URL, MODEL, SCENARIO, report

SERVER = Path(__file__).parents[3] / ".venv-open-webui" / "bin" / "open-webui"
START_LIMIT_S, TURN_LIMIT_S = 180, 60
TOOL = '''class Tools:
    def get_weather(self, city: str) -> str:
        """
        The weather in a city.
        :param city: the city
        """
        return "{weather}"
'''
# Without an account, without other servers, and without models of its own for search and titles.
SETTINGS = {
    "WEBUI_AUTH": "False",
    "WEBUI_SECRET_KEY": "of this run alone",
    "OPENAI_API_BASE_URLS": f"{BASE_URL}/v1",
    "OPENAI_API_KEYS": API_KEY,
    "ENABLE_OLLAMA_API": "False",
    "OFFLINE_MODE": "True",
    "HF_HUB_OFFLINE": "1",
    "RAG_EMBEDDING_ENGINE": "openai",
    "BYPASS_EMBEDDING_AND_RETRIEVAL": "True",
    "ENABLE_TITLE_GENERATION": "False",
    "ENABLE_TAGS_GENERATION": "False",
    "ENABLE_FOLLOW_UP_GENERATION": "False",
    "ANONYMIZED_TELEMETRY": "False",
    "DO_NOT_TRACK": "1",
    "SCARF_NO_ANALYTICS": "true",
}


@contextmanager
def running_server() -> Generator[httpx2.Client]:
    """A client of the server, signed in."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="narthex-open-webui-") as folder, (Path(folder) / "log").open("wb") as log:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "NO_PROXY") if name in os.environ}
        environment = {**kept, **SETTINGS, "HOME": folder, "DATA_DIR": folder}
        command = [str(SERVER), "serve", "--host", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=TURN_LIMIT_S) as client:
                _wait_for(client, process, Path(log.name))
                session = client.post("/api/v1/auths/signin", json={"email": "", "password": ""}).raise_for_status().json()
                client.headers["authorization"] = f"Bearer {session['token']}"
                client.get("/api/models").raise_for_status()  # it knows none before
                yield client
        finally:
            process.terminate()
            process.wait()


def _wait_for(client: httpx2.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        try:
            client.get("/health").raise_for_status()
        except httpx2.HTTPError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Open WebUI did not start: {log.read_text()[-2000:]}") from None
            time.sleep(0.2)
        else:
            return


def models(client: httpx2.Client) -> list[str]:
    return [each["id"] for each in client.get("/api/models").raise_for_status().json()["data"]]


def text(client: httpx2.Client) -> dict[str, Any]:
    body = {"model": MODEL, "messages": [{"role": "user", "content": SCENARIO["hello"]}]}
    answer = client.post("/api/chat/completions", json=body).raise_for_status().json()
    choice = answer["choices"][0]
    return {"text": choice["message"]["content"], "finish": choice["finish_reason"], "usage": _counts(answer["usage"])}


def stream(client: httpx2.Client) -> dict[str, Any]:
    body: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": SCENARIO["hello"]}], "stream": True}
    body["stream_options"] = {"include_usage": True}
    pieces: list[str] = []
    finish = ""
    usage: dict[str, Any] = {}
    with client.stream("POST", "/api/chat/completions", json=body) as answer:
        for line in answer.raise_for_status().iter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line.removeprefix("data: "))
            pieces += [choice["delta"]["content"] for choice in chunk["choices"] if choice["delta"].get("content")]
            finish = next((choice["finish_reason"] for choice in chunk["choices"] if choice["finish_reason"]), finish)
            usage = chunk.get("usage") or usage
    return {"text": "".join(pieces), "pieces": len(pieces), "finish": finish, "usage": _counts(usage)}


def tools(client: httpx2.Client) -> dict[str, Any]:
    """A chat of the front end: the server runs the tool, and writes what came into the chat."""
    content = TOOL.format(weather=SCENARIO["sunny"])
    tool = {"id": "weather", "name": "weather", "meta": {"description": "The weather"}, "content": content}
    client.post("/api/v1/tools/create", json=tool).raise_for_status()
    question, answer = str(uuid.uuid4()), str(uuid.uuid4())
    messages: dict[str, Any] = {
        question: {"id": question, "parentId": None, "childrenIds": [answer], "role": "user", "content": SCENARIO["weather"]},
        answer: {"id": answer, "parentId": question, "childrenIds": [], "role": "assistant", "content": "", "model": MODEL},
    }
    history = {"messages": messages, "currentId": answer}
    chat = {"title": "Weather", "models": [MODEL], "history": history, "messages": list(messages.values())}
    chat_id = client.post("/api/v1/chats/new", json={"chat": chat}).raise_for_status().json()["id"]
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": SCENARIO["weather"]}],
        "stream": True,
        "chat_id": chat_id,
        "id": answer,
        "parent_id": question,
        "session_id": "a browser's",
        "tool_ids": ["weather"],
        "params": {"function_calling": "native"},
    }
    client.post("/api/chat/completions", json=body).raise_for_status()
    deadline = time.monotonic() + TURN_LIMIT_S
    while True:
        message = client.get(f"/api/v1/chats/{chat_id}").raise_for_status().json()["chat"]["history"]["messages"][answer]
        if message.get("done"):
            break
        if time.monotonic() > deadline:
            raise RuntimeError(f"The chat has not ended: {json.dumps(message)[:1000]}")
        time.sleep(0.2)
    calls = [each for each in message.get("output", ()) if each["type"] == "function_call"]
    called = [{"name": each["name"], "arguments": json.loads(each["arguments"])} for each in calls]
    return {"called": called, "text": message["content"]}


def _counts(usage: dict[str, Any]) -> dict[str, Any]:
    return {"input": usage.get("prompt_tokens"), "output": usage.get("completion_tokens")}


with running_server() as server:
    report({each.__name__: lambda check=each: check(server) for each in (models, text, stream, tools)})
