"""Counts generated prompts with the reference implementation.

    count.py DIR PROMPTS     reads DIR/*.json and PROMPTS/*.txt, writes DIR/prompts/*.txt

A line of PROMPTS/NAME.txt is a prompt made for the tokenizer NAME: the number of
tokens asked for, a space, the text. The line that is written for it has the
number asked for, the reference's count and the start of the text's SHA-256. A
count that is not what was asked for ends the program with status 1.
"""

import hashlib
import itertools
import sys
from pathlib import Path

from tokenizers import Tokenizer


def main() -> None:
    directory, prompts = map(Path, sys.argv[1:])
    (directory / "prompts").mkdir(exist_ok=True)
    wrong = sum(count(directory, path) for path in sorted(prompts.glob("*.txt")))
    sys.exit(1 if wrong else 0)


def count(directory: Path, path: Path) -> int:
    tokenizer = Tokenizer.from_file(str(directory / f"{path.stem}.json"))
    around = tokenizer.num_special_tokens_to_add(False)
    rows, wrong, tokens = [], 0, 0
    with path.open(encoding="utf-8") as lines:
        for batch in batches(lines, 50):
            asked, texts = zip(*(line.rstrip("\n").split(" ", 1) for line in batch))
            for want, text, encoding in zip(asked, texts, tokenizer.encode_batch_fast(list(texts))):
                got = len(encoding.ids) - around
                wrong += got != int(want)
                tokens += got
                rows.append(f"{want} {got} {hashlib.sha256(text.encode()).hexdigest()[:16]}\n")
    (directory / "prompts" / path.name).write_text("".join(rows))
    print(f"{path.stem}: {len(rows)} prompts, {tokens} tokens, {wrong} prompts with another count than asked for")
    return wrong


def batches(lines, size):
    """The lines in lists of size."""
    while batch := list(itertools.islice(lines, size)):
        yield batch


if __name__ == "__main__":
    main()
