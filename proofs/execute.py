"""Executes Rust from `syntax.py` on symbolic values. The terms of z3 that result are the model of the code.

A condition without a fixed value divides the run into two paths, and `smt.prove` visits each. Integer arithmetic that
may overflow adds the claim that it does not. An unknown name, method or type raises an error.
"""

import re

import z3
from items import Source
from syntax import Parser, tokens
from values import (Array, Break, Cell, Closure, Continue, Iter, Num, Panic, Range, Ref, Return, Struct, Tuple, Variant, View, binary, boolean, cast,
    copied, literal, strip, typed, unary)
import methods

class Program:
    """Functions and constants of several files. `hooks` replace functions by contracts that another proof shows."""

    def __init__(self, texts, hooks=None, config=(), loops=None):
        self.functions, self.consts, self.hooks, self.config, self.chunk = {}, {}, dict(hooks or {}), set(config), None
        # By function: called instead of the first loop without an end, for a proof by an invariant.
        self.loops, self.folds = dict(loops or {}), {}
        for prefix, text in texts.items():
            source = Source(text)
            for table, found in ((self.functions, source.functions), (self.consts, source.consts)):
                for name, item in found.items():
                    table.setdefault(name, (prefix, item))
                    table[f"{prefix}::{name}"] = (prefix, item)

    def call(self, context, name, arguments, generics=None):
        prefix, function = self.functions[name]
        frame = Frame(self, context, name, prefix)
        for const, value in (generics or {}).items():
            frame.scopes[0][const] = Cell(value)
        for (pattern, kind), value in zip(function.params, arguments, strict=True):
            frame.bind(pattern, typed(value, kind))
        try:
            return frame.evaluate(Parser(list(function.body)).block())
        except Return as found:
            return found.value


