#!/usr/bin/env python3
"""Refuses words that are hard to read, and long sentences, in documents and messages.

  - The words of REFUSED have a plainer word, which the finding names (docs/glossary.md has the words to use).
  - A sentence has at most 40 words. Inline code is one word; so is a list of it.

Documents (*.md): paragraphs, list items, headings, table cells; code blocks are skipped.
C (*.c, *.h, *.cu): string literals with a space in them; not comments, not the keys of JSON.
Python: strings, except docstrings of functions and classes. Shell: strings of the commands that print.

Usage: check-english.py [--comments] [PATH...] | --self-test. --comments checks the comments of C files too. PATH is a file or a folder. Without one: README.md, docs/, bench/, src/
and scripts/. Prints "file:line: finding" for each finding, and exits with 1 if there is one.
"""
import argparse
import ast
import bisect
import pathlib
import re
import signal
import sys

MOST_WORDS = 40
ROOT = pathlib.Path(__file__).resolve().parent.parent
ALL = ["README.md", "docs", "bench", "src", "scripts"]

# Regular expression of whole words, and what to write instead. Only what is never the plain word.
REFUSED = [
    (r"nobody", "say who does not: no layer, no device, no file"),
    (r"somebody|someone|anybody|anyone|everybody|everyone|whoever|whomever", "say who: the user, each worker, another layer"),
    (r"anew|afresh", "again"),
    (r"at hand", "available"),
    (r"dearest|dearer", "most expensive, or the bottleneck stage"),
    (r"things?|something of", "name it"),
    (r"lest", "so that ... not"),
    (r"thereof|therein|thereby|whereof|wherein|whereby|hereby|herein|hitherto|thence|whence|forthwith", "two sentences"),
    (r"(?:told|tells?|telling) (?:\w+ ){0,3}apart", "distinguish"),
    (r"(?:how |so )?manyeth|many-th", "index of, or every n-th"),
    (r"promises|promised", "predicts, predicted, or guarantees"),
    (r"pieces", "micro-batches, or parts"),
    (r"(?:is|are|was|were|be|been) asked for", "requested, or the name of the option"),
    (r"(?<!into )(?<!user )accounts?(?! for)", "the report at the end of a run, or reports"),
    (r"mail", "channel"),
    (r"stolen", "CPU steal"),
    (r"(?<!falls )(?<!fall )(?<!fell )(?<!far )behind(?! (?:a|the) (?:proxy|firewall))", "after, below, or hidden by"),
    (r"(?:is|are|was|were) to be", "must be, or will be"),
    (r"unless (?:it is )?said(?: otherwise)?", "by default"),
    (r"misspelt", "misspelled"),
    (r"of no consequence", "ignored"),
    (r"next to nothing", "almost nothing"),
]
WORDS = [(re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE), advice) for words, advice in REFUSED]

CODE = "\x01"  # stands for each character of inline code
COUNTED = re.compile(rf"[^\s]*[\w{CODE}][^\s]*")


class Text:
    """A text that is read as one, and the line that each of its characters stands on."""

    def __init__(self):
        self.parts, self.starts, self.lines, self.length = [], [], [], 0

    def add(self, part, line):
        self.parts.append(part)
        self.starts.append(self.length)
        self.lines.append(line)
        self.length += len(part)

    def line_at(self, offset):
        return self.lines[bisect.bisect_right(self.starts, offset) - 1]

    def __str__(self):
        return "".join(self.parts)


def mask(pattern, text, by):
    return re.sub(pattern, lambda match: by * len(match.group()), text)


# Findings of a text.

SENTENCE_END = {
    # After a mark of its own, before what can begin a sentence.
    "document": re.compile(rf"[.!?][\"')\]*_]*\s+(?=[\"'(\[*_]*(?:[A-Z0-9{CODE}]|--?\w))"),
    # Messages begin in lower case, and a semicolon divides them as a full stop does.
    "comment": re.compile(r"[.!?;][\"')\]]*\s+"),
    "message": re.compile(r"[.!?;][\"')\]]*\s+|\n\s*\n|\n(?=\s*-|\S*\s{2,})|\n\s+(?=--?\w)|[.:;]\n"),
}


