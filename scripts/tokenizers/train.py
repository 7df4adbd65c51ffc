"""Trains one small tokenizer of each kind that codec/tokenizer reads.

    train.py DIR      writes DIR/*.json

The text is made of codec/prompt/words.txt and of the documentation inside the
Python standard library (pydoc_data.topics), of which nothing but statistics
gets into a vocabulary.
"""

import base64
import io
import json
import random
import sys
from pathlib import Path
from pydoc_data.topics import topics

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

PIECES = 2600
WORDS = Path(__file__).parents[2] / "codec/prompt/words.txt"
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
OTHER_SCRIPTS = "el veloz murciélago hindú, où est l'été? Straße, größer. Съешь же ещё этих мягких. 日本語の文章です。 漢字と仮名 한국어 문장"


def corpus() -> list[str]:
    """Lines in which some 900 words stand behind a space, and some 400 behind a line's end too."""
    chance = random.Random(1)
    lines = WORDS.read_text().split("\n")
    words = [line for line in lines if line and not line.startswith("#")]
    some = []
    for letters in (4, 5, 6, 7):
        fitting = [word for word in words if len(word.strip("*")) == letters]
        starred = [word for word in fitting if word.endswith("*")][:110]
        plain = [word for word in fitting if not word.endswith("*")][:130]
        some += starred + plain
    first = [word.strip("*") for word in some if word.endswith("*")]
    every = [word.strip("*") for word in some]
    text = list(topics.values())[:40]
    for _ in range(3000):
        text.append(" ".join(chance.choices(every, k=30)))
        text.append("\n".join(chance.choices(first, k=30)))
    return text + [OTHER_SCRIPTS] * 30


def byte_level(text, pattern, **model) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(text, trainers.BpeTrainer(vocab_size=PIECES, initial_alphabet=alphabet))
    return tokenizer


def qwen2(text) -> Tokenizer:
    tokenizer = byte_level(text, QWEN2)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("café", normalized=True)])
    return tokenizer


def llama3(text) -> Tokenizer:
    tokenizer = byte_level(text, LLAMA3, ignore_merges=True)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|eot_id|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    template = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", begin)]
    )
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer


# In training alone: what stands behind a line's end gets pieces without a space.
LINES = pre_tokenizers.Sequence(
    [pre_tokenizers.Split("\n", "isolated"), pre_tokenizers.Metaspace(prepend_scheme="never")]
)
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def sentencepiece_bpe(text) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = LINES
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=PIECES, special_tokens=special + BYTES, limit_alphabet=100)
    tokenizer.train_from_iterator(text, trainer)
    # Training adds the bytes as special tokens, which a Llama tokenizer does not.
    described = json.loads(tokenizer.to_str())
    described["added_tokens"] = described["added_tokens"][: len(special)]
    return Tokenizer.from_str(json.dumps(described))


def llama2(text) -> Tokenizer:
    tokenizer = sentencepiece_bpe(text)
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def mistral(text) -> Tokenizer:
    tokenizer = sentencepiece_bpe(text)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
    tokenizer.add_special_tokens([AddedToken("[INST]", special=True, rstrip=True), AddedToken("[/INST]", special=True)])
    tokenizer.add_tokens([AddedToken("<mask>", lstrip=True), AddedToken("unit", single_word=True)])
    return tokenizer


def unigram(text) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = LINES
    trainer = trainers.UnigramTrainer(
        vocab_size=PIECES - 256, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>"
    )
    tokenizer.train_from_iterator(text, trainer)
    described = json.loads(tokenizer.to_str())
    model = described["model"]
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    vocabulary = [(piece, round(score, 4)) for piece, score in model["vocab"]] + [(byte, -20.0) for byte in BYTES]
    tokenizer.model = models.Unigram(vocabulary, unk_id=model["unk_id"], byte_fallback=True)
    return with_end(tokenizer, tokenizer.token_to_id("</s>"))


def with_end(tokenizer: Tokenizer, end: int) -> Tokenizer:
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", end)])
    return tokenizer


# SentencePiece's rules are some 300 kB. These few have the same shapes.
RULES = {
    "\t": " ", "\n": " ", "\r": " ", "\u00a0": " ", "\u3000": " ", "\u200b": "", "\u0001": "", "\u007f": "",
    "ﬁ": "fi", "ﬂ": "fl", "①": "1", "²": "2", "½": "1/2", "…": "...", "Ａ": "A", "ａ": "a", "！": "!",
    "e\u0301": "\u00e9", "e\u0300": "\u00e8", "u\u0308": "\u00fc", "n\u0303": "\u00f1", "\uff76\uff9e": "\u30ac",
    "\uff76": "\u30ab", "\u1100\u1161\u11a8": "\uac01", "\u337f": "\u682a\u5f0f\u4f1a\u793e", "\u1e9b\u0323": "\u1e69",
    "\u0130": "i\u0307", "\u01c6": "d\u017e",
}  # fmt: skip


def t5(text) -> Tokenizer:
    rules = io.StringIO()
    for source, target in RULES.items():
        codes = lambda s: " ".join(f"{ord(c):X}" for c in s)  # noqa: E731
        rules.write(f"{codes(source)}\t{codes(target)}\n")
    path = Path(sys.argv[1]) / "rules.tsv"
    path.write_text(rules.getvalue())
    trained = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for part in text for line in part.split("\n")]), model_writer=trained,
        vocab_size=1800, normalization_rule_tsv=str(path), pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
        hard_vocab_limit=False, minloglevel=2, num_threads=1,
    )  # fmt: skip
    path.unlink()
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(trained.getvalue())
    vocabulary = [(piece.piece, round(piece.score, 4)) for piece in proto.pieces]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2))
    charsmap = proto.normalizer_spec.precompiled_charsmap
    print(f"charsmap: {len(base64.b64encode(charsmap))} characters", file=sys.stderr)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Precompiled(charsmap), normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>", "<extra_id_0>"])
    return with_end(tokenizer, 1)


KINDS = {"qwen2": qwen2, "llama3": llama3, "llama2": llama2, "mistral": mistral, "unigram": unigram, "t5": t5}


def main() -> None:
    directory = Path(sys.argv[1])
    text = corpus()
    for name, make in KINDS.items():
        # No spaces and no indent: the files are checked in.
        described = json.loads(make(text).to_str())
        if isinstance(described["model"].get("merges"), list) and name in ("llama3", "mistral"):
            # Some keep the older spelling, which files of before 2024 have.
            described["model"]["merges"] = [" ".join(pair) for pair in described["model"]["merges"]]
        (directory / f"{name}.json").write_text(json.dumps(described, ensure_ascii=False, separators=(",", ":")))


if __name__ == "__main__":
    main()
