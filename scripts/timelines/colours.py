"""Colours of pages and pictures, for light and dark readers: one list, from which CSS is made.

The kinds of instructions have the colours and the order of `gpipe-train --plan --svg` (src/report/plan_svg.c).
"""

# Class, word of the legend, letter inside a mark, colour in light, colour in dark.
KINDS = (
    ("f", "forward", "F", "#2f6fd0", "#3d7de0"),
    ("r", "recompute", "R", "#5aa7c7", "#3f93b5"),
    ("b", "backward", "B", "#b4493f", "#c05a50"),
    ("i", "backward for inputs", "I", "#c2601f", "#cb6d2c"),
    ("w", "backward for weights", "W", "#3b8a4b", "#43985a"),
    ("u", "update", "U", "#7a56b3", "#8a66c4"),
    ("c", "copy", "", "#57606a", "#9198a1"),
    ("k", "collective", "C", "#8a6d00", "#c9a227"),
    ("o", "other computing", "", "#1b7c83", "#2f9aa2"),
)
KIND_INDEX = {kind[0]: index for index, kind in enumerate(KINDS)}

# The instruction `op` of a span -> class. Other operations have the class of the span's kind.
OF_OP = {"F": "f", "R": "r", "B": "b", "I": "i", "W": "w", "norm": "u", "clip": "u", "total": "u", "reduce": "u", "update": "u",
         "step": "u",
         "load": "c", "send": "c", "recv": "c", "post": "c", "collect": "c", "barrier": "k"}
OF_KIND = {"compute": "o", "copy": "c", "collective": "k"}

# Where idle time goes: key of the contract, words, colour in light, colour in dark (after Okabe and Ito).
IDLE = (
    ("earlier_stage", "earlier stage", "#0072b2", "#3a9bdc"),
    ("later_stage", "later stage", "#c04f00", "#e0762a"),
    ("copy", "copy", "#57606a", "#9198a1"),
    ("collective", "collective", "#8a6d00", "#c9a227"),
    ("imbalance", "imbalance", "#a3407f", "#d07ab0"),
    ("launch", "launch", "#00795a", "#1fa982"),
    ("data", "data", "#3f3f8f", "#8d8de0"),
)

# What a page is made of.
SURFACES = (
    ("page", "#ffffff", "#0d1117"),
    ("text", "#24292f", "#e6edf3"),
    ("muted", "#57606a", "#9198a1"),
    ("lane", "#f0f2f4", "#1b2129"),
    ("panel", "#f6f8fa", "#161b22"),
    ("line", "#d0d7de", "#30363d"),
    ("edge", "#8c959f", "#768390"),
    ("memory", "#c8d1da", "#3d4753"),
    ("link", "#0550ae", "#58a6ff"),
    ("better", "#116329", "#3fb950"),
    ("worse", "#a40e26", "#ff7b72"),
)

# Curves and runs that are overlaid, in this order.
SERIES = (("#2f6fd0", "#5b97f0"), ("#b4493f", "#e07a70"), ("#3b8a4b", "#56b870"), ("#7a56b3", "#a98be0"),
          ("#8a6d00", "#c9a227"), ("#1b7c83", "#3fb5bd"), ("#a3407f", "#d97fb6"), ("#57606a", "#9198a1"))


def variables(dark):
    """The CSS variables --page, --f, --idle-copy, --series-1, … of one theme."""
    pick = 1 if dark else 0
    pairs = [(name, (light, night)[pick]) for name, light, night in SURFACES]
    pairs += [(kind[0], kind[3 + pick]) for kind in KINDS]
    pairs += [("idle-" + key.replace("_", "-"), (light, night)[pick]) for key, _, light, night in IDLE]
    pairs += [(f"series-{index}", pair[pick]) for index, pair in enumerate(SERIES, 1)]
    return ";".join(f"--{name}:{value}" for name, value in pairs)


def theme_css():
    """The variables of both themes. The reader's setting decides, unless <html data-theme> names one."""
    light, dark = variables(False), variables(True)
    return (f":root{{color-scheme:light;{light}}}\n"
            f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
            f":root[data-theme=dark]{{color-scheme:dark;{dark}}}\n")


def kind_of(span):
    """The class of a span, a letter of KINDS."""
    return OF_OP.get(span.op) or OF_KIND.get(span.kind, "o")


def luminance(colour):
    """The relative luminance of "#rrggbb" (WCAG 2, section "relative luminance")."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    """The contrast of two colours, from 1 to 21 (WCAG 2)."""
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)
