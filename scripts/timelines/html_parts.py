"""Parts of self-contained HTML pages: the frame with its theme, tables that sort, stacked bars, embedded data.

A page is made so:

    body = section("Curves", "<div id=curves></div>", note="over steps") + table(
        "runs", "Runs", [Column("run"), Column("loss", "number", 4), Column("samples/s", "number", 1)],
        [["lr 0.1", 0.25, 812.5], ["lr 0.2", Cell(0.31, title="at step 500"), 799.0]])
    text = frame("Two runs", body, lead="B is better.", data={"curves": curves}, styles=[css], scripts=[js])
    write(path, text)

- Text is escaped everywhere, except what a parameter calls `html`, `body`, `styles` and `scripts`.
- JavaScript reads `data` with `JSON.parse(document.getElementById("data-curves").textContent)`.
- Style sheets use the variables of colours.py: var(--text), var(--muted), var(--lane), var(--line), var(--series-1), …
- `document.addEventListener("themechange", …)`: a canvas draws itself again when the reader changes the theme.
- The page cannot load anything: its Content-Security-Policy allows these scripts, by hash, and no other.
"""
import base64
import hashlib
import html
import json
import math
import os

from . import colours
from .timeline import BadInput

HERE = os.path.dirname(os.path.realpath(__file__))


def read_part(name):
    """The text of a file beside this one: a style sheet or a script."""
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return file.read()


def escape(text):
    """Text for HTML, in elements and in quoted attributes."""
    return html.escape(clean(str(text)), quote=True)


