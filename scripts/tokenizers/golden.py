"""Encodes varied texts with the reference implementations: tokenizers, and tiktoken for the built-in vocabularies.

    golden.py DIR     reads DIR/*.json, writes DIR/golden/*.json

texts.json lists the texts; the file of a tokenizer's name lists their ids, with
the special tokens that it puts around them.
"""

import json
import random
import sys
from pathlib import Path

import tiktoken
from tokenizers import Tokenizer

TEXTS = [
    "", " ", "  ", "\n", "\n\n", "\r\n", "\t", "a", "the", " the", "the ", "  the  ", "Hello, world!", "hello world",
    "The quick brown fox jumps over the lazy dog.", "It's John's; they'll've said: 'don't!' I'D, YOU'RE we'm",
    "'s's'S'ſ 'LL'll", "don’t “quote” — dash … ellipsis", "1", "12", "123", "1234", "12345678901234567890", "3.14159e-10",
    "1,000,000.00 $5 €7 50% #1 @you", "2024-01-31T23:59:59Z", "x1y22z333", "٣٤٥ ½ ⅓ Ⅷ ① ² ³", "a  b   c    d", "a\nb\n\nc\n\n\nd",
    "a \n b  \n\n  c", "\tindent\n\t\tmore", "line\r\nline\rline", "trailing   ", "   leading", "\n\n\n   mixed \t\n",
    "def f(x):\n    return x + 1  # add\n", "for (int i = 0; i < n; ++i) { a[i] *= 2; }", "SELECT * FROM t WHERE a='b' AND c<>\"d\";",
    '{"key": [1, 2.5, null, true], "k2": {"a": "b"}}', "<html><body class=\"x\">&amp;</body></html>", "https://example.com/a/b?c=d&e=f#g",
    "path/to/file.txt C:\\Windows\\System32", "fooBar FooBar foo_bar FOO_BAR HTMLParser iPhone", "a.b.c::d->e=>f||g&&h!=i",
    "été", "e\u0301te\u0301", "café", "cafe\u0301", "CAFÉ café!", "Straße GROẞ ß ﬁ ﬂ", "naïve coöperate façade", "Ångström Å A\u030a",
    "\u1e9b\u0323", "i\u0307İıI", "ǅ ǆ ʰ ª º", "Ελληνικά γλώσσα", "Русский язык, ещё", "עברית טקסט", "العربية نص ١٢٣", "हिन्दी क्षि", "ไทย นี้ ภาษา",
    "日本語の文章です。", "漢字と仮名カタカナｶﾞ", "中文，标点。", "한국어 문장 각 \u1100\u1161\u11a8", "𝒳𝓎𝓏 𝟙𝟚", "𠀀𠀁", "Ａａ！　ｘ", "㍿ ㎏ ™ ©",
    "😀", "😀😀 😀", "👍🏽", "👨\u200d👩\u200d👧", "🇩🇪🇫🇷", "❤️ ☺️", "a😀b", "①\u0308 ½\u0301", "x\u0301\u0302\u0303y", "\u0301alone",
    "\u200bzero\u200bwidth", "\ufeffbom", "nb\u00a0sp\u202fx", "\u2028line\u2029para", "ideo\u3000space", "soft\u00adhyphen",
    "nul\x00byte", "\x01\x02\x03", "bell\x07 del\x7f \x85 \x8f", "\x1b[31mred\x1b[0m", "\ufffd", "\ue000private", "▁", "▁▁a▁b", "ĠaĊb", "Ġ",
    "<s>", "</s>", "<s>hello</s>", "a <s> b", "<unk>", "<pad>x", "<0x0A>", "<0x41>", "<|endoftext|>", "x<|im_start|>user\nhi<|im_end|>\n",
    "<|im_start|><|im_end|>", "<|begin_of_text|>again", "a<|eot_id|>b", "<|im_start", "<tool_call>{}</tool_call>", "[INST] hello [/INST] bye",
    "[INST]hello[/INST]", "[INST]   hello   [/INST]   ", "fill   <mask>   in", "<mask><mask>", "unit units unit. unit1 _unit unit",
    "<extra_id_0> x <extra_id_0>", "the café is open", "the cafe\u0301 is open", "<<s>>", "<s><s><s>",
    "supercalifragilisticexpialidocious", "Donaudampfschifffahrtsgesellschaft", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abababababababababababab",
    "zzzzzz qqqqq xxxxx", "thethethethe", "a" * 300, "ab" * 200, "-" * 100, " " * 100, "\n" * 50, "=" * 40 + "\n", "word " * 60, "0" * 70, "é" * 80, "漢" * 60,
    "?!?!?!", "...", "…", ". . .", "(a)[b]{c}<d>", "\"quoted\" 'single' `tick`", "~`!@#$%^&*()_+-={}|[]\\:\";'<>?,./", "C++ C# F# .NET",
    "emacs -nw; ls -la | grep foo > /dev/null 2>&1", "\\n\\t\\u0041 \\", "the, and; of: to. in! a?", "ﷺ", "Z\u0351\u036b\u0343a\u0322lgo",
]  # fmt: skip


def mixtures() -> list[str]:
    """Pieces of the texts above, joined without a seam."""
    chance = random.Random(3)
    short = [text for text in TEXTS if len(text) < 40]
    return ["".join(chance.choices(short, k=6)) for _ in range(20)]


def main() -> None:
    directory = Path(sys.argv[1])
    texts = TEXTS + mixtures()
    write(directory / "golden/texts.json", texts)
    for path in sorted(directory.glob("*.json")):
        tokenizer = Tokenizer.from_file(str(path))
        write(directory / "golden" / path.name, [tokenizer.encode(text).ids for text in texts])
    for name in ("cl100k_base", "o200k_base"):
        encoding = tiktoken.get_encoding(name)
        write(directory / f"golden/{name}.json", [encoding.encode_ordinary(text) for text in texts])
    print(f"{len(texts)} texts", file=sys.stderr)


def write(path: Path, lines: list) -> None:
    path.parent.mkdir(exist_ok=True)
    rows = [json.dumps(line, separators=(",", ":")) for line in lines]
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
