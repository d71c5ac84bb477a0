"""What a real vLLM can be told to do through the gateway, and LoRA adapters as models: loaded, asked for, and let go."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.engines.install import VENV
from tests.engines.running_narthex import MODEL, Gateway, running_narthex, serving
from tests.engines.running_vllm import Engine, running_vllm
from tests.engines.tiny_lora import RANK, write_tiny_lora

pytestmark = pytest.mark.engines

# With a slash, as adapters are named that come from a hub.
ADAPTER = "acme/sql"
HI: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 12, "temperature": 0, "ignore_eos": True}


class Admin(NamedTuple):
    """Callers' and administrators' sides of one gateway."""

    caller: httpx.Client
    admin: httpx.Client

    def say(self, model: str) -> httpx.Response:
        return self.caller.post("/v1/chat/completions", json={"model": model, **HI})

    def tell(self, operation: str, **arguments: Any) -> httpx.Response:
        return self.admin.post(f"/admin/v1/models/{MODEL}/engine/{operation}", json=arguments)

    def told(self, operation: str, **arguments: Any) -> Any:
        answer = self.tell(operation, **arguments)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"][0]["answer"]


@pytest.fixture(scope="module")
def willing(narthex: Gateway) -> Iterator[Engine]:
    """A vLLM that may be told everything; `narthex` is asked for so that the other one was found able to start."""
    with running_vllm(
        VENV,
        switches=("--enable-lora", "--max-lora-rank", str(RANK)),
        environment={"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_SERVER_DEV_MODE": "1"},
    ) as engine:
        yield engine


@pytest.fixture(scope="module")
def gateway(willing: Engine) -> Iterator[Admin]:
    """Models: tiny, and `sql`, which is it with the adapter."""
    lora = f'[models.sql]\ntargets = [{{ provider = "{MODEL}", model = "{willing.model}", lora = "{ADAPTER}" }}]\n'
    with running_narthex(serving("vllm", willing) + lora, (MODEL, "sql")) as running:
        root = running.base_url.removesuffix("/v1")
        with (
            httpx.Client(base_url=root, headers={"authorization": f"Bearer {running.key}"}, timeout=60) as caller,
            httpx.Client(base_url=root, headers={"authorization": f"Bearer {running.admin_key}"}, timeout=60) as admin,
        ):
            yield Admin(caller, admin)


def test_an_adapter_is_a_model_from_when_it_is_loaded_until_it_is_let_go(gateway: Admin, tmp_path: Path):
    write_tiny_lora(tmp_path / "sql", seed=7)
    before = gateway.say("sql")
    assert before.status_code == 404
    assert ADAPTER in before.json()["error"]["message"]

    assert "added" in gateway.told("load_lora", lora_name=ADAPTER, lora_path=str(tmp_path / "sql"))
    base, tuned = gateway.say(MODEL), gateway.say("sql")
    assert (base.status_code, tuned.status_code) == (200, 200), tuned.text
    assert tuned.json()["model"] == "sql"
    assert tuned.json()["choices"][0]["message"]["content"] != base.json()["choices"][0]["message"]["content"]
    again = gateway.tell("load_lora", lora_name=ADAPTER, lora_path=str(tmp_path / "sql"))
    assert again.status_code == 400
    assert "already been loaded" in again.json()["error"]["message"]

    assert "removed" in gateway.told("unload_lora", lora_name=ADAPTER)
    assert gateway.say("sql").status_code == 404
    absent = gateway.tell("unload_lora", lora_name=ADAPTER)
    assert absent.status_code == 404
    assert "cannot be found" in absent.json()["error"]["message"]


def test_an_adapter_that_is_not_where_it_is_said_to_be_is_a_404(gateway: Admin, tmp_path: Path):
    answer = gateway.tell("load_lora", lora_name="none", lora_path=str(tmp_path / "none"))
    assert answer.status_code == 404
    assert "No adapter found" in answer.json()["error"]["message"]


def test_it_sleeps_and_wakes_and_forgets(gateway: Admin):
    assert gateway.told("is_sleeping") == {"is_sleeping": False}
    gateway.told("sleep", level=1)
    assert gateway.told("is_sleeping") == {"is_sleeping": True}
    gateway.told("wake")
    assert gateway.told("is_sleeping") == {"is_sleeping": False}
    gateway.told("flush_cache")
    gateway.told("abort", abort_all=True)
    assert gateway.say(MODEL).status_code == 200


def test_its_native_generate_and_metrics_are_told_as_they_are(gateway: Admin):
    answer = gateway.told("generate", token_ids=[40, 41], sampling_params={"max_tokens": 5, "temperature": 0, "ignore_eos": True})
    assert len(answer["choices"][0]["token_ids"]) == 5
    assert "vllm:num_requests_running" in gateway.told("metrics")


def test_what_it_was_not_started_for_is_a_501_that_says_with_what_to_start_it(narthex: Gateway):
    with httpx.Client(
        base_url=narthex.base_url.removesuffix("/v1"), headers={"authorization": f"Bearer {narthex.admin_key}"}, timeout=60
    ) as admin:
        for operation, arguments, needs in (
            ("sleep", {}, "VLLM_SERVER_DEV_MODE"),
            ("flush_cache", {}, "VLLM_SERVER_DEV_MODE"),
            ("load_lora", {"lora_name": "a", "lora_path": "/a"}, "VLLM_ALLOW_RUNTIME_LORA_UPDATING"),
            ("terminate", {"confirm": True}, "end its process"),
        ):
            answer = admin.post(f"/admin/v1/models/{MODEL}/engine/{operation}", json=arguments)
            assert answer.status_code == 501, answer.text
            assert needs in answer.json()["error"]["message"]
