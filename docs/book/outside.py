#!/usr/bin/env python3
"""A preprocessor of mdBook: a link to a file that is not a page of the book becomes its text and the file's path."""

import json
import os
import re
import sys

LINK = re.compile(r"(?<!!)\[((?:[^][]|\[[^][]*\])*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")


def chapters(items):
    for item in items:
        if isinstance(item, dict) and "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    items = book.get("items") or book.get("sections")
    # mdBook has renamed README.md to index.md. Links have the source's path.
    pages = {c["source_path"] for c in chapters(items)}

    for chapter in chapters(items):
        folder = os.path.dirname(chapter["source_path"])

        def rewrite(match):
            text, target, anchor = match.groups()
            path = os.path.normpath(os.path.join(folder, target))
            if path in pages:
                target = re.sub(r"README\.md$", "index.md", target)
                return f"[{text}]({target}{anchor or ''})"
            shown = os.path.normpath(os.path.join("docs", path))
            return text if text.strip("`") == shown else f"{text} (`{shown}`)"

        parts = re.split(r"(?ms)(^ *```.*?^ *```)", chapter["content"])
        parts[::2] = [LINK.sub(rewrite, part) for part in parts[::2]]
        chapter["content"] = "".join(parts)
    json.dump(book, sys.stdout)


main()
