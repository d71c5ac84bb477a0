"""Coding agents, as their users start them without a terminal, in a new folder. SURFACE: which one, and for which of its APIs."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from report import API_KEY, BASE_URL, MODEL, SCENARIO, SURFACE, report

AGENTS = Path(__file__).parents[1] / "agents" / "node_modules" / ".bin"
AIDER = Path(__file__).parents[3] / ".venv-aider" / "bin" / "aider"
LIMIT_S = 120
# The sandbox calls the tools whose names have a word of the prompt.
PROMPT = "Read the file {file}, or exec a command that does: how is the weather?"
STEPS_PROMPT = "Read the files of {folder} , or exec commands that do, one after the other."
EDIT_PROMPT = "Change greet.py: it shall print how the weather is."
Report = dict[str, Any]


def run(folder: Path, command: list[str], **variables: str) -> str:
    """Runs an agent and returns what it prints. Raises RuntimeError if it ends with another status than 0.

    Its home is the folder, so that it finds no configuration of whoever runs the tests.
    """
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "NO_PROXY") if name in os.environ}
    done = subprocess.run(
        command,
        cwd=folder / "work",
        env={**kept, "HOME": str(folder), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0].rpartition('/')[2]} ended with {done.returncode}: {done.stdout[-1500:]} {done.stderr[-1500:]}")
    return done.stdout


def events(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def run_claude(folder: Path, prompt: str, *options: str) -> list[dict[str, Any]]:
    """The messages of the conversation."""
    command = [str(AGENTS / "claude"), "-p", prompt, *options, "--output-format", "stream-json", "--verbose"]
    environment = {
        "ANTHROPIC_BASE_URL": BASE_URL,
        "ANTHROPIC_AUTH_TOKEN": API_KEY,
        "ANTHROPIC_MODEL": MODEL,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return events(run(folder, command, **environment))


def claude_code(folder: Path, prompt: str) -> Report:
    messages = run_claude(folder, prompt)
    blocks = [block for each in messages if each["type"] == "assistant" for block in each["message"]["content"]]
    calls = [block["name"] for block in blocks if block["type"] == "tool_use"]
    result = next(each for each in messages if each["type"] == "result")
    usage = {"input": result["usage"]["input_tokens"], "output": result["usage"]["output_tokens"]}
    return {"calls": calls, "text": result["result"], "usage": usage}


def compact_claude(folder: Path) -> Report:
    """Holds a conversation, has Claude Code summarize it, and continues it."""
    run_claude(folder, SCENARIO["hello"])
    messages = run_claude(folder, "/compact", "--continue")
    boundary = next(each["compact_metadata"] for each in messages if each.get("subtype") == "compact_boundary")
    after = run_claude(folder, SCENARIO["again"], "--continue")
    return {
        "before": boundary["pre_tokens"],
        "after": boundary["post_tokens"],
        "summary": next(each["message"]["content"] for each in messages if each["type"] == "user"),
        "text": next(each["result"] for each in after if each["type"] == "result"),
    }


CODEX_CONFIGURATION = """
model = "{model}"
model_provider = "narthex"

[model_providers.narthex]
name = "Narthex"
base_url = "{base_url}/v1"
env_key = "NARTHEX_API_KEY"
wire_api = "responses"
"""


def codex(folder: Path, prompt: str) -> Report:
    home = folder / ".codex"
    home.mkdir()
    (home / "config.toml").write_text(CODEX_CONFIGURATION.format(model=MODEL, base_url=BASE_URL))
    command = [str(AGENTS / "codex"), "exec", "--skip-git-repo-check", "--json", prompt]
    printed = events(run(folder, command, NARTHEX_API_KEY=API_KEY))
    items = [each["item"] for each in printed if each["type"] == "item.completed"]
    counts = next(each["usage"] for each in printed if each["type"] == "turn.completed")
    return {
        "calls": [item["command"] for item in items if item["type"] == "command_execution"],
        "text": next(item["text"] for item in reversed(items) if item["type"] == "agent_message"),
        "usage": {"input": counts["input_tokens"], "output": counts["output_tokens"]},
    }


def opencode(package: str) -> Callable[[Path, str], Report]:
    def agent(folder: Path, prompt: str) -> Report:
        options = {"baseURL": f"{BASE_URL}/v1", "apiKey": API_KEY}
        provider = {"npm": package, "name": "Narthex", "options": options, "models": {MODEL: {"name": MODEL}}}
        (folder / "work" / "opencode.json").write_text(json.dumps({"provider": {"narthex": provider}}))
        command = [str(AGENTS / "opencode"), "run", "--format", "json", "-m", f"narthex/{MODEL}", prompt]
        printed = events(run(folder, command, OPENCODE_DISABLE_MODELS_FETCH="1", OPENCODE_DISABLE_AUTOUPDATE="1"))
        tokens = [each["part"]["tokens"] for each in printed if each["type"] == "step_finish"]
        return {
            "calls": [each["part"]["tool"] for each in printed if each["type"] == "tool_use"],
            "text": next(each["part"]["text"] for each in reversed(printed) if each["type"] == "text"),
            "usage": {side: sum(each[side] for each in tokens) for side in ("input", "output")},
        }

    return agent


CONTINUE_CONFIGURATION = """
name: Narthex
version: 1.0.0
schema: v1
models:
  - name: Narthex
    provider: {provider}
    model: {model}
    apiBase: {base_url}/v1
    apiKey: {key}
    roles: [chat]
    capabilities: [tool_use]
