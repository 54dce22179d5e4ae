"""What a test of the programs needs of its surroundings, also if it runs by hand. Import it before a program starts.

- XDG_CACHE_HOME: a new folder if it is not set (ctest sets one), so that the user's profiles and rates are neither used nor changed.
- SIGINT: not ignored. A script's background job ignores it, and so would the programs.
"""

import atexit
import os
import shutil
import signal
import tempfile

if "XDG_CACHE_HOME" not in os.environ:
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="gp-test-cache-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
