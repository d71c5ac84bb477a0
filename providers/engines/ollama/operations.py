"""Operations of Ollama: models are loaded and unloaded by keep_alive. Source: docs/api.md (2026-08), read 2026-11."""

from providers.operations.operation import EngineOperations, Operation

_UNLOAD_NOW = {"keep_alive": 0, "stream": False}

OLLAMA_OPERATIONS = EngineOperations(
    {
        "sleep": Operation("POST", ("/api/generate",), fixed_body=_UNLOAD_NOW, model_field="model"),
        "wake": Operation("POST", ("/api/generate",), fixed_body={"stream": False}, model_field="model"),
        "is_sleeping": Operation("GET", ("/api/ps",)),
        "generate": Operation(
            "POST", ("/api/generate",), fixed_body={"stream": False}, accepts_any_field=True, model_field="model", on_one_endpoint=True
        ),
    },
    unavailable={
        "abort": "Ollama stops a request when its connection is closed.",
        "metrics": "Ollama has none.",
        "load_lora": "an adapter is part of a model that is made with `ollama create`.",
        "unload_lora": "an adapter is part of a model that is made with `ollama create`.",
    },
)