def sentences(text, kind):
    """(offset, sentence) of each."""
    start = 0
    for match in SENTENCE_END[kind].finditer(text):
        yield start, text[start : match.end()]
        start = match.end()
    yield start, text[start:]


def check_text(text, kind):
    """[(line, finding)] of a text whose code is masked."""
    whole = str(text)
    whole = re.sub(rf"{CODE}+(?:(?:, *| +(?=and|or|to))(?:(?:and|or|to) +)?{CODE}+)+", lambda match: CODE * len(match.group()), whole)
    findings = []
    for words, advice in WORDS:
        for match in words.finditer(whole):
            found = " ".join(match.group().split())
            findings.append((text.line_at(match.start()), f'"{found}" is hard to read; plainer: {advice}'))
    for offset, sentence in sentences(whole, kind):
        counted = COUNTED.findall(sentence)
        if len(counted) > MOST_WORDS:
            first = " ".join(word.replace(CODE, "…", 1).replace(CODE, "") for word in counted[:6])
            start = offset + len(sentence) - len(sentence.lstrip())
            findings.append((text.line_at(start), f'a sentence of {len(counted)} words (most: {MOST_WORDS}): "{first} …"'))
    return findings


# Documents.

FENCE = re.compile(r"\s*(```+|~~~+)")
ITEM = re.compile(r"(\s*)(?:[-*+]|\d+[.)])\s+")
TABLE_RULE = re.compile(r"\s*\|?[\s:|-]+\|?\s*$")


def mask_markdown(text):
    """Equally long: inline code as CODE, targets of links and HTML as spaces, addresses as one word."""
    text = mask(r"(?<!`)(`+)(?!`)[\s\S]+?(?<!`)\1(?!`)", text, CODE)
    text = mask(r"(?<=\])\([^()\s]*\)|<!--.*?-->", text, " ")
    text = mask(r"<?https?://[^\s>)]+>?", text, CODE)
    return re.sub(r"<[^<>]*>", lambda match: " " * len(match.group()), text)


def cells(line):
    """Cells of a table's row, code masked."""
    return re.split(r"(?<!\\)\|", mask_markdown(line.strip()).strip("|"))


def markdown_texts(lines):
    """Every paragraph, item, heading and cell, code masked."""
    paragraph, header, fence, item_indent, after_blank = None, None, None, None, True
    for number, line in enumerate(lines, 1):
        mark = FENCE.match(line)
        if fence:
            if mark and mark.group(1).startswith(fence) and not line.strip().strip(fence[0]):
                fence = None
            continue
        indent = len(line) - len(line.lstrip(" "))
        item = ITEM.match(line)
        if not line.strip() or mark or line.lstrip().startswith(("|", "#", ">")) or item:
            if paragraph:
                yield paragraph
            paragraph = None
        if not line.lstrip().startswith("|"):
            header = None
        if mark:
            fence = mark.group(1)
        elif line.strip() and after_blank and indent >= 4 + (item_indent or 0) and not item:
            continue  # a code block; the lines after it are too
        elif not line.strip():
            pass
        elif line.lstrip().startswith("|"):
            row = cells(line)
            header = header or row
            for head, cell in zip(header, row):
                if head.strip() != "not" and not TABLE_RULE.match(line):  # the glossary's words that we do not use
                    text = Text()
                    text.add(cell, number)
                    yield text
        elif line.startswith("#"):
            item_indent = None
            text = Text()
            text.add(mask_markdown(line.lstrip("# ")), number)
            yield text
        else:
            if item:
                item_indent = len(item.group())
                line = line[item_indent:]
            elif indent == 0 and after_blank:
                item_indent = None
            paragraph = paragraph or Text()
            paragraph.add(line.strip().lstrip("> ") + "\n", number)
        after_blank = not line.strip()
    if paragraph:
        yield paragraph


def check_markdown(source):
    findings = []
    for text in markdown_texts(source.splitlines()):
        masked = Text()  # code may reach over the end of a line
        masked.parts, masked.starts, masked.lines = [mask_markdown(str(text))], text.starts, text.lines
        findings += check_text(masked, "document")
    return findings


# C.

TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)
      | (?P<include>^[ \t]*\#[ \t]*include[^\n]*)
      | (?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*")
      | (?P<char>'(?:[^'\\\n]|\\.)*')
      | (?P<name>[A-Za-z_]\w*)
      | (?P<gap>(?:\s|\\\n)+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "'": "'"}
DIRECTIVE = r"%[-+#0]*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?(?:hh|h|ll|l|j|z|t|L)?[diouxXeEfFgGcsp]"


def decode(literal):
    body = literal[literal.index('"') + 1 : -1]
    return re.sub(r"\\(?:x[0-9a-fA-F]+|[0-7]{1,3}|(.))", lambda match: ESCAPES.get(match.group(1), "x"), body, flags=re.DOTALL)


def mask_message(text):
    """Equally long: directives as words, keys of JSON and tags as spaces."""
    text = mask(DIRECTIVE, text.replace("%%", "% "), CODE)
    return mask(r'"[^"\s]*":|<[^<>]*>', text, " ")


def c_texts(source):
    """Every string that is more than a word, adjacent literals and the macros between them joined."""
    text, held, line = None, [], 1
    for token in TOKEN.finditer(source):
        kind, word = token.lastgroup, token.group()
        if kind == "string":
            text = text or Text()
            for name, at in held:  # "%" PRIu64 "…"
                text.add("u" if name.startswith("PRI") else "X", at)
            held = []
            text.add(decode(word), line)
        elif kind == "name" and text and not held:
            held.append((word, line))
        elif kind not in ("gap", "comment"):
            if text:
                yield text
            text, held = None, []
        line += word.count("\n")
    if text:
        yield text


def check_messages(texts):
    findings = []
    for text in texts:
        masked = mask_message(str(text))
        if not re.search(r"\S\s+\S", masked):
            continue
        whole = Text()
        whole.parts, whole.starts, whole.lines = [masked], text.starts, text.lines
        findings += check_text(whole, "message")
    return findings


def check_c(source):
    return check_messages(c_texts(source))


def comment_texts(source):
    """Every paragraph of a block comment; a comment at the end of a line is one, and so are comments of one line in a row."""
    text, line, joins = None, 1, False
    for token in TOKEN.finditer(source):
        kind, word = token.lastgroup, token.group()
        if kind == "comment":
            for at, part in enumerate(re.sub(r"^/[*/]|\*/$", "", word).splitlines(keepends=True)):
                part = mask(r"`[^`\n]+`", re.sub(r"^\s*\*(?:\s|$)", "", part).strip(" -\t"), CODE)
                if text and (not part.strip() or (at == 0 and not joins)):
                    yield text
                    text = None
                if part.strip():
                    text = text or Text()
                    text.add(part.rstrip("\n") + "\n", line + at)
            joins = word.startswith("//")
        elif kind != "gap" or word.count("\n") > 1:
            joins = False
        line += word.count("\n")
    if text:
        yield text


def check_comments(source):
    return [finding for text in comment_texts(source) for finding in check_text(text, "comment")]


# Scripts.


def python_texts(source):
    tree = ast.parse(source)
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node, clean=False) is not None:
            skipped.add(node.body[0].value)
        if isinstance(node, ast.JoinedStr):
            skipped.update(value for value in node.values if isinstance(value, ast.Constant))
    for node in ast.walk(tree):
        text = Text()
        if node in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for at, part in enumerate(node.value.splitlines(keepends=True)):
                text.add(part, min(node.lineno + at, node.end_lineno))
        elif isinstance(node, ast.JoinedStr):
            for value in node.values:
                constant = isinstance(value, ast.Constant)
                text.add(value.value if constant else CODE, value.lineno if constant else node.lineno)
        if text.parts:
            yield text


PRINTS = re.compile(r"(?:^|[;&|{(]|\bthen|\belse|\bdo)\s*(?:echo|printf|die|fail|say|note|skip|refuse|usage)\b(.*)$")
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'')


def shell_texts(source):
    for number, line in enumerate(source.splitlines(), 1):
        match = None if line.lstrip().startswith("#") else PRINTS.search(line)
        for quoted in QUOTED.findall(match.group(1)) if match else []:
            text = Text()
            text.add(mask(r"\$\([^()]*\)|\$\{[^}]*\}|\$\w+", quoted[1:-1], CODE).replace("\\n", "\n "), number)
            yield text


