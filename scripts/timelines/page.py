"""The page of timelines: one self-contained HTML file (docs/compare.md). Data: page_data.py; tables: page_tables.py."""
from . import colours, html_parts, page_data, page_tables

HELP = """<dialog id="help" aria-label="mouse and keys"><h2>Mouse and keys</h2><dl>
<dt>wheel</dt><dd>zoom (over the names: scroll the page)</dd>
<dt>drag, <kbd>←</kbd> <kbd>→</kbd></dt><dd>move along the time</dd>
<dt><kbd>Shift</kbd> + drag</dt><dd>measure a part of the time, and zoom to it</dd>
<dt><kbd>+</kbd> <kbd>−</kbd></dt><dd>zoom in, zoom out</dd>
<dt><kbd>0</kbd> <kbd>Home</kbd></dt><dd>show the whole step</dd>
<dt><kbd>a</kbd></dt><dd>show all steps</dd>
<dt><kbd>n</kbd> <kbd>p</kbd></dt><dd>next step, step before, in all timelines</dd>
<dt>click</dt><dd>pin an instruction; arrows come from what it waited for</dd>
<dt>double click</dt><dd>zoom to an instruction</dd>
<dt><kbd>.</kbd> <kbd>,</kbd></dt><dd>pin the next instruction of the track, the one before</dd>
<dt><kbd>w</kbd></dt><dd>pin the instruction that the pinned one waited for last</dd>
<dt><kbd>Esc</kbd></dt><dd>close</dd>
<dt><kbd>t</kbd></dt><dd>dark or light</dd>
</dl><form method="dialog"><p><button>Close</button></p></form></dialog>
"""

SCRIPTS = ("page_model.js", "page_draw.js", "page_tracks.js", "page.js", "page_input.js")


def script():
    """The page's own script: its parts share one scope."""
    return '"use strict";\n(() => {\n' + "\n".join(map(html_parts.read_part, SCRIPTS)) + "})();\n"


def page(timelines, comparison, title=None, dependencies=None):
    """The text of the page.

    comparison: {"runs": […], "text": "…"} as `gpipe-compare --json` prints it, with what figures() adds.
    dependencies: for each timeline, a list with the spans that each span waited for; None: they are looked up in depend.py.
    """
    if dependencies is None:
        dependencies = [find_dependencies(timeline) for timeline in timelines]
    data = {"kinds": [{"class": kind[0], "words": kind[1], "letter": kind[2]} for kind in colours.KINDS],
            "timelines": [page_data.encode(timeline, waits) for timeline, waits in zip(timelines, dependencies)]}
    title = title or ", ".join(timeline.name for timeline in timelines) or "Timelines"
    body = (html_parts.section("Timelines", '<noscript><p>The timelines need JavaScript. The tables do not.</p></noscript>'
                               '<div id="timelines"></div>\n', name="section-timelines")
            + page_tables.tables(comparison or {}) + HELP)
    return html_parts.frame(title, body, lead=(comparison or {}).get("text", ""), data={"timelines": data},
                            styles=[html_parts.read_part("page.css")], scripts=[script()])


def find_dependencies(timeline):
    """What depend.py finds. A timeline whose instructions are not known has no arrows."""
    try:
        from . import depend
    except ImportError:
        return None
    return depend.dependencies(timeline)


def write_page(path, timelines, comparison, title=None, dependencies=None):
    """Writes the page to a file; see page(). Raises BadInput if the file cannot be written."""
    html_parts.write(path, page(timelines, comparison, title, dependencies))
