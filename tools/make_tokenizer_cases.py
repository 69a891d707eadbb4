#!/usr/bin/env python3
"""Writes tests/data/tokenizer/quern-tiny.jsonl: what Hugging Face `tokenizers` makes of texts with the shipped tokenizer.

Rows: {text, ids, decoded, decoded_skip_special}; {rule, count, sha256} for a long text that the rule, a Python
expression, builds, with the SHA-256 of its ids as little-endian uint32; {stream_ids, pieces, flushed} for a stream: the
text that is complete after each id, and what the end of the stream adds.

Needs tokenizers; run it from the repository root. Its output depends on nothing else: running it again changes nothing.
"""

import codecs
import hashlib
import json
import random
import struct
import sys

from tokenizers import Tokenizer

MODEL = "models/quern-tiny/tokenizer.json"
OUTPUT = "tests/data/tokenizer/quern-tiny.jsonl"

TEXTS = [
    "", " ", "  ", "\n", "\r\n", "\n\n\n", " \n", "\n ", "\t\t x", "a  b", "a   b", "   a", "a   ", " \n \n x", "\u00a0 x",
    "hello world", "Hello, World!", "don't I'll WE'VE he's 's 'S 'ſ 'T'RE'M'D", "it’s", "''''\"\"\"", "x'y", "'",
    "1234567890", "3.14159", "1,000,000", "0x1F", "a1b2c3", "½ ² Ⅻ ① ٣٤٥ १२३", "1 2  3   4",
    "if (x[i] == 0) {\n\treturn -1; // no\n}\n", "def f(a, b=2):\n    return a**b\n", "<a href=\"x\">y</a>",
    "C:\\path\\to\\file", "https://example.org/a?b=c&d=%20#e", "user@example.org", "## Title\n\n- one\n- two\n\n***\n",
    "|a|b|\n|-|-|\n", "{\"key\": [1, 2.5, null, true]}", "-----=====_____", "...!!!???", "$100 £5 €7 ¥9",
    "Zażółć gęślą jaźń", "naïve café Ünïcödé", "Привет, как дела? Ёжик", "Γειά σου Κόσμε", "你好，世界。", "日本語のテキスト カタカナ",
    "한국어 텍스트", "שלום עולם", "مرحبا بالعالم", "ภาษาไทย", "नमस्ते दुनिया", "தமிழ்", "Tiếng Việt",
    "e\u0301 A\u030a n\u0303 o\u0302\u0301", "é Å ñ ố", "q\u0323\u0307 q\u0307\u0323", "a\u0334\u0316\u0301", "\u0301x", " \u0301",
    "ﬁ ﬂ ﬀ ﬆ ß ẞ", "K Å Ω ℌ ℡", "ſ ĸ ŉ", "Ǆ ǅ ǆ", "\u1100\u1161\u11a8 가각", "\u09c7\u09be \u0b47\u0b57",
    "👍 👍🏽 👨‍👩‍👧‍👦 🇳🇴🇯🇵 ❤️ ☺", "🀄🂡🎲", "𝕌𝓷𝓲 𝟙𝟚𝟛", "𠀀𪛖𫝀", "\U0002ebf0 \U00031350", "\u0378 \u0530 \U000e0fff",
    "\u200b\u200c\u200d\ufeff zero width", "\u2028\u2029\u0085\u000b\u000c", "\u1680\u180e\u2003\u202f\u205f\u3000", "\x00\x01\x1b\x7f",
    "\ue000 \uf8ff \U000f0000 \U0010fffd", "\ufffd\ufffe\uffff", "\u202eabc\u202c", "\u00ad\u034f",
    "mixed你好abc123あいう456", "ABCdefGHI", "camelCaseString", "snake_case_string", "kebab-case", "SHOUTING", "x" * 40,
    "<|user|>Hello<|assistant|>", "[gMASK]<sop><|system|>You are helpful.<|user|>", "<|endoftext|>", "<|endoftext|><|endoftext|>",
    " <|user|> ", "\n<|user|>\n", "<|user|", "<|user|>>", "<<|user|>", "<|USER|>", "< |user|>", "<|us<|user|>er|>",
    "<think>reason</think>answer", "<think></think>", "<think", "<tool_call>f<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>",
    "/nothink", "a/nothink", "/nothinks", "[MASK] [gMASK] [sMASK]", "[mask]", "<sop><eop>", "<|observation|><tool_response>ok</tool_response>",
    "text<|endoftext|>more e\u0301<|user|>\u0301",
]

