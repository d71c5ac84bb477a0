"""Configurations of other gateways: imported, applied to a running service, and serving requests."""

import json
import tomllib
from pathlib import Path

import openai

from tests.support.processes.service import Service
from tests.support.scripted_engine import ScriptedEngine

LITELLM = """
model_list:
  - model_name: from-litellm
    litellm_params:
      model: lm_studio/engine-model
      api_base: http://127.0.0.1:{engine}/v1
      api_key: literal-key-of-lm-studio
      rpm: 1000
  - model_name: from-litellm-spare
    litellm_params:
      model: xinference/sandbox
      api_base: {sandbox}
      weight: 1
  - model_name: from-litellm-spare
    litellm_params:
      model: xinference/sandbox
      api_base: http://127.0.0.1:9/v1
      weight: 0
  - model_name: from-litellm-broken
    litellm_params:
      model: xinference/nothing
      api_base: http://127.0.0.1:9/v1
router_settings:
  routing_strategy: usage-based-routing
  model_group_alias: {{ alias-of-litellm: from-litellm-spare }}
  fallbacks: [{{ from-litellm-broken: [from-litellm-spare] }}]
  num_retries: 0
litellm_settings:
  cache: true
"""


def sandbox_address(service: Service) -> str:
    return str(tomllib.loads(service.run("export").stdout)["providers"]["sandbox"]["base_url"])


async def test_litellm_configuration_serves_requests(
    service: Service, sdk: openai.AsyncOpenAI, engine: ScriptedEngine, tmp_path: Path
) -> None:
    source, file = tmp_path / "config.yaml", tmp_path / "narthex.toml"
    source.write_text(LITELLM.format(engine=engine.port, sandbox=sandbox_address(service)))
    imported = service.run("import", str(source), "--output", str(file))
    assert imported.returncode == 0 and "litellm_settings.cache" in imported.stderr, imported.stderr
    assert "narthex credentials set lm_studio" in imported.stderr and "literal" not in file.read_text() + imported.stderr
    applied = service.run("apply", str(file), "--yes")
    assert applied.returncode == 0 and "no credential 'lm_studio' is stored" in applied.stdout, applied.stderr
    stored = service.run("credentials", "set", "lm_studio", stdin="literal-key-of-lm-studio")
    assert stored.returncode == 0, stored.stderr

    message = {"role": "user", "content": "Hello!"}
    answer = await sdk.chat.completions.create(model="from-litellm", messages=[message])  # pyright: ignore[reportArgumentType]
    assert answer.choices[0].message.content
    (received,) = engine.requests
    assert received.headers["authorization"] == "Bearer literal-key-of-lm-studio" and json.loads(received.raw)["model"] == "engine-model"
    for model in ("from-litellm-spare", "alias-of-litellm", "from-litellm-broken"):
        raw = await sdk.chat.completions.with_raw_response.create(model=model, messages=[message])  # pyright: ignore[reportArgumentType]
        assert raw.headers["x-narthex-served"] == "xinference/sandbox"
    limits = {each["name"] for each in tomllib.loads(service.run("export").stdout)["limits"]}
    assert "from-litellm requests per minute" in limits
    again = service.run("import", str(source))
    assert again.stdout == file.read_text() and service.run("apply", str(file), "--yes").stdout.strip() == "Nothing to change."


TENSORZERO = """
[gateway]
bind_address = "0.0.0.0:3000"

[models.from-tensorzero]
routing = ["broken", "pool"]

[models.from-tensorzero.providers.broken]
type = "openai"
api_base = "http://127.0.0.1:9/v1"
model_name = "nothing"
api_key_location = "none"

[models.from-tensorzero.providers.pool]
type = "openai"
api_base = "{engine}"
model_name = "engine-model"
api_key_location = "none"

[metrics.liked-by-tensorzero]
type = "boolean"
level = "inference"
optimize = "max"

[functions.drafts-of-tensorzero]
type = "chat"

[functions.drafts-of-tensorzero.variants.terse]
type = "chat_completion"
model = "from-tensorzero"
templates.system.path = "templates/terse.minijinja"
temperature = 0.25

[functions.drafts-of-tensorzero.variants.wordy]
type = "chat_completion"
model = "from-tensorzero"
system_template = "templates/wordy.minijinja"

[functions.drafts-of-tensorzero.experimentation]
type = "static"
candidate_variants = {{ terse = 0.5, wordy = 0.5 }}
"""


async def test_tensorzero_configuration_serves_requests(
    service: Service, sdk: openai.AsyncOpenAI, engine: ScriptedEngine, tmp_path: Path
) -> None:
    source, file = tmp_path / "tensorzero.toml", tmp_path / "narthex.toml"
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "terse.minijinja").write_text("Answer in one sentence.")
    (tmp_path / "templates" / "wordy.minijinja").write_text("Answer at length.")
    source.write_text(TENSORZERO.format(engine=f"http://127.0.0.1:{engine.port}/v1"))
    imported = service.run("import", str(source), "--output", str(file))
    assert imported.returncode == 0 and "gateway.bind_address" in imported.stderr, imported.stderr
    applied = service.run("apply", str(file), "--yes")
    assert applied.returncode == 0, applied.stderr
    message = {"role": "user", "content": "Hello!"}
    for model in ("tensorzero::model_name::from-tensorzero", "from-tensorzero"):
        raw = await sdk.chat.completions.with_raw_response.create(model=model, messages=[message])  # pyright: ignore[reportArgumentType]
        assert raw.headers["x-narthex-served"] == "openai-2/engine-model"
    for variant, system, temperature in (("terse", "Answer in one sentence.", 0.25), ("wordy", "Answer at length.", None)):
        engine.requests.clear()
        await sdk.chat.completions.create(
            model="tensorzero::function_name::drafts-of-tensorzero",
            messages=[message],  # pyright: ignore[reportArgumentType]
            extra_headers={"x-narthex-variant": variant},
        )
        sent = json.loads(engine.requests[-1].raw)
        assert sent["messages"] == [{"role": "system", "content": system}, message] and sent.get("temperature") == temperature
    assert service.run("import", str(source)).stdout == file.read_text()
    assert service.run("apply", str(file), "--yes").stdout.strip() == "Nothing to change."
