"""The grid: each coordinate within the bound, sums of squares without overflow, and a sample's norm."""

import re

import z3
from execute import Program
from smt import run, source
from values import FLOATS, Array, Break, Cell, Continue, Iter, Num, Ref, Return, Struct, Variant, View, boolean, integer, strip

GRID, ROUND, LAYERS = "core/src/grid.rs", "core/src/numerics/round.rs", "core/src/clip/layers.rs"
# Blocks of 16 coordinates. Without it, a block has one coordinate, which is the proof of a coordinate.
SIMD = 'target_pointer_width="64"'


def program(word, hooks=None, loops=None):
    text = source(GRID)
    # `word!(i64)` and `word!(i32)` by hand: the macro's body with its type.
    macro = re.search(r"macro_rules! word \{\s*\(\$type:ty\) => \{(.*?)\n    \};\n\}", text, re.S)[1].replace("$type", word)
    found = Program({"grid": text, "round": source(ROUND), "layers": source(LAYERS), "word": macro},
        {"truncate": contract_of_truncate, **(hooks or {})}, (SIMD,), loops)
    found.hooks["W::wrap"] = lambda context, x: found.call(context, f"{word}::wrap", [x])
    return found


def contract_of_truncate(context, x):
    """The facts that `rounding.py` proves of `truncate`, for the units of `bounded_units`."""
    x, found = strip(x).term, context.fresh("u32", "floor")
    top = z3.FPVal(float(1 << 22), FLOATS["f32"])
    context.claim(z3.And(z3.fpGEQ(x, z3.FPVal(0.0, FLOATS["f32"])), z3.fpLEQ(x, top)), "truncate is called within its range")
    facts = [
        z3.ULE(found.term, 1 << 22),
        z3.fpLEQ(z3.fpUnsignedToFP(z3.RNE(), found.term, FLOATS["f32"]), x),
        z3.Implies(z3.fpLEQ(x, context.units.term), z3.ULE(found.term, context.whole.term)),
    ]
    # Equal numbers have equal results.
    facts += [z3.Implies(x == other, found.term == result) for other, result in context.calls]
    context.calls.append((x, found.term))
    context.assume(z3.And(*facts), definition=True)
    return found


def word_of(value):
    return Struct("SumWord", {"0": Cell(value)})


def finite(number):
    return z3.Not(z3.Or(z3.fpIsNaN(number.term), z3.fpIsInf(number.term)))


def product(context):
    """The facts of `Context.product`: it is not NaN, and a negated factor negates it."""
    grad, scale = context.fresh("f32", "grad").term, context.fresh("f32", "scale").term
    context.assume(z3.And(*[z3.Not(z3.Or(z3.fpIsNaN(one), z3.fpIsInf(one))) for one in (grad, scale)]))
    x = z3.fpMul(z3.RNE(), grad, scale)
    context.claim(z3.Not(z3.fpIsNaN(x)), "not NaN")
    context.claim(z3.fpMul(z3.RNE(), grad, z3.fpNeg(scale)) == z3.fpNeg(x), "negated")


def bounded_units(context):
    context.products = {}
    units = context.fresh("u32", "units")
    context.assume(z3.ULE(units.term, 1 << 22))
    context.whole, context.calls = units, []
    context.units = Num("f32", z3.fpUnsignedToFP(z3.RNE(), units.term, FLOATS["f32"]))
    return units, context.units


def one(context, code, unit, scale, grad, total, start):
    """Runs `quantise_block` on one coordinate. Returns the new word and the new sum of squares."""
    grads, sums, totals = (Array([Cell(value)]) for value in (grad, word_of(start), total))
    code.call(context, "quantise_block", [unit, scale, Ref(Cell(grads)), Ref(Cell(sums)), Ref(Cell(totals))],
        {"N": integer("usize", 1), "L": integer("usize", 1)})
    return sums[0].value.fields["0"].value, totals[0].value


