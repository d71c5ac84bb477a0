"""Every command as it is typed beside a running service: what people read, what programs read, and how it ends."""

import asyncio
import json
import os
import pty
import re
import secrets
import select
import signal
import subprocess
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncpg
import httpx
from click.testing import CliRunner, Result

from app.cli import main
from app.doctor import database
from app.store.database import connect
from app.store.postgres_status import newest_revision
from tests.stories.looking import database_url
from tests.stories.scripted import Asked, ScriptedEngine, chunk, completion, streaming
from tests.stories.service import NARTHEX, Service


def type_in(service: Service, *arguments: str, stdin: str = "") -> Result:
    """A command in this process: the same code without a second for its start. Only where no engine of the test's loop is needed."""
    return CliRunner().invoke(main, list(arguments), input=stdin, prog_name="narthex", env=dict(service.environment))


def told(service: Service, *arguments: str, stdin: str = "", status: int = 0) -> Any:
    """What a command with --json tells: one document on standard output, and nothing else there."""
    done = type_in(service, *arguments, "--json", stdin=stdin)
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)


def test_status_tells_what_runs(service: Service) -> None:
    _until(lambda: _writer(service)["connected"])  # it says once a second how it is
    found = told(service, "status")
    assert found["ready"] and found["address"] == service.url and found["home"] == str(service.home)
    running = {each["name"]: each["pid"] for each in found["processes"] if each["runs"]}
    assert running["gateway-0"] == service.pid("gateway-0") and {"supervisor", "writer", "postgres", "valkey"} <= running.keys()
    assert found["gateway"]["state"] == "ready" and found["gateway"]["configuration"] >= 1
    assert found["postgres"]["reachable"] and found["redis"]["reachable"] and found["writer"]["running"]
    assert {each["version"] <= found["configuration"]["version"] for each in found["workers"]} == {True}
    shown = type_in(service, "status")
    assert shown.exit_code == 0 and f"The gateway on {service.url} is ready." in shown.stdout
    for words in ("gateway-1", "Configuration  version", "PostgreSQL     1", "Valkey ", "Spool ", "Writer         connected"):
        assert words in shown.stdout
    assert "\x1b" not in shown.stdout


def _writer(service: Service) -> Any:
    return told(service, "status")["writer"] or {"connected": False}


def test_doctor_finds_the_service_well(service: Service) -> None:
    _until(lambda: _writer(service)["connected"])
    # What engines and limits there are is for other tests to say; some of them have one that is not there.
    shown = type_in(service, "doctor", "--json")
    examined = json.loads(shown.stdout)
    assert shown.exit_code == (0 if examined["healthy"] else 1)
    found = [each for each in examined["findings"] if each["area"] not in ("engines", "limits")]
    assert [each for each in found if each["severity"] == "wrong"] == []
    assert {each["area"] for each in found} == {"settings", "processes", "machine", "gateway", "postgres", "redis", "records"}
    fine = {each["area"]: each["message"] for each in found if each["severity"] == "fine"}
    assert "tables are current" in fine["postgres"] and "Valkey" in fine["redis"]
    shown = service.run("doctor")
    assert f"✓ postgres: {fine['postgres'][:12]}" in shown.stdout and shown.stdout.rstrip().splitlines()[-1].endswith(
        ("well.", "on.", "wrong.")
    )


def test_doctor_says_what_is_wrong_where_nothing_runs(service: Service, tmp_path: Path) -> None:
    nowhere = {"NARTHEX_HOME": str(tmp_path), "NARTHEX_PORT": "9", "DATABASE_URL": "postgresql://me:secret@127.0.0.1:9/x"}
    broken = Service(
        tmp_path, "", service.process, {**service.environment, **nowhere, "REDIS_URL": "redis://127.0.0.1:9", "NARTHEX_WORKERS": "x"}
    )
    (tmp_path / "first-key").write_text("nx-1")
    (tmp_path / "first-key").chmod(0o644)
    found = told(broken, "doctor", status=1)
    assert found["healthy"] is False
    wrong = {each["area"]: each for each in found["findings"] if each["severity"] == "wrong"}
    assert wrong.keys() == {"settings", "processes", "machine", "gateway", "postgres", "redis"}
    assert "NARTHEX_WORKERS='x'" in wrong["settings"]["message"] and "first-key" in wrong["machine"]["message"]
    assert all(each["advice"] for each in wrong.values())
    shown = type_in(broken, "doctor")
    assert shown.exit_code == 1 and "secret" not in shown.output and "6 things are wrong" in shown.stdout


