"""The items of a Rust file: its functions and constants, by their paths."""

import re

from syntax import Parser, tokens


class Source:
    """The functions and constants of one file, without items under `#[cfg(test)]`."""

    def __init__(self, text):
        self.functions, self.consts = {}, {}
        parser = Parser(tokens(text))
        self.items(parser, "", "end")

    def items(self, parser, owner, end):
        while parser.kind() != "end" and parser.text() != end:
            if parser.text() == "#":
                parser.next()
                parser.maybe("!")
                start = parser.at
                parser.skip_group()
                attribute = [text for _, text in parser.found[start : parser.at]]
                if attribute[1:3] in (["cfg", "("], ["test", "]"]) and "test" in attribute and "not" not in attribute:
                    while parser.text() == "#":
                        parser.next()
                        parser.skip_group()
                    parser.skip_item()
            elif parser.text() in {"impl", "trait"}:
                parser.next()
                header = []
                while parser.text() != "{":
                    header.append(parser.next())
                parser.next()
                self.items(parser, owner_name(header), "}")
                parser.expect("}")
            elif parser.text() == "fn" and parser.kind(1) == "word":
                function = parser.function()
                if function.body is not None:
                    self.functions[f"{owner}::{function.name}" if owner else function.name] = function
            elif parser.text() == "const" and parser.kind(1) == "word" and parser.text(2) == ":":
                name, value = parser.const()
                self.consts[f"{owner}::{name}" if owner else name] = value
            elif parser.text() in {"use", "mod", "struct", "enum", "macro_rules", "type", "static", "let"}:
                parser.skip_item()
            else:
                parser.next()


def owner_name(header):
    """The type of an `impl`: the first name after `for`, or after the generic parameters."""
    depth, names, after_for = 0, [], False
    for text in header:
        depth += (text == "<") - (text == ">") - 2 * (text == ">>")
        if text == "where":
            break
        if depth == 0 and text == "for":
            names = []
        if depth == 0 and re.fullmatch(r"[^\W\d]\w*", text) and text != "for":
            names.append(text)
    return names[-1] if names else ""
