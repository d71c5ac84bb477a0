"""What a vLLM can be told to do.

Sources: vllm/entrypoints/serve/dev, serve/lora, rl/online, scale_out (0.32), read 2026-11.
"""

from providers.operations.operation import Offer, Operation, flag, integer, items, string, table

_DEV = "start vLLM with VLLM_SERVER_DEV_MODE=1"
_LORA = "start vLLM with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and --enable-lora"
_ABORT = "start vLLM with VLLM_SERVER_DEV_MODE=1, or with --enable-scale-out"
_SCALE_OUT = "start vLLM with --enable-scale-out"

OFFER = Offer(
    {
        "metrics": Operation("GET", ("/metrics",)),
        # Without request_ids, or with none in it, the first of them aborts all, and the second refuses, or does nothing: all must be asked
        # for. `abort_all` is our word, as other engines have it.
        "abort": Operation(
            "POST",
            ("/abort_requests", "/inference/v1/abort_requests"),
            {"request_ids": items(), "abort_all": flag(place="nowhere")},
            needs={403: _ABORT, 404: _ABORT},
            either=("request_ids", "abort_all"),
        ),
        "sleep": Operation("POST", ("/sleep",), {"level": integer(place="query"), "mode": string(place="query")}, needs={404: _DEV}),
        "wake": Operation("POST", ("/wake_up",), {"tags": items(place="query")}, needs={404: _DEV}),
        "is_sleeping": Operation("GET", ("/is_sleeping",), needs={404: _DEV}),
        "flush_cache": Operation(
            "POST",
            ("/reset_prefix_cache",),
            {"reset_running_requests": flag(place="query"), "reset_external": flag(place="query")},
            needs={404: _DEV},
        ),
        "pause": Operation("POST", ("/pause",), {"mode": string(place="query"), "clear_cache": flag(place="query")}, needs={404: _DEV}),
        "resume": Operation("POST", ("/resume",), needs={404: _DEV}),
        "init_weights": Operation("POST", ("/init_weight_transfer_engine",), {"init_info": table(required=True)}, needs={404: _DEV}),
        "start_weights": Operation("POST", ("/start_weight_update",), needs={404: _DEV}),
        "update_weights": Operation("POST", ("/update_weights",), {"update_info": table(required=True)}, needs={404: _DEV}),
        "finish_weights": Operation("POST", ("/finish_weight_update",), {"weight_version": string()}, needs={404: _DEV}),
        "weight_version": Operation("GET", ("/weight_info",), needs={404: _DEV}),
        "load_lora": Operation(
            "POST",
            ("/v1/load_lora_adapter",),
            {
                "lora_name": string(required=True),
                "lora_path": string(required=True),
                "load_inplace": flag(),
                "is_3d_lora_weight": flag(),
            },
            needs={404: _LORA},
        ),
        "unload_lora": Operation(
            "POST", ("/v1/unload_lora_adapter",), {"lora_name": string(required=True), "lora_int_id": integer()}, needs={404: _LORA}
        ),
        "generate": Operation(
            "POST", ("/inference/v1/generate",), open=True, model_as="model", needs={403: _SCALE_OUT, 404: _SCALE_OUT}, once=True
        ),
    },
    without={"terminate": "vLLM has no call for it: end its process where it runs."},
)
