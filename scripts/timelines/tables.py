"""Tables as text, at most 100 columns wide, and the numbers in them."""

WIDTH = 100


def ms(value):
    """Milliseconds with at least three digits; a dash for None."""
    if value is None:
        return "–"
    size = abs(value)
    if size >= 1e7:
        return f"{value:.3g}"
    return f"{value:.1f}" if size >= 100 else f"{value:.2f}" if size >= 1 or size == 0 else f"{value:.3f}"


def change(value):
    """A difference of milliseconds with its sign."""
    return "–" if value is None else ("+" if value > 0 else "−" if value < 0 else "±") + ms(abs(value))


def percent(value):
    return "–" if value is None else f"{100 * value:.1f} %"


def ratio(value, reference):
    """How many times as large as the reference: "1.18×"; a dash if one of them is missing or the reference is 0."""
    if value is None or not reference:
        return "–"
    times = value / reference
    return f"{times:.2f}×" if times < 10 else f"{times:.1f}×" if times < 1000 else "> 1000×"


def size(value):
    """Bytes in the unit that fits."""
    if value is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024 or unit == "GiB":
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024


def clip(text, width):
    """A text of at most `width` characters: its middle is left out."""
    if len(text) <= width:
        return text
    keep = width - 1
    return text[:keep - keep // 2] + "…" + text[len(text) - keep // 2:]


def table(title, columns, rows):
    """A table. Columns are headings, rows lists of texts; the first column is left-aligned. A heading "<x" is left-aligned, too."""
    left = [c == 0 or heading.startswith("<") for c, heading in enumerate(columns)]
    heads = [heading.removeprefix("<") for heading in columns]
    most = WIDTH - 2 - sum(max([len(heads[c])] + [len(row[c]) for row in rows]) + 2 for c in range(1, len(columns)))
    rows = [[clip(row[0], max(most, 12)), *row[1:]] for row in rows]
    widths = [max([len(heads[c])] + [len(row[c]) for row in rows]) for c in range(len(columns))]

    def line(cells):
        return ("  " + "  ".join(cell.ljust(width) if is_left else cell.rjust(width)
                                 for cell, width, is_left in zip(cells, widths, left))).rstrip()
    return "\n".join([title, line(heads), *map(line, rows)]) + "\n"
