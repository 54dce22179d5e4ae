"""Reads config.yaml of a run folder: the part of YAML that gpipe-train writes. Compares configurations key by key.

A configuration becomes a dict of paths, "optimizer.sgd.lr" or "model.layers.3.conv.out", to values as they stand in the file.
What cannot be read so is compared line by line.
"""
import re

_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_CODE = re.compile(r'\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|.)')


class _NotOurs(Exception):
    pass


def _unescape(text):
    def one(match):
        code = match[1]
        if len(code) > 1:
            return chr(int(code[1:], 16))
        if code not in _ESCAPES:
            raise _NotOurs
        return _ESCAPES[code]
    return _CODE.sub(one, text)


def _scalar(text):
    quoted = _QUOTED.fullmatch(text)
    if quoted:
        return _unescape(quoted[1])
    if text[:1] in ('"', "'", "{", "&", "*", "|", ">", "!", "%", "@", "`", "#"):
        raise _NotOurs
    return text


def _value(text):
    """A scalar, or a short list: [1, a, "b"]. An empty mapping is "{}"."""
    if text == "{}":
        return text
    if not text.startswith("["):
        return _scalar(text)
    if not text.endswith("]"):
        raise _NotOurs
    items, rest = [], text[1:-1].strip()
    while rest:
        match = _QUOTED.match(rest) or re.match(r"[^,\[\]{}\"]+", rest)
        if not match:
            raise _NotOurs
        items.append(_scalar(match[0].strip()))
        rest = rest[match.end():].lstrip()
        if rest and not rest.startswith(","):
            raise _NotOurs
        rest = rest[1:].lstrip()
    return "[" + ", ".join(items) + "]"


def _split_pair(text):
    """("key", the rest) of "key: the rest" or "key:"; None: there is no key."""
    quoted = _QUOTED.match(text)
    end = quoted.end() if quoted else 0
    at = text.find(":", end)
    while at >= 0 and at + 1 < len(text) and text[at + 1] != " ":
        at = text.find(":", at + 1)
    if at < 0 or (quoted and at != end) or text[:1] in "[{":
        return None
    return _scalar(text[:at]), text[at + 1:].strip()


class _Lines:
    def __init__(self, text):
        self.lines, self.at = [], 0
        for line in text.split("\n"):
            content = line.lstrip(" ")
            if content and not content.startswith("#"):
                self.lines.append((len(line) - len(content), content.rstrip()))

    def node(self, depth, path, out):
        """A mapping or a list whose lines begin at `depth`."""
        index = 0
        while self.at < len(self.lines) and self.lines[self.at][0] == depth:
            content = self.lines[self.at][1]
            if content.startswith("- "):
                self.item(depth, "%s.%d" % (path, index) if path else str(index), content[2:], out)
                index += 1
            else:
                self.pair(depth, path, content, out)
        if self.at < len(self.lines) and self.lines[self.at][0] > depth:
            raise _NotOurs

    def item(self, depth, path, content, out):
        if content.startswith("- ") or _split_pair(content):
            self.lines[self.at] = (depth + 2, content)  # the rest of the line begins a node of its own
            self.node(depth + 2, path, out)
        else:
            out[path] = _value(content)
            self.at += 1

    def pair(self, depth, path, content, out):
        parts = _split_pair(content)
        if not parts:
            raise _NotOurs
        key, rest = parts
        path = "%s.%s" % (path, key) if path else key
        if path in out:
            raise _NotOurs
        self.at += 1
        if rest:
            out[path] = _value(rest)
        elif self.at < len(self.lines) and self.lines[self.at][0] > depth:
            self.node(self.lines[self.at][0], path, out)
        else:
            out[path] = ""


def read_config(text):
    """{path: value as text}, or None if the text is not as gpipe-train writes it."""
    lines, out = _Lines(text), {}
    try:
        lines.node(0, "", out)
    except (_NotOurs, RecursionError, ValueError):
        return None
    return out if lines.at == len(lines.lines) and out else None


def differences(configs):
    """[(path, [value or None of each])] of what is not the same in all, in the order of the first that has the path."""
    paths = list(dict.fromkeys(path for config in configs for path in config))
    rows = [(path, [config.get(path) for config in configs]) for path in paths]
    return [(path, values) for path, values in rows if any(value != values[0] for value in values)]


def line_differences(texts):
    """The same for texts that are no configurations: lines that some have and others do not."""
    each = [{line.strip(): None for line in text.split("\n") if line.strip() and not line.startswith("#")} for text in texts]
    lines = dict.fromkeys(line for its in each for line in its)
    return [(line, ["yes" if line in its else None for its in each]) for line in lines if not all(line in its for its in each)]