async def test_migrate_makes_tables_and_the_doctor_sees_it(service: Service) -> None:
    blank = await _blank_database(service)
    before = database.diagnose(await database.collect_facts(blank))
    assert [each.message for each in before] == ["The database has no tables of Narthex."]
    beside = Service(service.home, service.url, service.process, {**service.environment, "DATABASE_URL": blank})
    made = await asyncio.to_thread(told, beside, "migrate")
    assert made == {"before": None, "now": newest_revision(), "changed": True}
    again = await asyncio.to_thread(type_in, beside, "migrate")
    assert again.exit_code == 0 and "up to date already" in again.stdout
    assert [each.severity for each in database.diagnose(await database.collect_facts(blank))] == ["fine"]


async def _blank_database(service: Service) -> str:
    name, url = f"blank_{secrets.token_hex(4)}", database_url(service)
    connection: asyncpg.Connection[Any] = await connect(url)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    return url.replace("/narthex?", f"/{name}?")


def test_a_file_is_tried_applied_and_exported(service: Service) -> None:
    file = '[models.typed]\ntargets = [{ provider = "sandbox", model = "sandbox" }]\nfallbacks = ["sandbox-slow"]\n'
    tried = told(service, "apply", "-", "--dry-run", stdin=file)
    assert tried["applied"] is False and "+[models.typed]" in tried["difference"]
    assert "typed" not in told(service, "export")["models"]
    applied = told(service, "apply", "-", "--yes", stdin=file)
    assert applied["applied"] is True and "Applied as version" in applied["message"]
    assert told(service, "apply", "-", "--yes", stdin=file) == {"applied": False, "difference": "", "message": "Nothing to change."}
    exported = type_in(service, "export")
    assert tomllib.loads(exported.stdout) == told(service, "export")
    assert told(service, "export")["models"]["typed"]["fallbacks"] == ["sandbox-slow"]
    wrong = type_in(service, "apply", "-", "--yes", "--json", stdin='[models.typed]\ntargets = [{ provider = "nobody", model = "x" }]\n')
    assert wrong.exit_code == 1 and wrong.stdout == "" and "nobody" in json.loads(wrong.stderr)["error"]["message"]
    bytes_ = subprocess.run(
        [NARTHEX, "apply", "-", "--yes"], input=b"\xff", env=dict(service.environment), capture_output=True, check=False
    )
    assert bytes_.returncode == 1 and b"UTF-8" in bytes_.stderr


def test_models_and_providers_are_listed(service: Service) -> None:
    models = {each["name"]: each for each in told(service, "models")["models"]}
    assert models["sandbox"]["targets"][0]["provider"] == "sandbox" and models["sandbox"]["fallbacks"] == []
    assert any(line.split() == ["sandbox-slow", "sandbox/sandbox-slow", "-"] for line in type_in(service, "models").stdout.splitlines())
    listed = told(service, "providers")
    assert "sandbox" in [each["name"] for each in listed["providers"]]
    assert {"openai", "vllm", "sandbox"} <= {each["name"] for each in listed["adapters"]}
    shown = type_in(service, "providers").stdout
    assert "PROVIDER" in shown and "Adapters that a [providers.NAME] may name, and their own options:" in shown
    assert told(service, "providers", "--adapters") == {"adapters": listed["adapters"]}


