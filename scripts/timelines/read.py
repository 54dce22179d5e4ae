"""Reads a file as a Timeline. What the file is follows from its content, not from its name."""
import gc
import gzip
import json
import math
import os
import re
import stat
import zlib
from dataclasses import dataclass, replace
from decimal import Decimal

from .timeline import BadInput

SQLITE = b"SQLite format 3\0"
GZIP = b"\x1f\x8b"
MOST_BYTES = 1 << 30  # of JSON text; read into memory it is about ten times as large
MAKE = "record a timeline with gpipe-train --trace FILE"
MAKE_TORCH = "record it again with torch.profiler"
TORCH_KEYS = ("deviceProperties", "schemaVersion", "baseTimeNanoseconds", "distributedInfo", "trace_id")  # of the file of PyTorch's profiler
TORCH_WORDS = re.compile('"(?:' + "|".join(TORCH_KEYS) + ')"\\s*:|"ProfilerStep#|"cat"\\s*:\\s*'
                         '"(?i:kernel|(?:gpu_)?mem(?:cpy|set)|cpu_op|operator|user_annotation|cuda_(?:runtime|driver)|runtime)"')
KINDS = ("an Nsight SQLite export, a --trace file, a file of PyTorch's profiler (export_chrome_trace), "
         "the JSON of gpipe-train --plan --json, and that of gpipe-balance --simulate --json")
LATEST = 10**17  # microseconds; 1970 is at most this far away


class Written(float):
    """A number of JSON with a fraction or an exponent, and its text: a double has too few digits for the microseconds since 1970."""

    __slots__ = ("text",)

    def __new__(cls, text):
        value = float.__new__(cls, text)
        value.text = text
        return value


@dataclass
class Options:
    """What readers need to know beside the file. Readers ignore what does not concern their kind of file."""

    steps: tuple = None  # (first, last) step number; None: all steps
    steps_by: str = ""  # name of the range (NVTX, or PyTorch's record_function) that is one step; "": the reader looks
    plan: str = ""  # path of a plan as JSON that the run is compared with; "": the plan in the file


def read(path, options=None):
    """The timeline in a file of any known kind, with the chosen steps only. Raises BadInput."""
    was_collecting = gc.isenabled()
    gc.disable()  # millions of objects are made and none is garbage: looking for some takes half of the time
    try:
        return _read(os.fspath(path), options or Options())
    finally:
        if was_collecting:
            gc.enable()


def _read(path, options):
    head = _head(path)
    if head.startswith(SQLITE):
        from .read_nsys import read_nsys

        timeline = read_nsys(path, options)
    else:
        timeline = from_json(path, read_json(path, head), options)
    if options.steps and timeline.source not in ("plan", "simulation"):
        timeline = choose_steps(timeline, path, *options.steps)
    return timeline


def from_json(path, data, options=None):
    """The timeline in an object that was read from the JSON file `path`."""
    from .read_plan import is_plan, timeline_of_plan
    from .read_trace import timeline_of_trace

    options = options or Options()
    if is_plan(data):
        return timeline_of_plan(path, data)
    if isinstance(data, dict) and "traceEvents" in data:
        return timeline_of_trace(path, data, options)
    if isinstance(data, list) and data and all(isinstance(event, dict) and "ph" in event for event in data[:100]):
        return timeline_of_trace(path, {"traceEvents": data}, options)
    raise BadInput(f"{path}: is JSON, but no timeline and no plan; known are {KINDS}")


def choose_steps(timeline, path, first, last):
    """The timeline without the steps outside first to last."""
    steps = [step for step in timeline.steps if first <= step.number <= last]
    if not steps:
        numbers = [step.number for step in timeline.steps]
        raise BadInput(f"{path}: has no step in {first}:{last}; it has {say_steps(numbers)}, so choose --steps among these")
    chosen = {step.number for step in steps}
    start, end = steps[0].start, steps[-1].end

    def is_chosen(span):
        return span.step in chosen or (span.step == -1 and span.end > start and span.start < end)

    return replace(timeline, steps=steps, spans=[span for span in timeline.spans if is_chosen(span)],
                   layers=[layer for layer in timeline.layers if is_chosen(layer)])


def say_steps(numbers):
    """ "step 4", "steps 3 to 6", "5 steps from 3 to 20". """
    if len(numbers) < 2:
        return f"step {numbers[0]}" if numbers else "no steps"
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"steps {numbers[0]} to {numbers[-1]}"
    return f"{len(numbers)} steps from {numbers[0]} to {numbers[-1]}"


