"""SVG to PNG, by the first program that is installed: rsvg-convert, Inkscape, a Chromium, or an ImageMagick that uses librsvg."""
import os
import re
import shutil
import signal
import subprocess
import tempfile

from .timeline import BadInput

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SCALE = 2  # pixels of the PNG for each of the SVG
PATIENCE = 120  # seconds


def size_of(svg_text):
    """The width and height of an SVG that has them as numbers."""
    head = re.search(r'<svg [^>]*\bwidth="(\d+)" height="(\d+)"', svg_text)
    return int(head[1]), int(head[2])


def by_rsvg(source, target, _):
    return ["rsvg-convert", "--zoom", str(SCALE), "--output", target, source]


def by_inkscape(source, target, _):
    return ["inkscape", f"--export-filename={target}", f"--export-dpi={96 * SCALE}", source]


def by_browser(name):
    def command(source, target, size):
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                 "--no-first-run", "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"]
        return [name, *flags, f"--user-data-dir={os.path.dirname(source)}/profile", f"--window-size={size[0]},{size[1]}",
                f"--force-device-scale-factor={SCALE}", f"--screenshot={target}", "file://" + source]
    return command


def by_magick(name):
    return lambda source, target, size: [name, "-density", str(96 * SCALE), source, "png:" + target]


def draws_svg(name):
    """Whether an ImageMagick uses librsvg: its own renderer knows no style sheets."""
    try:
        run = subprocess.run([name, "-list", "format"], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE,
                             check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return run.returncode == 0 and re.search(rb"^\s*SVG\b.*RSVG", run.stdout, re.MULTILINE) is not None


def converters():
    """The commands of the converters that are installed, the best first."""
    if shutil.which("rsvg-convert"):
        yield by_rsvg
    if shutil.which("inkscape"):
        yield by_inkscape
    for name in BROWSERS:
        if shutil.which(name):
            yield by_browser(name)
    for name in ("magick", "convert"):
        if shutil.which(name) and draws_svg(name):
            yield by_magick(name)


def run(command, folder):
    """Runs a converter. A browser is killed with its children if it hangs."""
    environment = {**os.environ, "HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          start_new_session=True, env=environment) as process:
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            pass
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def is_png(path):
    try:
        with open(path, "rb") as file:
            return file.read(8) == b"\x89PNG\r\n\x1a\n"
    except OSError:
        return False


def convert(svg_text, path):
    """Writes an SVG as PNG, with two pixels for each of the SVG. Raises BadInput if no converter does it."""
    tried = []
    with tempfile.TemporaryDirectory(prefix="gpipe-png-", ignore_cleanup_errors=True) as folder:
        source, target = os.path.join(folder, "picture.svg"), os.path.join(folder, "picture.png")
        with open(source, "w", encoding="utf-8") as file:
            file.write(svg_text)
        for command_of in converters():
            command = command_of(source, target, size_of(svg_text))
            run(command, folder)
            if is_png(target):
                return copy(target, path)
            tried.append(os.path.basename(command[0]))
    if tried:
        raise BadInput(f"{path}: {', '.join(tried)} did not convert the picture; write it with --svg and convert that file")
    raise BadInput(f"{path}: no converter from SVG to PNG is installed; install librsvg2-bin (rsvg-convert), inkscape or "
                   "chromium, or write the picture with --svg")


def copy(source, path):
    try:
        shutil.copyfile(source, path)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}; name a file in a folder that you may write to") from None
