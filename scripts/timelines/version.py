"""The version of the scripts: that of the project."""
import os
import re

HERE = os.path.dirname(os.path.realpath(__file__))


def version():
    """From share/gpipe/VERSION of an installed tree, or from CMakeLists.txt of the checkout; "unknown" if there is neither."""
    for name, pattern in (("VERSION", r"\A([0-9.]+)\s*\Z"), ("CMakeLists.txt", r"project\(gpipe VERSION ([0-9.]+)")):
        try:
            with open(os.path.join(HERE, "..", "..", name), encoding="utf-8") as file:
                match = re.search(pattern, file.read())
        except (OSError, UnicodeDecodeError):
            continue
        if match:
            return match[1]
    return "unknown"