def test_a_key_is_made_listed_changed_rotated_and_revoked(service: Service) -> None:
    made = told(
        service,
        "keys",
        "create",
        "--team",
        "typing",
        "--name",
        "one",
        "--model",
        "sandbox*",
        "--network",
        "127.0.0.0/8",
        "--expires",
        "30d",
    )
    assert made["key"].startswith(made["prefix"] + "-") and (made["team"], made["models"]) == ("typing", ["sandbox*"])
    assert _status(service, made["key"]) == 200
    row = _row(service, made["prefix"])
    assert (row["models"], row["networks"], row["routes"], row["revoked_at"]) == (["sandbox*"], ["127.0.0.0/8"], None, None)
    assert row["expires_at"] is not None
    shown = type_in(service, "keys", "list", "--team", "typing").stdout
    assert made["prefix"] in shown and "models sandbox*; from 127.0.0.0/8" in shown and "until 20" in shown

    changed = told(service, "keys", "change", made["prefix"], "--any-model", "--name", "two", "--never-expires")
    assert changed == {"changed": made["prefix"], "models": None, "name": "two", "expires_at": None}
    row = _row(service, made["prefix"])
    assert (row["models"], row["name"], row["networks"], row["expires_at"]) == (None, "two", ["127.0.0.0/8"], None)

    rotated = told(service, "keys", "rotate", made["prefix"], "--overlap", "1h")
    assert rotated["replaces"] == made["prefix"] and _status(service, rotated["key"]) == 200 == _status(service, made["key"])
    assert _row(service, made["prefix"])["replaced_by"] == rotated["prefix"]
    assert _row(service, rotated["prefix"])["networks"] == ["127.0.0.0/8"]

    assert told(service, "keys", "revoke", made["prefix"]) == {"revoked": made["prefix"]}
    _until(lambda: _status(service, made["key"]) == 401)
    assert made["prefix"] not in type_in(service, "keys", "list").stdout
    assert "revoked 20" in type_in(service, "keys", "list", "--all").stdout
    for command in ("revoke", "rotate"):
        again = type_in(service, "keys", command, made["prefix"])
        assert again.exit_code == 1 and f"No valid key begins with {made['prefix']!r}" in again.stderr
    assert (
        type_in(service, "keys", "list", "--team", "nobody").stdout
        == "There is no key of team nobody that works (--all shows the others).\n"
    )


def test_quiet_prints_the_key_alone(service: Service) -> None:
    made = service.run("keys", "create", "--team", "typing", "--quiet")
    key = made.stdout.strip()
    assert (made.returncode, made.stdout, made.stderr) == (0, key + "\n", "")
    rotated = type_in(service, "keys", "rotate", key, "--overlap", "0s", "--quiet")
    assert rotated.stderr == "" and _status(service, rotated.stdout.strip()) == 200
    _until(lambda: _status(service, key) == 401)


def test_a_team_says_what_is_kept(service: Service) -> None:
    assert told(service, "teams", "set", "typists", "--content", "none") == {"name": "typists", "content": "none"}
    told(service, "keys", "create", "--team", "typists")
    teams = {each["name"]: each for each in told(service, "teams", "list")["teams"]}
    assert (teams["typists"]["content"], teams["typists"]["keys"]) == ("none", 1)
    assert "redacted" in type_in(service, "teams", "set", "typists", "--content", "redacted").stdout
    assert any(line.split()[:3] == ["typists", "redacted", "1"] for line in type_in(service, "teams", "list").stdout.splitlines())


def test_chat_prints_the_answer_and_beside_it_what_it_cost(service: Service) -> None:
    asked = service.run("chat", "sandbox", "Hello", "there", "--max-tokens", "12")
    assert asked.returncode == 0 and "Narthex" in asked.stdout and asked.stdout.endswith("\n")
    assert (
        "Cut off" in asked.stderr
        and "12 out" in asked.stderr
        and "served by sandbox/sandbox" in asked.stderr
        and "inference 0" in asked.stderr
    )
    whole = told(service, "chat", "sandbox", "-", "--no-stream", "--temperature", "0", stdin="From a pipe.")
    assert "From a pipe." in whole["text"] and whole["first_token_s"] is None and whole["served"] == "sandbox/sandbox"
    assert whole["usage"]["output_tokens"] > 0 and whole["finish_reason"] == "stop" and whole["inference_id"]
    # A pipe without a message is the message.
    assert "Piped." in type_in(service, "chat", "sandbox", stdin="Piped.").stdout


