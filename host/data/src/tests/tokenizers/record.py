"""Writes texts.json.gz and cases.json.gz: tokenizer files, and checksums of the Python package's tokens for 1,500 texts.

    python -m pip install tokenizers==0.23.3
    python record.py
"""

import gzip
import json
import random
import zlib
from array import array
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = Path(__file__).parent
LENGTH, TEXTS, BLOCK = 24, 1500, 50
PIECES = (
    "the a of data private privacy don't I'LL we're it's HELLO World iPhone x1 2nd 42 3.14 1,000 ² ½ ٣ ௧ Ⅷ "
    "naïve café ﬁne Straße ΣΊΣΥΦΟΣ İstanbul ǅ ﬀ привет мир ёлка שלום عربى نص हिन्दी क्षि ไทย ພາສາ 한국어 日本語 カタカナ ｶﾅ 漢字 中文 "
    "😀 👩‍👩‍👧 🇩🇪 👍🏽 e\u0301 a\u0308\u0323 \u200c \u200d \u00ad \ufeff \u200b \u2060 \ufffd \ue000 \U000e0041 "
    "! ? . , ; : ' \" ( ) [ ] { } _ - – — … « » “ ” ‘ ’ @ # $ % & * + / < = > ^ ` | ~ \\ € £ § ° © ™ → ∑ ∞ "
    "http://a.b/c?d=e me@x.org snake_case camelCase kebab-case [UNK] [MASK] <s> </s> <pad> ## ▁ Ġ"
).split(" ")
SPACES = [" ", " ", " ", "", "", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", "\u00a0", "\u3000", "\u2028", "\u0085", "\x0b", "\x1c", "\u200b"]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def texts():
    rng = random.Random(0)
    made = []
    while len(made) < TEXTS:
        text = "".join(rng.choice(PIECES) + rng.choice(SPACES) for _ in range(rng.randint(1, 12)))
        if rng.random() < 0.2:
            text = rng.choice(SPACES) + text
        if rng.random() < 0.05:
            text = "".join(chr(rng.choice([rng.randint(32, 0x2FF), rng.randint(0x300, 0xD7FF), rng.randint(0xE000, 0x1FFFF)])) for _ in range(9))
        if text:
            made.append(text)
    return made


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def bytewise(*before):
    return pre_tokenizers.Sequence([*before, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not before)])


def bpe(pre, normalizer=None, **model):
    return "bpe", normalizer, pre, model


N, P = normalizers, pre_tokenizers
# Each entry has a model, a normalizer, a pre-tokenizer, and the model's settings.
TOKENIZERS = {
    "gpt2": bpe(bytewise()),
    "gpt2-prefix": bpe(P.ByteLevel(add_prefix_space=True)),
    "gpt2-pattern": bpe(bytewise(split(GPT2))),
    "cl100k": bpe(bytewise(split(CL100K))),
    "qwen": bpe(bytewise(split(QWEN)), N.NFC()),
    "o200k": bpe(bytewise(split(O200K))),
    "removed": bpe(bytewise(split(CL100K, "removed", True))),
    "digits": bpe(bytewise(P.Digits(individual_digits=True), split(r"[^\S\n]+", "merged_with_next"))),
    "llama": bpe(None, N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), byte_fallback=True, fuse_unk=True, unk_token="[UNK]"),
    "metaspace": bpe(P.Metaspace(), unk_token="[UNK]"),
    "metaspace-first": bpe(P.Metaspace(prepend_scheme="first", split=False), unk_token="[UNK]", fuse_unk=True),
    "suffix": bpe(P.BertPreTokenizer(), N.Lowercase(), unk_token="[UNK]", end_of_word_suffix="</w>"),
    "bert": ("wordpiece", N.BertNormalizer(), P.BertPreTokenizer(), {}),
    "bert-cased": ("wordpiece", N.BertNormalizer(lowercase=False, strip_accents=False), P.BertPreTokenizer(), {}),
    "bert-accents": ("wordpiece", N.Sequence([N.NFD(), N.Lowercase(), N.StripAccents()]), P.Whitespace(), {}),
    "bert-no-cjk": ("wordpiece", N.BertNormalizer(handle_chinese_chars=False), P.BertPreTokenizer(), {}),
    "whitespace": ("wordpiece", N.NFKC(), P.WhitespaceSplit(), {}),
    "words": ("wordlevel", N.Sequence([N.NFKD(), N.Lowercase()]), P.Whitespace(), {}),
    "words-b": ("wordlevel", None, split(r"\b", "isolated"), {}),
    "words-w": ("wordlevel", None, split(r"\w+|[^\w\s]+", "removed", True), {}),
    "words-punct": ("wordlevel", N.Strip(), P.Sequence([split(r"[[:punct:]]", "isolated"), P.WhitespaceSplit()]), {}),
    "punctuation": ("wordlevel", None, P.Sequence([P.WhitespaceSplit(), P.Punctuation("contiguous")]), {}),
    "delimiter": ("wordlevel", None, P.CharDelimiterSplit("\n"), {}),
    "replaced": ("wordlevel", N.Sequence([N.Replace(Regex(r"\s+"), " "), N.Replace(Regex(r"[\w.]+@[\w.]+"), "<mail>"), N.Nmt()]), P.WhitespaceSplit(), {}),
    "unigram": ("unigram", N.Sequence([N.Nmt(), N.NFKC(), N.Replace(Regex(" {2,}"), " ")]), P.Metaspace(), {}),
    "unigram-scripts": ("unigram", None, P.Sequence([P.UnicodeScripts(), P.Metaspace(prepend_scheme="never")]), {}),
    "unigram-lines": ("unigram", N.Strip(left=True, right=False), split(r"^|$", "isolated"), {}),
    "unigram-case": ("unigram", N.Lowercase(), split(r"(?i:[a-z]+)|.", "isolated"), {}),
    "unigram-spaces": ("unigram", None, split(r"\s+", "merged_with_previous"), {}),
    "bytes": bpe(P.Sequence([P.WhitespaceSplit(), P.ByteLevel(add_prefix_space=False)]), N.NFC()),
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"]