def coordinate(word):
    """|q| ≤ units and |q| ≤ |F(g·s)|, and the exact square is added."""
    code = program(word)

    def scenario(context):
        units, unit = bounded_units(context)
        grad, scale = context.fresh("f32", "grad"), context.fresh("f32", "scale")
        context.assume(z3.And(finite(grad), finite(scale)))
        total = context.fresh("u64", "total")
        context.assume(z3.ULE(total.term, (1 << 64) - 1 - (1 << 44)))
        start = context.fresh(word, "start")
        end, squares = one(context, code, unit, scale, grad, total, start)
        q = end.term - start.term
        size = z3.If(q < 0, -q, q)
        wide = z3.ZeroExt(64 - q.size(), size) if q.size() < 64 else size
        x = context.product(grad.term, scale.term)
        context.claim(z3.ULE(wide, z3.ZeroExt(32, units.term)), "|q| is at most units")
        context.claim(z3.fpLEQ(z3.fpUnsignedToFP(z3.RNE(), wide, FLOATS["f32"]), z3.fpAbs(x)), "|q| is at most |x|")
        context.claim(z3.Or(q == 0, (q < 0) == z3.fpIsNegative(x)), "q has the sign of x")
        # In two steps, because a solver does not see that equal factors have equal products.
        floor = z3.ZeroExt(32, context.calls[0][1])
        context.claim(wide == floor, "|q| is the floor")
        context.claim(squares.term == total.term + floor * floor, "the square of the floor is added")

    return scenario


def equal_squares(context, first, second):
    floors = [z3.ZeroExt(32, floor) for _, floor in context.calls]
    context.claim(floors[0] == floors[1], "the floors are equal")
    for floor, square in zip(floors, (first, second), strict=True):
        context.claim(square.term == floor * floor, "the square is that of the floor")


def symmetric(word):
    """The negated scale subtracts what was added, and has the same square."""
    code = program(word)

    def scenario(context):
        units, unit = bounded_units(context)
        grad, scale = context.fresh("f32", "grad"), context.fresh("f32", "scale")
        context.assume(z3.And(finite(grad), finite(scale)))
        zero, start = integer("u64", 0), context.fresh(word, "start")
        added, first = one(context, code, unit, scale, grad, zero, start)
        back, second = one(context, code, unit, Num("f32", z3.fpNeg(scale.term)), grad, zero, added)
        context.claim(back.term == start.term, "the sum is as before")
        equal_squares(context, first, second)

    return scenario


def streamed_squares():
    """`squares`, which adds nothing, counts what `quantise_block` counts."""
    code = program("i64")

    def scenario(context):
        units, unit = bounded_units(context)
        grad, scale = context.fresh("f32", "grad"), context.fresh("f32", "scale")
        context.assume(z3.And(finite(grad), finite(scale)))
        _, total = one(context, code, unit, scale, grad, integer("u64", 0), integer("i64", 0))
        found = code.call(context, "squares", [units, scale, View([Cell(grad)])])
        equal_squares(context, total, found)

    return scenario


def lanes(context):
    """A block adds at most two squares to each lane, so the lanes of a run do not overflow."""
    code = program("i64")
    block, run_length, count = (int(z3.simplify(strip(code_const(code, context, name)).term).as_long()) for name in ("BLOCK", "RUN", "LANES"))
    _, unit = bounded_units(context)
    scale = context.fresh("f32", "scale")
    context.assume(finite(scale))
    # The lane's sum before the last block of a run.
    before, each = run_length // block - 1, block // count
    squares = Array([Cell(context.fresh("u64", "square")) for _ in range(count)])
    start = [cell.value.term for cell in squares]
    for term in start:
        context.assume(z3.ULE(term, before * each << 44))
    grads = Array([Cell(context.fresh("f32", "grad")) for _ in range(block)])
    for cell in grads:
        context.assume(finite(cell.value))
    sums = Array([Cell(word_of(context.fresh("i64", "sum"))) for _ in range(block)])
    code.call(context, "quantise_block", [unit, scale, Ref(Cell(grads)), Ref(Cell(sums)), Ref(Cell(squares))],
        {"N": integer("usize", block), "L": integer("usize", count)})
    for cell, term in zip(squares, start):
        context.claim(z3.ULE(cell.value.term - term, each << 44), "a lane grows by the squares of a block")
    # `quantise_run` adds the lanes and fewer than `BLOCK` last coordinates. Together they are at most a run's squares.
    context.claim(z3.BoolVal(run_length << 44 < 1 << 64), "the squares of a run fit")


