"""Makes small exports of Nsight Systems for tests, with the tables of a real version. Times are microseconds."""
import sqlite3

from nsys_schemas import GRAPH_TRACE, VERSIONS

MEMSET_LATER = VERSIONS["2024.6.2"]["CUPTI_ACTIVITY_KIND_MEMSET"]
NVTX_LATER = VERSIONS["2024.6.2"]["NVTX_EVENTS"]


def global_pid(pid):
    """Serialized as in real exports: a machine's number, the process, and room for the thread."""
    return 1 << 48 | pid << 24


class Made:
    """An export that is being made. A table is created with its first row, as nsys does; `tables` makes all at once."""

    def __init__(self, path, version="2024.6.2"):
        self.db = sqlite3.connect(path)
        self.version = version
        self.tables = set()
        self.texts = {}
        self.calls = {}
        self.row("META_DATA_EXPORT" if "META_DATA_EXPORT" in VERSIONS[version] else "EXPORT_META_DATA",
                 name="EXPORT_PRODUCT_VERSION", value=version)

    @classmethod
    def again(cls, path, version="2024.6.2"):
        """The export at `path`, to add rows."""
        made = cls.__new__(cls)
        made.db, made.version = sqlite3.connect(path), version
        made.tables = {name for (name,) in made.db.execute("SELECT name FROM sqlite_master")}
        made.texts = {value: at for at, value in made.db.execute("SELECT id, value FROM StringIds")}
        made.calls = {100: made.db.execute("SELECT max(correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()[0]}
        return made

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.db.commit()
        self.db.close()

    def table(self, name):
        """Creates a table as the version has it."""
        if name in self.tables:
            return
        columns = VERSIONS[self.version].get(name)
        if columns is None:
            columns = {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE": GRAPH_TRACE, "CUPTI_ACTIVITY_KIND_MEMSET": MEMSET_LATER,
                       "NVTX_EVENTS": NVTX_LATER}[name]
        self.db.execute(f"CREATE TABLE {name} ({columns})")
        self.tables.add(name)

    def row(self, table, **values):
        """A row; columns without a value that must have one get 0."""
        self.table(table)
        for _, column, _, must, _, _ in self.db.execute(f"PRAGMA table_info({table})").fetchall():
            if must and column not in values:
                values[column] = 0
        columns = ", ".join(f'"{column}"' for column in values)
        self.db.execute(f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(values))})", list(values.values()))

    def text(self, value):
        """The id of a text in StringIds."""
        if value not in self.texts:
            self.texts[value] = len(self.texts) + 1
            self.row("StringIds", id=self.texts[value], value=value)
        return self.texts[value]

    def range(self, name, start, end, thread, pid=100, kind=59, registered=False):
        """An NVTX range; registered: its name is in StringIds."""
        self.row("NVTX_EVENTS", start=start * 1000, end=None if end is None else end * 1000, eventType=kind,
                 text=None if registered else name, textId=self.text(name) if registered else None,
                 globalTid=global_pid(pid) + thread, domainId=0)

    def call(self, start, thread, pid=100, name="cudaLaunchKernel_v7000"):
        """A call of the runtime. Correlation ids count in each process from 1."""
        self.calls[pid] = self.calls.get(pid, 0) + 1
        self.row("CUPTI_ACTIVITY_KIND_RUNTIME", start=start * 1000, end=start * 1000 + 500, globalTid=global_pid(pid) + thread,
                 correlationId=self.calls[pid], nameId=self.text(name), returnValue=0)
        return self.calls[pid]

    def _activity(self, table, start, end, issued, thread, pid, gpu, stream, **values):
        correlation = None if issued is None else self.call(issued, thread, pid)
        self.row(f"CUPTI_ACTIVITY_KIND_{table}", start=start * 1000, end=end * 1000, deviceId=gpu, contextId=1,
                 streamId=stream, correlationId=correlation, globalPid=global_pid(pid), **values)

    def kernel(self, start, end, issued, thread, pid=100, gpu=0, stream=7, name="gemm"):
        its = {"tensorSizeMinusOneElements": "[]"} if self.version.startswith("2026") else {}
        self._activity("KERNEL", start, end, issued, thread, pid, gpu, stream, shortName=self.text(name),
                       demangledName=self.text(f"void {name}<float>(float*)"), gridX=1, gridY=1, gridZ=1, **its)

    def copy(self, start, end, issued, thread, kind, pid=100, gpu=0, stream=8, size=4096):
        self._activity("MEMCPY", start, end, issued, thread, pid, gpu, stream, copyKind=kind, bytes=size)

    def fill(self, start, end, issued, thread, pid=100, gpu=0, stream=7):
        self._activity("MEMSET", start, end, issued, thread, pid, gpu, stream, value=0, bytes=64)

    def graph(self, start, end, issued, thread, pid=100, gpu=0, stream=7):
        self._activity("GRAPH_TRACE", start, end, issued, thread, pid, gpu, stream, graphId=5, graphExecId=6)
