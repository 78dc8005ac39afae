"""Values of the executed Rust: typed terms of z3, memory cells, and composites of them."""

import re

import z3

WIDTHS = {"u8": 8, "u16": 16, "u32": 32, "u64": 64, "u128": 128, "usize": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128}
FLOATS = {"f32": z3.Float32(), "f64": z3.Float64()}
NEAREST, ZERO = z3.RNE(), z3.RTZ()


class Num:
    """A number or a truth value, with its Rust type."""

    def __init__(self, kind, term):
        self.kind, self.term = kind, term

    def __repr__(self):
        return f"{self.kind}:{self.term}"


class Cell:
    def __init__(self, value):
        self.value = value


class Ref:
    def __init__(self, cell):
        self.cell = cell


class Array(list):
    """An array of cells. It is copied with its owner."""


class View(list):
    """A slice: it has the cells of an array."""


class Tuple(list):
    pass


class Iter(list):
    """The items of an iterator."""


class Struct:
    def __init__(self, name, fields):
        self.name, self.fields = name, fields


class Variant:
    def __init__(self, name, items):
        self.name, self.items = name, items

    def __repr__(self):
        return f"{self.name}{self.items}"


class Range:
    def __init__(self, low, high, closed):
        self.low, self.high, self.closed = low, high, closed


class Closure:
    def __init__(self, node, scopes, native):
        self.node, self.scopes, self.native = node, scopes, native


class Flow(Exception):
    def __init__(self, value=None):
        super().__init__()
        self.value = value


class Return(Flow):
    pass


class Break(Flow):
    pass


class Continue(Flow):
    pass


class Panic(Exception):
    pass


def strip(value):
    while isinstance(value, Ref):
        value = value.cell.value
    return value


def copied(value):
    if isinstance(value, (Array, Tuple)):
        return type(value)([Cell(copied(cell.value)) for cell in value])
    if isinstance(value, Struct):
        return Struct(value.name, {name: Cell(copied(cell.value)) for name, cell in value.fields.items()})
    return value


def integer(kind, value):
    return Num(kind, z3.BitVecVal(value, WIDTHS[kind]))


def signed(kind):
    return kind[0] == "i"


def literal(text):
    text = text.replace("_", "")
    match = re.fullmatch(r"(0x[0-9a-fA-F]+?|\d+(?:\.\d+)?(?:e-?\d+)?)((?:[iu](?:8|16|32|64|128|size))|f32|f64)?", text)
    digits, kind = match[1], match[2]
    if kind in FLOATS or (kind is None and re.search(r"[.]|^\d+e", digits) and not digits.startswith("0x")):
        return Num(kind, z3.FPVal(digits, FLOATS[kind])) if kind else float(digits)
    value = int(digits, 0)
    return integer(kind, value) if kind else value


def typed(value, kind):
    """A literal without a type, as a number of this type. Other values are unchanged."""
    if kind in WIDTHS and isinstance(value, int) and not isinstance(value, bool):
        return integer(kind, value)
    if kind in FLOATS and isinstance(value, float):
        return Num(kind, z3.FPVal(repr(value), FLOATS[kind]))
    return value


def boolean(value):
    return strip(value).term


def same_type(left, right):
    left, right = strip(left), strip(right)
    if isinstance(left, Num):
        right = typed(right, left.kind)
    if isinstance(right, Num):
        left = typed(left, right.kind)
    return left, right


def wide(number, more=1):
    """An integer in more bits, so that arithmetic in them does not overflow."""
    return (z3.SignExt if signed(number.kind) else z3.ZeroExt)(more, number.term)


def fits(kind, term):
    """Returns the condition that a wide signed or unsigned term is a value of a type."""
    width = WIDTHS[kind]
    inner = z3.Extract(width - 1, 0, term)
    extended = (z3.SignExt if signed(kind) else z3.ZeroExt)(term.size() - width, inner)
    return term == extended


ARITHMETIC = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}


def exact(sign, left, right):
    """The exact result of an operation, in twice the bits and two more."""
    more = WIDTHS[left.kind] + 2 if sign == "*" else 2
    return ARITHMETIC[sign](wide(left, more), wide(right, more))


def overflows(sign, left, right):
    """Returns the condition that an operation overflows its type."""
    low = z3.BVMulNoUnderflow(left.term, right.term) if signed(left.kind) else z3.BoolVal(True)
    if sign == "*":
        return z3.Not(z3.And(z3.BVMulNoOverflow(left.term, right.term, signed(left.kind)), low))
    return z3.Not(fits(left.kind, exact(sign, left, right)))


