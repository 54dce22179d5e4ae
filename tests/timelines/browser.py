"""A headless Chromium for tests and scripts, driven by the Chrome DevTools Protocol over two pipes.

    with Browser(width=1200, height=800) as page:
        page.open("report.html")
        page.click(100, 200)
        assert page.evaluate("document.title") == "…"
        page.screenshot("report.png")
        assert page.errors == [] and page.requests == […]

The browser reads commands from its descriptor 3 and writes to 4: JSON objects that end with NUL
(--remote-debugging-pipe). It has its own profile folder, no network, and is killed when the block ends. If this process
is killed, the pipe closes, and the browser ends by itself. Time limits are there for hangs only.
"""
import base64
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SKIPPED = 77  # the exit status of a test without its tool
PATIENCE = 90  # seconds for one command
START_PATIENCE = 120  # seconds until the browser answers for the first time

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--no-default-browser-check", "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-extensions", "--disable-default-apps", "--disable-breakpad", "--metrics-recording-only", "--mute-audio",
         "--password-store=basic", "--use-mock-keychain", "--host-resolver-rules=MAP * ~NOTFOUND", "--hide-scrollbars",
         "--force-color-profile=srgb", "--lang=en-US", "--remote-debugging-pipe")

# Puts the two pipes at 3 and 4. First both leave these places, then each takes its own.
LAUNCHER = """
import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3])
os.dup2(reads, 3)
os.dup2(writes, 4)
os.closerange(5, 64)
os.execv(sys.argv[3], sys.argv[3:])
"""

KEYS = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Escape": 27, "Home": 36, "Tab": 9,
        " ": 32}
ALT, CONTROL, META, SHIFT = 1, 2, 4, 8


class BrowserError(Exception):
    """The browser did not answer, or refused a command."""


def find_browser():
    """The path of a Chromium, or None. $GPIPE_BROWSER names one; if it is empty, there is none."""
    named = os.environ.get("GPIPE_BROWSER")
    if named is not None:
        return shutil.which(named) if named else None
    return next(filter(None, map(shutil.which, NAMES)), None)


def skip_without_browser():
    """Ends a test program with status 77 if there is no browser, or if it cannot run on this machine."""
    if not find_browser():
        print(f"skipped: no browser ({', '.join(NAMES)}) is on the path: install Debian's package chromium", file=sys.stderr)
        sys.exit(SKIPPED)
    try:
        with Browser():
            pass
    except BrowserError as error:
        print(f"skipped: {find_browser()} does not start on this machine: {error}", file=sys.stderr)
        sys.exit(SKIPPED)


