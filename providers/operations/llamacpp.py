"""What llama.cpp's server can be told to do. Source: tools/server/README.md and server.cpp (autumn 2026), read 2026-11."""

from providers.operations.operation import Offer, Operation

_AT_START = "llama.cpp loads adapters at its start alone: --lora FILE."
_METRICS = "start llama.cpp's server with --metrics"

OFFER = Offer(
    {
        "metrics": Operation("GET", ("/metrics",), needs={501: _METRICS, 404: _METRICS}),
        "loras": Operation("GET", ("/lora-adapters",)),
        "generate": Operation("POST", ("/completion",), open=True, once=True),
    },
    without={
        "abort": "llama.cpp stops a request when its connection is closed.",
        "sleep": "llama.cpp sleeps by itself (--sleep-idle-seconds).",
        "wake": "llama.cpp wakes by itself, at the next request.",
        "load_lora": _AT_START,
        "unload_lora": _AT_START,
    },
)
