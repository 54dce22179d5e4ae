#!/usr/bin/env python3
"""Checks documents against the files of the project, and makes docs/files.md.

  - every file of src/ begins, itself or its header, with a comment whose first sentence says what the file is for, in
    no more than 30 words; docs/files.md lists these sentences (--write makes it);
  - every relative link of README.md and docs/*.md leads to a file, and its #anchor to a heading there; so do the pages that
    sources name, such as docs/files.md#srcbase in a message;
  - README.md and docs/*.md have no "@@", which marks a number that is still to be filled in.

Usage: check-docs.py [--root FOLDER] [--write] | --self-test. Prints what is missing, and exits with 1.
"""
import argparse
import pathlib
import re
import sys
import tempfile

SOURCES = [".h", ".cuh", ".c", ".cu"]  # in this order the files of a stem are asked what they are for
WORDS = 30
INTRODUCTION = """# What each file is for

Room by room; [architecture.md](architecture.md#rooms) has the rooms from the lowest to the highest. `x` means `x.h`, `x.c` or both, or
with CUDA `x.cuh`, `x.cu`. A line is short for the comment that the file begins with (`scripts/check-docs.py --write`). The last line of a
room has the files whose names say as much; `x_internal` is what the files of `x` share."""
INSIDE = re.compile(r"^Inside [^:]*: ")
REST = re.compile(r"[:;]\s| \(|, (?:which|as|so that|and not|or|also|without|where|if|when|unless)\b|[.?!]$")
LONG = re.compile(r", (?!\w+,|\w+ and )")
SHORTEST = 3  # words
LONGEST = 8  # words; of more, what follows a comma after the fourth word is left out
NO_NEWS = {"what", "that", "thi", "with", "from", "file", "share", "pas", "own", "table", "all", "few", "device", "command", "line"}
ARTICLE = re.compile(r"^(?:[Tt]he|An?|a) (\S)")
HEADING = re.compile(r"^#+ ")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
NAMED = re.compile(r"(?<![\w/])(docs/[\w.-]+\.md)(?:#([\w-]+))?")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def first_sentence(path):
    """Of the comment that a file begins with; None: it has none."""
    comment = re.match(r"/\*(.*?)\*/", path.read_text(encoding="utf-8"), re.DOTALL)
    if not comment:
        return None
    lines = [line.strip().removeprefix("*").strip() for line in comment.group(1).strip().splitlines()]
    text = " ".join(lines[:lines.index("")] if "" in lines else lines)
    return re.match(r".*?[.?!](?=\s+[A-Z`\"]|$)|.*", text).group()


def beginning(sentence):
    """A sentence up to what explains it, if that says enough; a long one only up to a comma."""
    sentence = INSIDE.sub("", sentence)
    for match in REST.finditer(sentence):
        if len(sentence[:match.start()].split()) >= SHORTEST:
            sentence = sentence[:match.start()]
            break
    ends = [end for end in (match.start() for match in LONG.finditer(sentence))
            if len(sentence[:end].split()) >= 4 and sentence.count("(", 0, end) == sentence.count(")", 0, end)]
    ends = ends if len(sentence.split()) > LONGEST else []
    return ARTICLE.sub(lambda match: match.group(1).upper(), sentence[:ends[0]] if ends else sentence).rstrip(".")


def says_more(stem, what):
    """Whether the words of a line are more than those of the file's name and words such as "files"."""
    words = [word.rstrip("s") for word in re.findall(r"\w+", what.lower()) if len(word) > 3]
    return not stem.endswith("_internal") and any(word not in stem and word not in NO_NEWS for word in words)


def describe(folder):
    """[(stem, what it is for)] of a folder of sources; None: no file of that stem says it. Headers first."""
    stems = {}
    for path in sorted(folder.iterdir(), key=lambda path: (path.stem, (SOURCES + [path.suffix]).index(path.suffix))):
        if path.suffix in SOURCES:
            stems[path.stem] = stems.get(path.stem) or first_sentence(path)
    return sorted(stems.items())


def folders_of_sources(root):
    return sorted({path.parent for path in (root / "src").rglob("*") if path.suffix in SOURCES})


def list_files(root):
    """docs/files.md."""
    lines = [INTRODUCTION]
    for folder in folders_of_sources(root):
        lines += [f"\n## {folder.relative_to(root).as_posix()}\n"]
        texts = {stem: beginning(what or "") for stem, what in describe(folder)}
        lines += [f"- `{stem}`: {text}" for stem, text in texts.items() if says_more(stem, text)]
        rest = [f"`{stem}`" for stem, text in texts.items() if not says_more(stem, text)]
        lines += [f"- {', '.join(rest)}"] if rest else []
    return "\n".join(lines) + "\n"