class Browser:
    """One browser with one page. Coordinates are CSS pixels of the viewport."""

    def __init__(self, width=1200, height=800, scale=1, dark=False):
        self.size = (width, height, scale)
        self.dark = dark
        self.messages, self.errors, self.requests = [], [], []
        self.last_id, self.buffer, self.events = 0, b"", []
        self.process = self.profile = self.session = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        path = find_browser()
        if not path:
            raise BrowserError("no browser is on the path")
        self.profile = tempfile.mkdtemp(prefix="gpipe-browser-")
        command_read, self.commands = os.pipe()
        self.answers, answer_write = os.pipe()
        environment = {**os.environ, "HOME": self.profile, "XDG_CONFIG_HOME": self.profile, "XDG_CACHE_HOME": self.profile,
                       "TMPDIR": self.profile}
        width, height, _ = self.size
        self.log = os.path.join(self.profile, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", LAUNCHER, str(command_read), str(answer_write), path, *FLAGS,
                 f"--user-data-dir={self.profile}", f"--window-size={width},{height}", "about:blank"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(command_read, answer_write),
                start_new_session=True, env=environment)
        os.close(command_read)
        os.close(answer_write)
        self.attach()

    def attach(self):
        targets = self.send("Target.getTargets", patience=START_PATIENCE)["targetInfos"]
        page = next((target for target in targets if target["type"] == "page"), None)
        name = page["targetId"] if page else self.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session = self.send("Target.attachToTarget", {"targetId": name, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.send("Network.emulateNetworkConditions",
                  {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1})
        self.emulate()

    def stop(self):
        """Kills the browser and its children, and removes its profile."""
        if self.process:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
            for descriptor in (self.commands, self.answers):
                os.close(descriptor)
            self.process = None
        for _ in range(20):  # a child that is not dead yet may still write to the profile
            shutil.rmtree(self.profile, ignore_errors=True)
            if not os.path.exists(self.profile):
                break
            time.sleep(0.1)

    # ---- the protocol -------------------------------------------------------------------------------------------------

    def send(self, method, parameters=None, patience=PATIENCE):
        """Sends a command and returns its result. Events that come before it are noted."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters or {}}
        if self.session:
            message["sessionId"] = self.session
        data, limit = json.dumps(message).encode() + b"\0", time.monotonic() + patience
        while data:
            data = data[os.write(self.commands, data):]
        while True:
            answer = self.receive(limit, method)
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error'].get('message')}")
                return answer["result"]
            self.note(answer)

    def receive(self, limit, what):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], max(0, limit - time.monotonic()))
            part = os.read(self.answers, 1 << 20) if ready else None
            if not part:
                with open(self.log, encoding="utf-8", errors="replace") as log:
                    end = log.read()[-2000:]
                raise BrowserError(f"{what}: the browser {'ended' if ready else 'did not answer'}; the end of its log: {end}")
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def note(self, event):
        method, parameters = event.get("method"), event.get("params", {})
        self.events.append(method)
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details.get("text"))
        elif method == "Runtime.consoleAPICalled":
            text = " ".join(str(argument.get("value", argument.get("description"))) for argument in parameters["args"])
            self.messages.append((parameters["type"], text))
            if parameters["type"] in ("error", "assert"):
                self.errors.append(text)
        elif method == "Log.entryAdded":
            entry = parameters["entry"]
            self.messages.append((entry["level"], entry["text"]))
            if entry["level"] == "error":
                self.errors.append(entry["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.errors.append(f"dialog: {parameters.get('message')}")
            self.send("Page.handleJavaScriptDialog", {"accept": False})

    # ---- the page -----------------------------------------------------------------------------------------------------

    def emulate(self, dark=None, width=None, height=None, scale=None):
        """The reader's theme, the size of the viewport in CSS pixels, and device pixels for each of them."""
        self.dark = self.dark if dark is None else dark
        self.size = tuple(new or old for new, old in zip((width, height, scale), self.size))
        self.send("Emulation.setDeviceMetricsOverride", {"width": self.size[0], "height": self.size[1],
                                                         "deviceScaleFactor": self.size[2], "mobile": False})
        self.send("Emulation.setEmulatedMedia",
                  {"features": [{"name": "prefers-color-scheme", "value": "dark" if self.dark else "light"}]})

    def open(self, path):
        """Opens a file, and returns after its load event. Requests, messages and errors are those of this page."""
        self.messages, self.errors, self.requests, self.events = [], [], [], []
        self.send("Page.navigate", {"url": pathlib.Path(path).resolve().as_uri()})
        limit = time.monotonic() + PATIENCE
        while "Page.loadEventFired" not in self.events:
            self.note(self.receive(limit, "loading"))

    def evaluate(self, expression):
        """The value of a JavaScript expression; a promise is awaited. An exception becomes a BrowserError."""
        answer = self.send("Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.send("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})

    def move(self, x, y):
        self.mouse("mouseMoved", x, y)

    def click(self, x, y, count=1):
        self.move(x, y)
        for number in range(1, count + 1):
            self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=number)
            self.mouse("mouseReleased", x, y, button="left", clickCount=number)

    def drag(self, start, end, modifiers=0):
        """Presses at `start`, moves in four parts to `end`, and releases."""
        self.move(*start)
        self.mouse("mousePressed", *start, button="left", buttons=1, clickCount=1, modifiers=modifiers)
        for part in (0.25, 0.5, 0.75, 1):
            x, y = (a + (b - a) * part for a, b in zip(start, end))
            self.mouse("mouseMoved", x, y, button="left", buttons=1, modifiers=modifiers)
        self.mouse("mouseReleased", *end, button="left", clickCount=1, modifiers=modifiers)

    def wheel(self, x, y, down, right=0, modifiers=0):
        self.mouse("mouseWheel", x, y, deltaX=right, deltaY=down, modifiers=modifiers)

    def key(self, name, modifiers=0):
        """Presses and releases a key, named as KeyboardEvent.key names it."""
        event = {"key": name, "modifiers": modifiers}
        event["windowsVirtualKeyCode"] = KEYS.get(name) or ord(name.upper())
        if len(name) == 1:
            event["text"] = name
        elif name == "Enter":
            event["text"] = "\r"
        self.send("Input.dispatchKeyEvent", {"type": "keyDown", **event})
        self.send("Input.dispatchKeyEvent", {"type": "keyUp", **{k: v for k, v in event.items() if k != "text"}})

    def pixel(self, x, y):
        """The colour on the display at a place of the viewport, as "#rrggbb"."""
        offset = self.evaluate("[scrollX, scrollY]")
        data, at, parts = self.screenshot(clip=(x + offset[0], y + offset[1], 1, 1)), 8, b""
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            if data[at + 4 : at + 8] == b"IDAT":
                parts += data[at + 8 : at + 8 + size]
            at += size + 12
        return "#" + zlib.decompress(parts)[1:4].hex()  # the first pixel of a PNG is the same in all of its filters

    def screenshot(self, path=None, whole=False, clip=None):
        """A PNG of the viewport, of the whole page, or of (x, y, width, height). Returns its bytes; writes them to `path`."""
        parameters = {"format": "png", "captureBeyondViewport": whole}
        if clip:
            parameters["clip"] = dict(zip(("x", "y", "width", "height"), clip), scale=1)
        elif whole:
            size = self.send("Page.getLayoutMetrics")["cssContentSize"]
            parameters["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = base64.b64decode(self.send("Page.captureScreenshot", parameters)["data"])
        if path:
            pathlib.Path(path).write_bytes(data)
        return data