def binary(context, sign, left, right):
    left, right = same_type(left, right)
    if not isinstance(left, (Num, int, float)):
        return compare_composites(context, sign, left, right)
    if not isinstance(left, Num) and not isinstance(right, Num):
        return constant(sign, left, right)
    if sign in {"<<", ">>"}:
        return shift(context, sign, left, right)
    kind, a, b = left.kind, left.term, right.term
    if left.kind != right.kind:
        raise TypeError(f"{left.kind} {sign} {right.kind}")
    if sign in {"==", "!="}:
        same = z3.fpEQ(a, b) if kind in FLOATS else a == b
        return Num("bool", same if sign == "==" else z3.Not(same))
    if kind == "bool":
        return Num("bool", {"&": z3.And, "|": z3.Or, "^": z3.Xor}[sign](a, b))
    if kind in FLOATS:
        compare = {"<": z3.fpLT, ">": z3.fpGT, "<=": z3.fpLEQ, ">=": z3.fpGEQ}.get(sign)
        if compare:
            return Num("bool", compare(a, b))
        if sign == "*" and context.products is not None:
            return Num(kind, context.product(a, b))
        return Num(kind, {"+": z3.fpAdd, "-": z3.fpSub, "*": z3.fpMul, "/": z3.fpDiv}[sign](NEAREST, a, b))
    if sign in {"<", ">", "<=", ">="}:
        if signed(kind):
            return Num("bool", {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[sign])
        return Num("bool", {"<": z3.ULT, ">": z3.UGT, "<=": z3.ULE, ">=": z3.UGE}[sign](a, b))
    if sign in {"&", "|", "^"}:
        return Num(kind, {"&": a & b, "|": a | b, "^": a ^ b}[sign])
    if sign in {"/", "%"}:
        if signed(kind):
            raise NotImplementedError("division of signed integers")
        context.claim(b != 0, "no division by zero")
        return Num(kind, z3.UDiv(a, b) if sign == "/" else z3.URem(a, b))
    if sign == "*" and not signed(kind) and all(is_half(term) for term in (a, b)):
        # A product of two half words fits the word.
        return Num(kind, context.product(a, b) if context.any_integer_product else a * b)
    context.claim(z3.Not(overflows(sign, left, right)), f"no overflow of {kind} {sign}")
    return Num(kind, ARITHMETIC[sign](a, b))


def is_half(term):
    return z3.is_app_of(term, z3.Z3_OP_ZERO_EXT) and 2 * term.arg(0).size() <= term.size()


def constant(sign, a, b):
    """An operation on two literals without a type."""
    compare = {"==": a == b, "!=": a != b, "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}
    if sign in compare:
        return Num("bool", z3.BoolVal(compare[sign]))
    if isinstance(a, float):
        raise NotImplementedError("arithmetic on floats without a type")
    return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a // b, "%": lambda: a % b, "<<": lambda: a << b,
        ">>": lambda: a >> b, "&": lambda: a & b, "|": lambda: a | b, "^": lambda: a ^ b}[sign]()


def shift(context, sign, left, right):
    if not isinstance(left, Num):
        # A wrong guess of the type does not pass: it meets another type, which is an error.
        left = typed(left, right.kind)
    width = WIDTHS[left.kind]
    amount = z3.BitVecVal(right, width) if isinstance(right, int) else None
    if amount is None:
        context.claim(z3.ULT(right.term, width) if not signed(right.kind) else z3.And(right.term >= 0, right.term < width), "shift within the word")
        size = WIDTHS[right.kind]
        amount = z3.ZeroExt(width - size, right.term) if size < width else z3.Extract(width - 1, 0, right.term)
    if sign == "<<":
        return Num(left.kind, left.term << amount)
    return Num(left.kind, left.term >> amount if signed(left.kind) else z3.LShR(left.term, amount))


def compare_composites(context, sign, left, right):
    if sign not in {"==", "!="}:
        raise NotImplementedError(f"{sign} of {left}")
    if isinstance(left, Variant):
        same = left.name == right.name and len(left.items) == len(right.items)
        pairs = list(zip(left.items, right.items)) if same else []
    else:
        same = len(left) == len(right)
        pairs = [(a.value, b.value) for a, b in zip(left, right)]
    term = z3.And(z3.BoolVal(same), *[boolean(binary(context, "==", a, b)) for a, b in pairs])
    return Num("bool", term if sign == "==" else z3.Not(term))


def unary(context, sign, value):
    value = strip(value)
    if not isinstance(value, Num):
        return -value if sign == "-" else ~value
    if sign == "!":
        return Num(value.kind, z3.Not(value.term) if value.kind == "bool" else ~value.term)
    if value.kind in FLOATS:
        return Num(value.kind, z3.fpNeg(value.term))
    context.claim(value.term != 1 << (WIDTHS[value.kind] - 1), "no overflow of a negation")
    return Num(value.kind, -value.term)


def cast(value, kind):
    """`as`: wraps integers, and saturates floats."""
    value = strip(value)
    if not isinstance(value, Num):
        return typed(value, kind)
    if value.kind == kind:
        return value
    if value.kind == "bool":
        return Num(kind, z3.If(value.term, z3.BitVecVal(1, WIDTHS[kind]), z3.BitVecVal(0, WIDTHS[kind])))
    if value.kind in FLOATS:
        if kind in FLOATS:
            return Num(kind, z3.fpToFP(NEAREST, value.term, FLOATS[kind]))
        if signed(kind):
            raise NotImplementedError("a cast to a signed integer")
        width = WIDTHS[kind]
        top = z3.FPVal(2.0**width, FLOATS[value.kind])
        term = z3.fpToUBV(ZERO, value.term, z3.BitVecSort(width))
        low = z3.Or(z3.fpIsNaN(value.term), z3.fpLEQ(value.term, z3.FPVal(0.0, FLOATS[value.kind])))
        return Num(kind, z3.If(low, z3.BitVecVal(0, width), z3.If(z3.fpGEQ(value.term, top), z3.BitVecVal(-1, width), term)))
    if kind in FLOATS:
        convert = z3.fpSignedToFP if signed(value.kind) else z3.fpUnsignedToFP
        return Num(kind, convert(NEAREST, value.term, FLOATS[kind]))
    have, want = WIDTHS[value.kind], WIDTHS[kind]
    return Num(kind, wide(value, want - have) if want > have else z3.Extract(want - 1, 0, value.term))