def check_files(root):
    messages = []
    for folder in folders_of_sources(root):
        for stem, what in describe(folder):
            if not what:
                messages.append(f"{folder / stem}: no file begins with a comment that says what it is for")
            elif len(what.split()) > WORDS:
                messages.append(f"{folder / stem}: the first sentence has {len(what.split())} words, more than {WORDS}")
    document = root / "docs/files.md"
    if not messages and document.read_text(encoding="utf-8") != list_files(root):
        messages.append(f"{document}: is out of date; scripts/check-docs.py --write makes it")
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
    for source in (path for folder in folders_of_sources(root) for path in sorted(folder.iterdir()) if path.suffix in SOURCES):
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
            whys = [check_link(root / "README.md", path, anchor) for path, anchor in NAMED.findall(line)]
            messages += [f"{source}:{number}: {why}" for why in whys if why]
    for document in pages(root):
        for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
            for path, anchor in LINK.findall(line):
                why = None if "://" in path else check_link(document, path, anchor)
                if why:
                    messages.append(f"{document}:{number}: {why}")
    return messages


def self_test():
    """A tree that is right, then one thing wrong at a time."""
    base, link = "/* What a is. More. */\n", "see [the map](docs/files.md#files), [home](https://example.org)\n"
    cases = [  # a.h, b.c, README.md, the message
        (base, "/* B,\n * e.g. this.\n *\n * More. */\n", link, None),
        (base, "#include <b.h>\n", link, "src/base/b: no file begins with a comment"),
        (base, f"/* {30 * 'long '}sentence. */\n", link, "src/base/b: the first sentence has 31 words"),
        (base, "/* B */\n", "[x](docs/gone.md)\n", "README.md:1: the file of the link docs/gone.md"),
        (base, "/* B */\n", "[x](docs/files.md#srcbase) [y](#top)\n# Top\n", None),
        (base, "/* B */\n", "[x](docs/files.md#src/base)\n", "the link docs/files.md#src/base has no heading"),
        (base, "/* B */\n", "[x](#top)\n```\n# Top\n```\n", "README.md:1: the link #top has no heading"),
        (base, '/* B */\nchar a[] = "see docs/files.md#srcbase";\n', link, None),
        (base, '/* B */\nchar a[] = "see docs/files.md#src";\n', link, "b.c:2: the link docs/files.md#src has no heading"),
        (base, "/* B */\n", "# Top\nsee @@SPEED@@\n", "README.md:2: has @@: fill in the value"),
        (base, "/* B */\n", "see user@example.org\n", None),
    ]
    assert beginning("Copies of the values (portals): one each.") == "Copies of the values"
    assert beginning("Hosts: all of them, which is much.") == "Hosts: all of them"
    assert beginning("Inside the room: the bytes of a file.") == "Bytes of a file"
    assert beginning("The memory that a process may take, and the memory that it holds.") == "Memory that a process may take"
    assert not says_more("plan", "Plan of a run") and not says_more("safetensors_read", "Reads safetensors files")
    assert says_more("cut", "Stages for devices")
    assert not says_more("run_internal", "What the workers of a run share")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "src/base").mkdir(parents=True)
        (root / "docs").mkdir()
        (root / "docs/architecture.md").write_text("# Rooms\n")
        (root / "docs/glossary.md").touch()
        (root / "src/base/a.c").write_text("/* Not this. */\n")
        for header, source, readme, words in cases:
            (root / "src/base/a.h").write_text(header)
            (root / "src/base/b.c").write_text(source)
            (root / "docs/files.md").write_text(list_files(root) + "# Files\n")
            (root / "README.md").write_text(readme)
            messages = check_files(root) + check_links(root) + check_marks(root)
            if words is None:
                assert "is out of date" in messages[0], messages
                (root / "docs/files.md").write_text(list_files(root))
                messages = check_files(root)
            assert any(words in message for message in messages) if words else not messages, messages
    print(f"check-docs: right for {len(cases)} sample trees")


def main():
    parser = argparse.ArgumentParser(description="Checks that documents name every file, have no dead links and no @@.")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true", help="tests this script on sample trees")
    parser.add_argument("--write", action="store_true", help="writes docs/files.md first")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    if options.write:
        (options.root / "docs/files.md").write_text(list_files(options.root), encoding="utf-8")
    messages = check_files(options.root) + check_links(options.root) + check_marks(options.root)
    print("\n".join(messages) or "check-docs: every file has a line, every link has a file and a heading, no @@ is left")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
