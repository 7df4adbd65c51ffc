"""Writes the model that the real servers serve: Qwen2's architecture with random weights, and Qwen's own vocabulary.

The vocabulary must be a real one, since prompts of text are made of words that are single tokens in public vocabularies. PyPI's
dashscope package has Qwen's, as tiktoken's file of ranks. Everything else is as small as the architecture allows: 40 million
parameters, nearly all of them in the embeddings. With a part of the vocabulary a server needs a fifth of the time for a token.

  model.py FOLDER [TOKENS]
"""

import base64
import importlib.util
import pathlib
import sys

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
EVERY = 1_000_000  # more tokens than any vocabulary has
# As in Qwen2's tokenizer.json.
PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}"
    "{% else %}{% for part in message.content %}{{ part.text }}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def ranks():
    # Importing the package would import its client, which needs others.
    folder = pathlib.Path(importlib.util.find_spec("dashscope").submodule_search_locations[0])
    lines = next(folder.rglob("qwen.tiktoken")).read_bytes().split(b"\n")
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}


def parts(rank_of, token):
    """What byte pair encoding joins last to make token: the merge that a file of ranks does not name."""
    pieces = [bytes([b]) for b in token]
    while len(pieces) > 2:
        at = min(range(len(pieces) - 1), key=lambda i: rank_of.get(pieces[i] + pieces[i + 1], len(rank_of)))
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
    return pieces


def printable():
    """GPT-2's alphabet: the character that stands for each byte in a tokenizer.json."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


def vocabulary(most=EVERY):
    """Tokens by id, at most so many, the special ones last, and the merges in order, "a b" each."""
    rank_of, shown = ranks(), printable()

    def spell(token):
        return "".join(shown[b] for b in token)

    ordered = sorted(rank_of, key=rank_of.get)[: most - len(SPECIAL)]
    merges = [" ".join(map(spell, parts(rank_of, t))) for t in ordered if len(t) > 1]
    return [*map(spell, ordered), *SPECIAL], merges


def tokenizer(most=EVERY):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens, merges = vocabulary(most)
    ordinary = tokens[: -len(SPECIAL)]
    made = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(ordinary)}, merges=[tuple(m.split(" ")) for m in merges]))
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(s, special=True) for s in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE
    )


def make(folder, most):
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    words = tokenizer(most)
    config = Qwen2Config(
        vocab_size=len(words),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=131072,
        tie_word_embeddings=True,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    torch.manual_seed(0)
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    words.save_pretrained(folder)


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    if not (target / "complete").exists():
        make(target, int(sys.argv[2]) if sys.argv[2:] else EVERY)
        (target / "complete").touch()
