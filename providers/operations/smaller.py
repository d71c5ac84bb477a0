"""What engines with few calls of their own can be told to do.

Sources: /reference/engines.md part 1 (TGI 3.3, mini-sglang 2026-03, transformers serve 5.19, llama-cpp-python 0.3.36), read 2026-11.
"""

from collections.abc import Mapping

from providers.operations.operation import Offer, Operation, string, table

_BY_CLOSING = "this engine stops a request when its connection is closed."

TGI = Offer(
    {
        "metrics": Operation("GET", ("/metrics",)),
        "generate": Operation("POST", ("/generate",), {"inputs": string(required=True), "parameters": table()}, once=True),
    },
    without={
        "abort": _BY_CLOSING,
        "load_lora": "TGI takes adapters at its start alone: LORA_ADAPTERS.",
        "unload_lora": "TGI takes adapters at its start alone: LORA_ADAPTERS.",
    },
)

# It streams in any case: the answer is the stream's text.
MINI_SGLANG = Offer({"generate": Operation("POST", ("/generate",), open=True, once=True)}, without={"abort": _BY_CLOSING})

TRANSFORMERS = Offer(
    {"sleep": Operation("POST", ("/reset",))},
    without={"abort": _BY_CLOSING, "wake": "transformers serve loads a model when it is next asked for."},
)

LLAMACPP_PYTHON = Offer({}, without={"abort": _BY_CLOSING})

SANDBOX = Offer({"metrics": Operation("GET", ("/metrics",))}, without={"abort": _BY_CLOSING})

SMALLER: Mapping[str, Offer] = {
    "tgi": TGI,
    "mini_sglang": MINI_SGLANG,
    "transformers": TRANSFORMERS,
    "llamacpp_python": LLAMACPP_PYTHON,
    "sandbox": SANDBOX,
}
