"""A tiny Llama with random weights as a GGUF file for llama.cpp, written without its packages.

A token is an ASCII character or one of a few complete other characters: llama.cpp's response parser fails on parts of a character, and
llama-cpp-python waits silently for the rest.
"""

import random
import struct
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.engines.tiny_model import BEGIN, END, MARKS, PAD, ROLES, byte_names

# Constants of the format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, read 2026-11.
_MAGIC, _VERSION, _ALIGNMENT = b"GGUF", 3, 32
_U32, _F32, _STRING, _ARRAY, _I32 = 4, 6, 8, 9, 5
_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4

_WIDE = "Łóźößéя語🜁"
_WIDTH, _INNER, _LAYERS, _HEADS = 64, 128, 2, 2

# llama.cpp detects from the template that the model supports tools, and which token ends a message.
CHAT_TEMPLATE = (
    "{% if tools %}<|system|>{{ tools | tojson }}<|end|>{% endif %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content if m.content is string else '' }}"
    "{% for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def write_tiny_gguf(path: Path, context: int) -> None:
    """Write the model. The file depends only on `context`."""
    control = [PAD, BEGIN, END, *(f"<|{role}|>" for role in ROLES)]
    names = byte_names()
    characters = [*names[:128], *("".join(names[byte] for byte in character.encode()) for character in _WIDE)]
    tokens = [*control, *MARKS, *characters]
    kinds = [_CONTROL] * len(control) + [_USER_DEFINED] * len(MARKS) + [_NORMAL] * len(characters)
    metadata = {
        "general.architecture": _text("llama"),
        "general.name": _text("tiny"),
        "llama.context_length": _number(context),
        "llama.embedding_length": _number(_WIDTH),
        "llama.block_count": _number(_LAYERS),
        "llama.feed_forward_length": _number(_INNER),
        "llama.attention.head_count": _number(_HEADS),
        "llama.attention.head_count_kv": _number(_HEADS),
        "llama.attention.layer_norm_rms_epsilon": struct.pack("<If", _F32, 1e-5),
        "llama.vocab_size": _number(len(tokens)),
        "tokenizer.ggml.model": _text("gpt2"),
        "tokenizer.ggml.pre": _text("gpt-2"),
        "tokenizer.ggml.tokens": _texts(tokens),
        "tokenizer.ggml.token_type": struct.pack("<IIQ", _ARRAY, _I32, len(kinds)) + array("i", kinds).tobytes(),
        "tokenizer.ggml.merges": _texts([]),
        "tokenizer.ggml.bos_token_id": _number(tokens.index(BEGIN)),
        "tokenizer.ggml.eos_token_id": _number(tokens.index(END)),
        "tokenizer.ggml.padding_token_id": _number(tokens.index(PAD)),
        "tokenizer.chat_template": _text(CHAT_TEMPLATE),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_file(metadata, _shapes(len(tokens))))


def _shapes(vocabulary: int) -> Mapping[str, tuple[int, ...]]:
    """The shape of each tensor, fastest dimension first."""
    layer_shapes = {
        "attn_norm": (_WIDTH,),
        "attn_q": (_WIDTH, _WIDTH),
        "attn_k": (_WIDTH, _WIDTH),
        "attn_v": (_WIDTH, _WIDTH),
        "attn_output": (_WIDTH, _WIDTH),
        "ffn_norm": (_WIDTH,),
        "ffn_gate": (_WIDTH, _INNER),
        "ffn_up": (_WIDTH, _INNER),
        "ffn_down": (_INNER, _WIDTH),
    }
    layers = {f"blk.{layer}.{name}.weight": shape for layer in range(_LAYERS) for name, shape in layer_shapes.items()}
    other_shapes = {"token_embd.weight": (_WIDTH, vocabulary), "output_norm.weight": (_WIDTH,), "output.weight": (_WIDTH, vocabulary)}
    return other_shapes | layers


def _file(metadata: Mapping[str, bytes], shapes: Mapping[str, tuple[int, ...]]) -> bytes:
    rng = random.Random(1)
    head = _MAGIC + struct.pack("<IQQ", _VERSION, len(shapes), len(metadata))
    head += b"".join(_name(key) + value for key, value in metadata.items())
    data = b""
    for name, shape in shapes.items():
        head += _name(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += _padded(_weights(shape, rng))
    return _padded(head) + data


def _weights(shape: Sequence[int], rng: random.Random) -> bytes:
    if len(shape) == 1:  # a norm
        return array("f", [1.0] * shape[0]).tobytes()
    return array("f", [rng.gauss(0, 0.02) for _ in range(shape[0] * shape[1])]).tobytes()


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGNMENT)


def _name(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _text(text: str) -> bytes:
    return struct.pack("<I", _STRING) + _name(text)


def _texts(texts: Sequence[str]) -> bytes:
    return struct.pack("<IIQ", _ARRAY, _STRING, len(texts)) + b"".join(map(_name, texts))


def _number(number: int) -> bytes:
    return struct.pack("<II", _U32, number)