RULES = ["'a' * 100000", "' ' * 50000", "'the quick brown fox ' * 20000", "'你好' * 30000", "'x1 \\n' * 40000", "'é' * 30000", "'\\'' * 30000"]

ALPHABET = (
    list("abcdehilnorstuABCEHT0123456789") + list(" \n\t.,;:'\"!?-_/#<>|[](){}=+*&^%$@~`\\")
    + ["  ", "\n\n", "\r\n", "é", "\u0301", "\u0323", "你", "好", "あ", "한", "я", "Ж", "ع", "ש", "क", "ि", "😀", "👍", "\u200d", "\ufe0f", "½", "Ⅳ",
       "’s", "'ll", "'RE", "\u00a0", "\u3000", "\u200b", "<|user|>", "<think>", "</think>", "<|endoftext|>", "/nothink", "\U00020000"]
)  # fmt: skip


def random_texts(rng):
    for _ in range(60):
        yield "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(2, 60)))
    for _ in range(40):  # any character at all
        chosen = (rng.choice([rng.randrange(0x20, 0x3000), rng.randrange(0x3000, 0xD800), rng.randrange(0xE000, 0x33480)])
                  for _ in range(rng.randrange(1, 16)))
        yield "".join(map(chr, chosen))


def byte_alphabet():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, following = {}, 0x100
    for byte in range(256):
        if byte in printable:
            table[chr(byte)] = byte
        else:
            table[chr(following)] = byte
            following += 1
    return table


def token_bytes(tokenizer, token_id, table):
    spelling = tokenizer.id_to_token(token_id)
    if all(c in table for c in spelling):
        return bytes(table[c] for c in spelling)
    return spelling.encode()


def stream(tokenizer, ids, table):
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    pieces = [decoder.decode(token_bytes(tokenizer, i, table)) for i in ids]
    flushed = decoder.decode(b"", final=True)
    assert "".join(pieces) + flushed == tokenizer.decode(ids, skip_special_tokens=False)
    return {"stream_ids": ids, "pieces": pieces, "flushed": flushed}


def main():
    tokenizer, table, rng = Tokenizer.from_file(MODEL), byte_alphabet(), random.Random(20260101)

    def encode(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    texts = TEXTS + list(random_texts(rng))
    rows = []
    for text in texts:
        ids = encode(text)
        rows.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                     "decoded_skip_special": tokenizer.decode(ids, skip_special_tokens=True)})
    for rule in RULES:
        ids = encode(eval(rule))
        digest = hashlib.sha256(b"".join(struct.pack("<I", i) for i in ids)).hexdigest()
        rows.append({"rule": rule, "count": len(ids), "sha256": digest})
    for text in ("👨‍👩‍👧 你好 नमस्ते é ½", "<think>plain</think> text<|user|>", "🇳🇴🇯🇵"):
        rows.append(stream(tokenizer, encode(text), table))
    bytes_only = [i for i in range(tokenizer.get_vocab_size()) if len(tokenizer.id_to_token(i)) == 1]
    for _ in range(24):  # halves of characters, in any order
        rows.append(stream(tokenizer, [rng.choice(bytes_only) for _ in range(rng.randrange(2, 12))], table))
    for _ in range(8):
        rows.append(stream(tokenizer, [rng.randrange(tokenizer.get_vocab_size()) for _ in range(rng.randrange(2, 12))], table))

    with open(OUTPUT, "w", encoding="utf-8") as f:
        for row in rows:
            f.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(f"{OUTPUT}: {len(rows)} rows", file=sys.stderr)


if __name__ == "__main__":
    main()
