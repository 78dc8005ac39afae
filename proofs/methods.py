"""The functions and methods of Rust's library that the proved code calls."""

import z3
from values import (FLOATS, WIDTHS, Array, Cell, Iter, Num, Panic, Range, Ref, Tuple, Variant, View, binary, boolean, cast, copied, fits, integer,
    overflows, same_type, signed, strip, typed)


def concrete(value):
    """The integer of a value that has one on this path."""
    value = strip(value)
    if isinstance(value, int):
        return value
    term = z3.simplify(value.term)
    if not z3.is_bv_value(term):
        raise NotImplementedError(f"a number that depends on inputs: {term}")
    return term.as_signed_long() if signed(value.kind) else term.as_long()


def choose(condition, then, other):
    then, other = same_type(then, other)
    return Num(then.kind, z3.If(condition, then.term, other.term))


def constant(names):
    if len(names) == 2 and names[0] in WIDTHS and names[1] in {"MAX", "MIN"}:
        kind, width = names[0], WIDTHS[names[0]]
        top = (1 << (width - 1 if signed(kind) else width)) - 1
        return integer(kind, top if names[1] == "MAX" else (-top - 1 if signed(kind) else 0))
    if len(names) == 2 and names[0] in FLOATS and names[1] == "INFINITY":
        return Num(names[0], z3.fpPlusInfinity(FLOATS[names[0]]))
    return None


def from_bits(kind, value):
    return Num(kind, z3.fpBVToFP(strip(value).term, FLOATS[kind]))


def function(frame, names, arguments):
    """A function by its path."""
    values = [strip(argument) for argument in arguments]
    owner, name = (names[-2] if len(names) > 1 else ""), names[-1]
    if owner in WIDTHS or owner in FLOATS:
        if name == "from":
            if values[0].kind != "bool" and owner in WIDTHS and WIDTHS[owner] < WIDTHS[values[0].kind]:
                raise TypeError(f"{owner}::from({values[0].kind})")
            return cast(values[0], owner)
        if name == "from_bits":
            return from_bits(owner, values[0])
        if name == "from_le_bytes":
            return Num(owner, z3.Concat(*[strip(cell.value).term for cell in reversed(values[0])]))
        if name == "try_from":
            inner = values[0]
            if signed(owner) or signed(inner.kind) or WIDTHS[owner] > WIDTHS[inner.kind]:
                raise NotImplementedError("try_from")
            if frame.context.decide(fits(owner, inner.term)):
                return Variant("Ok", [cast(inner, owner)])
            return Variant("Err", [Tuple()])
        if name in {"to_bits", "to_le_bytes", "wrapping_add"}:
            return method(frame, arguments[0], name, arguments[1:], [])
    if name == "take" and "mem" in names:
        cell = arguments[0].cell
        old, cell.value = cell.value, empty(cell.value)
        return old
    if owner in {"ConfigError", "OpenError", "CallError"}:
        return Variant(owner, [])
    if name == "from_mut":
        return View([arguments[0].cell])
    raise NotImplementedError(f"function {'::'.join(names)}")


def empty(value):
    if isinstance(value, View):
        return View()
    if isinstance(value, Array):
        return Array([Cell(empty(cell.value)) for cell in value])
    if isinstance(value, Num):
        return Num(value.kind, z3.FPVal(0, FLOATS[value.kind]) if value.kind in FLOATS else z3.BitVecVal(0, WIDTHS[value.kind]))
    if isinstance(value, Variant) and value.name in {"Some", "None"}:
        return Variant("None", [])
    raise NotImplementedError(f"default of {value}")


def items(value):
    """The items of a loop, as references if they lie in memory."""
    value = strip(value)
    if isinstance(value, Range):
        low, high = concrete(value.low), concrete(value.high) + (1 if value.closed else 0)
        kinds = [strip(end).kind for end in (value.low, value.high) if isinstance(strip(end), Num)]
        return [typed(number, kinds[0] if kinds else None) for number in range(low, high)]
    if isinstance(value, Iter):
        return list(value)
    if isinstance(value, (Array, View)):
        return [Ref(cell) for cell in value]
    raise NotImplementedError(f"a loop over {value}")


def sliced(base, at):
    low = 0 if at.low is None else concrete(at.low)
    high = len(base) if at.high is None else concrete(at.high) + (1 if at.closed else 0)
    if low > high or high > len(base):
        raise Panic("slice")
    return View(base[low:high])