def code_const(code, context, name):
    from execute import Frame
    return Frame(code, context, "", "grid").const([name])


def lengths():
    return [*range(40), *range(4080, 4097)]


def runs(context):
    """For a run of each of these lengths, `quantise_run` passes each coordinate once with its own word, and adds up all
    lanes."""
    seen = []

    def block(context, unit, scale, grads, sums, squares):
        grads, sums, squares = strip(grads), strip(sums), strip(squares)
        for at, (grad, word) in enumerate(zip(grads, sums, strict=True)):
            seen.append((strip(grad.value), strip(word.value)))
            lane = squares[at % len(squares)]
            number = z3.BitVecVal(strip(grad.value).number ** 2 << 20, 64)
            lane.value = Num("u64", (lane.value.term if isinstance(lane.value, Num) else z3.BitVecVal(lane.value, 64)) + number)
        return View()

    code = program("i64", hooks={"quantise_block": block})
    code.chunk = z3.simplify(strip(code_const(code, context, "BLOCK")).term).as_long()
    context.assume(context.fresh("bool", "any").term)
    for length in lengths():
        grads, words = [], []
        for at in range(length):
            grad = Num("f32", z3.FPVal(0.0, FLOATS["f32"]))
            grad.number = at + 1
            grads.append(Cell(grad))
            words.append(Cell(word_of(integer("i64", 0))))
        seen.clear()
        total = code.call(context, "quantise_run", [None, None, View(grads), View(words)])
        pairs = [(id(grad.value), id(word.value)) for grad, word in zip(grads, words)]
        context.claim(z3.BoolVal([(id(grad), id(word)) for grad, word in seen] == pairs), f"each of {length} coordinates once")
        exact = sum((at + 1) ** 2 << 20 for at in range(length))
        context.claim(boolean_equal(total, exact), f"all squares of {length} coordinates")


def boolean_equal(number, value):
    return number.term == value if isinstance(number, Num) else z3.BoolVal(number == value)


def parts(context):
    """`quantise` passes runs of at most RUN coordinates, and adds up their sums, which saturate."""
    total, seen = [], []
    code = program("i64")
    most = z3.simplify(strip(code_const(code, context, "RUN")).term).as_long()

    def one_run(context, unit, scale, grads, sums):
        grads, sums = strip(grads), strip(sums)
        context.claim(z3.BoolVal(len(grads) == len(sums) <= most), "a run has at most RUN coordinates")
        seen.extend((id(grad), id(word)) for grad, word in zip(grads, sums))
        total.append(context.fresh("u64", "run"))
        return total[-1]

    code.hooks["quantise_run"] = one_run
    units, scale = context.fresh("u32", "units"), context.fresh("f32", "scale")
    sizes = [most + 1, 0, 2]
    grads = [[Cell(Num("f32", z3.FPVal(0.0, FLOATS["f32"]))) for _ in range(size)] for size in sizes]
    words = [Cell(word_of(integer("i64", 0))) for _ in range(sum(sizes))]
    found = code.call(context, "quantise", [units, scale, Iter(View(part) for part in grads), View(words)])
    context.claim(z3.BoolVal(seen == [(id(grad), id(word)) for grad, word in zip(sum(grads, []), words)]), "each coordinate once, in order")
    exact = z3.BitVecVal(0, 80)
    for run_total in total:
        exact += z3.ZeroExt(16, run_total.term)
    top = z3.BitVecVal((1 << 64) - 1, 80)
    context.claim(z3.ZeroExt(16, found.term) == z3.If(z3.ULT(exact, top), exact, top), "the sum saturates")