def trained(name, corpus):
    kind, normalizer, pre, settings = TOKENIZERS[name]
    size = 6000 if kind == "unigram" else 700
    unk = None if kind == "unigram" else "[UNK]"
    make = {
        "bpe": lambda: (models.BPE(**settings), trainers.BpeTrainer(
            vocab_size=size, special_tokens=SPECIAL, show_progress=False,
            initial_alphabet=P.ByteLevel.alphabet() if not settings else [], end_of_word_suffix=settings.get("end_of_word_suffix", ""),
        )),
        "wordpiece": lambda: (models.WordPiece(unk_token=unk), trainers.WordPieceTrainer(vocab_size=size, special_tokens=SPECIAL, show_progress=False)),
        "wordlevel": lambda: (models.WordLevel(unk_token=unk), trainers.WordLevelTrainer(vocab_size=size, special_tokens=SPECIAL, show_progress=False)),
        "unigram": lambda: (models.Unigram(), trainers.UnigramTrainer(vocab_size=size, special_tokens=SPECIAL, unk_token="[UNK]", show_progress=False)),
    }  # fmt: skip
    model, trainer = make[kind]()
    made = Tokenizer(model)
    if normalizer:
        made.normalizer = normalizer
    if pre:
        made.pre_tokenizer = pre
    made.train_from_iterator(corpus, trainer)
    number = list(TOKENIZERS).index(name)
    if number % 3 == 0:
        made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    elif number % 3 == 1:
        made.post_processor = processors.RobertaProcessing(("</s>", 6), ("<s>", 5), trim_offsets=True, add_prefix_space=False)
    made.enable_truncation(LENGTH - 4 * (number % 2), direction=["right", "left"][number // 2 % 2])
    made.enable_padding(direction=["right", "left"][number % 2], pad_id=0, pad_type_id=number % 4, pad_token="[PAD]", length=LENGTH)
    return made


def main():
    corpus = texts()
    cases = []
    for name in TOKENIZERS:
        made = trained(name, corpus)
        rows = [made.encode(text) for text in corpus]
        sums = []
        for first in range(0, TEXTS, BLOCK):
            numbers = array("q")
            for row in rows[first : first + BLOCK]:
                for part in (row.ids, row.attention_mask, row.type_ids):
                    assert len(part) == LENGTH
                    numbers.extend(part)
            sums.append(zlib.crc32(numbers.tobytes()))
        cases.append({"name": name, "tokenizer": json.loads(made.to_str()), "sums": sums, "first": rows[0].ids})
    for name, content in (("texts", corpus), ("cases", cases)):
        with gzip.GzipFile(HERE / f"{name}.json.gz", "wb", mtime=0) as file:
            file.write(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())


main()
