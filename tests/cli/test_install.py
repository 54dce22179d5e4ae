"""What `cmake --install` makes: a tree that can be moved, and that needs neither the checkout nor its .deps.

    test_install.py CMAKE BUILD_FOLDER

Installs, moves the tree, and works in it from elsewhere. Where the kernel allows it (unshare), the checkout and the build folder are
hidden from the programs. Standard library only.
"""

import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from test_cli import PATIENCE, count_apart, write_tensors

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.realpath(os.path.join(HERE, "../.."))
CMAKE = BUILD = None
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


class Install(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gp-test-install-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        first = os.path.join(cls.folder, "first")
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", first], check=True, stdout=subprocess.DEVNULL)
        cls.tree = os.path.join(cls.folder, "moved to", "another place")
        os.makedirs(os.path.dirname(cls.tree))
        os.rename(first, cls.tree)
        cls.home, cls.elsewhere = os.path.join(cls.folder, "home"), os.path.join(cls.folder, "elsewhere")
        os.mkdir(cls.home)
        os.mkdir(cls.elsewhere)
        cls.hidden = [CHECKOUT, os.path.realpath(BUILD), os.path.realpath(os.path.join(CHECKOUT, ".deps"))]
        # What lies within another of them is hidden with it.
        cls.hidden = [path for path in cls.hidden if os.path.isdir(path) and
                      not any(path.startswith(other + "/") for other in cls.hidden)]
        cls.can_hide = subprocess.run(["unshare", "-rm", "sh", "-c", cls.hide()], capture_output=True).returncode == 0

    @classmethod
    def hide(cls):
        """Shell commands: in a mount namespace of its own, the folders are empty."""
        return " && ".join("mount -t tmpfs none %s" % shlex.quote(path) for path in cls.hidden)

    def path(self, name):
        return os.path.join(self.tree, name)

    def environment(self):
        kept = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "XDG_CACHE_HOME")}
        return {**kept, **count_apart(self.path("bin/gpipe-train")), "HOME": self.home}

    def run_installed(self, program, *arguments, **more):
        """`more`: variables of the environment."""
        command = [self.path(program), *arguments]
        if self.can_hide:
            command = ["unshare", "-rm", "sh", "-c", self.hide() + ' && exec "$0" "$@"', *command]
        return subprocess.run(command, cwd=self.elsewhere, env={**self.environment(), **more}, capture_output=True, text=True,
                              timeout=PATIENCE)

    def test_programs_find_their_libraries_in_the_tree(self):
        """Or in the system; nothing that is loaded lies in the checkout."""
        outside = [CHECKOUT, *self.hidden]
        for program in ("gpipe-train", "gpipe-balance"):
            path = self.path("bin/" + program)
            loaded = subprocess.run(["ldd", path], env=self.environment(), capture_output=True, text=True, check=True).stdout
            self.assertNotIn("not found", loaded)
            self.assertFalse([place for place in outside if place + "/" in loaded], loaded)
            if os.path.exists(self.path("lib/gpipe/libdnnl.so.3")):
                (found,) = re.findall(r"libdnnl\.so\.3 => (.*) \(0x", loaded)
                self.assertEqual(os.path.realpath(found), os.path.realpath(self.path("lib/gpipe/libdnnl.so.3")))
            with open(path, "rb") as file:
                content = file.read()
            self.assertFalse([place for place in outside if os.fsencode(place) + b"/" in content], program)
            self.assertNotIn(b"/.deps/", content)

    def test_libraries_come_with_their_licences(self):
        names = sorted(os.listdir(self.path("lib/gpipe"))) if os.path.isdir(self.path("lib")) else []
        if not names:
            self.skipTest("oneDNN is the system's, and is not installed")
        self.assertEqual(names, ["libdnnl.so.3"])
        self.assertFalse(os.path.islink(self.path("lib/gpipe/libdnnl.so.3")))
        with open(self.path("share/gpipe/licences/onednn/LICENSE")) as file:
            self.assertIn("Apache License", file.read())
        self.assertTrue(os.path.exists(self.path("share/gpipe/licences/onednn/THIRD-PARTY-PROGRAMS")))
        self.assertTrue(os.path.exists(self.path("share/gpipe/LICENSE")))

    def test_a_configuration_that_needs_no_data(self):
        done = self.run_installed("bin/gpipe-train", "--set", "data.train.synthetic.samples=8", "--set", "data.batch=8", "--set",
                                  "train={steps: 1}", "--set", "data.eval.synthetic.samples=8",
                                  self.path("share/gpipe/configs/resnet-synthetic.yaml"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(os.path.exists(os.path.join(self.elsewhere, "runs/resnet-synthetic/model.safetensors")))

    def test_a_configuration_with_data(self):
        """The data lie where the fetch script puts them, beside the configurations."""
        config, steps = self.path("share/gpipe/configs/digits.yaml"), ["-q", "--set", "train={steps: 1}"]
        data = self.path("share/gpipe/data/digits")
        done = self.run_installed("bin/gpipe-train", *steps, config)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Agpipe-train: %s:\d+:11: %s/train.safetensors: cannot be opened: No such file or directory" %
                         (re.escape(config), re.escape(os.path.dirname(config) + "/../data/digits")))
        with open(config) as file:
            comment = file.read()
        (script,) = re.findall(r"\.\./(scripts/\S+\.sh)", comment)
        self.assertTrue(os.access(self.path("share/gpipe/" + script), os.X_OK))
        self.assertEqual(subprocess.run([sys.executable, self.path("share/gpipe/scripts/digits.py"), "--check", data]).returncode, 1)
        os.makedirs(data)
        for name, count in (("train", 64), ("eval", 8)):
            write_tensors(os.path.join(data, name + ".safetensors"), x=("F32", [count, 1, 8, 8], struct.pack("<f", 0.5) * 64 * count),
                          y=("I64", [count], bytes(8 * count)))
        done = self.run_installed("bin/gpipe-train", *steps, config)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        shutil.rmtree(self.path("share/gpipe/data"))

    def test_a_balance(self):
        done = self.run_installed("bin/gpipe-balance", "--seconds", "0.01", "--set", "data.train.synthetic.samples=8", "--set",
                                  "data.batch=8",
                                  self.path("share/gpipe/configs/resnet-synthetic.yaml"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(os.listdir(os.path.join(self.home, ".cache/gpipe/profiles")))

    def test_scripts_of_runs_and_timelines(self):
        """Launchers in bin/ work in the moved tree and through a link, and leave no file in it."""
        before = sorted(os.path.join(folder, name) for folder, _, names in os.walk(self.tree) for name in names)
        modules = os.path.join(CHECKOUT, "scripts/timelines")
        self.assertEqual(sorted(os.listdir(self.path("share/gpipe/scripts/timelines"))),
                         sorted(name for name in os.listdir(modules) if name.endswith((".py", ".js", ".css"))))
        with open(os.path.join(CHECKOUT, "CMakeLists.txt")) as file:
            version = re.search(r"project\(gpipe VERSION (\S+)", file.read())[1]
        link = os.path.join(self.folder, "link to report")
        os.symlink(self.path("bin/gpipe-report"), link)
        for program, name in (("bin/gpipe-report", "gpipe-report"), (link, "gpipe-report"), ("bin/gpipe-compare", "gpipe-compare")):
            done = self.run_installed(program, "--version")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "%s %s\n" % (name, version), ""))
            done = self.run_installed(program, "--help")
            self.assertEqual((done.returncode, done.stdout.split()[:2], done.stderr), (0, ["usage:", name], ""))
        made_up = os.path.join(self.elsewhere, "tools")
        os.mkdir(made_up)
        with open(os.path.join(made_up, "nsys"), "w") as file:
            file.write("#!/bin/sh\necho \"$@\" >>%s/calls\nexit 5\n" % made_up)
        os.chmod(os.path.join(made_up, "nsys"), 0o755)
        self.run_installed("share/gpipe/scripts/nsys-profile.sh", "--steps", "all", self.path("share/gpipe/configs/resnet-synthetic.yaml"),
                           PATH=made_up + ":" + os.environ["PATH"])
        with open(os.path.join(made_up, "calls")) as file:
            self.assertIn(os.path.realpath(self.path("bin/gpipe-train")), file.read().replace("share/gpipe/scripts/../../../", ""))
        run = os.path.join(self.elsewhere, "run")
        os.mkdir(run)
        with open(os.path.join(run, "metrics.jsonl"), "w") as file:
            file.write('{"event":"step","step":1,"loss":0.5,"lr":0.1,"samples":8,"seconds":0.5,"data_seconds":0,"time":1}\n')
        done = self.run_installed("bin/gpipe-report", "run", "-o", "page.html")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(os.path.join(self.elsewhere, "page.html")) as file:
            self.assertTrue(file.read().endswith("<!-- gpipe-report -->\n"))
        self.assertEqual(sorted(os.path.join(folder, name) for folder, _, names in os.walk(self.tree) for name in names), before)

    def test_links_between_documents(self):
        """Each leads to a file of the tree."""
        root = self.path("share/gpipe")
        documents = [os.path.join(root, "README.md"), *(
            os.path.join(root, "docs", name) for name in os.listdir(os.path.join(root, "docs")) if name.endswith(".md"))]
        self.assertGreater(len(documents), 10)
        for document in documents:
            with open(document, encoding="utf-8") as file:
                links = [link for link in LINK.findall(file.read()) if "://" not in link]
            for link in links:
                target = os.path.normpath(os.path.join(os.path.dirname(document), link))
                self.assertTrue(os.path.exists(target), "%s: %s" % (document, link))
                self.assertTrue(target.startswith(self.tree + "/"), link)


if __name__ == "__main__":
    CMAKE, BUILD = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main(verbosity=2)