CHECKS = {
    ".md": check_markdown,
    ".c": check_c,
    ".h": check_c,
    ".cu": check_c,
    ".cuh": check_c,
    ".py": lambda source: check_messages(python_texts(source)),
    ".sh": lambda source: check_messages(shell_texts(source)),
}


def files_of(path):
    if path.is_dir():
        own = pathlib.Path(__file__).name  # has the refused words
        return sorted(file for file in path.rglob("*") if file.is_file() and file.suffix in CHECKS and file.name != own)
    return [path]


def check_file(path, comments):
    source = path.read_text(encoding="utf-8")
    findings = CHECKS[path.suffix](source)
    if comments and CHECKS[path.suffix] is check_c:
        findings += check_comments(source)
    return sorted(set(findings))


# The check of this check.

LONG = " ".join(["Word"] + ["word"] * 40)
FITS = " ".join(["Word"] + ["word"] * 39)
# (kind, source, what each finding begins with)
CASES = [
    (".md", "Nobody reads it.\n\nA thing.\n", ['1: "Nobody"', '3: "thing"']),
    (".md", "It tells the two apart.\nNothing anew.\n", ['1: "tells the two apart"', '2: "anew"']),
    (".md", "The worker falls behind. It stands\nbehind it.\n", ['2: "behind"']),
    (".md", "Take this into account. The account says so.\n", ['1: "account"']),
    (".md", "`nobody` and [thing](thing.md#thing), <https://x.org/thing>\n", ['1: "thing"']),
    (".md", "```\nnobody\n```\n\n    somebody\n    anybody\n\nAll `by\nanybody`.\n", []),
    (".md", "- item\n\n  the item, anew\n\n      code anew\n\n- next\n  anew\n", ['3: "anew"', '8: "anew"']),
    (".md", "- item\n\n# Commands\n\n    code anew\n", []),
    (".md", "1. one\n    dearest\n", ['2: "dearest"']),
    (".md", f"| {FITS} | {FITS} |\n|---|---|\n| lest | `lest` \\| x |\n", ['3: "lest"']),
    (".md", "| word | not |\n|---|---|\n| buffer, anew | thing |\n\n| a | b |\n|---|---|\n| c | mail |\n", ['3: "anew"', '7: "mail"']),
    (".md", f"| key | {LONG} |\n", ["1: a sentence of 41 words"]),
    (".md", f"One. {LONG}.\n", ["1: a sentence of 41 words"]),
    (".md", f"First.\n\nSecond.\nThird is {FITS}.\n", ["4: a sentence of 42 words"]),
    (".md", f"# Head {FITS[:20]}\n{FITS}. {FITS}! `x` {FITS[5:]}?\n- {FITS}\n- {FITS}\n", []),
    (".md", f"{FITS[5:]} `a b c d`, `e f g`, `h` and `i`.\n", []),
    (".md", "A misspelt name and how manyeth; unless it is said; is to be.\n", ["1: "] * 4),
    (".c", 'fail("no such " /* thing */ "file, " // thing\n  "anew");\n/* thing one */\n', ['2: "anew"']),
    (".c", '#include "nobody said.h"\nchar c = \'"\'; f("a\\" thing"); g("thing"); // "thing two"\n', ['2: "thing"']),
    (".c", 'f("%" PRIu64 " thi" "ngs and " GP_X " pieces" , x);\n', ['1: "things"', '1: "pieces"']),
    (".c", f'f("%s, %d and %.*s: {FITS[5:]}; {FITS}. {FITS}");\n', []),
    (".c", f'f("%s %" PRIu64 "{FITS[4:]} %% %.*s 50%% of %s");\n', ["1: a sentence of 45"]),
    (".c", f'f("{FITS[5:]}: %s\\n"\n  "  -o   {FITS[10:]}\\n"\n  "  --two  {FITS[10:]}\\n");\n', []),
    (".c", f'f("usage\\n\\n{FITS[5:]}\\n"\n  "two words\\n");\n', ["1: a sentence of 41"]),
    (".c", 'f("{\\"account\\": 1, \\"stolen\\": 2}"); X(A, "is asked for here")\n', ['1: "is asked for"']),
    (".py", '"""Nobody said."""\ndef f():\n    """Nobody does."""\n    print(f"{x} anew")\n    print("a\\n" "b thing")\n',
     ['1: "Nobody"', '4: "anew"', '5: "thing"']),
    (".sh", '# x; echo "a thing"\necho "a thing: $thing"; x="a thing"\nprintf \'%s anew\\n\' "$y"\n', ['2: "thing"', '3: "anew"']),
]
# Comments of C: (source, what each finding begins with)
COMMENTS = [
    ('/* A thing,\n * and `things`.\n *\n * It is anew. */\nf("nobody here"); /* lest */\n', ['1: "thing"', '4: "anew"', '5: "lest"']),
    (f"// {FITS[:99]}\n// {FITS[100:]}\nint a; /* {FITS} */\nint b; /* {FITS} */\n", []),
    (f"// {FITS[:99]}\n// {FITS[100:]}\n// and more.\n\n// thing\n", ["1: a sentence of 42", '5: "thing"']),
    (f"/* {FITS[:99]}\n * {FITS[100:]} {FITS[:14]}; {FITS} */\n", ["1: a sentence of 43"]),
]