# An arbitrary coordinate of the layer, and its sum of squares, as functions of the scale.
Q = z3.Function("q", z3.Float32(), z3.BitVecSort(64))
T = z3.Function("t", z3.Float32(), z3.BitVecSort(64))


def bounded(added):
    """`add_bounded`: when it returns, the sum has grown by q with Σ q² ≤ units², or not at all."""

    def scenario(context):
        start = context.fresh("i64", "start")
        word = Cell(word_of(start))
        units = context.fresh("u32", "units")
        context.assume(z3.ULE(units.term, 1 << 22))
        first = context.fresh("f32", "scale")

        def quantise(context, units_now, scale, pieces, sums):
            # The contract: `symmetric` proves the two equations for each coordinate and its square.
            scale = strip(scale).term
            context.claim(strip(units_now).term == units.term, "the bound is the layer's")
            context.assume(z3.And(Q(z3.fpNeg(scale)) == -Q(scale), T(z3.fpNeg(scale)) == T(scale)), definition=True)
            field = word.value.fields["0"]
            field.value = Num("i64", field.value.term + Q(scale))
            return Num("u64", T(scale))

        def result(scale):
            grown = word.value.fields["0"].value.term - start.term
            bound = z3.ZeroExt(32, units.term) * z3.ZeroExt(32, units.term)
            context.claim(z3.Or(grown == 0, z3.And(grown == Q(scale), z3.ULE(T(scale), bound))), "the sample passes, or adds nothing")

        def loop(frame, body):
            """One pass of the loop, from any state that its invariant admits."""
            is_first = context.fresh("bool", "first")
            state, out = frame.find("scale"), frame.find("taking_out")
            if not context.decide(is_first.term):
                frame.find("added").value = Variant("None", [])
                state.value.fields["scale"].value = context.fresh("f32", "scale")
                state.value.fields["shrink"].value = context.fresh("f32", "shrink")
                out.value = context.fresh("bool", "out")
                scale = state.value.fields["scale"].value.term
                # All NaN are one value of z3. The proof does not need more.
                grown = z3.If(out.value.term, Q(scale), z3.BitVecVal(0, 64))
                word.value.fields["0"].value = Num("i64", start.term + grown)
            before = state.value.fields["scale"].value.term
            try:
                frame.evaluate(body)
            except Continue:
                pass
            except (Return, Break):
                result(before)
                raise
            # The invariant holds again.
            grown = word.value.fields["0"].value.term - start.term
            scale = state.value.fields["scale"].value.term
            context.claim(grown == z3.If(boolean(out.value), Q(scale), z3.BitVecVal(0, 64)), "the invariant holds after a pass")
            raise Return(None)

        code = program("i64", hooks={"quantise": quantise}, loops={"add_bounded": loop})
        total = Variant("None", [])
        if added:
            total = Variant("Some", [Num("u64", T(first.term))])
            word.value.fields["0"].value = Num("i64", start.term + Q(first.term))
        pair = Array([Cell(units), Cell(first)])
        code.call(context, "add_bounded", [pair, total, View(), View([word])])

    return scenario


def ends(context):
    """The scale reaches 0 after 21 passes, for any first scale, and 0 adds nothing."""
    code = program("i64")
    scale = context.fresh("f32", "scale")
    context.assume(finite(scale))
    state = code.call(context, "Scale::first", [scale])
    for _ in range(21):
        state = code.call(context, "Scale::next", [state])
    context.claim(z3.fpIsZero(strip(state).fields["scale"].value.term), "the scale is 0")
    grad = context.fresh("f32", "grad")
    context.assume(finite(grad))
    _, unit = bounded_units(context)
    context.products = None
    code.hooks.pop("truncate")
    start = context.fresh("i64", "start")
    for zero in (0.0, -0.0):
        end, total = one(context, code, unit, Num("f32", z3.FPVal(zero, FLOATS["f32"])), grad, integer("u64", 0), start)
        context.claim(z3.And(end.term == start.term, total.term == 0), "0 adds nothing")


