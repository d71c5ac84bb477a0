"""What engines with few calls of their own can be told to do.

Sources: /reference/engines.md part 1 (TGI 3.3, mini-sglang 2026-03, transformers serve 5.19, llama-cpp-python 0.3.36), read 2026-11.
"""

from collections.abc import Mapping

from providers.operations.operation import EngineOperations, Operation, object_argument, string_argument

_ABORT_BY_CLOSING = "this engine stops a request when its connection is closed."

TGI_OPERATIONS = EngineOperations(
    {
        "metrics": Operation("GET", ("/metrics",)),
        "generate": Operation(
            "POST", ("/generate",), {"inputs": string_argument(required=True), "parameters": object_argument()}, on_one_endpoint=True
        ),
    },
    unavailable={
        "abort": _ABORT_BY_CLOSING,
        "load_lora": "TGI takes adapters at its start alone: LORA_ADAPTERS.",
        "unload_lora": "TGI takes adapters at its start alone: LORA_ADAPTERS.",
    },
)

# It streams in any case: the answer is the stream's text.
MINI_SGLANG_OPERATIONS = EngineOperations(
    {"generate": Operation("POST", ("/generate",), accepts_any_field=True, on_one_endpoint=True)}, unavailable={"abort": _ABORT_BY_CLOSING}
)

TRANSFORMERS_OPERATIONS = EngineOperations(
    {"sleep": Operation("POST", ("/reset",))},
    unavailable={"abort": _ABORT_BY_CLOSING, "wake": "transformers serve loads a model when it is next asked for."},
)

LLAMACPP_PYTHON_OPERATIONS = EngineOperations({}, unavailable={"abort": _ABORT_BY_CLOSING})

SANDBOX_OPERATIONS = EngineOperations({"metrics": Operation("GET", ("/metrics",))}, unavailable={"abort": _ABORT_BY_CLOSING})

SMALL_ENGINE_OPERATIONS: Mapping[str, EngineOperations] = {
    "tgi": TGI_OPERATIONS,
    "mini_sglang": MINI_SGLANG_OPERATIONS,
    "transformers": TRANSFORMERS_OPERATIONS,
    "llamacpp_python": LLAMACPP_PYTHON_OPERATIONS,
    "sandbox": SANDBOX_OPERATIONS,
}
