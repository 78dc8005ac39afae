"""Bernoulli trials: the threshold accepts exactly k of 2^53 values, and rates are within the denominator."""

import z3
from execute import Program
from smt import run, source
from values import FLOATS, Cell, Num, Panic, Ref, Return, Struct, boolean, integer, strip

SAMPLING, EVENT, GAUSSIAN = "core/src/sampling.rs", "core/src/accounting/event.rs", "core/src/noise/discrete_gaussian.rs"


def poisson(context):
    """A trial takes its sample exactly for the words below k·2^11. These are k·2^11 of 2^64 words, a share of k/2^53."""
    word, numerator = context.fresh("u64", "word"), context.fresh("u64", "numerator")
    context.assume(z3.ULE(numerator.term, 1 << 53))
    hooks = {".next_u64": lambda context, stream: word, "coins": lambda context, *address: Struct("Stream", {})}
    code = Program({"sampling": source(SAMPLING), "event": source(EVENT)}, hooks)
    at, end = context.fresh("u32", "at"), context.fresh("u32", "end")
    # One sample is left, so the result is of its trial alone.
    context.assume(z3.And(z3.ULT(at.term, 1 << 31), end.term == at.term + 1))
    rate = Struct("Rate", {"numerator": Cell(numerator)})
    batch = Struct("PoissonBatch", {"generator": Cell(Struct("Generator", {})), "stream": Cell(Struct("Stream", {})),
        "step": Cell(context.fresh("u32", "step")), "rate": Cell(rate), "next": Cell(at), "samples": Cell(end)})
    found = code.call(context, "PoissonBatch::next", [Ref(Cell(batch))])
    accepted = z3.ULT(z3.ZeroExt(11, word.term), z3.ZeroExt(11, numerator.term) << 11)
    if found.name == "Some":
        context.claim(accepted, "a taken sample's word is below the threshold")
        context.claim(strip(found.items[0]).term == at.term, "the sample is the trial's")
    else:
        context.claim(z3.Not(accepted), "another sample's word is not")


def numerators(context):
    """`from_numerator` accepts numerators up to 2^53, and `complement` does not wrap."""
    code = Program({"event": source(EVENT)})
    numerator = context.fresh("u64", "numerator")
    found = code.call(context, "Rate::from_numerator", [numerator])
    if found.name == "Ok":
        context.claim(z3.ULE(numerator.term, 1 << 53), "at most 1")
        rest = code.call(context, "Rate::complement", [found.items[0]])
        total = z3.ZeroExt(1, numerator.term) + z3.ZeroExt(1, rest.fields["numerator"].value.term)
        context.claim(total == 1 << 53, "a rate and its complement are 1")
    else:
        context.claim(z3.UGT(numerator.term, 1 << 53), "an error only above 1")


def at_most(context):
    """`at_most` rounds a rate down to a multiple of 2^-53."""
    code = Program({"event": source(EVENT)})
    q = context.fresh("f64", "q")
    found = code.call(context, "Rate::at_most", [q])
    one, zero = z3.FPVal(1.0, FLOATS["f64"]), z3.FPVal(0.0, FLOATS["f64"])
    valid = z3.And(z3.fpGEQ(q.term, zero), z3.fpLEQ(q.term, one))
    if found.name == "Ok":
        numerator = found.items[0].fields["numerator"].value
        scaled = z3.fpMul(z3.RNE(), q.term, z3.FPVal(2.0**53, FLOATS["f64"]))
        as_float = lambda term, mode: z3.fpUnsignedToFP(mode, term, FLOATS["f64"])
        context.claim(z3.ULE(numerator.term, 1 << 53), "at most 1")
        context.claim(z3.fpLEQ(as_float(numerator.term, z3.RNE()), scaled), "not above q")
        # 2^53 + 1 is not a float. Rounded up, it is above 2^53.
        context.claim(z3.fpGT(as_float(numerator.term + 1, z3.RTP()), scaled), "above q less one part")
    else:
        context.claim(z3.Not(valid), "an error only outside of 0 to 1")