def test_chat_tells_the_gateways_refusals_as_sentences(service: Service, tmp_path: Path) -> None:
    unknown = type_in(service, "chat", "nothing", "hi", "--json")
    error = json.loads(unknown.stderr)["error"]
    assert unknown.exit_code == 1 and unknown.stdout == "" and error["status"] == 404 and "sandbox" in error["message"]
    refused = type_in(service, "chat", "sandbox", "hi", "--key", "nx-000000000000-x")
    assert refused.exit_code == 1 and "not valid" in refused.stderr and "--key" in refused.stderr
    unreadable = type_in(service, "chat", "sandbox", "hi", "--key", "schlüssel")
    assert unreadable.exit_code == 1 and "cannot be a key" in unreadable.stderr and "schl" not in unreadable.stderr
    silent = type_in(service, "chat", "sandbox", "hi", "--url", "http://127.0.0.1:9/v1")
    assert silent.exit_code == 1 and "Nothing answers on http://127.0.0.1:9 " in silent.stderr and "narthex up" in silent.stderr
    elsewhere = Service(tmp_path, "", service.process, {**service.environment, "NARTHEX_HOME": str(tmp_path)})
    keyless = type_in(elsewhere, "chat", "sandbox", "hi")
    assert keyless.exit_code == 1 and "Which key?" in keyless.stderr


async def test_chat_shows_reasoning_tool_calls_and_refusals(service: Service, engine: ScriptedEngine) -> None:
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city"'}}
    engine.script = streaming(
        chunk({"role": "assistant", "reasoning_content": "Let me "}),
        chunk({"reasoning_content": "think."}),
        chunk({"content": "It is\x1b[31m raining."}),
        chunk({"tool_calls": [call]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ': "Oslo"}'}}]}),
        chunk({}, "tool_calls"),
        chunk(None, usage={"prompt_tokens": 3, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}}),
    )
    shown = await asyncio.to_thread(type_in, service, "chat", "scripted", "How is it?", "--system", "Be brief.")
    assert shown.stdout == 'It is\x1b[31m raining.\n→ weather({"city": "Oslo"})\n'
    assert shown.stderr.startswith("Let me think.\n") and "3 tokens in, 9 out (4 reasoning)" in shown.stderr
    assert _chats(engine)[0]["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How is it?"}]
    document = await asyncio.to_thread(told, service, "chat", "scripted", "How is it?")
    assert (document["reasoning"], document["text"]) == ("Let me think.", "It is\x1b[31m raining.")
    assert document["tool_calls"] == [{"id": "call_1", "name": "weather", "arguments": '{"city": "Oslo"}'}]

    async def refuse(asked: Asked) -> None:
        await asked.answer(200, json.dumps(completion(None, refusal="I may not.")).encode())

    engine.script = refuse
    refused = await asyncio.to_thread(type_in, service, "chat", "scripted", "hi", "--no-stream")
    assert refused.exit_code == 0 and refused.stdout == "Refused: I may not.\n"


async def test_chat_says_that_an_answer_broke_off(service: Service, engine: ScriptedEngine) -> None:
    async def dies(asked: Asked) -> None:
        asked.begin_stream()
        asked.frame(chunk({"content": "So far"}))
        await asked.writer.drain()
        asked.cut()

    engine.script = dies
    broken = await asyncio.to_thread(type_in, service, "chat", "scripted", "hi")
    assert (broken.exit_code, broken.stdout) == (1, "So far\n") and "ended early" in broken.stderr


async def test_chat_says_when_to_come_back(service: Service, engine: ScriptedEngine) -> None:
    async def busy(asked: Asked) -> None:
        await asked.answer(429, b'{"error": {"message": "Too much to do."}}', "content-type: application/json\r\nretry-after: 7\r\n")

    engine.script = busy
    refused = await asyncio.to_thread(type_in, service, "chat", "scripted", "hi")
    assert refused.exit_code == 1 and "Too much to do." in refused.stderr and refused.stderr.endswith("Try again in 7 s.\n")
    error = json.loads((await asyncio.to_thread(type_in, service, "chat", "scripted", "hi", "--json")).stderr)["error"]
    assert (error["status"], error["retry_after_s"]) == (429, 7)


def test_chat_tells_a_limit_in_the_rules_own_words(service: Service) -> None:
    """And adds nothing: the message has the time already."""
    rule = '[[limits]]\nname = "one an hour"\nscope = { team = "told by chat" }\nresource = "requests"\namount = 1\nper = "hour"\n'
    key = type_in(service, "keys", "create", "--team", "told by chat", "--quiet").stdout.strip()
    assert type_in(service, "apply", "--yes", "-", stdin=rule).exit_code == 0
    try:
        assert type_in(service, "chat", "sandbox", "hi", "--key", key).exit_code == 0
        refused = type_in(service, "chat", "sandbox", "hi", "--key", key)
        error = json.loads(type_in(service, "chat", "sandbox", "hi", "--key", key, "--json").stderr)["error"]
    finally:
        assert type_in(service, "apply", "--yes", "--prune", "-", stdin="limits = []\n").exit_code == 0
    assert refused.exit_code == 1 and "'one an hour'" in refused.stderr and "It passes in" in refused.stderr
    assert "Try again" not in refused.stderr
    assert error["code"] == "requests_limit_reached" and error["retry_after_s"] > 60


