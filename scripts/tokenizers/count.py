"""Counts generated prompts with the reference implementation.

    count.py DIR PROMPTS     reads DIR/*.json and PROMPTS/*.txt, writes DIR/prompts.txt

A line of PROMPTS/NAME.txt is a prompt made for the tokenizer NAME: the number of
tokens asked for, a space, the text. DIR/prompts.txt gets a line for each
tokenizer: its name, the number of prompts and of their tokens, and the SHA-256
of PROMPTS/NAME.txt. It is written only if the reference counts in every prompt
what was asked for; otherwise the status is 1.
"""

import hashlib
import itertools
import sys
from pathlib import Path

from tokenizers import Tokenizer


def main() -> None:
    directory, prompts = map(Path, sys.argv[1:])
    rows = [count(directory, path) for path in sorted(prompts.glob("*.txt"))]
    if not rows or None in rows:
        sys.exit("the reference counts otherwise: nothing was written")
    (directory / "prompts.txt").write_text("".join(rows))


def count(directory: Path, path: Path) -> str | None:
    """The line for a tokenizer, or None where a count is not what was asked for."""
    tokenizer = Tokenizer.from_file(str(directory / f"{path.stem}.json"))
    around = tokenizer.num_special_tokens_to_add(False)
    digest, prompts, tokens, wrong = hashlib.sha256(), 0, 0, 0
    with path.open("rb") as lines:
        for batch in batches(lines, 50):
            digest.update(b"".join(batch))
            asked, texts = zip(*(line.decode().removesuffix("\n").split(" ", 1) for line in batch))
            for want, encoding in zip(asked, tokenizer.encode_batch_fast(list(texts))):
                got = len(encoding.ids) - around
                prompts, tokens, wrong = prompts + 1, tokens + got, wrong + (got != int(want))
    print(f"{path.stem}: {prompts} prompts, {tokens} tokens, {wrong} prompts with another count than asked for")
    return None if wrong else f"{path.stem} {prompts} {tokens} {digest.hexdigest()}\n"


def batches(lines, size):
    """The lines in lists of size."""
    while batch := list(itertools.islice(lines, size)):
        yield batch


if __name__ == "__main__":
    main()
