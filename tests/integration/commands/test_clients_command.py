"""narthex clients setup, against a running gateway: the models of a key, as the gateway lists them."""

import json
import tomllib

from tests.support.processes.service import Service


def test_setup_prints_a_configuration_with_the_models_that_the_key_may_use(service: Service) -> None:
    service.apply("""
        [models]
        cs-chats = { targets = [{ provider = "sandbox", model = "sandbox" }], context_length = 9000 }
        cs-embeds = { targets = [{ provider = "sandbox", model = "sandbox" }], capabilities = ["embeddings"] }
        cs-other = { targets = [{ provider = "sandbox", model = "sandbox" }] }
    """)
    created = service.run("keys", "create", "--team", "cs-team", "--model", "cs-chats", "--model", "cs-embeds", "--json")
    key = json.loads(created.stdout)["key"]
    document = json.loads(service.run("clients", "setup", "opencode", "--key", key, "--json").stdout)
    assert (document["model"], document["models"], document["url"]) == ("cs-chats", ["cs-chats"], service.url)
    configured = json.loads(document["steps"][0]["text"])["provider"]["narthex"]
    assert configured["models"]["cs-chats"]["limit"]["context"] == 9000
    assert configured["options"]["baseURL"] == f"{service.url}/v1" and key not in document["steps"][0]["text"]
    printed = service.run("clients", "setup", "codex", "--key", key)
    assert tomllib.loads(printed.stdout)["model"] == "cs-chats" and "NARTHEX_API_KEY" in printed.stderr


def test_setup_refuses_a_model_that_the_key_may_not_use_and_a_key_that_nobody_has(service: Service) -> None:
    refused = service.run("clients", "setup", "zed", "--key", service.key, "--model", "none-of-these")
    assert refused.returncode == 1 and "may not use the model 'none-of-these'. It may use: " in refused.stderr
    unknown = service.run("clients", "setup", "zed", "--key", "nx-nobody")
    assert unknown.returncode == 1 and "The key came from --key or NARTHEX_KEY." in unknown.stderr
    assert service.run("clients", "setup", "emacs").returncode == 2
