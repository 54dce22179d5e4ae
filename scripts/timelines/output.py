"""Files that gpipe-compare writes: whole or not at all, and never over a file that is something else.

Each file has MARKER near its beginning or its end. A file without it is not replaced: a mistyped name must not cost data.
"""
import os
import stat
import struct
import zlib

from .timeline import BadInput

MARKER = b"gpipe-compare"
COMMENT = b"<!-- gpipe-compare -->\n"  # at the end of HTML and SVG
PNG = b"\x89PNG\r\n\x1a\n"
NEAR = 4096


class WriteError(Exception):
    """A file that cannot be written. The text is one sentence."""


def check(path, option, inputs):
    """Refuses a target before anything is computed. Raises BadInput."""
    if not path:
        raise BadInput(f"{option} has an empty name; name a file")
    try:
        about = os.stat(path)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise BadInput(f"{path}: cannot be written: {reason}; choose another name with {option}") from None
    if stat.S_ISDIR(about.st_mode):
        raise BadInput(f"{path}: is a folder; name a file with {option}")
    if not stat.S_ISREG(about.st_mode):
        raise BadInput(f"{path}: is not a regular file; choose another name with {option}")
    for other in inputs:
        if os.path.exists(other) and os.path.samestat(os.stat(other), about):
            raise BadInput(f"{path}: is one of the files that are compared; choose another name with {option}")
    if about.st_size > 0 and not _is_ours(path, about.st_size):
        raise BadInput(f"{path}: exists, and gpipe-compare did not write it; choose another name with {option}, or remove the file")


def _is_ours(path, size):
    try:
        with open(path, "rb") as file:
            start = file.read(NEAR)
            file.seek(max(0, size - NEAR))
            return MARKER in start or MARKER in file.read(NEAR)
    except OSError:
        return False


def replace(path, make):
    """make(temporary) writes the file; then it is marked, synced, and takes its name. Raises WriteError."""
    target = os.path.realpath(path)
    temporary = f"{target}.tmp-{os.getpid()}"
    try:
        try:
            with open(temporary, "xb"):  # says at once that the folder cannot be written
                pass
            make(temporary)
            _mark(temporary)
            if os.path.exists(target):
                os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
            os.replace(temporary, target)
        finally:
            if os.path.lexists(temporary):
                os.unlink(temporary)
    except BadInput as problem:
        raise BadInput(str(problem).replace(temporary, path)) from None
    except OSError as error:
        raise WriteError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from None


def _mark(path):
    """Puts the marker into an HTML, SVG or PNG file."""
    with open(path, "r+b") as file:
        head = file.read(len(PNG) + 25)
        if head.startswith(PNG):
            rest = file.read()
            note = b"tEXtSoftware\0" + MARKER
            file.seek(len(head))
            file.write(struct.pack(">I", len(note) - 4) + note + struct.pack(">I", zlib.crc32(note)) + rest)
        else:
            file.seek(0, os.SEEK_END)
            file.write(COMMENT)
        file.flush()
        os.fsync(file.fileno())


def write_text(path, text):
    """Writes a text, for replace()."""
    with open(path, "w", encoding="utf-8", errors="replace", newline="\n") as file:
        file.write(text)