def first_word(context):
    """The first word of a draw divides into a sign of 1 bit, 24 bits of the cell and 7 bits of the first trial."""
    code = Program({"gaussian": source(GAUSSIAN)})
    word, seen = context.fresh("u32", "word"), {}

    def cell(context, head, words):
        seen["head"] = strip(head)
        return integer("u32", 0)

    def accept(context, i, a, sigma, coin, words):
        seen["coin"] = strip(coin)
        return Num("bool", z3.BoolVal(True))

    code.hooks |= {".next_u32": lambda context, words: word, "cell": cell, "accept": accept, "below": lambda context, n, words: integer("u32", 1)}
    found = code.call(context, "gaussian::sample", [integer("u32", 16), Struct("Words", {})])
    context.claim(seen["head"].term == z3.ZeroExt(8, z3.Extract(30, 7, word.term)), "24 bits of the cell")
    context.claim(seen["coin"].term == z3.ZeroExt(25, z3.Extract(6, 0, word.term)), "7 bits of the first trial")
    # Here z = (0·16 + 8)/8 = 1.
    context.claim(found.term == z3.If(z3.Extract(31, 31, word.term) == 1, z3.BitVecVal(-1, 64), z3.BitVecVal(1, 64)), "1 bit of the sign")


def ratio(context):
    """One digit of `ratio`: it decides if the interval of the digit is on one side, and continues exactly otherwise."""
    word, used = context.fresh("u32", "word"), []
    numerator, denominator = context.fresh("u32", "numerator"), context.fresh("u32", "denominator")
    context.assume(z3.And(z3.ULT(numerator.term, denominator.term), z3.ULT(denominator.term, 1 << 31)))

    context.products, context.any_integer_product = {}, True

    def loop(frame, body):
        try:
            frame.evaluate(body)
        except Return as found:
            value = boolean(found.value)
        else:
            value = None
        wide = lambda term: z3.ZeroExt(40, term)
        # The number is in [u, u + 1)/2^32, and the ratio is n/d: compare u·d and (u + 1)·d with n·2^32.
        # A product of 32 bits each fits 64. The proof holds for any number as the product.
        low = z3.ZeroExt(8, context.product(z3.ZeroExt(32, word.term), z3.ZeroExt(32, denominator.term)))
        target = wide(numerator.term) << 32
        high = low + wide(denominator.term)
        if value is None:
            left = frame.find("numerator").value
            context.claim(z3.And(z3.ULT(low, target), z3.ULT(target, high)), "the digit does not decide")
            context.claim(z3.ZeroExt(8, left.term) == target - low, "the next digit compares the rest")
            context.claim(z3.ULT(left.term, z3.ZeroExt(32, denominator.term)), "the rest is a ratio below 1")
        else:
            context.claim(z3.If(value, z3.ULE(high, target), z3.UGE(low, target)), "the digit decides")
        raise Return(Num("bool", z3.BoolVal(True)))

    code = Program({"gaussian": source(GAUSSIAN)}, {".next_u32": lambda context, words: word}, loops={"ratio": loop})
    code.call(context, "ratio", [numerator, denominator, Struct("Words", {})])


def below(context):
    """`below` rejects a word exactly if the low half of word·n is below 2^32 mod n, and its result is the upper half.

    So each result has the words with v·2^32 + r ≤ word·n < (v + 1)·2^32, r = 2^32 mod n. These are ⌊2^32/n⌋ words for
    every v < n, because 2^32 - r is that multiple of n.
    """
    words, n = [context.fresh("u32", "word") for _ in range(2)], context.fresh("u32", "n")
    context.assume(n.term != 0)
    given = iter(words)

    def draw(context, stream):
        word = next(given, None)
        if word is None:
            raise Panic("the second word is accepted, and a third is drawn")
        return word

    code = Program({"gaussian": source(GAUSSIAN)}, {".next_u32": draw})
    wide = lambda term: z3.ZeroExt(32, term)
    # The proof holds for any numbers as products.
    context.products, context.any_integer_product = {}, True
    products = [context.product(wide(word.term), wide(n.term)) for word in words]
    # A remainder by its definition: 2^32 = k·n + r with r < n. In Rust it is (2^32 - n) mod n.
    rest = z3.URem(-n.term, n.term)
    ok = [z3.UGE(z3.Extract(31, 0, product), rest) for product in products]
    context.assume(ok[1])
    context.assume(z3.ULT(rest, n.term), definition=True)
    found = code.call(context, "below", [n, Struct("Words", {})])
    context.claim(found.term == z3.If(ok[0], z3.Extract(63, 32, products[0]), z3.Extract(63, 32, products[1])), "the first accepted word's upper half")


PROOFS = [
    ("the trial of a sample", poisson),
    ("numerators", numerators),
    ("rates from floats", at_most),
    ("the bits of the first word", first_word),
    ("the digits of a ratio", ratio),
    ("a uniform integer", below),
]

if __name__ == "__main__":
    run(PROOFS)