def clean(text):
    """Text that UTF-8 can carry: lone surrogates become U+FFFD, control characters become spaces."""
    text = text.encode("utf-8", "replace").decode("utf-8") if text.isascii() else "".join(
        "\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in text)
    return "".join(" " if ord(letter) < 32 or 127 <= ord(letter) < 160 else letter for letter in text)


def finite(value):
    """Data that JSON can carry: what is not finite becomes None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if set(map(type, value)) <= {int}:
            return value  # long columns need no copy
        return [finite(item) for item in value]
    return value


def embed(name, data):
    """Data for the page's scripts. `<` is escaped, so that no name can close the element."""
    text = json.dumps(finite(data), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<script type="application/json" id="data-{escape(name)}">{text}</script>\n'


def number(value, digits=2):
    """1234.5 as "1,234.50"; "–" if there is no value."""
    if value is None or isinstance(value, float) and not math.isfinite(value):
        return "–"
    return f"{value:,.{digits}f}"


def milliseconds(value):
    """A time with the unit that suits it, with three digits: "1.23 s", "45.6 ms", "789 µs", "12 ns"."""
    if value is None or not math.isfinite(value):
        return "–"
    size = abs(value)
    for limit, unit, scale in ((1e3, "s", 1e-3), (1, "ms", 1), (1e-3, "µs", 1e3)):
        if size >= limit * 0.9995:
            return f"{three_digits(value * scale)} {unit}"
    return "0 ms" if value == 0 else f"{three_digits(value * 1e6)} ns"


def three_digits(value):
    size = abs(value)
    return f"{value:,.{0 if size >= 99.95 else 1 if size >= 9.995 else 2}f}"


def bytes_text(value):
    """"5.71 MiB"."""
    if value is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{three_digits(value)} {unit}"
        value /= 1024
    return f"{three_digits(value)} TiB"


class Column:
    """A column of a table. kind: "text" or "number"; note: what the header's tooltip says."""

    def __init__(self, title, kind="text", digits=2, note=""):
        self.title, self.kind, self.digits, self.note = title, kind, digits, note


class Cell:
    """A cell whose text differs from its value, that has a class ("better", "worse", "muted"), or that is HTML."""

    def __init__(self, value, text=None, title="", style="", html=None):
        self.value, self.text, self.title, self.style, self.html = value, text, title, style, html


def table_cell(cell, column):
    if not isinstance(cell, Cell):
        cell = Cell(cell)
    value, shown = cell.value, cell.text
    if shown is None:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        shown = "–" if value is None else number(value, column.digits) if is_number else str(value)
    classes = " ".join(name for name in ("number" if column.kind == "number" else "", cell.style) if name)
    parts = ["<td", f' class="{classes}"' if classes else "",
             f' data-value="{value!r}"' if isinstance(value, (int, float)) and math.isfinite(value) else "",
             f' title="{escape(cell.title)}"' if cell.title else "", ">",
             cell.html if cell.html is not None else escape(shown), "</td>"]
    return "".join(parts)


def table(name, caption, columns, rows, note="", style=""):
    """A table that sorts by a click on a header. The first column names the row. Wide tables scroll sideways.

    style: "tall": the rows scroll below the header; "bare": only screen readers have the caption.
    """
    heads = "".join(
        f'<th scope="col"{" class=number" if column.kind == "number" else ""}'
        f'{f" title={chr(34)}{escape(column.note)}{chr(34)}" if column.note else ""}>'
        f'<button type="button">{escape(column.title)}</button></th>' for column in columns)
    lines = "".join("<tr>" + "".join(table_cell(cell, column) for cell, column in zip(row, columns)) + "</tr>\n"
                    for row in rows)
    note = f'<p class="note">{escape(note)}</p>' if note else ""
    return (f'<div class="scroll{" tall" if "tall" in style.split() else ""}" tabindex="0" role="region" '
            f'aria-label="{escape(caption)}"><table class="sortable{" bare" if "bare" in style.split() else ""}" '
            f'id="table-{escape(name)}"><caption>{escape(caption)}</caption>\n'
            f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{lines}</tbody></table></div>{note}\n")


def stacked_bars(name, caption, rows, keys, unit="ms", digits=2):
    """Bars of parts side by side.

    rows: [(label, {key: value}, remark)]; keys: [(key, words, class)]. The class gives colour and pattern (parts.css).
    Each part has its words and value as a tooltip, and the legend has only keys with a value.
    """
    most = max((sum(max(0, value or 0) for value in values.values()) for _, values, _ in rows), default=0)
    used = [key for key in keys if any((values.get(key[0]) or 0) > 0 for _, values, _ in rows)]
    legend = "".join(f'<li><span class="swatch {kind}"></span>{escape(words)}</li>' for _, words, kind in used)
    lines = []
    for label, values, remark in rows:
        parts = "".join(
            f'<span class="part {kind}" style="width:{100 * (values.get(key) or 0) / most:.3f}%" '
            f'title="{escape(words)}: {number(values.get(key), digits)} {escape(unit)}"></span>'
            for key, words, kind in used if most > 0 and (values.get(key) or 0) > 0)
        spoken = ", ".join(f"{words} {number(values.get(key), digits)} {unit}" for key, words, _ in used)
        lines.append(f'<div class="bar"><span class="bar-label">{escape(label)}</span>'
                     f'<span class="bar-parts" role="img" aria-label="{escape(spoken)}">{parts}</span>'
                     f'<span class="bar-remark">{escape(remark)}</span></div>\n')
    return (f'<figure class="bars" id="bars-{escape(name)}"><figcaption>{escape(caption)}</figcaption>'
            f'<ul class="legend">{legend}</ul>\n{"".join(lines)}</figure>\n')


def section(heading, body, note="", name=""):
    """A section of the page, with a heading and, if there is one, a sentence below it."""
    note = f'<p class="note">{escape(note)}</p>' if note else ""
    name = f' id="{escape(name)}"' if name else ""
    return f"<section{name}><h2>{escape(heading)}</h2>{note}\n{body}</section>\n"


def script_hash(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode() + "'"


def frame(title, body, lead="", data=None, styles=(), scripts=(), extra=""):
    """The whole page. lead: the sentence on top; data: {name: data} for embed(); extra: HTML at the right of the title."""
    scripts = [read_part("parts.js"), *scripts]
    policy = ("default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; img-src data:; "
              "script-src " + " ".join(map(script_hash, scripts)))
    style = colours.theme_css() + read_part("parts.css") + "".join(styles)
    lead = f'<p class="lead">{escape(lead)}</p>\n' if lead else ""
    return "".join((
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        '<link rel="icon" href="data:,">\n',
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n",
        f'<header class="top"><div class="top-line"><h1>{escape(title)}</h1>{extra}',
        '<button type="button" id="theme" title="dark or light (t)">Dark</button></div>\n',
        f"{lead}</header>\n<main>\n{body}</main>\n",
        *(embed(name, value) for name, value in (data or {}).items()),
        *(f"<script>{text}</script>\n" for text in scripts), "</body>\n</html>\n"))


def write(path, text):
    """Writes the page: the old file stays until the new one is whole."""
    partial = f"{path}.partial"
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # /dev/stdout and pipes cannot be replaced
            partial = path
        with open(partial, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        if partial != path:
            os.replace(partial, path)
    except OSError as error:
        if partial != path and os.path.isfile(partial):
            os.unlink(partial)
        raise BadInput(f"{path}: cannot be written: {error.strerror}; name a file in a folder that you may write to") from None
