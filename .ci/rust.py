"""Reads Rust: tokens, the functions of a file, and which of them are tests. For `.ci/house`, `.ci/english`, `.ci/cycles` and `.ci/names`."""

import collections
import re

Token = collections.namedtuple("Token", "kind text line")
Function = collections.namedtuple("Function", "name line lines arguments test")

# The alternatives are in this order, because the `r` before a raw string is a word, and the quote before a character is
# a lifetime's.
TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>//[^\n]*)
    |(?P<block>/\*)
    |(?P<raw>(?:b|c)?r(?P<hashes>\#*)")
    |(?P<string>[bc]?"(?:[^"\\]|\\.)*")
    |(?P<char>b?'(?:[^'\\\n]|\\(?:u\{[^}]*\}|x[0-9a-fA-F]{2}|.))')
    |(?P<lifetime>'\w+)
    |(?P<word>(?:r\#)?[^\W\d]\w*)
    |(?P<number>\d\w*(?:\.\d\w*)?)
    |(?P<sign>->|=>|::|.)""",
    re.X | re.S,
)
OPEN, CLOSE = "([{", ")]}"


def end_of_block_comment(text, at):
    """The end of the comment that begins at `at`. Such comments nest."""
    depth = 0
    for found in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return len(text)


def tokens(text, comments=False):
    """The tokens of a text without space, with comments if requested. A string or a comment is one token."""
    at, line, found = 0, 1, []
    while at < len(text):
        match = TOKEN.match(text, at)
        kind, end = match.lastgroup, match.end()
        if match["block"]:
            kind, end = "comment", end_of_block_comment(text, at)
        elif match["raw"]:
            close = text.find('"' + match["hashes"], end)
            kind, end = "string", len(text) if close < 0 else close + 1 + len(match["hashes"])
        if kind != "space" and (comments or kind != "comment"):
            found.append(Token(kind, text[at:end], line))
        line += text.count("\n", at, end)
        at = end
    return found


def blank(text):
    """The text with comments removed and strings empty. The line numbers do not change."""
    at, parts = 0, []
    while at < len(text):
        match = TOKEN.match(text, at)
        end = match.end()
        if match["block"]:
            end = end_of_block_comment(text, at)
        elif match["raw"]:
            close = text.find('"' + match["hashes"], end)
            end = len(text) if close < 0 else close + 1 + len(match["hashes"])
        piece = text[at:end]
        if match["comment"] or match["block"]:
            piece = "\n" * piece.count("\n")
        elif match["raw"] or match["string"] or match["char"]:
            piece = '""' + "\n" * piece.count("\n")
        parts.append(piece)
        at = end
    return "".join(parts)


def closing(found, at):
    """The index of the closing bracket for the bracket at `at`."""
    depth = 0
    for index in range(at, len(found)):
        if found[index].kind == "sign":
            depth += (found[index].text in OPEN) - (found[index].text in CLOSE)
            if depth == 0:
                return index
    return len(found) - 1


def after_angles(found, at):
    """The index after the generic parameters that begin at `at`, if there are any. `->` is one token, and closes
    none."""
    if found[at].text != "<":
        return at
    depth = 0
    while at < len(found):
        text = found[at].text
        if text in OPEN and found[at].kind == "sign":
            at = closing(found, at)
        depth += (text == "<") - (text == ">")
        at += 1
        if depth == 0:
            break
    return at


def count_arguments(found, start, end):
    """The arguments between two parentheses, with `self`: the parts between commas outside of any bracket."""
    count, fresh, at = 0, True, start + 1
    while at < end:
        text = found[at].text
        if text == ",":
            fresh, at = True, at + 1
            continue
        # Attributes are not arguments.
        if text == "#" and found[at + 1].text == "[":
            at = closing(found, at + 1) + 1
            continue
        count, fresh = count + fresh, False
        if text == "<":
            at = after_angles(found, at)
        elif text in OPEN and found[at].kind == "sign":
            at = closing(found, at) + 1
        else:
            at += 1
    return count


def tests_only(attribute):
    """Returns true if an attribute, as the texts of its tokens, is of tests: `test`, `cfg(test)`, `cfg(all(test, …))`."""
    return attribute[:1] == ["test"] or (attribute[:2] == ["cfg", "("] and "test" in attribute and "not" not in attribute)


def of_tests(found):
    """The ranges of tokens that only tests have: items under `#[test]` or `#[cfg(test)]`, and modules `tests`."""
    ranges, at = [], 0
    while at < len(found) - 1:
        start, marked = at, False
        while found[at].text == "#" and at + 1 < len(found) and found[at + 1].text == "[":
            end = closing(found, at + 1)
            marked |= tests_only([token.text for token in found[at + 2 : end]])
            at = end + 1
            if at >= len(found):
                break
        if at < len(found) - 1 and found[at].text == "mod" and found[at + 1].text in {"tests", "testing"}:
            marked = True
        if marked:
            # To the end of the item: a body or a semicolon.
            while at < len(found) and found[at].text not in {"{", ";"}:
                at = closing(found, at) + 1 if found[at].text in {"(", "["} else at + 1
            at = (closing(found, at) if at < len(found) and found[at].text == "{" else at) + 1
            ranges.append((start, at))
        elif at == start:
            at += 1
    return ranges


def functions(text):
    """The functions of a file that have a body, in order. `fn` in a type has no name, and a macro's has `$` as its
    name."""
    found = tokens(text)
    tests = of_tests(found)
    result = []
    for at, token in enumerate(found[:-1]):
        if token.text != "fn" or token.kind != "word" or found[at + 1].kind != "word":
            continue
        start = after_angles(found, at + 2)
        if start >= len(found) or found[start].text != "(":
            continue
        end = closing(found, start)
        body = end + 1
        while body < len(found) and found[body].text not in {"{", ";"}:
            body = closing(found, body) + 1 if found[body].text in {"(", "["} else body + 1
        last = closing(found, body) if body < len(found) and found[body].text == "{" else None
        test = any(first <= at < after for first, after in tests)
        lines = found[last].line - token.line + 1 if last is not None else 0
        result.append(Function(found[at + 1].text, token.line, lines, count_arguments(found, start, end), test))
    return result


def test_modules(text):
    """The names of the modules that a file declares only for tests, in other files."""
    found = tokens(text)
    names = set()
    for first, after in of_tests(found):
        inside = [token.text for token in found[first:after]]
        if "mod" in inside and inside[-1] == ";":
            names.add(inside[inside.index("mod") + 1])
    return names