def split(base, at):
    at = concrete(at)
    if at > len(base):
        raise Panic("split_at")
    return Tuple([Cell(View(base[:at])), Cell(View(base[at:]))])


def sequence_method(frame, value, name, arguments, generics):
    """Methods of arrays, slices, ranges and iterators."""
    call = lambda closure, *values: frame.apply(closure, list(values))
    if name in {"iter", "iter_mut", "into_iter", "by_ref", "cloned", "copied"}:
        return Iter(items(value))
    if name in {"as_slice", "as_flattened", "as_flattened_mut"}:
        return View([inner for cell in value for inner in strip(cell.value)]) if "flat" in name else View(value)
    if name == "clone":
        return copied(value)
    if name == "map":
        found = [copied(call(arguments[0], item)) for item in items(value)]
        return Array([Cell(item) for item in found]) if isinstance(value, Array) else Iter(found)
    if name == "rev":
        return Iter(reversed(items(value)))
    if name == "zip":
        other = strip(arguments[0])
        return Iter(Tuple([Cell(a), Cell(b)]) for a, b in zip(items(value), items(other)))
    if name == "chunks_exact":
        size = concrete(arguments[0])
        return Iter(View(value[at : at + size]) for at in range(0, len(value) - size + 1, size))
    if name == "fold" and frame.name in frame.program.folds:
        return frame.program.folds[frame.name](frame, items(value), arguments[0], arguments[1])
    if name == "fold":
        total = arguments[0]
        for item in items(value):
            total = call(arguments[1], total, item)
        return total
    if name in {"all", "any"}:
        for item in items(value):
            if frame.decide(call(arguments[0], item)) == (name == "any"):
                return Num("bool", z3.BoolVal(name == "any"))
        return Num("bool", z3.BoolVal(name == "all"))
    if name == "for_each":
        for item in items(value):
            call(arguments[0], item)
        return Tuple()
    if name == "contains" and isinstance(value, Range):
        low = boolean(binary(frame.context, ">=", arguments[0], value.low))
        high = boolean(binary(frame.context, "<=" if value.closed else "<", arguments[0], value.high))
        return Num("bool", z3.And(low, high))
    if name == "len":
        return integer("usize", len(value))
    if name == "is_empty":
        return Num("bool", z3.BoolVal(not value))
    if name in {"split_at", "split_at_mut"}:
        return split(value, arguments[0])
    if name in {"split_first", "split_first_mut"}:
        return Variant("Some", [Tuple([Cell(Ref(value[0])), Cell(View(value[1:]))])]) if value else Variant("None", [])
    if name in {"split_first_chunk", "split_first_chunk_mut"}:
        size = frame.program.chunk if not generics else concrete(frame.evaluate_path(generics))
        return Variant("Some", [split(value, size)]) if len(value) >= size else Variant("None", [])
    if name in {"get", "get_mut"}:
        at = concrete(arguments[0])
        return Variant("Some", [Ref(value[at])]) if at < len(value) else Variant("None", [])
    raise NotImplementedError(f"method {name} of a sequence")


def optional_method(frame, value, name, arguments):
    full = value.name in {"Some", "Ok"}
    if name in {"is_some", "is_ok"}:
        return Num("bool", z3.BoolVal(full))
    if name in {"is_none", "is_err"}:
        return Num("bool", z3.BoolVal(not full))
    if name == "is_none_or":
        return frame.apply(arguments[0], [value.items[0]]) if full else Num("bool", z3.BoolVal(True))
    if name == "is_some_and":
        return frame.apply(arguments[0], [value.items[0]]) if full else Num("bool", z3.BoolVal(False))
    if name == "map_err":
        return value if full else Variant("Err", [frame.apply(arguments[0], [value.items[0]])])
    if name == "map":
        return Variant(value.name, [frame.apply(arguments[0], [value.items[0]])]) if full else value
    if name == "and_then":
        return frame.apply(arguments[0], [value.items[0]]) if full else value
    if name in {"ok_or", "ok_or_else"}:
        return Variant("Ok", [value.items[0]]) if full else Variant("Err", [arguments[0]])
    if name == "unwrap_or":
        return value.items[0] if full else arguments[0]
    if name == "unwrap_or_default" and full:
        return value.items[0]
    if name == "ok":
        return Variant("Some", [value.items[0]]) if full else Variant("None", [])
    if name in {"clone"}:
        return value
    if name == "filter":
        return value if full and frame.decide(frame.apply(arguments[0], [value.items[0]])) else Variant("None", [])
    raise NotImplementedError(f"method {name} of {value.name}")


