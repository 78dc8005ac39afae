"""Writes the two tokenizers of this folder.

    apt-get install wordnet-base        # or WordNet's data.* files from elsewhere, their folder as the argument
    pip install tokenizers==0.23.3 && python3 make.py [/usr/share/wordnet]

bytes.json has no learned vocabulary. wordpiece.json is trained on the glosses of WordNet 3.0.
"""

import pathlib
import sys

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
VOCABULARY = 4096


def main():
    wordnet = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/wordnet")
    bytewise().save(str(HERE / "bytes.json"), pretty=False)
    wordpiece(glosses(wordnet)).save(str(HERE / "wordpiece.json"), pretty=False)


def bytewise():
    """One token a byte of UTF-8: byte b is 3 + b."""
    special = ["<pad>", "<bos>", "<eos>"]
    vocabulary = {token: i for i, token in enumerate(special)}
    for byte in range(256):
        vocabulary[letter_of(byte)] = len(special) + byte
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.add_special_tokens(special)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return finished(tokenizer, *special)


def letter_of(byte):
    """The letter that the ByteLevel pre-tokenizer writes for a byte, which is the byte's own letter if that is
    printable."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    if byte in printable:
        return chr(byte)
    return chr(0x100 + [b for b in range(256) if b not in printable].index(byte))


def wordpiece(texts):
    """A tokenizer of BERT's kind: lower case, accents off, pieces of words."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    alphabet = [chr(c) for c in range(0x21, 0x7F) if not chr(c).isupper()]
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # The trainer numbers equally frequent pieces in the order of a hash map. Numbered again, the file has the same
    # bytes each time.
    pieces = special + sorted(set(tokenizer.get_vocab()) - set(special))
    tokenizer.model = models.WordPiece(vocab={piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]")
    return finished(tokenizer, special[0], special[2], special[3])


def finished(tokenizer, pad, begin, end):
    """Puts every text between its two special tokens, and padding after it."""
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} $B:1 {end}:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (begin, end)],
    )
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(pad), pad_token=pad)
    return tokenizer


def glosses(wordnet):
    """The definitions and examples of every meaning, a line each."""
    for part in ("noun", "verb", "adj", "adv"):
        with open(wordnet / f"data.{part}", encoding="latin-1") as file:
            for line in file:
                # Lines of the licence come first, indented.
                if not line.startswith("  "):
                    yield line.split("|", 1)[1].strip()


if __name__ == "__main__":
    main()
