"""What an SGLang server can be told to do.

Sources: sglang/srt/entrypoints/http_server.py, managers/io_struct.py (0.5.23), read 2026-11.
"""

from collections.abc import Mapping

from providers.operations.operation import Argument, Offer, Operation, flag, integer, items, string, table

_METRICS = "start SGLang with --enable-metrics"
# What every way of updating weights takes.
_AFTER: Mapping[str, Argument] = {"flush_cache": flag(), "abort_all_requests": flag(), "weight_version": string()}

OFFER = Offer(
    {
        "metrics": Operation("GET", ("/metrics",), needs={404: _METRICS}),
        # A rid stops all requests that begin with it, and without one it is the empty one.
        "abort": Operation(
            "POST",
            ("/abort_request",),
            {"rid": string(), "abort_all": flag(), "finished_reason": table(), "abort_message": string()},
            either=("rid", "abort_all"),
        ),
        "sleep": Operation("POST", ("/release_memory_occupation",), {"tags": items()}),
        "wake": Operation("POST", ("/resume_memory_occupation",), {"tags": items()}),
        "flush_cache": Operation("POST", ("/flush_cache",), {"timeout": Argument("number", place="query")}),
        "pause": Operation("POST", ("/pause_generation",), {"mode": string()}),
        "resume": Operation("POST", ("/continue_generation",), {"torch_empty_cache": flag()}),
        "update_weights": Operation(
            "POST",
            ("/update_weights_from_disk",),
            {
                "model_path": string(required=True),
                "load_format": string(),
                **_AFTER,
                "is_async": flag(),
                "torch_empty_cache": flag(),
                "keep_pause": flag(),
                "recapture_cuda_graph": flag(),
                "token_step": integer(),
                "manifest": table(),
            },
        ),
        "init_weights": Operation(
            "POST",
            ("/init_weights_update_group",),
            {
                "master_address": string(required=True),
                "master_port": integer(required=True),
                "rank_offset": integer(required=True),
                "world_size": integer(required=True),
                "group_name": string(),
                "backend": string(),
            },
        ),
        "finish_weights": Operation("POST", ("/destroy_weights_update_group",), {"group_name": string()}),
        "update_weights_from_tensor": Operation(
            "POST", ("/update_weights_from_tensor",), {"serialized_named_tensors": items(required=True), "load_format": string(), **_AFTER}
        ),
        "update_weights_from_distributed": Operation(
            "POST",
            ("/update_weights_from_distributed",),
            {
                "names": items(required=True),
                "dtypes": items(required=True),
                "shapes": items(required=True),
                "group_name": string(),
                "load_format": string(),
                **_AFTER,
            },
        ),
        "update_weights_from_ipc": Operation("POST", ("/update_weights_from_ipc",), {"zmq_handles": table(required=True), **_AFTER}),
        "load_lora": Operation(
            "POST", ("/load_lora_adapter",), {"lora_name": string(required=True), "lora_path": string(required=True), "pinned": flag()}
        ),
        "unload_lora": Operation("POST", ("/unload_lora_adapter",), {"lora_name": string(required=True)}),
        "generate": Operation("POST", ("/generate",), open=True, once=True),
    },
    without={
        "is_sleeping": "SGLang does not tell it.",
        "terminate": "SGLang has no call for it: end its process where it runs.",
    },
)
