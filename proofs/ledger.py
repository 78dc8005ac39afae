"""The ledger: charges only rise, a block decodes to what was encoded, and a torn word never lowers a count."""

import z3
from execute import Program
from smt import run, source
from values import Array, Cell, Num, Ref, Struct, Tuple, Variant, integer, strip

LEDGER, BLOCK, JOURNAL = "core/src/accounting/ledger.rs", "journal/src/block.rs", "journal/src/journal.rs"


def take(context):
    """`take`: a number is below the budget and not used before, and a record counts it and never counts less."""
    code = Program({"ledger": source(LEDGER)})
    budget, charged, persisted, reserve, least = (context.fresh("u32", name) for name in ("budget", "charged", "persisted", "reserve", "least"))
    # `Ledger::check` refuses larger budgets, and `with_reserve` a reserve of 0.
    context.assume(z3.And(z3.ULE(budget.term, 1 << 31), z3.UGE(reserve.term, 1)))
    ledger = Struct("Ledger", {"budget": Cell(budget), "charged": Cell(charged), "persisted": Cell(persisted), "reserve": Cell(reserve),
        "fingerprint": Cell(context.fresh("u64", "fingerprint")), "store": Cell(Struct("Store", {}))})
    found = code.call(context, "Ledger::take", [Ref(Cell(ledger)), least])
    after = ledger.fields["charged"].value.term
    if found.name == "None":
        context.claim(z3.Or(z3.UGE(charged.term, budget.term), z3.UGE(least.term, budget.term)), "nothing is left")
        context.claim(after == charged.term, "the count is as before")
        return
    step, record = [strip(cell.value) for cell in found.items[0]]
    context.claim(z3.And(z3.UGE(step.term, charged.term), z3.ULT(step.term, budget.term)), "the number is new and within the budget")
    context.claim(after == step.term + 1, "the next number is above it")
    if record.name == "None":
        context.claim(z3.ULT(step.term, persisted.term), "the number is durable already")
    else:
        paid = strip(record.items[0].fields["paid"].value).term
        context.claim(z3.And(z3.UGT(paid, step.term), z3.ULE(paid, budget.term)), "the record counts the step")
        context.claim(z3.UGT(paid, persisted.term), "the record counts more than the last")
        context.claim(z3.UGE(step.term, least.term), "no number of other code")


def rising(context):
    """`Journal::persist` refuses a count or a divergence that is not above the last, in bits."""
    written = []

    def append(context, journal, payment):
        written.append(strip(payment))
        return Variant("Ok", [Tuple()])

    hooks = {"Journal::append": append, ".takes": lambda context, run, record: Num("bool", z3.BoolVal(True))}
    code = Program({"journal": source(JOURNAL)}, hooks)
    paid, divergence = context.fresh("u32", "paid"), context.fresh("u64", "divergence")
    newest = Struct("Payment", {"paid": Cell(paid), "divergence": Cell(divergence)})
    journal = Struct("Journal", {"newest": Cell(newest), "run": Cell(Struct("Run", {}))})
    charge, spent = context.fresh("u32", "charge"), context.fresh("f64", "spent")
    record = Struct("Record", {"paid": Cell(charge), "divergence": Cell(spent)})
    found = code.call(context, "Journal::persist", [Ref(Cell(journal)), record])
    if written:
        context.claim(written[0].fields["paid"].value.term == charge.term, "the charge is written")
        context.claim(z3.UGT(charge.term, paid.term), "the count rises")
        context.claim(z3.UGE(written[0].fields["divergence"].value.term, divergence.term), "the divergence does not fall")
        context.claim(z3.Not(z3.fpIsNaN(spent.term)), "the divergence is a number")
    else:
        context.claim(z3.BoolVal(found.name == "Err"), "an error")


KIND = int.from_bytes(b"DJL2", "little")


def encoded(context, code, words):
    """The eight words of a block that `block::write` sends to the flash."""
    sent = []
    code.hooks[".write"] = lambda context, flash, at, data: sent.append(strip(data)) or Variant("Ok", [Tuple()])
    code.call(context, "block::write", [Struct("Flash", {}), integer("u32", 0), Ref(Cell(Array([Cell(word) for word in words])))])
    data = [strip(cell.value).term for cell in sent[0]]
    return [z3.Concat(*reversed(data[at : at + 4])) for at in range(0, 32, 4)]


