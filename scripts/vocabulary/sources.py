"""The public vocabularies behind the word list, and their reference encoders.

Run as a program it prints the npm packages to fetch, one a line.
"""

import base64
import importlib.resources
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

MISTRAL = "PyPI mistral-common 1.13.1"


@dataclass(frozen=True)
class Source:
    """One vocabulary: what uses it, where it comes from, under which licence."""

    name: str
    package: str
    licence: str
    load: Callable[[Path], "Encoder"]


class Encoder:
    """Encodes text as the models do, without special tokens."""

    def __init__(self, encode, pieces):
        self.encode = encode  # text -> list of ids
        self.pieces = pieces  # the vocabulary's strings

    def count(self, text: str) -> int:
        return len(self.encode(text))


def hugging_face(path: Path) -> Encoder:
    from tokenizers import Tokenizer

    return _of_tokenizer(Tokenizer.from_file(str(path / "models/tokenizer.json")))


def llama_js(path: Path) -> Encoder:
    """Builds the Llama 2 tokenizer from the data inside llama-tokenizer-js.

    The package's data-conversion.py documents the layout: the vocabulary in
    order of its ids, one piece a line, and the merges as pairs of 16-bit ids.
    """
    from tokenizers import Tokenizer, models, normalizers

    script = (path / "llama-tokenizer.js").read_text()

    def data(name: str) -> bytes:
        return base64.b64decode(re.search(name + r'\s*=\s*"([^"]+)"', script).group(1))

    pieces = data("llama_vocab_base64").decode().split("\n")
    ids = memoryview(data("llama_merges_binary")).cast("H")
    merges = [(pieces[a], pieces[b]) for a, b in zip(ids[::2], ids[1::2])]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    return _of_tokenizer(tokenizer)


def _of_tokenizer(tokenizer) -> Encoder:
    return Encoder(
        lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        list(tokenizer.get_vocab()),
    )


def mistral_sentencepiece(file: str) -> Callable[[Path], Encoder]:
    def load(_: Path) -> Encoder:
        import sentencepiece

        model = sentencepiece.SentencePieceProcessor(model_file=_mistral_file(file))
        pieces = [model.id_to_piece(number) for number in range(model.get_piece_size())]
        return Encoder(model.encode, pieces)

    return load


def mistral_tekken(file: str) -> Callable[[Path], Encoder]:
    def load(_: Path) -> Encoder:
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer

        tokenizer = Tekkenizer.from_file(_mistral_file(file))
        # Tekken cuts text at words before it merges: its pieces need no look.
        return Encoder(lambda text: tokenizer.encode(text, bos=False, eos=False), [])

    return load


def _mistral_file(name: str) -> str:
    return str(importlib.resources.files("mistral_common") / "data" / name)


def _lenml(model: str) -> str:
    return f"npm @lenml/tokenizer-{model}@3.7.2"


SOURCES = [
    Source("r50k (GPT-2)", _lenml("gpt2"), "MIT", hugging_face),
    Source("cl100k (GPT-4)", _lenml("gpt4"), "MIT", hugging_face),
    Source("o200k (GPT-4o, gpt-oss)", _lenml("gpt4o"), "MIT", hugging_face),
    Source("Llama 2 (Vicuna, Phi-3)", "npm llama-tokenizer-js@1.2.2", "Llama 2 Community License", llama_js),
    Source("Llama 3.1", _lenml("llama3_1"), "Llama 3.1 Community License", hugging_face),
    Source("Qwen 2.5 (Qwen 3)", _lenml("qwen2_5"), "Apache-2.0", hugging_face),
    Source("DeepSeek V3 (R1)", _lenml("deepseek_v3"), "DeepSeek License", hugging_face),
    Source("Gemma 2", _lenml("gemma2"), "Gemma Terms of Use", hugging_face),
    Source("Yi", _lenml("yi"), "Apache-2.0", hugging_face),
    Source("InternLM 2", _lenml("internlm2"), "Apache-2.0", hugging_face),
    Source("Mistral v1", MISTRAL, "Apache-2.0", mistral_sentencepiece("tokenizer.model.v1")),
    Source("Mistral v3", MISTRAL, "Apache-2.0", mistral_sentencepiece("mistral_instruct_tokenizer_240323.model.v3")),
    Source("Mistral v7", MISTRAL, "Apache-2.0", mistral_sentencepiece("mistral_instruct_tokenizer_241114.model.v7")),
    Source("Mistral Tekken", MISTRAL, "Apache-2.0", mistral_tekken("tekken_240911.json")),
]


def npm_name(source: Source) -> str:
    """The package's name and version for npm, or nothing if it is from PyPI."""
    registry, _, package = source.package.partition(" ")
    return package if registry == "npm" else ""


if __name__ == "__main__":
    print("\n".join(npm_name(source) for source in SOURCES if npm_name(source)))