"""


def continue_cli(provider: str) -> Callable[[Path, str], Report]:
    def agent(folder: Path, prompt: str) -> Report:
        configuration = folder / "config.yaml"
        configuration.write_text(CONTINUE_CONFIGURATION.format(provider=provider, model=MODEL, base_url=BASE_URL, key=API_KEY))
        text = run(folder, [str(AGENTS / "cn"), "--config", str(configuration), "--auto", "-p", prompt], CONTINUE_TELEMETRY_ENABLED="0")
        (session,) = (folder / ".continue" / "sessions").glob("*-*.json")
        messages = [each["message"] for each in json.loads(session.read_text())["history"]]
        usages = [each["usage"] for each in messages if "usage" in each]
        return {
            "calls": [call["function"]["name"] for each in messages for call in each.get("toolCalls", ())],
            "text": text.strip(),
            "usage": {
                side: sum(each[f"{name}_tokens"] for each in usages) for side, name in (("input", "prompt"), ("output", "completion"))
            },
        }

    return agent


def cline(folder: Path, prompt: str) -> Report:
    command = [str(AGENTS / "cline")]
    login = ["--provider", "openai-compatible", "--apikey", API_KEY, "--modelid", MODEL, "--baseurl", f"{BASE_URL}/v1"]
    run(folder, [*command, "auth", *login])
    # Without a hub in the background, which goes on running.
    printed = events(run(folder, [*command, "--json", "--retries", "1", prompt], CLINE_SESSION_BACKEND_MODE="local"))
    details = [each["event"] for each in printed if each["type"] == "agent_event"]
    result = next(each for each in printed if each["type"] == "run_result")
    return {
        "calls": [each["toolName"] for each in details if each["type"] == "content_start" and each["contentType"] == "tool"],
        "text": result["text"].strip(),
        "usage": {"input": result["usage"]["inputTokens"], "output": result["usage"]["outputTokens"]},
    }


def aider(folder: Path) -> Report:
    """aider calls no tools: it changes the files that the model's text lists."""
    work = folder / "work"
    (work / "greet.py").write_text('print("hello")\n')
    prefix, root = ("anthropic", BASE_URL) if SURFACE == "aider_anthropic" else ("openai", f"{BASE_URL}/v1")
    variables = {f"{prefix.upper()}_API_BASE": root, f"{prefix.upper()}_API_KEY": API_KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    offline = [
        "--no-check-update",
        "--no-show-release-notes",
        "--analytics-disable",
        "--no-show-model-warnings",
        "--no-git",
        "--yes-always",
    ]
    printed = run(folder, [str(AIDER), "--model", f"{prefix}/{MODEL}", *offline, "--message", EDIT_PROMPT, "greet.py"], **variables)
    return {"text": printed, "file": (work / "greet.py").read_text()}


READERS: Mapping[str, Callable[[Path, str], Report]] = {
    "claude_code": claude_code,
    "cline": cline,
    "continue_openai": continue_cli("openai"),
    "continue_anthropic": continue_cli("anthropic"),
    "codex": codex,
    "opencode_compatible": opencode("@ai-sdk/openai-compatible"),
    "opencode_responses": opencode("@ai-sdk/openai"),
    "opencode_anthropic": opencode("@ai-sdk/anthropic"),
}


def in_new_folder(agent: Callable[[Path], Report]) -> Report:
    with tempfile.TemporaryDirectory(prefix="narthex-agent-") as name:
        folder = Path(name)
        (folder / "work").mkdir()
        return agent(folder)


def read_file() -> Report:
    def agent(folder: Path) -> Report:
        file = folder / "work" / "weather.txt"
        file.write_text(f"{SCENARIO['sunny']}\n")
        return READERS[SURFACE](folder, PROMPT.format(file=file))

    return in_new_folder(agent)


def ten_turns() -> Report:
    """Has the agent read nine files, one after the other, as the model requests them, and then show the model's answer."""

    def agent(folder: Path) -> Report:
        steps = folder / "work" / "steps"
        steps.mkdir()
        for number in range(1, 10):
            (steps / f"{number}.txt").write_text(f"{SCENARIO['step'].format(number=number)}\n")
        return READERS[SURFACE](folder, STEPS_PROMPT.format(folder=steps))

    return in_new_folder(agent)


report(
    {
        "ten_turns": ten_turns,
        "read_file": read_file,
        "edit_file": lambda: in_new_folder(aider),
        "compact": lambda: in_new_folder(compact_claude),
    }
)
