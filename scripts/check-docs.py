#!/usr/bin/env python3
"""Checks documents against the files of the project.

  - docs/files.md has a section "## src/<folder>" for every folder of sources, and in its table names every file
    there by its stem, and no other;
  - every relative link of README.md and docs/*.md leads to a file, and its #anchor to a heading there;
  - README.md and docs/*.md have no "@@", which marks a number that is still to be filled in.

Usage: check-docs.py [--root FOLDER] | --self-test. Prints what is missing, and exits with 1.
"""
import argparse
import pathlib
import re
import sys
import tempfile

SOURCES = {".c", ".h", ".cu", ".cuh"}
SECTION = re.compile(r"^## (src/\S+)$")
HEADING = re.compile(r"^#+ ")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def named_files(document):
    """{folder: stems} that the first cells of the sections' tables name; a stem as often as it is named."""
    sections, stems = {}, None
    for line in document.read_text(encoding="utf-8").splitlines():
        match = SECTION.match(line)
        if match:
            stems = sections.setdefault(match.group(1), [])
        elif HEADING.match(line):
            stems = None
        elif stems is not None and line.startswith("|"):
            stems.extend(re.findall(r"`([^`]+)`", line.split("|")[1]))
    return sections


def present_files(root):
    """{folder: stems} that are there."""
    folders = {}
    for path in (root / "src").rglob("*"):
        if path.suffix in SOURCES:
            folders.setdefault(path.parent.relative_to(root).as_posix(), set()).add(path.stem)
    return folders


def check_files(root):
    document = root / "docs/files.md"
    named, present = named_files(document), present_files(root)
    messages = []
    for folder in sorted(named.keys() | present.keys()):
        stems = named.get(folder, [])
        for stem in sorted({stem for stem in stems if stems.count(stem) > 1}):
            messages.append(f"{document}: names {folder}/{stem} twice")
        for stem in sorted(present.get(folder, set()) - set(stems)):
            messages.append(f"{document}: has no line for {folder}/{stem}")
        for stem in sorted(set(stems) - present.get(folder, set())):
            messages.append(f"{document}: names {folder}/{stem}, which does not exist")
    return messages


def anchors(document):
    """The anchors that GitHub makes of the headings of a Markdown file."""
    seen, names = {}, set()
    for line in CODE.sub("", document.read_text(encoding="utf-8")).splitlines():
        if HEADING.match(line):
            name = re.sub(r"[^\w\- ]", "", HEADING.sub("", line).strip().lower()).replace(" ", "-")
            count = seen[name] = seen.get(name, -1) + 1
            names.add(f"{name}-{count}" if count else name)
    return names


def check_link(document, path, anchor):
    """What is wrong with a link of a document; None if nothing is."""
    target = document.parent / path if path else document
    if not target.exists():
        return f"the file of the link {path} does not exist"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return f"the link {path}#{anchor} has no heading"
    return None


def pages(root):
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def check_marks(root):
    return [f"{document}:{number}: has @@: fill in the value"
            for document in pages(root)
            for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1) if "@@" in line]


def check_links(root):
    messages = []
    for document in pages(root):
        for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
            for path, anchor in LINK.findall(line):
                why = None if "://" in path else check_link(document, path, anchor)
                if why:
                    messages.append(f"{document}:{number}: {why}")
    return messages


def self_test():
    """A tree that is right, then one thing wrong at a time."""
    map_of = "# Files\n## src/base\n| | |\n|---|---|\n| {} | x |\n"
    link = "see [the map](docs/files.md#files), [home](https://example.org)\n"
    cases = [
        (map_of.format("`a` `b`"), link, None),
        (map_of.format("`a`"), link, "has no line for src/base/b"),
        (map_of.format("`a` `b` `c`"), link, "names src/base/c"),
        (map_of.format("`a` `b` `a`"), link, "names src/base/a twice"),
        (map_of.format("`a` `b`"), "[x](docs/gone.md)\n", "README.md:1: the file of the link docs/gone.md"),
        (map_of.format("`a` `b`"), "[x](docs/files.md#srcbase) [y](#top)\n# Top\n", None),
        (map_of.format("`a` `b`"), "[x](docs/files.md#src/base)\n", "the link docs/files.md#src/base has no heading"),
        (map_of.format("`a` `b`"), "[x](#top)\n```\n# Top\n```\n", "README.md:1: the link #top has no heading"),
        (map_of.format("`a` `b`"), "# Top\nsee @@SPEED@@\n", "README.md:2: has @@: fill in the value"),
        (map_of.format("`a` `b`"), "see user@example.org\n", None),
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in ("src/base/a.c", "src/base/a.h", "src/base/b.h", "docs/files.md"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch()
        for text, readme, words in cases:
            (root / "docs/files.md").write_text(text)
            (root / "README.md").write_text(readme)
            messages = check_files(root) + check_links(root) + check_marks(root)
            assert len(messages) == (words is not None), messages
            assert words is None or words in messages[0], messages
    print(f"check-docs: right for {len(cases)} sample trees")


def main():
    parser = argparse.ArgumentParser(description="Checks that documents name every file, have no dead links and no @@.")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true", help="tests this script on sample trees")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    messages = check_files(options.root) + check_links(options.root) + check_marks(options.root)
    print("\n".join(messages) or "check-docs: every file has a line, every link has a file and a heading, no @@ is left")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