async def test_ctrl_c_stops_an_answer_and_its_engine(service: Service, engine: ScriptedEngine) -> None:
    left = asyncio.Event()

    async def endless(asked: Asked) -> None:
        asked.begin_stream()
        asked.frame(chunk({"content": "And then"}))
        await asked.writer.drain()
        await asyncio.wait_for(asked.left.wait(), 10)
        left.set()

    engine.script = endless
    asking = await asyncio.create_subprocess_exec(
        NARTHEX, "chat", "scripted", "hi", stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(service.environment)
    )
    assert asking.stdout is not None
    assert await asyncio.wait_for(asking.stdout.readexactly(8), 10) == b"And then"
    asking.send_signal(signal.SIGINT)
    _, complaint = await asyncio.wait_for(asking.communicate(), 10)
    assert asking.returncode == 130 and complaint == b"Stopped.\n"
    await asyncio.wait_for(left.wait(), 10)


async def test_a_conversation_remembers_and_stays_one_episode(service: Service, engine: ScriptedEngine) -> None:
    terminal, end = pty.openpty()
    environment = {**service.environment, "TERM": "dumb", "NO_COLOR": "1"}
    talking = await asyncio.to_thread(_talk, end, environment)
    answers = iter(("One\x07.", "Two."))

    async def answer(asked: Asked) -> None:
        if not asked.body:  # the gateway asks now and then which version this is
            await asked.whole()
            return
        await streaming(chunk({"role": "assistant", "content": next(answers)}), chunk({}, "stop"))(asked)

    engine.script = answer
    shown = ""
    try:
        await asyncio.to_thread(_read_until, terminal, "> ")
        for said in ("first", "second"):
            os.write(terminal, f"{said}\n".encode())
            shown += await asyncio.to_thread(_read_until, terminal, "inference ", "> ")
        os.write(terminal, b"\x04")
        assert await asyncio.to_thread(talking.wait, 10) == 0
    finally:
        if talking.poll() is None:
            talking.kill()
            talking.wait()
        os.close(terminal)
    assert "One\ufffd." in shown and "Two." in shown
    first, second = (body["messages"] for body in _chats(engine))
    assert first == [{"role": "user", "content": "first"}]
    assert [each["content"] for each in second] == ["first", "One\x07.", "second"]
    recorded = [await service.recorded(id) for id in re.findall(r"inference ([0-9a-f-]{36})", shown)]
    assert len(recorded) == 2 and len({each["episode_id"] for each in recorded}) == 1


def _chats(engine: ScriptedEngine) -> list[dict[str, Any]]:
    """What was asked of it, without the gateway's own questions of its version."""
    return [asked.body for asked in engine.asked if asked.body]


def _talk(end: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen([NARTHEX, "chat", "scripted"], stdin=end, stdout=end, stderr=end, env=environment, start_new_session=True)
    finally:
        os.close(end)


def _read_until(terminal: int, *words: str) -> str:
    """What a terminal shows until it has shown each of these, one after the other."""
    raw, until = b"", time.monotonic() + 15
    while not re.search(".*".join(re.escape(word) for word in words), raw.decode("utf-8", "replace"), re.DOTALL):
        assert time.monotonic() < until, raw
        if select.select([terminal], [], [], 0.1)[0]:
            raw += os.read(terminal, 4096)
    return raw.decode("utf-8", "replace")


def _status(service: Service, key: str) -> int:
    return httpx.get(f"{service.url}/v1/models", headers={"authorization": f"Bearer {key}"}, timeout=30, trust_env=False).status_code


def _row(service: Service, prefix: str) -> Any:
    return next(each for each in told(service, "keys", "list", "--all")["keys"] if each["prefix"] == prefix)


def _until(holds: Any, seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)
