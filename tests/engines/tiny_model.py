"""A tiny Llama for real engines: two layers, no weights (the engine makes random ones), a byte-level tokenizer.

One token is one byte, so random output under a grammar exercises every byte of it, and no hub or training is needed.
"""

import json
from collections.abc import Mapping
from pathlib import Path

BEGIN, END, PAD = "<|begin|>", "<|end|>", "<|pad|>"
ROLES = ("system", "developer", "user", "assistant", "tool")
# Not "special": vLLM's parsers look for these in the text, which does not contain special tokens.
MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
SPECIAL = (PAD, BEGIN, END, *(f"<|{role}|>" for role in ROLES))
CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content if m.content is string else '' }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% if thinking %}<think>{% endif %}{% endif %}"
)


def write_tiny_model(folder: Path, context: int) -> None:
    """Everything that `vllm serve folder --load-format dummy` reads."""
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *MARKS, *byte_names()])}
    ids = {"bos_token_id": vocabulary[BEGIN], "eos_token_id": vocabulary[END], "pad_token_id": vocabulary[PAD]}
    added = [
        {"id": vocabulary[token], "content": token, "special": token in SPECIAL}
        | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        for token in (*SPECIAL, *MARKS)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "config.json", _LLAMA | ids | {"vocab_size": len(vocabulary), "max_position_embeddings": context})
    _write(folder / "generation_config.json", ids)
    _write(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "added_tokens": added,
            "pre_tokenizer": byte_level,
            "decoder": byte_level,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        },
    )
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": BEGIN,
            "eos_token": END,
            "pad_token": PAD,
            "model_max_length": context,
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    )


# The head size is 64, the smallest that vLLM's CPU attention supports in all builds.
_LLAMA: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}


def token_id(mark: str) -> int:
    """The id of a token of MARKS, for a logit bias that leads the model there."""
    return (*SPECIAL, *MARKS).index(mark)


def byte_names() -> list[str]:
    """GPT-2's spelling of the 256 bytes, in their order: printable ones as themselves, others as characters from U+0100 on."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def _write(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content))