def units_of_layer(context):
    """A layer's bound is at most its share of 2^bits, for shares up to 2^22."""
    code = program("i64")
    share, bits = context.fresh("u32", "share"), context.fresh("u32", "bits")
    context.assume(z3.And(z3.ULE(share.term, 1 << 22), z3.UGE(bits.term, 8), z3.ULE(bits.term, 22)))
    units = code.call(context, "Layer::units", [Struct("Layer", {"len": Cell(integer("usize", 1)), "share": Cell(share)}), bits])
    unit = code.call(context, "Grid::unit", [Struct("Grid", {"bits": Cell(bits)})])
    context.claim(z3.ULE(units.term, unit.term), "at most 2^bits")
    scaled = z3.ZeroExt(32, units.term) << z3.ZeroExt(32, 22 - bits.term)
    context.claim(z3.ULE(scaled, z3.ZeroExt(32, share.term)), "units / 2^bits is at most the share")
    context.claim(z3.Implies(share.term == 1 << 22, units.term == unit.term), "the whole is 2^bits")


def shares(count):
    """`Layers::new` accepts shares only if their squares are at most 2^44 together, and none is 0."""

    def scenario(context):
        code = program("i64")
        found = [context.fresh("u32", "share") for _ in range(count)]
        layers = View([Cell(Struct("Layer", {"len": Cell(integer("usize", 1)), "share": Cell(share)})) for share in found])
        result = code.call(context, "Layers::new", [layers])
        if result.name == "Ok":
            exact = z3.BitVecVal(0, 80)
            for share in found:
                exact += z3.ZeroExt(48, share.term) * z3.ZeroExt(48, share.term)
                context.claim(share.term != 0, "a share is above 0")
                context.claim(z3.ULE(share.term, 1 << 22), "a share is at most 2^22")
            context.claim(z3.ULE(exact, 1 << 44), "the squares are at most 1 together")
        else:
            context.claim(z3.BoolVal(True), "an error")

    return scenario


def overflow_of_i32(context):
    """If `may_overflow_i32` is false, the sums of 32 bits of so many samples, with twelve sigma, do not wrap."""
    code = program("i32")
    bits, batch, sigma = (context.fresh("u32", name) for name in ("bits", "batch", "sigma"))
    context.assume(z3.And(z3.UGE(bits.term, 8), z3.ULE(bits.term, 22)))
    grid = Struct("Grid", {"bits": Cell(bits)})
    may = code.call(context, "Grid::may_overflow_i32", [grid, batch, sigma])
    unit = code.call(context, "Grid::unit", [grid])
    wide = lambda number: z3.ZeroExt(96, number.term)
    few, many = 8 * wide(batch), 4 * wide(batch) + 32
    samples = z3.If(z3.ULT(few, many), few, many)
    # |Σ q_i| ≤ samples · unit, exactly, because each |q_i| ≤ units ≤ 2^bits.
    shifted = samples << z3.ZeroExt(96, bits.term)
    context.claim(wide(unit) == z3.BitVecVal(1, 128) << z3.ZeroExt(96, bits.term), "the unit is 2^bits")
    context.claim(z3.Implies(z3.Not(boolean(may)), z3.ULT(shifted + 12 * wide(sigma), 1 << 31)), "below 2^31")


PROOFS = [
    ("a product of finite numbers", product),
    *[(f"a coordinate, {word}", coordinate(word)) for word in ("i32", "i64")],
    *[(f"the negated scale, {word}", symmetric(word)) for word in ("i32", "i64")],
    ("squares without a sum", streamed_squares()),
    ("the lanes of a block", lanes),
    ("a run's coordinates", runs),
    ("a vector's runs", parts),
    ("the bound of a sample", bounded(False)),
    ("the bound of a sample that was added", bounded(True)),
    ("the loop ends", ends),
    ("the units of a layer", units_of_layer),
    *[(f"{count} shares", shares(count)) for count in (1, 2)],
    ("sums of 32 bits", overflow_of_i32),
]

if __name__ == "__main__":
    run(PROOFS)
