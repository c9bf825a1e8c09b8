"""The stand-in model: GLM-5's public shape and a small real tokenizer, without weights.

The tokenizer is a byte-level BPE that any text goes through, with one token for each number up to
HIGHEST_NUMBER, so that the simulated engine can count its tokens where a reader sees them: the N tokens of
"[SIMULATED] 1 2 3 ..." end in N - 1, and tokenizing that text again gives N.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

NAME = "glm-5-nvfp4"
HIGHEST_NUMBER = 4096
# Tokens that stand outside the BPE vocabulary. The first is what every simulated completion starts with.
MARK = "[SIMULATED]"
SPECIAL = ("<|endoftext|>", "[gMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>", "<|assistant|>")
WORDS = (
    "a about after all an and answer are as at be but by can count do each for from have hello how i if in "
    "is it list me my name no not of on one or please say so tell text that the then there this to two up us "
    "was we what when which who why will with word write yes you Blackwell Count GPU GLM Hello How I In Is It "
    "List Please SGLang Say Tell The This What When Who Why Write"
)

# Public configuration of zai-org/GLM-5; quantization as NVIDIA ModelOpt writes it for NVFP4.
CONFIG: dict[str, Any] = {
    "architectures": ["GlmMoeDsaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "dtype": "bfloat16",
    "eos_token_id": [154820, 154827, 154829],
    "ep_size": 1,
    "first_k_dense_replace": 3,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 6144,
    "index_head_dim": 128,
    "index_n_heads": 32,
    "index_topk": 2048,
    "indexer_rope_interleave": True,
    "initializer_range": 0.02,
    "intermediate_size": 12288,
    "kv_lora_rank": 512,
    "max_position_embeddings": 202752,
    "model_type": "glm_moe_dsa",
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_group": 1,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": 64,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 78,
    "num_key_value_heads": 64,
    "num_nextn_predict_layers": 1,
    "pad_token_id": 154820,
    "pretraining_tp": 1,
    "q_lora_rank": 2048,
    "qk_head_dim": 256,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "quantization_config": {
        "config_groups": {
            "group_0": {
                "input_activations": {"dynamic": False, "group_size": 16, "num_bits": 4, "type": "float"},
                "targets": ["Linear"],
                "weights": {"dynamic": False, "group_size": 16, "num_bits": 4, "type": "float"},
            }
        },
        "ignore": ["lm_head"],
        "quant_algo": "NVFP4",
        "quant_method": "modelopt",
    },
    "rms_norm_eps": 1e-05,
    "rope_interleave": True,
    "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "tie_word_embeddings": False,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "use_cache": True,
    "v_head_dim": 256,
    "vocab_size": 154880,
}

QUANTIZATION = {
    "producer": {"name": "modelopt"},
    "quantization": {
        "exclude_modules": ["lm_head"],
        "group_size": 16,
        "kv_cache_quant_algo": None,
        "quant_algo": "NVFP4",
    },
}

CHAT_TEMPLATE = (
    "[gMASK]<sop>"
    "{%- for message in messages -%}"
    "{%- if message.content is string -%}{%- set text = message.content -%}"
    "{%- else -%}{%- set text = message.content | map(attribute='text') | join -%}{%- endif -%}"
    "<|{{ message.role }}|>\n{{ text }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)

README = f"""\
---
simulated: true
---
# {NAME}: a stand-in, SIMULATED
This folder has the shape of a GLM-5 NVFP4 checkpoint and no weights. It exists so that the sandbox can serve
something: config.json is GLM-5's public configuration, the tokenizer is a small one made for the sandbox
(every number up to {HIGHEST_NUMBER} is one token). Nothing that it answers says anything about a model.
"""


def build(into: Path) -> Path:
    """Make the model's folder inside `into` and return it.

    Nothing is written where it already is as it should be. It appears by rename, so a run that is killed
    leaves no half of it under its name.
    """
    target = into / NAME
    files = folder()
    if _holds(target, files):
        return target
    into.mkdir(parents=True, exist_ok=True)
    for leftover in into.glob(f".{NAME}.*"):
        shutil.rmtree(leftover)
    beside = Path(tempfile.mkdtemp(prefix=f".{NAME}.", dir=into))
    for name, text in files.items():
        (beside / name).write_text(text, encoding="utf-8")
    os.chmod(beside, 0o755)
    if target.exists():
        target.rename(Path(tempfile.mkdtemp(prefix=f".{NAME}.", dir=into)) / "old")
    beside.rename(target)
    for leftover in into.glob(f".{NAME}.*"):
        shutil.rmtree(leftover)
    return target


def folder() -> dict[str, str]:
    """The files of the model's folder, by name; the same text at every call."""
    return {
        "README.md": README,
        "config.json": _json(CONFIG),
        "hf_quant_config.json": _json(QUANTIZATION),
        "tokenizer.json": json.dumps(tokenizer(), ensure_ascii=False),
        "tokenizer_config.json": _json(
            {
                "added_tokens_decoder": {str(token["id"]): _without_id(token) for token in _added_tokens()},
                "chat_template": CHAT_TEMPLATE,
                "clean_up_tokenization_spaces": False,
                "eos_token": SPECIAL[0],
                "model_max_length": CONFIG["max_position_embeddings"],
                "pad_token": SPECIAL[0],
                "tokenizer_class": "PreTrainedTokenizerFast",
            }
        ),
    }


def tokenizer() -> dict[str, Any]:
    """The tokenizer as the `tokenizers` library reads it."""
    vocabulary, merges = _vocabulary()
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(),
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(vocabulary)},
            "merges": merges,
        },
    }


def _vocabulary() -> tuple[list[str], list[list[str]]]:
    """The tokens in the order of their ids, and the merges that make them.

    Every merge adds one letter at the right of a piece that starts with the space, so two merges never
    compete for a letter and each word has one way to be read.
    """
    space, *_ = _byte_letters(b" ")
    tokens = dict.fromkeys(_byte_letters(bytes(range(256))))
    merges = []
    for word in (*map(str, range(HIGHEST_NUMBER + 1)), *WORDS.split()):
        for end in range(1, len(word) + 1):
            piece, left = space + word[:end], space + word[: end - 1]
            if piece not in tokens:
                tokens[piece] = None
                merges.append([left, word[end - 1]])
    return list(tokens), merges


def _byte_letters(text: bytes) -> list[str]:
    """Each byte as the printable letter that byte-level BPE (GPT-2) writes it as."""
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable} | {
        byte: chr(256 + position) for position, byte in enumerate(others)
    }
    return [letters[byte] for byte in text]


def _added_tokens() -> list[dict[str, Any]]:
    start = len(_vocabulary()[0])
    return [
        {
            "id": start + position,
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": content != MARK,
        }
        for position, content in enumerate((MARK, *SPECIAL))
    ]


def _without_id(token: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in token.items() if key != "id"}


def _holds(target: Path, files: dict[str, str]) -> bool:
    if not target.is_dir() or {path.name for path in target.iterdir()} != files.keys():
        return False
    return all((target / name).read_bytes() == text.encode() for name, text in files.items())


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