REFUSED_EXAMPLES = [
    "Nobody waits for it.",
    "Somebody wants the run as the step leaves it.",
    "It waits for everyone.",
    "Stay until it is found out anew.",
    "The memory at hand.",
    "The dearest stage.",
    "It knows two things.",
    "It stops lest it fails.",
    "The parameters and the sum thereof.",
    "What will come is told apart from the rest.",
    "The how manyeth of them stands before the letter.",
    "The step that it promises.",
    "A mini-batch is cut into pieces.",
    "The step that was asked for.",
    "The account of a run.",
    "It goes by mail.",
    "Time that was stolen.",
    "The loader stands behind the workers.",
    "Nothing is to be computed twice.",
    "Two unless said.",
    "A misspelt name.",
    "It is of no consequence.",
    "It costs next to nothing.",
]
ALLOWED_EXAMPLES = [
    "It takes this into account.",
    "That accounts for 5 %.",
    "A user account.",
    "A worker that falls behind waits.",
    "It runs behind a proxy.",
    "Everything and anything; one piece; an e-mail.",
    "Hence the sum is ready at hand-over.",
    "The guarantee, the promise.",
    "It asks for a number.",
    "Is it to begin?",
]


def self_test():
    for kind, source, wanted in CASES:
        findings = sorted(set(CHECKS[kind](source)))
        found = [f"{line}: {finding}" for line, finding in findings]
        fits = len(found) == len(wanted) and all(any(text.startswith(want) for text in found) for want in wanted)
        assert fits, f"{kind} {source!r}\nfound {found}\nwanted {wanted}"
    for source, wanted in COMMENTS:
        found = [f"{line}: {finding}" for line, finding in check_comments(source)]
        fits = len(found) == len(wanted) and all(text.startswith(want) for text, want in zip(found, wanted))
        assert fits, f"{source!r}\nfound {found}\nwanted {wanted}"
    for words, _ in WORDS:
        assert any(words.search(source) for source in REFUSED_EXAMPLES), words.pattern
    for source in REFUSED_EXAMPLES:
        assert len(check_markdown(source + "\n")) == 1, source
    for source in ALLOWED_EXAMPLES:
        assert not check_markdown(source + "\n"), source
    print(f"check-english: {len(CASES) + len(COMMENTS)} short texts have the right findings")


def main():
    parser = argparse.ArgumentParser(description="Refuses words that are hard to read, and long sentences.")
    parser.add_argument("paths", nargs="*", type=pathlib.Path, metavar="PATH", help="file or folder")
    parser.add_argument("--comments", action="store_true", help="checks the comments of C files too")
    parser.add_argument("--self-test", action="store_true", help="tests this script on short texts")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    count = 0
    for path in options.paths or [ROOT / name for name in ALL]:
        for file in files_of(path):
            if not file.exists():
                parser.error(f"{file}: no such file")
            if file.suffix not in CHECKS:
                parser.error(f"{file}: not a document, a C file or a script")
            name = file.relative_to(ROOT) if not options.paths else file
            for line, finding in check_file(file, options.comments):
                print(f"{name}:{line}: {finding}")
                count += 1
    print(f"check-english: {count} finding{'' if count == 1 else 's'}", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
