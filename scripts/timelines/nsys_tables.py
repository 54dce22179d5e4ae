"""The tables of an Nsight Systems SQLite export as Python lists, whatever version wrote them.

Tables and columns differ from version to version, and most versions write only tables that have rows. docs/nsight.md names the
exports that were looked at. Times are integers, in nanoseconds. A value of another type than its column has counts as absent:
SQLite keeps any value in any column. Nothing here knows steps, workers, or instructions.
"""
import os
import re
import sqlite3
from urllib.parse import quote

from .read import text as printable
from .timeline import BadInput
from .usable import LeftOut, Limits, overlong

SQLITE = b"SQLite format 3\0"
REPORTS = (".nsys-rep", ".qdrep")
EXPORT = "nsys export --type sqlite"
PID_MASK = ~0xFFFFFF  # a globalTid without its thread is the globalPid

PUSH_POP, START_END = 59, 60  # NVTX_EVENTS.eventType
TORCH = re.compile(r", (seq|op_id|sizes|input_op_ids) = .*", re.DOTALL)  # what PyTorch writes after a range's name

COPY_KINDS = {0: "copy", 1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH",
              10: "PtoP", 11: "unified HtoD", 12: "unified DtoH", 13: "unified DtoD"}
TO_DEVICE, TO_HOST, DEVICE_TO_DEVICE = 1, 2, 8

HOUR = 3600 * 10**9
EARLY = 10**6  # 1 ms: clocks of a GPU and of the host differ by so much at most
EARLY_CLOCK = 10**9  # 1 s: if most activities begin before their call, the clock of their GPU is early

KERNEL, COPY, FILL, GRAPH = range(4)  # what an Activity is


class Activity:
    """A kernel, a copy, a memset, or a whole CUDA graph on a GPU, with the call of the runtime that issued it."""

    __slots__ = ("what", "start", "end", "pid", "device", "stream", "name", "bytes", "copy_kind", "issued", "tid")

    def __init__(self, what, start, end, pid, device, stream, name, size, copy_kind):
        self.what, self.start, self.end = what, start, end
        self.pid, self.device, self.stream = pid, device, stream
        self.name, self.bytes, self.copy_kind = name, size, copy_kind
        self.issued = self.tid = None


class Range:
    """An NVTX range of one thread. `end` is None if the capture ended first."""

    __slots__ = ("start", "end", "tid", "name", "nested")

    def __init__(self, start, end, tid, name, nested):
        self.start, self.end, self.tid, self.name, self.nested = start, end, tid, name, nested


