"""Nothing but ``nicscope.outputs`` writes files, so what holds there holds for every command."""

import ast
import re
from pathlib import Path

import nicscope

PACKAGE = Path(nicscope.__file__).parent
# Rooms that make results; the kernel's keeps compiled code, in a cache that is its own.
ROOMS = sorted(
    path for path in PACKAGE.iterdir() if path.is_dir() and path.name not in ("outputs", "kernel")
)
METHODS = {
    "write_text", "write_bytes", "touch", "mkdir", "unlink", "rmdir", "symlink_to", "hardlink_to",
    "to_csv", "to_parquet", "tofile", "savetxt", "write_html",
}  # fmt: skip
OF_LIBRARIES = {
    "os": {
        "mkdir", "makedirs", "remove", "unlink", "rename", "replace", "link", "symlink", "truncate",
        "ftruncate", "mkfifo", "mknod", "rmdir", "removedirs",
    },
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "rmtree"},
    "tempfile": {
        "mkstemp", "mkdtemp", "TemporaryFile", "NamedTemporaryFile", "TemporaryDirectory",
    },
}  # fmt: skip


def calls(path, names):
    """Every call in a file that has a call of something of these names: parsing takes longest."""
    text = path.read_text()
    if not re.search(rf"\b(?:{'|'.join(names)})\(", text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            function = node.func
            name = getattr(function, "attr", None) or getattr(function, "id", "")
            yield node, name, getattr(function, "value", None)


OPENING = ("open", "fdopen", "OSFile")


def mode_of(node, name, owner):
    """How a call of ``open`` opens, if it does: built in, of a path, or of the system."""
    if name not in OPENING:
        return ""
    if getattr(owner, "id", "") == "os" and name == "open":
        return "w" if any(word in ast.dump(node) for word in ("O_WRONLY", "O_RDWR")) else "r"
    place = 1 if owner is None or name != "open" else 0
    given = [keyword.value for keyword in node.keywords if keyword.arg == "mode"]
    given += node.args[place : place + 1]
    modes = [str(each.value) for each in given if isinstance(each, ast.Constant)]
    return next((mode for mode in modes if re.fullmatch("[rwaxbt+]+", mode)), "")


def writes(node, name, owner):
    """Whether a call makes, changes or removes a file."""
    whose = getattr(owner, "id", "")
    if set(mode_of(node, name, owner)) & set("wax+"):
        return True
    return name in OF_LIBRARIES.get(whose, METHODS if owner is not None else ())


# What people's programs and their servers keep, in a folder of the session's own.
PEOPLES = PACKAGE / "apps" / "interactive"
# Folders that are made for one run and go with it; what a compiler makes, and the socket that
# programs find, each in a folder of the user's own; and traces that are kept between runs, as
# compiled code is, of which those that nobody asks for are let go.
OWN = {"studies/interactive.py", "studies/reproduce/traced/programs.py"}
OWN.add("studies/verbs_recording.py")
OWN |= {"live/build.py", "live/rings.py", "live/machine.py", "studies/verbs_live.py"}


def test_files_are_written_by_outputs_alone():
    found = {}
    names = {*OPENING, *METHODS}.union(*OF_LIBRARIES.values())
    for room in ROOMS:
        for path in room.rglob("*.py"):
            file = str(path.relative_to(PACKAGE))
            if path.parent == PEOPLES or file in OWN:
                continue
            for node, name, owner in calls(path, names):
                if writes(node, name, owner):
                    found.setdefault(file, []).append(f"line {node.lineno}: {name}")

    assert found == {}


def test_arrows_libraries_write_to_what_outputs_opened_and_never_by_name():
    """A name given to Arrow or Matplotlib would be opened as they please."""
    sinks = {"file", "self._signed", "self._sink", "sink", "target"}
    places = {"ParquetWriter": 0, "output_stream": 0, "savefig": 0, "CsvTable": 0}
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node, name, _ in calls(path, [*places, "write_table"]):
            place = places.get(name)
            if name == "write_table" and len(node.args) == 2:
                place = 1
            if place is not None and ast.unparse(node.args[place]) not in sinks:
                found.append((path.name, node.lineno, ast.unparse(node)))

    assert found == []


def test_text_is_printed_by_print_which_keeps_to_the_streams_encoding():
    """``typer.echo`` writes UTF-8 where ASCII was asked for."""
    found = [
        (path.name, node.lineno)
        for path in PACKAGE.rglob("*.py")
        for node, name, owner in calls(path, ("echo", "secho"))
        if name in ("echo", "secho") and getattr(owner, "id", "") in ("typer", "click")
    ]

    assert found == []
