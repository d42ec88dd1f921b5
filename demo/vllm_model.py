"""Make a tiny model of random weights for a real vLLM, in the form that it loads.

Run by ``scripts/vllm`` with the Python that vLLM is installed for::

    python demo/vllm_model.py FILE.gguf FOLDER

Its tokenizer and chat template are those of the GGUF file, so that text, counts and
special tokens are real; what it writes makes no sense. The tags of reasoning are added
as tokens of their own, which a reasoning parser looks for.
"""

from pathlib import Path
import sys

import torch
from transformers import (
    AutoTokenizer,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
)

_CONTEXT_TOKENS = 8192


def make(gguf: Path, folder: Path) -> None:
    """Write model, tokenizer and chat template into a folder."""
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.add_tokens(["<think>", "</think>"])
    special = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.eos_token_id,
    }
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=32,
            max_position_embeddings=_CONTEXT_TOKENS,
            tie_word_embeddings=True,
            **special,
        )
    ).to(torch.float32)
    model.generation_config = GenerationConfig(**special)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
