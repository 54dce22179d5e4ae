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

SQLITE = b"SQLite format 3\0"
REPORTS = (".nsys-rep", ".qdrep")
EXPORT = "nsys export --type sqlite"
PID_MASK = ~0xFFFFFF  # a globalTid without its thread is the globalPid

PUSH_POP, START_END = 59, 60  # NVTX_EVENTS.eventType
TORCH = re.compile(r", (seq|op_id|sizes|input_op_ids) = .*", re.DOTALL)  # what PyTorch writes after a range's name

COPY_KINDS = {0: "copy", 1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH",
              10: "PtoP", 11: "unified HtoD", 12: "unified DtoH", 13: "unified DtoD"}
DEVICE_TO_DEVICE = 8

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
        self.backwards = 0  # rows whose end is before their start
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
        if not out:
            raise BadInput(f"{self.path}: {self._nothing()}")
        out = self._join(out)
        out.sort(key=lambda it: (it.start, it.end))
        return out

    def _nothing(self):
        if self.backwards:
            return f"all {self.backwards} kernels and copies end before they start; the clock jumped, so record it again"
        if not any(self._has(table) for table in ("StringIds", "META_DATA_EXPORT", "EXPORT_META_DATA", "TARGET_INFO_GPU")):
            return f"is an SQLite database, but no export of Nsight Systems; make one with {EXPORT} FILE.nsys-rep"
        return "has no kernels and no copies of a GPU; record with nsys profile --trace=cuda,nvtx (scripts/nsys-profile.sh does)"

    def _read_activities(self, out, table, what, name, size, kind):
        if what == KERNEL and not self._has(table, "shortName"):
            name = "demangledName" if self._has(table, "demangledName") else "name"
        strings = self.strings() if what == KERNEL else {}
        wanted = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId", name or "-", size or "-", kind or "-")
        for start, end, pid, device, stream, correlation, named, bytes_, copy_kind in self._select(table, wanted):
            if not _is_integer(start) or not _is_integer(end) or end < start:
                self.backwards += 1
                continue
            if what == KERNEL:
                text = strings.get(named, _text(named, "kernel"))
            elif what == COPY:
                text = COPY_KINDS.get(copy_kind, "copy")
            else:
                text = "memset" if what == FILL else f"CUDA graph {_integer(named, '')}".rstrip()
            it = Activity(what, start, end, _integer(pid), _integer(device), _integer(stream), text, max(0, _integer(bytes_)), copy_kind)
            it.issued = _integer(correlation, None)  # until _join
            out.append(it)

    def _join(self, activities):
        """Puts the start and thread of the call in place of the correlation id. Ids count in each process by itself."""
        table, calls = "CUPTI_ACTIVITY_KIND_RUNTIME", {}
        if self._has(table, "start", "globalTid", "correlationId"):
            for start, tid, correlation in self._rows(f"SELECT start, globalTid, correlationId FROM {table} "
                                                      "WHERE correlationId IS NOT NULL AND globalTid IS NOT NULL"):
                if not _is_integer(start) or not _is_integer(tid) or not _is_integer(correlation):
                    continue
                key = (correlation, tid & PID_MASK)
                if key not in calls or start < calls[key][0]:
                    calls[key] = (start, tid)
        only = {pid for _, pid in calls}
        alone = next(iter(only)) if len(only) == 1 else None
        for it in activities:
            pid = it.pid if it.pid else alone
            call = calls.get((it.issued, pid)) if it.issued is not None else None
            it.issued, it.tid = call if call else (None, None)
            it.pid = it.pid or alone or 0
            self.unmatched += call is None
        return activities

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
            if not _is_integer(start) or (end is not None and (not _is_integer(end) or end < start)):
                self.backwards += 1
                continue
            out.append(Range(start, end, tid, known[name], kind == PUSH_POP))
        out.sort(key=lambda it: it.start)
        return out

    def gpus(self):
        """{(pid, device): GPU}: what a process calls GPU 0 may be another GPU of the machine. Empty in old exports."""
        table = "TARGET_INFO_CUDA_DEVICE"
        if not self._has(table, "gpuId", "cudaId", "pid"):
            return {}
        return {(pid, device): gpu for gpu, device, pid in self._rows(f"SELECT gpuId, cudaId, pid FROM {table}")
                if _is_integer(gpu)}


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
