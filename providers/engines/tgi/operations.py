"""Operations of TGI. Source: docs/sources.md#tgi (3.3), read 2026-11."""

from providers.operations.operation import (
    ABORTED_BY_CLOSING,
    EngineOperations,
    Operation,
    object_argument,
    string_argument,
)

_LORA_AT_STARTUP_ONLY = "TGI takes adapters only when it starts: LORA_ADAPTERS."

TGI_OPERATIONS = EngineOperations(
    {
        "metrics": Operation("GET", ("/metrics",)),
        "generate": Operation(
            "POST", ("/generate",), {"inputs": string_argument(required=True), "parameters": object_argument()}, on_one_endpoint=True
        ),
    },
    unavailable={"abort": ABORTED_BY_CLOSING, "load_lora": _LORA_AT_STARTUP_ONLY, "unload_lora": _LORA_AT_STARTUP_ONLY},
)