def float_method(frame, value, name, arguments):
    term, kind = value.term, value.kind
    if name == "abs":
        return Num(kind, z3.fpAbs(term))
    if name == "to_bits":
        # A NaN has any bits: a fresh word that reads as this number.
        bits = z3.FreshConst(z3.BitVecSort(WIDTHS["u" + kind[1:]]), "bits")
        frame.context.assume(z3.fpBVToFP(bits, FLOATS[kind]) == term, definition=True)
        return Num("u" + kind[1:], bits)
    if name == "is_finite":
        return Num("bool", z3.Not(z3.Or(z3.fpIsNaN(term), z3.fpIsInf(term))))
    if name == "is_nan":
        return Num("bool", z3.fpIsNaN(term))
    raise NotImplementedError(f"method {name} of {kind}")


def integer_method(frame, value, name, arguments):
    kind, term, context = value.kind, value.term, frame.context
    width = WIDTHS.get(kind)
    other = typed(strip(arguments[0]), kind) if arguments else None
    if isinstance(other, Num) and other.kind != kind and getattr(other, "into", False) and width >= WIDTHS[other.kind] and not signed(other.kind):
        other = cast(other, kind)
    if isinstance(other, Num) and other.kind != kind and not name.startswith("checked_rem"):
        raise TypeError(f"{kind}.{name}({other.kind})")
    if name.startswith("wrapping_") and name != "wrapping_neg":
        operation = {"wrapping_add": lambda: term + other.term, "wrapping_sub": lambda: term - other.term, "wrapping_mul": lambda: term * other.term}
        return Num(kind, operation[name]())
    if name == "wrapping_neg":
        return Num(kind, -term)
    if name.startswith("saturating_"):
        sign = {"saturating_add": "+", "saturating_sub": "-", "saturating_mul": "*"}[name]
        if signed(kind):
            raise NotImplementedError("saturating arithmetic of signed integers")
        plain = {"+": term + other.term, "-": term - other.term, "*": term * other.term}[sign]
        limit = z3.BitVecVal(0 if sign == "-" else -1, width)
        return Num(kind, z3.If(overflows(sign, value, other), limit, plain))
    if name.startswith("checked_"):
        if name == "checked_rem":
            if context.decide(other.term == 0):
                return Variant("None", [])
            return Variant("Some", [Num(kind, z3.URem(term, other.term))])
        sign = {"checked_add": "+", "checked_sub": "-", "checked_mul": "*"}[name]
        if context.decide(overflows(sign, value, other)):
            return Variant("None", [])
        return Variant("Some", [Num(kind, {"+": term + other.term, "-": term - other.term, "*": term * other.term}[sign])])
    if name in {"min", "max"}:
        below = (term < other.term) if signed(kind) else z3.ULT(term, other.term)
        return choose(below if name == "min" else z3.Not(below), value, other)
    if name == "is_multiple_of":
        return Num("bool", z3.URem(term, other.term) == 0)
    if name == "div_ceil":
        rest = z3.URem(term, other.term) != 0
        return Num(kind, z3.UDiv(term, other.term) + z3.If(rest, z3.BitVecVal(1, width), z3.BitVecVal(0, width)))
    if name == "to_le_bytes":
        return Array([Cell(Num("u8", z3.Extract(8 * at + 7, 8 * at, term))) for at in range(width // 8)])
    if name == "unsigned_abs":
        return Num("u" + kind[1:], z3.If(term < 0, -term, term))
    if name == "then_some":
        return Variant("Some", [arguments[0]]) if context.decide(term) else Variant("None", [])
    if name == "into":
        found = Num(kind, term)
        # The method that it is passed to gives its type.
        found.into = True
        return found
    if name in {"get", "clone"}:
        return value
    raise NotImplementedError(f"method {name} of {kind}")


def method(frame, base, name, arguments, generics):
    value = strip(base)
    if name == "take" and isinstance(value, Variant):
        cell = base.cell
        while isinstance(cell.value, Ref):
            cell = cell.value.cell
        cell.value = Variant("None", [])
        return value
    if isinstance(value, (Array, View, Iter, Range)):
        return sequence_method(frame, value, name, arguments, generics)
    if isinstance(value, Variant):
        return optional_method(frame, value, name, arguments)
    if isinstance(value, Num):
        return float_method(frame, value, name, arguments) if value.kind in FLOATS else integer_method(frame, value, name, arguments)
    if name == "clone":
        return copied(value)
    raise NotImplementedError(f"method {name} of {value}")
