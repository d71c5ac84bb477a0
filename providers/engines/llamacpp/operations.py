"""Operations of llama.cpp's server. Source: tools/server/README.md and server.cpp (autumn 2026), read 2026-11."""

from providers.operations.operation import EngineOperations, Operation

_LORA_AT_STARTUP_ONLY = "llama.cpp loads adapters only when it starts: --lora FILE."
_METRICS_REQUIREMENT = "start llama.cpp's server with --metrics"

LLAMACPP_OPERATIONS = EngineOperations(
    {
        "metrics": Operation("GET", ("/metrics",), startup_requirements={501: _METRICS_REQUIREMENT, 404: _METRICS_REQUIREMENT}),
        "loras": Operation("GET", ("/lora-adapters",)),
        "generate": Operation("POST", ("/completion",), accepts_any_field=True, on_one_endpoint=True),
    },
    unavailable={
        "abort": "llama.cpp stops a request when its connection is closed.",
        "sleep": "llama.cpp sleeps by itself (--sleep-idle-seconds).",
        "wake": "llama.cpp wakes by itself, at the next request.",
        "load_lora": _LORA_AT_STARTUP_ONLY,
        "unload_lora": _LORA_AT_STARTUP_ONLY,
    },
)