def decoded(context, code, words):
    """The block that `block::read` finds in eight words of flash."""

    def read(context, flash, at, data):
        for cell, index in zip(strip(data), range(32)):
            byte = index % 4
            cell.value = Num("u8", z3.Extract(8 * byte + 7, 8 * byte, words[index // 4]))
        return Variant("Ok", [Tuple()])

    code.hooks[".read"] = read
    return code.call(context, "block::read", [Ref(Cell(Struct("Flash", {}))), integer("u32", 0)])


def payment(context):
    """The seven words of a charge: its kind, and any others."""
    return [integer("u32", KIND), *[context.fresh("u32", "word") for _ in range(6)]]


def inverse(context):
    """A block reads as it was written."""
    code = Program({"block": source(BLOCK)}, {"crc_of": contract_of_crc()})
    words = payment(context)
    found = decoded(context, code, encoded(context, code, words))
    context.claim(z3.BoolVal(found.name == "Whole"), "the block is whole")
    if found.name == "Whole":
        context.claim(z3.And(*[strip(cell.value).term == word.term for cell, word in zip(strip(found.items[0]), words)]), "its words are as written")


def step_of_crc(context):
    """`crc_of` is one to one in `crc ^ word`: it is a fold of 32 equal steps, and each is one to one."""

    def fold(frame, items, first, step):
        context.claim(first.term == start.term ^ word.term, "the fold begins with the word and the check")
        one, other = context.fresh("u32", "one"), context.fresh("u32", "other")
        results = [frame.apply(step, [state, integer("u32", 0)]).term for state in (one, other)]
        context.claim((results[0] == results[1]) == (one.term == other.term), "one to one")
        return first

    code = Program({"block": source(BLOCK)})
    code.folds["crc_of"] = fold
    start, word = context.fresh("u32", "start"), context.fresh("u32", "word")
    code.call(context, "crc_of", [start, word])


def contract_of_crc():
    """The fact that `step_of_crc` proves: equal results from equal states alone."""
    calls = []

    def crc_of(context, crc, word):
        # `!0` is a word here.
        crc = strip(crc) if isinstance(strip(crc), Num) else integer("u32", strip(crc) % (1 << 32))
        state, found = crc.term ^ strip(word).term, context.fresh("u32", "crc")
        context.assume(z3.And(*[(state == other) == (found.term == result) for other, result in calls]), definition=True)
        calls.append((state, found.term))
        return found

    return crc_of


def changed(at):
    """A block with any other value in word `at` is not whole."""

    def scenario(context):
        code = Program({"block": source(BLOCK)}, {"crc_of": contract_of_crc()})
        words = payment(context)
        # Numbers end earlier: a sector's last number plus one fits 32 bits.
        context.assume(words[1].term != (1 << 32) - 1)
        flash = encoded(context, code, words)
        other = context.fresh("u32", "torn")
        context.assume(other.term != flash[at])
        flash[at] = other.term
        found = decoded(context, code, flash)
        context.claim(z3.BoolVal(found.name == "Damaged"), "the block is damaged")

    return scenario


def slot(torn):
    """A slot whose copy `torn` has any mix of erased and new bits, with all later copies blank or whole."""

    def scenario(context):
        code = Program({"journal": source(JOURNAL)}, {"Journal::address": lambda context, journal, number: integer("u32", 0)})
        run_low, run_high = context.fresh("u32", "low"), context.fresh("u32", "high")
        code.hooks["block::head"] = lambda context, kind, number, run: Array([Cell(one) for one in (kind, number, run_low, run_high)])
        code.consts |= {"block::BYTES": ("journal", code_number("32"))}
        places = context.fresh("u32", "places")
        context.assume(places.term != 0)
        number, paid, divergence = context.fresh("u32", "number"), context.fresh("u32", "paid"), context.fresh("u64", "divergence")
        journal = Struct("Journal", {"flash": Cell(Struct("Flash", {})), "run": Cell(Struct("Run", {})), "places": Cell(places)})
        charge = Struct("Payment", {"paid": Cell(paid), "divergence": Cell(divergence)})
        words = [strip(cell.value) for cell in code.call(context, "Journal::words", [Ref(Cell(journal)), number, charge])]
        later_blank = context.fresh("bool", "cut")
        copies = []

        def read(context, flash, at):
            copy = len(copies)
            copies.append(copy)
            whole = Variant("Whole", [Array([Cell(word) for word in words])])
            if copy < torn:
                return whole
            if copy > torn:
                return Variant("Blank", []) if context.decide(later_blank.term) else whole
            if context.decide(context.fresh("bool", "damaged").term):
                return Variant("Blank" if context.decide(context.fresh("bool", "blank").term) else "Damaged", [])
            # It passes the check by chance: bits that should be 0 may still be 1.
            mixed = [context.fresh("u32", "mixed") for _ in words]
            for mix, word in zip(mixed, words):
                context.assume(mix.term & word.term == word.term)
            return Variant("Whole", [Array([Cell(word) for word in mixed])])

        code.hooks["block::read"] = read
        found = code.call(context, "Journal::slot", [Ref(Cell(journal)), number])
        if found.name == "Whole":
            read_payment = strip(found.items[1])
            context.claim(z3.UGE(strip(read_payment.fields["paid"].value).term, paid.term), "the count is not lower")
            context.claim(z3.UGE(strip(read_payment.fields["divergence"].value).term, divergence.term), "the divergence is not lower")
        else:
            context.claim(z3.BoolVal(found.name != "Blank" or torn == 0), "a slot with a whole copy is not blank")

    return scenario


def code_number(text):
    from syntax import Parser, tokens
    return ("u32", Parser(tokens(text)))


PROOFS = [
    ("the next number", take),
    ("a journal's charges rise", rising),
    ("a block and its encoding", inverse),
    ("a step of the check", step_of_crc),
    *[(f"a changed word {at}", changed(at)) for at in range(8)],
    *[(f"a torn copy {copy}", slot(copy)) for copy in range(3)],
]

if __name__ == "__main__":
    run(PROOFS)
