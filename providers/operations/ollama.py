"""What Ollama can be told to do: models are loaded and let go by keep_alive. Source: docs/api.md (2026-08), read 2026-11."""

from providers.operations.operation import Offer, Operation

_NOW = {"keep_alive": 0, "stream": False}

OFFER = Offer(
    {
        "sleep": Operation("POST", ("/api/generate",), fixed=_NOW, model_as="model"),
        "wake": Operation("POST", ("/api/generate",), fixed={"stream": False}, model_as="model"),
        "is_sleeping": Operation("GET", ("/api/ps",)),
        "generate": Operation("POST", ("/api/generate",), fixed={"stream": False}, open=True, model_as="model", once=True),
    },
    without={
        "abort": "Ollama stops a request when its connection is closed.",
        "metrics": "Ollama has none.",
        "load_lora": "an adapter is part of a model that is made with `ollama create`.",
        "unload_lora": "an adapter is part of a model that is made with `ollama create`.",
    },
)