class Frame:
    def __init__(self, program, context, name, prefix):
        self.program, self.context, self.name, self.prefix = program, context, name, prefix
        self.scopes = [{}]

    # Names.

    def find(self, name):
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def owner(self):
        return self.name.split("::")[-2] if "::" in self.name else ""

    def candidates(self, path):
        names = [self.owner() if name == "Self" else name for name in path if isinstance(name, str)]
        found = ["::".join(names[at:]) for at in range(len(names))]
        return [f"{self.prefix}::{name}" for name in found] + found

    def const(self, path):
        for name in self.candidates(path):
            if name in self.program.consts:
                prefix, (kind, parser) = self.program.consts[name]
                frame = Frame(self.program, self.context, name, prefix)
                return typed(frame.evaluate(Parser(list(parser.found)).expression()), kind)
        return None

    def evaluate_path(self, path):
        if len(path) == 1:
            cell = self.find(path[0])
            if cell is not None:
                return cell.value
        known = methods.constant([name for name in path if isinstance(name, str)])
        if known is not None:
            return known
        value = self.const(path)
        if value is not None:
            return value
        last = path[-1]
        for name in self.candidates(path):
            if name in self.program.functions or name in self.program.hooks:
                return Closure(None, None, lambda arguments: self.call(path, arguments))
        if last[0].isupper():
            return Variant(last, [])
        return Closure(None, None, lambda arguments: self.call(path, arguments))

    # Patterns. Each returns a condition, and binds names if it holds.

    def bind(self, pattern, value):
        if self.matches(pattern, value) is not True:
            raise NotImplementedError(f"a pattern that may not match: {pattern}")

    def matches(self, pattern, value):
        """Returns true or false. A condition without a fixed value divides the path."""
        kind = pattern[0]
        if kind == "any":
            return True
        if kind == "name":
            self.scopes[-1][pattern[1]] = Cell(copied(value))
            return True
        if kind == "or":
            return any(self.matches(one, value) for one in pattern[1])
        value = strip(value)
        if kind == "tuple":
            return len(pattern[1]) == len(value) and all(self.matches(one, Ref(cell)) for one, cell in zip(pattern[1], value))
        if kind == "fields":
            return all(self.matches(one, Ref(value.fields[field])) for field, one in pattern[2])
        if kind == "variant":
            if isinstance(value, Variant):
                return value.name == pattern[1][-1] and all(self.matches(*pair) for pair in zip(pattern[2], value.items) if pair[0] != ("rest",))
            return self.decide(binary(self.context, "==", value, self.evaluate_path(pattern[1])))
        if kind == "equal":
            return self.decide(binary(self.context, "==", value, self.evaluate(pattern[1])))
        if kind == "within":
            _, low, high, closed = pattern
            above = low is None or self.decide(binary(self.context, ">=", value, self.evaluate(low)))
            return above and self.decide(binary(self.context, "<=" if closed else "<", value, self.evaluate(high)))
        raise NotImplementedError(f"pattern {pattern}")

    def decide(self, condition):
        return self.context.decide(boolean(condition))

    # Places.

    def place(self, node):
        kind = node[0]
        if kind == "path" and len(node[1]) == 1 and self.find(node[1][0]) is not None:
            return self.find(node[1][0])
        if kind == "deref":
            cell = self.place(node[1])
            while isinstance(cell.value, Ref):
                cell = cell.value.cell
            return cell
        if kind == "field":
            base = strip(self.place(node[1]).value)
            if isinstance(base, Tuple):
                return base[int(node[2])]
            if isinstance(base, Struct):
                return base.fields[node[2]]
            raise NotImplementedError(f"field {node[2]} of {base}")
        if kind == "index":
            base, at = strip(self.place(node[1]).value), strip(self.evaluate(node[2]))
            if isinstance(at, Range):
                return Cell(methods.sliced(base, at))
            at = methods.concrete(at)
            if at >= len(base):
                raise Panic("index")
            return base[at]
        return Cell(self.evaluate(node))

    # Calls.

    def call(self, path, arguments, generics=()):
        for name in self.candidates(path):
            if name in self.program.hooks:
                return self.program.hooks[name](self.context, *arguments)
        for name in self.candidates(path):
            if name in self.program.functions:
                names = self.program.functions[name][1].generics
                values = [part for part in path if not isinstance(part, str)]
                consts = values[-1][1] if values else []
                found = {}
                for const, text in zip(names, consts[len(consts) - len(names) :] if consts else []):
                    found[const] = self.evaluate(Parser(tokens(text)).expression())
                return self.program.call(self.context, name, arguments, found)
        return methods.function(self, [name for name in path if isinstance(name, str)], arguments)

    def apply(self, closure, arguments):
        closure = strip(closure)
        if closure.native:
            return closure.native(arguments)
        frame = Frame(self.program, self.context, self.name, self.prefix)
        frame.scopes = [*closure.scopes, {}]
        for pattern, value in zip(closure.node[1], arguments, strict=True):
            frame.bind(pattern, value)
        return frame.evaluate(closure.node[2])

    # Expressions.

    def evaluate(self, node):
        return getattr(self, "on_" + node[0])(*node[1:])

    def on_number(self, text):
        return literal(text)

    def on_string(self, text):
        return Array([Cell(Num("u8", z3.BitVecVal(byte, 8))) for byte in text.lstrip("b").strip('"').encode()])

    def on_bool(self, value):
        return Num("bool", z3.BoolVal(value))

    def on_path(self, path):
        return self.evaluate_path(path)

    def on_tuple(self, items):
        return Tuple([Cell(copied(self.evaluate(item))) for item in items])

    def on_array(self, items):
        return Array([Cell(copied(self.evaluate(item))) for item in items])

    def on_repeat(self, item, count):
        value = self.evaluate(item)
        return Array([Cell(copied(value)) for _ in range(methods.concrete(self.evaluate(count)))])

    def on_range(self, low, high, closed):
        return Range(*[None if end is None else self.evaluate(end) for end in (low, high)], closed)

    def on_ref(self, node):
        place = self.place(node) if node[0] in {"path", "deref", "field", "index"} else Cell(self.evaluate(node))
        return place.value if isinstance(place.value, (Ref, View)) else Ref(place)

    def on_deref(self, node):
        return strip(self.evaluate(node))

    def on_field(self, node, name):
        return self.place(("field", node, name)).value

    def on_index(self, node, at):
        return self.place(("index", node, at)).value

    def on_unary(self, sign, node):
        return unary(self.context, sign, self.evaluate(node))

    def on_binary(self, sign, left, right):
        if sign in {"&&", "||"}:
            first = boolean(self.evaluate(left))
            # Without side effects on the right in the subset that proofs use, but it may panic. So it is a branch.
            if self.context.decide(first) == (sign == "||"):
                return Num("bool", z3.BoolVal(sign == "||"))
            return self.evaluate(right)
        return binary(self.context, sign, self.evaluate(left), self.evaluate(right))

    def on_assign(self, sign, left, right):
        value = copied(self.evaluate(right))
        if left[0] == "tuple":
            for item, cell in zip(left[1], strip(value), strict=True):
                self.place(item).value = cell.value
            return Tuple()
        cell = self.place(left)
        if sign:
            while isinstance(cell.value, Ref):
                cell = cell.value.cell
            value = binary(self.context, sign, cell.value, value)
        cell.value = typed(value, cell.value.kind if isinstance(cell.value, Num) else None)
        return Tuple()

    def on_cast(self, node, kind):
        return cast(self.evaluate(node), self.owner() if kind == "Self" else kind)

    def on_call(self, node, arguments):
        values = [self.evaluate(argument) for argument in arguments]
        if node[0] == "path":
            cell = self.find(node[1][0]) if len(node[1]) == 1 else None
            if cell is not None:
                return self.apply(cell.value, values)
            if isinstance(node[1][-1], str) and node[1][-1][0].isupper():
                return Variant(node[1][-1], [copied(value) for value in values])
            return self.call(node[1], values)
        return self.apply(self.evaluate(node), values)

    def on_method(self, node, name, arguments, generics):
        base = self.on_ref(node)
        values = [self.evaluate(argument) for argument in arguments]
        inner = strip(base)
        owner = inner.name if isinstance(inner, Struct) else self.owner()
        for key in (f"{owner}::{name}", f".{name}"):
            if key in self.program.hooks:
                return self.program.hooks[key](self.context, base, *values)
        if isinstance(inner, Struct) and f"{inner.name}::{name}" in self.program.functions:
            return self.program.call(self.context, f"{inner.name}::{name}", [base, *values])
        if isinstance(inner, Closure):
            raise NotImplementedError(f"method {name} of a function")
        return methods.method(self, base, name, values, generics)

    def on_macro(self, name, text):
        if name == "cfg":
            joined = re.sub(r"\s", "", "".join(text))
            inner = re.fullmatch(r"any\((.*)\)", joined)
            return Num("bool", z3.BoolVal(any(part in self.program.config for part in (inner[1] if inner else joined).split(","))))
        if name == "matches":
            parser = Parser(tokens(" ".join(text)))
            value = parser.expression()
            parser.expect(",")
            pattern = parser.pattern()
            guard = parser.expression() if parser.maybe("if") else None
            self.scopes.append({})
            found = self.matches(pattern, self.evaluate(value)) and (guard is None or self.decide(self.evaluate(guard)))
            self.scopes.pop()
            return Num("bool", z3.BoolVal(found))
        if name == "assert":
            return Tuple()
        raise NotImplementedError(f"macro {name}")

    def on_struct(self, path, fields, base):
        found = {}
        if base is not None:
            found = {name: Cell(copied(cell.value)) for name, cell in strip(self.evaluate(base)).fields.items()}
        for name, node in fields:
            value = self.evaluate(node)
            found[name] = Cell(copied(strip(value) if isinstance(strip(value), Num) else value))
        name = path[-1]
        return Struct(self.owner() if name == "Self" else name, found)

    def on_closure(self, params, body):
        return Closure(("closure", params, body), [*self.scopes], None)

    def on_try(self, node):
        value = strip(self.evaluate(node))
        if value.name in {"None", "Err"}:
            raise Return(value)
        return value.items[0]

    # Control flow.

    def on_block(self, statements, value):
        self.scopes.append({})
        try:
            for statement in statements:
                self.evaluate(statement)
            return self.evaluate(value) if value else Tuple()
        finally:
            self.scopes.pop()

    def on_let(self, pattern, kind, node, other):
        value = typed(self.evaluate(node), kind) if node else None
        if not self.matches(pattern, value):
            if other is None:
                raise NotImplementedError("let that does not match")
            self.evaluate(other)
        return Tuple()

    def on_const(self, name, value):
        kind, parser = value
        self.scopes[-1][name] = Cell(typed(self.evaluate(Parser(list(parser.found)).expression()), kind))
        return Tuple()

    def holds(self, test):
        if test[0] == "matches":
            return self.matches(test[1], self.evaluate(test[2]))
        return self.decide(self.evaluate(test))

    def merged(self, test, then, other):
        """A choice between two variables as one term, so that it does not divide the path. None if it is another."""
        simple = lambda block: block is not None and block[0] == "block" and not block[1] and block[2] and block[2][0] in {"path", "number"}
        if test[0] == "matches" or not (simple(then) and simple(other)):
            return None
        left, right = strip(self.evaluate(then)), strip(self.evaluate(other))
        if not all(isinstance(value, (Num, int, float)) for value in (left, right)) or not any(isinstance(value, Num) for value in (left, right)):
            return None
        return methods.choose(boolean(self.evaluate(test)), left, right)

    def on_if(self, test, then, other):
        found = self.merged(test, then, other)
        if found is not None:
            return found
        self.scopes.append({})
        try:
            if self.holds(test):
                return self.evaluate(then)
        finally:
            self.scopes.pop()
        return self.evaluate(other) if other else Tuple()

    def on_match(self, node, arms):
        value = self.evaluate(node)
        for pattern, guard, body in arms:
            self.scopes.append({})
            try:
                if self.matches(pattern, value) and (guard is None or self.decide(self.evaluate(guard))):
                    return self.evaluate(body)
            finally:
                self.scopes.pop()
        raise Panic("no arm matches")

    def on_loop(self, body):
        if self.name in self.program.loops:
            return self.program.loops[self.name](self, body)
        while True:
            try:
                self.evaluate(body)
            except Break as found:
                return found.value
            except Continue:
                pass

    def on_while(self, test, body):
        if self.name in self.program.loops:
            return self.program.loops[self.name](self, body)
        while True:
            self.scopes.append({})
            try:
                if not self.holds(test):
                    return Tuple()
                self.evaluate(body)
            except Break:
                return Tuple()
            except Continue:
                pass
            finally:
                self.scopes.pop()

    def on_for(self, pattern, node, body):
        for item in methods.items(self.evaluate(node)):
            self.scopes.append({})
            try:
                self.bind(pattern, item)
                self.evaluate(body)
            except Break:
                return Tuple()
            except Continue:
                pass
            finally:
                self.scopes.pop()
        return Tuple()

    def on_return(self, node):
        raise Return(self.evaluate(node) if node else Tuple())

    def on_break(self, node):
        raise Break(self.evaluate(node) if node else Tuple())

    def on_continue(self):
        raise Continue()
