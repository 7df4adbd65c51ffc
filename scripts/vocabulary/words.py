"""Prints the words that are a single token in every vocabulary of sources.py.

    words.py DIR      DIR holds the unpacked npm packages

A word is taken if it has four to seven lower-case letters and is one token
behind a space, whatever word stands beside it. It gets a star if it is one token
without the space too: at the start of a text, and behind a template's newline.
"""

import random
import re
import sys
from pathlib import Path

from sources import SOURCES, Encoder, npm_name

LETTERS = re.compile("[a-z]{4,7}")
ANCHOR = "time"  # a word that is one token everywhere, to stand beside others
RUNS, RUN_WORDS = 200, 500  # random runs that are encoded with each vocabulary


def candidates(encoder: Encoder) -> list[str]:
    """The words of the first vocabulary, whose pieces mark a leading space by Ġ."""
    return sorted(p[1:] for p in encoder.pieces if p[:1] == "Ġ" and LETTERS.fullmatch(p[1:]))


def single(encoder: Encoder, word: str) -> bool:
    return encoder.count(f"{ANCHOR} {word} {ANCHOR}") == 3


def single_bare(encoder: Encoder, word: str) -> bool:
    newline = encoder.count("\n")
    return (
        encoder.count(word) == 1
        and encoder.count(f"{word} {ANCHOR}") == 2
        and encoder.count(f"\n{word} {ANCHOR}") == newline + 2
    )


def check_no_piece_spans_words(name: str, encoder: Encoder) -> None:
    """No piece holds a letter and a later space, so no merge crosses words."""
    for piece in encoder.pieces:
        if re.fullmatch("[▁Ġ ]?[a-z]+[▁Ġ ][▁Ġ a-z]*", piece):
            sys.exit(f"{name}: piece {piece!r} spans words")


def check_runs(name: str, encoder: Encoder, words: list[str], bare: list[str]) -> None:
    """Random runs have as many tokens as words, behind a newline too."""
    chance = random.Random(name)
    newline = encoder.count("\n")
    for _ in range(RUNS):
        run = " ".join([chance.choice(bare), *chance.choices(words, k=RUN_WORDS - 1)])
        if encoder.count(run) != RUN_WORDS or encoder.count("\n" + run) != newline + RUN_WORDS:
            sys.exit(f"{name}: a run of {RUN_WORDS} words has another number of tokens: {run}")


def main() -> None:
    directory = Path(sys.argv[1])
    excluded = set((Path(__file__).parent / "excluded.txt").read_text().split())
    encoders = {s.name: s.load(directory / npm_name(s)) for s in SOURCES}

    words = [w for w in candidates(next(iter(encoders.values()))) if w not in excluded]
    bare = words
    for name, encoder in encoders.items():
        words = [w for w in words if single(encoder, w)]
        kept = set(words)
        bare = [w for w in bare if w in kept and single_bare(encoder, w)]
        print(f"{name}: {len(words)} words left, {len(bare)} without a space", file=sys.stderr)
    for name, encoder in encoders.items():
        check_no_piece_spans_words(name, encoder)
        check_runs(name, encoder, words, bare)

    print("# Made by scripts/vocabulary/make.sh. Words that are one token behind a space in each of")
    print("# these vocabularies; with a star, one token without the space too.")
    for source in SOURCES:
        print(f"# {source.name}: {source.package}; vocabulary under {source.licence}")
    starred = set(bare)
    print("\n".join(word + "*" * (word in starred) for word in words))


if __name__ == "__main__":
    main()
