"""The virtual environment with PyTorch and torchgpipe: made once, used again while its versions are the listed ones."""
import pathlib
import re
import subprocess
import sys

PACKAGES = {"torch": "2.15.0", "numpy": "2.4.6", "torchgpipe": "0.0.7"}
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
SECONDS_TO_CONNECT = 5


class NoEnvironment(Exception):
    """The environment cannot be made; the message says why."""


def python_of(folder):
    return pathlib.Path(folder) / "bin" / "python"


def versions_in(folder):
    """{package: version} of the listed packages that are installed in `folder`."""
    found = {}
    for info in pathlib.Path(folder).glob("lib/python3*/site-packages/*.dist-info"):
        match = re.fullmatch(r"(.+)-([^-]+)\.dist-info", info.name)
        if match and match[1] in PACKAGES:
            found[match[1]] = match[2]
    return found


def fits(folder):
    """Whether `folder` has the listed versions. A local label, as in 2.15.0+cpu, does not count."""
    found = {name: version.split("+")[0] for name, version in versions_in(folder).items()}
    return python_of(folder).exists() and found == PACKAGES


def size_in_gigabytes(folder):
    files = (path for path in pathlib.Path(folder).rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / 1e9


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise NoEnvironment(f"{' '.join(str(word) for word in command)}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")


def install(folder, say):
    """Installs PyTorch without CUDA from its own index if that answers, else what PyPI has, with CUDA's libraries."""
    python, wanted = python_of(folder), {name: f"{name}=={version}" for name, version in PACKAGES.items()}
    say(f"installing {', '.join(wanted.values())}: about 200 MB of downloads from {CPU_INDEX}, or 3 GB from PyPI if that does not answer")
    pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    try:
        run(*pip, "--retries", "0", "--timeout", SECONDS_TO_CONNECT, "--no-deps", "--index-url", CPU_INDEX, wanted["torch"])
    except NoEnvironment as why:
        say(f"{CPU_INDEX} cannot be used; taking PyTorch from PyPI ({why})")
    run(*pip, *wanted.values())


def prepare(folder, say):
    """The Python program of an environment in `folder` that has PACKAGES. Makes the environment if it is not there."""
    if not fits(folder):
        path = pathlib.Path(folder)
        if path.exists() and any(path.iterdir()) and not (path / "pyvenv.cfg").exists():
            raise NoEnvironment(f"{folder} is no virtual environment and not empty: name another folder with --venv")
        say(f"making the virtual environment {folder}")
        run(sys.executable, "-m", "venv", folder)
        install(folder, say)
        if not fits(folder):
            raise NoEnvironment(f"{folder} has {versions_in(folder)}, not {PACKAGES}: remove it, or name another folder with --venv")
        say(f"{folder} takes {size_in_gigabytes(folder):.1f} GB")
    return python_of(folder)