class Export:
    """An open export. Close it with `close`."""

    def __init__(self, path):
        self.path = path
        _check_file(path)
        self.db = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro&immutable=1", uri=True)
        self.db.text_factory = lambda data: data.decode("utf-8", "replace")
        self.rows, self.left_out = 0, LeftOut()  # kernels, copies, ranges and calls; those of them without a usable time
        self.limits = None  # of the capture, set by activities()
        self.unmatched = 0  # activities without a call of the runtime
        self.columns = {}
        for (name,) in self._rows("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"):
            self.columns[name] = None

    def close(self):
        self.db.close()

    def _rows(self, sql, values=()):
        """The rows of a query. A damaged page becomes a sentence, whenever it is met."""
        try:
            yield from self.db.execute(sql, values)
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:  # the message may have a damaged text
            why = "a text is not UTF-8" if isinstance(error, UnicodeDecodeError) else printable(str(error))
            raise BadInput(f"{self.path}: the database is damaged ({why}); export the report again with {EXPORT}") from None

    def _has(self, table, *columns):
        """Whether the table is there with all of these columns."""
        if table not in self.columns:
            return False
        if self.columns[table] is None:
            quoted = table.replace('"', '""')
            self.columns[table] = {row[1] for row in self._rows(f'PRAGMA table_info("{quoted}")')}
        return all(column in self.columns[table] for column in columns)

    def _select(self, table, wanted, rest=""):
        """Rows of the wanted columns; None in place of a column that this version does not have."""
        listed = ", ".join(f'"{column}"' if self._has(table, column) else "NULL" for column in wanted)
        return self._rows(f'SELECT {listed} FROM "{table}" {rest}')

    # ---- what the GPUs did ------------------------------------------------------------------------------------------------

    def activities(self):
        """All activities in the order of their start, each with its call of the runtime if there is one."""
        out = []
        for table, what, name, size, kind in (("CUPTI_ACTIVITY_KIND_KERNEL", KERNEL, "shortName", None, None),
                                              ("CUPTI_ACTIVITY_KIND_MEMCPY", COPY, None, "bytes", "copyKind"),
                                              ("CUPTI_ACTIVITY_KIND_MEMSET", FILL, None, "bytes", None),
                                              ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", GRAPH, "graphId", None, None)):
            if self._has(table, "start", "end", "deviceId", "streamId"):
                self._read_activities(out, table, what, name, size, kind)
        calls = self._calls()
        out = self._usable(self._join(out, self._near(out, calls)))
        if not out:
            raise BadInput(f"{self.path}: {self._nothing()}")
        self.unmatched = sum(it.issued is None for it in out)
        return out

    def _nothing(self):
        if self.left_out.count:
            return f"none of its kernels and copies has a usable time: {self.left_out.first}; record it again"
        if not any(self._has(table) for table in ("StringIds", "META_DATA_EXPORT", "EXPORT_META_DATA", "TARGET_INFO_GPU")):
            return f"is an SQLite database, but no export of Nsight Systems; make one with {EXPORT} FILE.nsys-rep"
        return "has no kernels and no copies of a GPU; record with nsys profile --trace=cuda,nvtx (scripts/nsys-profile.sh does)"

    def _read_activities(self, out, table, what, name, size, kind):
        if what == KERNEL and not self._has(table, "shortName"):
            name = "demangledName" if self._has(table, "demangledName") else "name"
        strings = self.strings() if what == KERNEL else {}
        wanted = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId", name or "-", size or "-", kind or "-")
        for start, end, pid, device, stream, correlation, named, bytes_, copy_kind in self._select(table, wanted):
            if what == KERNEL:
                text = strings.get(named, _text(named, "kernel"))
            elif what == COPY:
                text = COPY_KINDS.get(copy_kind, "copy")
            else:
                text = "memset" if what == FILL else f"CUDA graph {_integer(named, '')}".rstrip()
            if not self._is_time(text, start, end):
                continue
            it = Activity(what, start, end, _integer(pid), _integer(device), _integer(stream), text, max(0, _integer(bytes_)), copy_kind)
            it.issued = _integer(correlation, None)  # until _join
            out.append(it)

    def _is_time(self, name, start, end):
        """Whether these are a start and an end. Otherwise the row is left out."""
        self.rows += 1
        if not _is_integer(start) or not _is_integer(end):
            why = "its start or its end is no number"
        elif end < start:
            why = "it ends before it starts"
        elif start == end == 0:  # as CUPTI marks an activity whose times were lost
            why = "its start and its end are 0"
        else:
            return True
        self.left_out.add(printable(name)[:40], why)
        return False

    def _is_near(self, name, start, end):
        """Whether start and end are near the rest of the capture. Otherwise the row is left out."""
        if self.limits is None or self.limits.has(start, end):
            return True
        self.left_out.add(printable(name)[:40], "it ends more than an hour after all others" if self.limits.has_start(start) else
                          "it begins more than an hour from all others")
        return False

    def _calls(self):
        """(start, thread, id) of the calls of the runtime."""
        table = "CUPTI_ACTIVITY_KIND_RUNTIME"
        if not self._has(table, "start", "globalTid", "correlationId"):
            return []
        rows = self._rows(f"SELECT start, globalTid, correlationId FROM {table} WHERE correlationId IS NOT NULL AND globalTid IS NOT NULL")
        return [row for row in rows if all(map(_is_integer, row))]

    def _near(self, activities, calls):
        """Removes activities that are not near the rest of the capture. Returns {(id, process): first call} of the calls that are."""
        self.limits = Limits([it.start for it in activities] + [start for start, _, _ in calls], HOUR)
        activities[:] = [it for it in activities if self._is_near(it.name, it.start, it.end)]
        found = {}
        for start, tid, correlation in calls:
            key = (correlation, tid & PID_MASK)
            if self._is_near("a call of the CUDA runtime", start, start) and (key not in found or start < found[key][0]):
                found[key] = (start, tid)
        self.rows += len(calls)
        return found

    def _join(self, activities, calls):
        """Puts the start and thread of the call in place of the correlation id. Ids count in each process by itself."""
        only = {pid for _, pid in calls}
        alone = next(iter(only)) if len(only) == 1 else None
        for it in activities:
            pid = it.pid if it.pid else alone
            call = calls.get((it.issued, pid)) if it.issued is not None else None
            it.issued, it.tid = call if call else (None, None)
            it.pid = it.pid or alone or 0
        return activities

    def _usable(self, activities):
        """The activities in the order of their start, without those that begin before their call, or last longer than the rest of their
        stream can wait."""
        joined = [it for it in activities if it.issued is not None]
        early = [it for it in joined if it.start < it.issued - EARLY]
        if 2 * len(early) > len(joined):
            early = [it for it in early if it.start < it.issued - EARLY_CLOCK]
        for it in early:
            self.left_out.add(printable(it.name)[:40], "it begins before it is launched")
        gone = {id(it) for it in early}
        streams = {}
        for it in sorted(activities, key=lambda it: (it.start, it.end)):
            if id(it) not in gone:
                streams.setdefault((it.pid, it.device, it.stream), []).append(it)
        for its in streams.values():
            for at in overlong([(it.start, it.end, it.issued) for it in its]):
                self.left_out.add(printable(its[at].name)[:40], "it lasts longer than all else in its stream, which went on meanwhile")
                gone.add(id(its[at]))
        return sorted((it for it in activities if id(it) not in gone), key=lambda it: (it.start, it.end))

    # ---- NVTX, names ------------------------------------------------------------------------------------------------------

    def strings(self):
        """StringIds as a dictionary."""
        if not hasattr(self, "_strings"):
            rows = self._rows("SELECT id, value FROM StringIds") if self._has("StringIds", "id", "value") else ()
            self._strings = {at: value for at, value in rows if isinstance(value, str)}
        return self._strings

    def has_ranges(self):
        return self._has("NVTX_EVENTS", "start", "end", "eventType", "globalTid")

    def ranges(self, is_wanted):
        """NVTX ranges whose name `is_wanted` accepts, in the order of their start."""
        if not self.has_ranges():
            return []
        strings, known, out = self.strings(), {}, []
        wanted = ("start", "end", "globalTid", "text", "textId", "eventType")
        rest = f"WHERE eventType IN ({PUSH_POP}, {START_END})"
        for start, end, tid, text, text_id, kind in self._select("NVTX_EVENTS", wanted, rest):
            name = _text(text, strings.get(text_id))
            if name is None or not _is_integer(tid):
                continue
            if name not in known:
                plain = TORCH.sub("", name)
                known[name] = plain if is_wanted(plain) else None
            if known[name] is None:
                continue
            until = start if end is None else end
            if not self._is_time(name, start, until) or not self._is_near(name, start, until):
                continue
            out.append(Range(start, end, tid, known[name], kind == PUSH_POP))
        out.sort(key=lambda it: it.start)
        return out

    def gpus(self):
        """{(pid, device): GPU}: what a process calls GPU 0 may be another GPU of its machine. The table does not name hosts, so a pair with
        several GPUs, of two hosts, is left out. Empty in old exports."""
        table, found = "TARGET_INFO_CUDA_DEVICE", {}
        if not self._has(table, "gpuId", "cudaId", "pid"):
            return {}
        for gpu, device, pid in self._rows(f"SELECT gpuId, cudaId, pid FROM {table}"):
            if _is_integer(gpu):
                found.setdefault((pid, device), set()).add(gpu)
        return {pair: gpus.pop() for pair, gpus in found.items() if len(gpus) == 1}


def process_number(global_pid):
    """The process number in a globalPid or globalTid."""
    return global_pid >> 24 & 0xFFFFFF


def host_number(global_pid):
    """The hardware and the virtual machine in a globalPid or globalTid: the bits above the process number."""
    return global_pid >> 48


def _is_integer(value):
    return isinstance(value, int)


def _integer(value, otherwise=0):
    return value if isinstance(value, int) else otherwise


def _text(value, otherwise):
    return value if isinstance(value, str) else otherwise


def _check_file(path):
    """Refuses what is no whole SQLite database, with a sentence."""
    if path.endswith(REPORTS):
        base = path.rsplit(".", 1)[0]
        raise BadInput(f"{path}: is a report of Nsight Systems; export it with: {EXPORT} -o {base}.sqlite {path}")
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            head = file.read(100)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}; check the name") from None
    if size == 0:
        raise BadInput(f"{path}: is empty; export the report again with {EXPORT}")
    if not head.startswith(SQLITE) or len(head) < 100:
        raise BadInput(f"{path}: is no SQLite database; give the export that {EXPORT} FILE.nsys-rep writes")
    page = int.from_bytes(head[16:18], "big")
    whole = (65536 if page == 1 else page) * int.from_bytes(head[28:32], "big")
    # The number of pages counts only if the two change counters are equal (SQLite's file format, 1.3.8).
    if head[24:28] == head[92:96] and size < whole:
        raise BadInput(f"{path}: is cut off: it has {size} of {whole} bytes; copy it or export it again")