def _head(path):
    """The first bytes of a regular file. Anything else is refused before it is opened for reading: a pipe would block."""
    try:
        about = os.stat(path)
    except (OSError, ValueError) as error:
        raise BadInput(f"{_shown(path)}: cannot be read: {_reason(error)}; check the name") from None
    if stat.S_ISDIR(about.st_mode):
        raise BadInput(f"{path}: is a folder; name a file, or make the page of a run folder with gpipe-report")
    if not stat.S_ISREG(about.st_mode):
        raise BadInput(f"{path}: is not a regular file; write the timeline to a file first")
    if about.st_size == 0:
        raise BadInput(f"{path}: is empty; {MAKE}")
    try:
        with open(path, "rb") as file:
            return file.read(64)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {_reason(error)}") from None


def _shown(path):
    return path.replace("\0", "\\0")


def _reason(error):
    return (getattr(error, "strerror", None) or str(error)).lower()


def read_json(path, head=None):
    """The object in a JSON file, which may be compressed with gzip."""
    head = _head(path) if head is None else head
    is_compressed = head.startswith(GZIP)
    if not is_compressed and not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[")):
        raise BadInput(f"{path}: {_not_json(path)}")
    text = _text(path, is_compressed)
    try:
        return json.loads(text, parse_float=Written)
    except RecursionError:
        raise BadInput(f"{path}: its JSON is nested too deeply for a timeline; {_advice(text)}") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{path}: {_broken(text, error)}") from None
    except ValueError:  # a number with more digits than Python converts
        raise BadInput(f"{path}: has a number with thousands of digits, which is no time; {_advice(text)}") from None


def _advice(text):
    """How to get another file of the program that wrote this one."""
    return MAKE_TORCH if TORCH_WORDS.search(text) else MAKE


def is_of_torch(data):
    """Whether an object is a file of PyTorch's profiler, whatever its events are."""
    return any(key in data for key in TORCH_KEYS)


def _not_json(path):
    if path.endswith((".nsys-rep", ".qdrep")):
        return f"is a report of Nsight Systems; export it with: nsys export --type sqlite {path}"
    return f"is neither SQLite nor JSON; known are {KINDS}"


def _text(path, is_compressed):
    try:
        with (gzip.open(path) if is_compressed else open(path, "rb")) as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        if is_compressed:
            raise BadInput(f"{path}: is compressed with gzip, and damaged or cut off; copy it again") from None
        raise BadInput(f"{path}: cannot be read: {_reason(error)}") from None
    except MemoryError:
        raise BadInput(f"{path}: does not fit into memory; record fewer steps") from None
    if len(data) > MOST_BYTES:
        raise BadInput(f"{path}: has more than {MOST_BYTES >> 30} GiB of JSON; record fewer steps")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: byte {error.start + 1} is not UTF-8, so the file is no JSON; {_advice(data.decode('utf-8', 'replace'))}") from None


def _broken(text, error):
    """Why text is no JSON, with the byte: cut off, or wrong in the middle."""
    whole = text.rstrip()
    if error.pos >= len(whole) or error.msg.startswith("Unterminated string") or not whole.endswith(("}", "]")):
        return f"is cut off after byte {len(text.encode())}, in the middle of its JSON; record it again"
    at = len(text[:error.pos].encode()) + 1
    return f"line {error.lineno}, column {error.colno} (byte {at}) is not JSON: {error.msg[0].lower()}{error.msg[1:]}; {_advice(text)}"


def number(value):
    """A finite float of a JSON number; None for all else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def picoseconds(value):
    """The exact time of a JSON number of microseconds, as an integer; None: it is no number, or too large."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LATEST:
        return None
    if isinstance(value, int):
        return value * 1_000_000
    written = value.text if isinstance(value, Written) else repr(value)
    before, _, fraction = written.partition(".")
    if fraction.isdecimal() and fraction.isascii():  # as profilers write it; int() is several times as fast as Decimal
        return int(before + fraction[:6].ljust(6, "0"))
    try:
        return int(Decimal(written).scaleb(6))
    except ArithmeticError:  # an exponent of many digits
        return None


def whole(value, default=-1):
    """An integer from 0 of a JSON number; `default` for all else."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or value > 1 << 62:
        return default
    return value


def text(value, default=""):
    """A text of JSON that can be printed: lone surrogates and control characters replaced."""
    if not isinstance(value, str):
        return default
    value = value.encode("utf-8", "replace").decode("utf-8")
    return value if value.isprintable() else "".join(c if c.isprintable() else " " for c in value)
