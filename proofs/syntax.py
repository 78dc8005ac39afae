"""Parses the subset of Rust that the proofs need: functions, constants and their bodies as trees of tuples.

A construct outside the subset raises an error. It is never skipped inside a body.
"""

import re
from collections import namedtuple

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<char>b?'(?:[^'\\\n]|\\.)')
    |(?P<life>'\w+)
    |(?P<string>b?"(?:[^"\\]|\\.)*")
    |(?P<number>0x[0-9a-fA-F_]+(?:[iu](?:8|16|32|64|128|size))?|\d[\d_]*(?:\.\d[\d_]*)?(?:e-?\d+)?(?:[iuf](?:8|16|32|64|128|size))?)
    |(?P<word>[^\W\d]\w*)
    |(?P<sign><<=|>>=|\.\.=|\.\.\.|->|=>|::|\.\.|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.X | re.S,
)
LEVELS = [
    ("||",), ("&&",), ("==", "!=", "<", ">", "<=", ">="), ("|",), ("^",), ("&",), ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
]
ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
Function = namedtuple("Function", "name generics params body")


def tokens(text):
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match.lastgroup != "space":
            found.append((match.lastgroup, match[0]))
        at = match.end()
    return found + [("end", "")]


class Parser:
    def __init__(self, found):
        self.found, self.at = found, 0

    def kind(self, ahead=0):
        return self.found[min(self.at + ahead, len(self.found) - 1)][0]

    def text(self, ahead=0):
        return self.found[min(self.at + ahead, len(self.found) - 1)][1]

    def next(self):
        self.at += 1
        return self.found[self.at - 1][1]

    def maybe(self, text):
        if self.text() == text and self.kind() in {"sign", "word"}:
            self.at += 1
            return True
        return False

    def expect(self, text):
        if not self.maybe(text):
            raise SyntaxError(f"expected {text}, found {' '.join(text for _, text in self.found[self.at - 8 : self.at + 5])}")

    def skip_group(self):
        """Skips a bracket with all that is in it."""
        depth = 0
        while True:
            text, kind = self.text(), self.kind()
            if kind == "sign":
                depth += (text in {"(", "[", "{"}) - (text in {")", "]", "}"})
            self.next()
            if depth == 0:
                return

    def skip_item(self):
        while self.text() not in {"{", ";"}:
            if self.text() in {"(", "["}:
                self.skip_group()
            else:
                self.next()
        self.skip_group() if self.text() == "{" else self.next()

    def split(self):
        """Splits `>>` and `&&` in types and patterns."""
        text = self.text()
        if text in {">>", "<<", "&&", "||", ">=", ">>="}:
            self.found[self.at : self.at + 1] = [("sign", text[0]), ("sign", text[1:])]

    def type(self):
        """A type, as text. Its end is a comma, a bracket or a sign that no type has."""
        parts, depth = [], 0
        while True:
            self.split()
            text = self.text()
            if depth == 0 and text in {",", ")", "]", "}", "{", ";", "=", "|", ">", "where", "=>"} and self.kind() != "end":
                return "".join(parts)
            if depth == 0 and parts and self.kind() == "sign" and text not in {"<", "::", "(", "[", "&"} and parts[-1] not in {"&"}:
                return "".join(parts)
            if text in {"(", "["}:
                start = self.at
                self.skip_group()
                parts += [text for _, text in self.found[start : self.at]]
                continue
            depth += (text == "<") - (text == ">")
            parts.append(self.next())
            if depth == 0 and parts[-1] == ">":
                return "".join(parts)

    def generics(self):
        """The names of generic constants, in order, with `None` for types and lifetimes left out."""
        names, depth = [], 0
        if self.text() != "<":
            return names
        while True:
            self.split()
            depth += (self.text() == "<") - (self.text() == ">")
            if self.text() == "const":
                names.append(self.text(1))
            self.next()
            if depth == 0:
                return names

    def function(self):
        self.expect("fn")
        name = self.next()
        generics, params = self.generics(), []
        self.expect("(")
        while not self.maybe(")"):
            while self.text() == "#":
                self.next()
                self.skip_group()
            while self.text() in {"&", "mut"} or self.kind() == "life":
                self.next()
            pattern = self.pattern()
            params.append((pattern, self.type() if self.maybe(":") else "Self"))
            self.maybe(",")
        while self.text() not in {"{", ";"}:
            if self.text() in {"(", "["}:
                self.skip_group()
            else:
                self.next()
        if self.maybe(";"):
            return Function(name, generics, params, None)
        start = self.at
        self.skip_group()
        # Parsed when it is called: other bodies of the file may be outside the subset.
        return Function(name, generics, params, self.found[start : self.at] + [("end", "")])

    def const(self):
        self.expect("const")
        name = self.next()
        self.expect(":")
        kind = self.type()
        self.expect("=")
        start = self.at
        while self.text() != ";":
            self.skip_group() if self.text() in {"(", "[", "{"} else self.next()
        value = Parser(self.found[start : self.at] + [("end", "")])
        self.expect(";")
        return name, (kind, value)

    # Patterns.

    def pattern(self):
        self.maybe("|")
        found = [self.one_pattern()]
        while self.text() == "|" :
            self.next()
            found.append(self.one_pattern())
        return found[0] if len(found) == 1 else ("or", found)

    def one_pattern(self):
        if self.text() == "&&":
            self.split()
        if self.maybe("&"):
            self.maybe("mut")
            return self.one_pattern()
        if self.maybe("_"):
            return ("any",)
        if self.maybe(".."):
            if self.kind() == "number":
                return ("within", None, self.primary(), False)
            return ("rest",)
        if self.text() == "(":
            return ("tuple", self.patterns("(", ")"))
        if self.text() == "[":
            return ("tuple", self.patterns("[", "]"))
        if self.kind() == "number" or self.text() == "-" or self.text() in {"true", "false"}:
            low = self.unary(False)
            if self.text() in {"..", "..="}:
                closed = self.next() == "..="
                return ("within", low, self.unary(False), closed)
            return ("equal", low)
        self.maybe("ref")
        if self.maybe("mut"):
            return ("name", self.next())
        path = self.path()
        if self.text() == "(":
            return ("variant", path, self.patterns("(", ")"))
        if self.text() == "{":
            self.next()
            fields = []
            while not self.maybe("}"):
                if self.maybe(".."):
                    continue
                self.maybe("mut")
                field = self.next()
                fields.append((field, self.pattern() if self.maybe(":") else ("name", field)))
                self.maybe(",")
            return ("fields", path, fields)
        if len(path) == 1 and (path[0][0].islower() or path[0][0] == "_"):
            return ("name", path[0])
        return ("variant", path, [])

    def patterns(self, start, end):
        self.expect(start)
        found = []
        while not self.maybe(end):
            found.append(self.pattern())
            self.maybe(",")
        return found

    def path(self):
        names = [self.next()]
        while self.text() == "::":
            self.next()
            if self.text() == "<":
                names.append(("generics", self.turbofish()))
            else:
                names.append(self.next())
        return names

    def turbofish(self):
        self.expect("<")
        found = []
        while True:
            self.split()
            if self.maybe(">"):
                return found
            found.append(self.type())
            self.maybe(",")

    # Statements and expressions.

    def block(self):
        self.expect("{")
        statements, value = [], None
        while not self.maybe("}"):
            value = None
            if self.maybe(";"):
                continue
            if self.text() == "#":
                self.next()
                self.skip_group()
            elif self.text() == "let":
                statements.append(self.let())
            elif self.text() == "const":
                statements.append(("const", *self.const()))
            else:
                start = self.text()
                # A statement that begins with a block ends with it.
                value = self.primary() if start in {"if", "match", "loop", "while", "for", "{"} else self.expression()
                if self.maybe(";"):
                    statements.append(value)
                    value = None
                elif self.text() != "}":
                    if start not in {"if", "match", "loop", "while", "for", "{"}:
                        raise SyntaxError(f"no semicolon before {self.text()}")
                    statements.append(value)
                    value = None
        return ("block", statements, value)

    def let(self):
        self.expect("let")
        pattern = self.pattern()
        kind = self.type() if self.maybe(":") else None
        value = self.expression() if self.maybe("=") else None
        other = self.block() if self.maybe("else") else None
        self.expect(";")
        return ("let", pattern, kind, value, other)

    def expression(self, struct=True):
        if self.maybe("return"):
            return ("return", None if self.text() in {";", "}", ","} else self.expression())
        if self.maybe("break"):
            return ("break", None if self.text() in {";", "}", ","} else self.expression())
        if self.maybe("continue"):
            return ("continue",)
        if self.text() in {"|", "||", "move"}:
            self.maybe("move")
            params = []
            if not self.maybe("||"):
                self.expect("|")
                while not self.maybe("|"):
                    params.append(self.one_pattern())
                    if self.maybe(":"):
                        self.type()
                    self.maybe(",")
            return ("closure", params, self.expression())
        left = self.range(struct)
        if self.text() in ASSIGN and self.kind() == "sign":
            sign = self.next()
            return ("assign", sign[:-1], left, self.expression(struct))
        return left

    def range(self, struct):
        if self.text() in {"..", "..="}:
            closed = self.next() == "..="
            return ("range", None, self.binary(0, struct), closed)
        left = self.binary(0, struct)
        if self.text() in {"..", "..="}:
            closed = self.next() == "..="
            right = None if self.text() in {"]", ")", ";", "{"} else self.binary(0, struct)
            return ("range", left, right, closed)
        return left

    def binary(self, level, struct):
        if level == len(LEVELS):
            return self.cast(struct)
        left = self.binary(level + 1, struct)
        while self.kind() == "sign" and self.text() in LEVELS[level]:
            sign = self.next()
            left = ("binary", sign, left, self.binary(level + 1, struct))
        return left

    def cast(self, struct):
        value = self.unary(struct)
        while self.maybe("as"):
            # `as u32 < x`: the sign after a plain name is an operator.
            names = [self.next()]
            while self.maybe("::"):
                names.append(self.next())
            value = ("cast", value, "::".join(names))
        return value

    def unary(self, struct):
        if self.text() == "&&":
            self.split()
        if self.kind() == "sign" and self.text() in {"-", "!", "*", "&"}:
            sign = self.next()
            if sign == "&":
                self.maybe("mut")
                return ("ref", self.expression(struct) if self.text() in {"|", "||"} else self.unary(struct))
            return ("deref" if sign == "*" else "unary", *([] if sign == "*" else [sign]), self.unary(struct))
        return self.postfix(self.primary(struct))

    def postfix(self, value):
        while True:
            if self.maybe("?"):
                value = ("try", value)
            elif self.text() == ".":
                self.next()
                if self.kind() == "number":
                    for name in self.next().split("."):
                        value = ("field", value, name)
                    continue
                name = self.next()
                generics = []
                if self.text() == "::":
                    self.next()
                    generics = self.turbofish()
                if self.text() == "(":
                    value = ("method", value, name, self.arguments("(", ")"), generics)
                else:
                    value = ("field", value, name)
            elif self.text() == "(":
                value = ("call", value, self.arguments("(", ")"))
            elif self.text() == "[":
                self.next()
                value = ("index", value, self.expression())
                self.expect("]")
            else:
                return value

    def arguments(self, start, end):
        self.expect(start)
        found = []
        while not self.maybe(end):
            found.append(self.expression())
            self.maybe(",")
        return found

    def primary(self, struct=True):
        kind, text = self.found[self.at]
        if kind == "number":
            return ("number", self.next())
        if kind == "string":
            return ("string", self.next())
        if text in {"true", "false"}:
            return ("bool", self.next() == "true")
        if text == "(":
            self.next()
            found, comma = [], False
            while not self.maybe(")"):
                found.append(self.expression())
                comma = self.maybe(",")
            return found[0] if len(found) == 1 and not comma else ("tuple", found)
        if text == "[":
            self.next()
            found = []
            while not self.maybe("]"):
                found.append(self.expression())
                if self.maybe(";"):
                    count = self.expression()
                    self.expect("]")
                    return ("repeat", found[0], count)
                self.maybe(",")
            return ("array", found)
        if text == "{":
            return self.block()
        if text == "if":
            return self.condition()
        if text == "match":
            return self.match()
        if text == "loop":
            self.next()
            return ("loop", self.block())
        if text == "while":
            self.next()
            return ("while", self.test(), self.block())
        if text == "for":
            self.next()
            pattern = self.pattern()
            self.expect("in")
            return ("for", pattern, self.expression(False), self.block())
        if text == "<":
            self.turbofish()
            self.expect("::")
        if kind != "word":
            raise SyntaxError(f"unexpected {' '.join(text for _, text in self.found[self.at - 8 : self.at + 3])}")
        path = self.path()
        if self.text() == "!" and self.text(1) in {"(", "["}:
            self.next()
            start = self.at
            self.skip_group()
            return ("macro", path[-1], [text for _, text in self.found[start + 1 : self.at - 1]])
        if struct and self.text() == "{" and path[-1][0].isupper():
            return self.structure(path)
        return ("path", path)

    def structure(self, path):
        self.expect("{")
        fields, base = [], None
        while not self.maybe("}"):
            if self.maybe(".."):
                base = self.expression()
            else:
                name = self.next()
                fields.append((name, self.expression() if self.maybe(":") else ("path", [name])))
            self.maybe(",")
        return ("struct", path, fields, base)

    def test(self):
        if self.maybe("let"):
            pattern = self.pattern()
            self.expect("=")
            return ("matches", pattern, self.binary(2, False))
        return self.expression(False)

    def condition(self):
        self.expect("if")
        test, then, other = self.test(), self.block(), None
        if self.maybe("else"):
            other = self.condition() if self.text() == "if" else self.block()
        return ("if", test, then, other)

    def match(self):
        self.expect("match")
        value, arms = self.expression(False), []
        self.expect("{")
        while not self.maybe("}"):
            pattern = self.pattern()
            guard = self.expression(False) if self.maybe("if") else None
            self.expect("=>")
            arms.append((pattern, guard, self.expression()))
            self.maybe(",")
        return ("match", value, arms)
