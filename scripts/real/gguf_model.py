"""Writes the model of model.py as llama.cpp reads it, with weights of its own: neither PyTorch nor a converter is needed, and 20 seconds."""

import pathlib
import sys

import gguf
import numpy
from gguf import MODEL_TENSOR as TENSOR

import model

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS = 64, 128, 2, 4, 2
CONTEXT = 131072


def make(path):
    out = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH.QWEN2])
    out.add_context_length(CONTEXT)
    out.add_embedding_length(HIDDEN)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(KV_HEADS)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_rope_freq_base(10000.0)
    tokens, merges = model.vocabulary()
    special = len(model.SPECIAL)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("qwen2")
    out.add_token_list(tokens)
    out.add_token_types([gguf.TokenType.NORMAL] * (len(tokens) - special) + [gguf.TokenType.CONTROL] * special)
    out.add_token_merges(merges)
    out.add_eos_token_id(tokens.index("<|im_end|>"))
    out.add_chat_template(model.TEMPLATE)
    for name, tensor in tensors(len(tokens)):
        out.add_tensor(name, tensor)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def tensors(words):
    """Name and weights of each tensor; the output shares the weights of the embeddings."""
    random = numpy.random.default_rng(0)
    names = gguf.TENSOR_NAMES
    kv = HIDDEN // HEADS * KV_HEADS
    shapes = {
        **{TENSOR.ATTN_Q: (HIDDEN, HIDDEN), TENSOR.ATTN_K: (kv, HIDDEN), TENSOR.ATTN_V: (kv, HIDDEN), TENSOR.ATTN_OUT: (HIDDEN, HIDDEN)},
        **{TENSOR.FFN_GATE: (INNER, HIDDEN), TENSOR.FFN_UP: (INNER, HIDDEN), TENSOR.FFN_DOWN: (HIDDEN, INNER)},
    }
    yield names[TENSOR.TOKEN_EMBD] + ".weight", random.normal(0, 0.02, (words, HIDDEN)).astype(numpy.float16)
    yield names[TENSOR.OUTPUT_NORM] + ".weight", numpy.ones(HIDDEN, numpy.float32)
    for layer in range(LAYERS):
        for norm in (TENSOR.ATTN_NORM, TENSOR.FFN_NORM):
            yield names[norm].format(bid=layer) + ".weight", numpy.ones(HIDDEN, numpy.float32)
        for tensor, shape in shapes.items():
            yield names[tensor].format(bid=layer) + ".weight", random.normal(0, 0.02, shape).astype(numpy.float32)
        for bias, width in ((TENSOR.ATTN_Q, HIDDEN), (TENSOR.ATTN_K, kv), (TENSOR.ATTN_V, kv)):
            yield names[bias].format(bid=layer) + ".bias", numpy.zeros(width, numpy.float32)


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    if not target.exists():
        unfinished = target.with_suffix(".part")
        make(unfinished)
        unfinished.rename(target)
