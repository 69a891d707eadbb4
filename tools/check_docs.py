#!/usr/bin/env python3
"""Checks that every link between the documents leads somewhere: the file exists, and the heading where one is named.
Where a link to a file of tests has a test's name in backquotes as its text, the file must have that test."""

import pathlib
import re
import subprocess
import sys

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TEST_LINK = re.compile(r"\[`(\w+)`\]\(([^)\s#]*\btests/[^)\s#]+\.(?:c|py))\)")
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def anchors(path):
    """The names under which the headings of a document can be linked."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for heading in HEADING.findall(text):
        yield re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def missing_tests(root, document, text):
    for test, name in TEST_LINK.findall(text):
        target = (root / document).parent / name
        definition = rf"^(?:def|static void) {test}\("
        if target.exists() and not re.search(definition, target.read_text(encoding="utf-8"), re.MULTILINE):
            yield f"{document}: {test}: no such test in {name}"


def check(root, documents):
    """The broken links, one string each."""
    for document in documents:
        yield from missing_tests(root, document, (root / document).read_text(encoding="utf-8"))
        text = CODE.sub("", (root / document).read_text(encoding="utf-8"))
        for link in LINK.findall(text):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (root / document).parent / name if name else root / document
            if not target.exists():
                yield f"{document}: ({link}): no such file"
            elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                yield f"{document}: ({link}): no such heading"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
                            cwd=root, check=True, capture_output=True, text=True)
    documents = [name for name in listed.stdout.split() if (root / name).exists()]
    complaints = list(check(root, documents))
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    print(f"docs: {len(documents)} documents, {len(complaints)} broken links")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
