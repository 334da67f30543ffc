"""Arrows point down: who may import whom, read from the source, type-checking imports included.

An import for types alone counts: a room that needs another's types knows that other.
"""

import ast
import functools
from pathlib import Path

import pytest

import nicscope

PACKAGE = Path(nicscope.__file__).parent

# Room: the rooms that it may import, itself aside.  From the ground up; a new room is placed here
# before anything is built in it.
GROUND = {
    *("clock", "errors", "hashing", "inputs", "kernel", "memory_limit", "outputs"),
    *("tracebacks", "version"),
}
MODELS = {"memory", "nic", "fabric", "host"}
STARTING = {"cli", "config", "errors", "inputs", "library", "outputs", "__main__", "__init__"}
# How tables and paragraphs are laid out: below whatever has some, so a floor of its own.
LAYOUT = {f"reports/{name}.py" for name in ("page", "printing")}
DRIVING = GROUND | MODELS | {"config"}
OPEN = {"__main__", "__init__"}  # the package itself names what is public, wherever it lies
MAY_IMPORT = {
    "clock": set(),
    "version": set(),
    "errors": set(),
    "tracebacks": {"errors"},
    "kernel": {"errors"},
    "hashing": {"kernel"},
    "inputs": {"errors"},
    "outputs": {"errors"},
    "memory_limit": {"errors", "kernel"},
    "memory": {"kernel", "hashing", "memory_limit"},
    "nic": {
        "clock",
        "kernel",
        "hashing",
        "memory",
        "memory_limit",
    },  # memory: a NIC on the bus knows the states of blocks
    "fabric": {"clock", "kernel"},
    "host": {"clock", "kernel", "memory", "nic", "fabric"},
    "config": {"errors", "inputs", "memory", "tracebacks"},
    "drivers": DRIVING,
    "traces": GROUND,
    "layout": set(),
    "interfaces": DRIVING | {"drivers", "layout"},
    "verbs": {"interfaces"},
    "live": DRIVING | {"drivers", "interfaces"},
    "apps": {"errors", "interfaces"},
    "studies": DRIVING | {"drivers", "traces", "interfaces", "live", "apps"},
    "reports": GROUND | {"config", "traces", "studies", "layout"},
    "serving": GROUND | {"config", "studies", "reports"},
    "library": GROUND | {"config", "traces", "studies", "reports", "layout"},
    "cli": GROUND | {"config", "traces", "studies", "reports", "serving", "layout", "library"},
}


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE / "catalog")


def room_of(path):
    place = path.relative_to(PACKAGE)
    return "layout" if str(place) in LAYOUT else place.parts[0].removesuffix(".py")


def target_of(name):
    """The room of what an import names."""
    parts = name.split(".")
    return "layout" if f"{'/'.join(parts[1:3])}.py" in LAYOUT else parts[1]


def imported(tree):
    """Full names of the package's own modules (or what is in them) that ``tree`` imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.startswith("nicscope."))


@functools.cache
def arrows():
    """(file, room, imported name, its room) of every import within the package."""
    return [
        (str(path.relative_to(PACKAGE)), room_of(path), name, target_of(name))
        for path in modules()
        for name in imported(ast.parse(path.read_text()))
    ]


def test_every_room_has_its_floor():
    rooms = {room_of(path) for path in modules()} - {"__init__", "__main__"}

    assert rooms <= set(MAY_IMPORT)


def test_arrows_point_down():
    up = [
        (file, name)
        for file, room, name, target in arrows()
        if room not in ("__main__", "__init__")
        and target != room
        and target not in MAY_IMPORT[room]
    ]

    assert len(arrows()) > 100
    assert up == []


def test_no_two_rooms_import_each_other():
    order = list(MAY_IMPORT)

    assert all(
        order.index(below) < order.index(room) for room in order for below in MAY_IMPORT[room]
    )


def test_settings_know_of_the_host_side_only_the_replacement_policies():
    known = {name for _, room, name, target in arrows() if (room, target) == ("config", "memory")}

    assert {name.rpartition(".")[0] for name in known} == {"nicscope.memory.replacement"}


def test_the_catalog_is_opened_by_settings_and_studies_alone():
    shelves = {
        room for _, room, name, _ in arrows() if name.startswith("nicscope.config.toml_files")
    }
    named = {
        room_of(path)
        for path in modules()
        if "catalog" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value == "catalog"
    }

    assert shelves == {"config", "studies"}
    assert named == {"config"}


def test_commands_start_without_waiting_for_heavy_libraries():
    # What a command needs of these it imports when it runs.
    heavy = {"numba", "numpy", "pyarrow", "matplotlib", "starlette", "uvicorn"}
    waiting = []
    for path in modules():
        if room_of(path) in STARTING:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ImportFrom):
                    tops = {node.module.partition(".")[0]}
                elif isinstance(node, ast.Import):
                    tops = {alias.name.partition(".")[0] for alias in node.names}
                else:
                    continue
                waiting += [(str(path), top) for top in tops & heavy]

    assert waiting == []


def test_the_hosts_memory_knows_no_interface():
    """Pages, tables and pins are any operating system's: an interface only calls them.

    Of the caches before its bytes, which are any host's, it knows that they are to be settled.
    """
    caches = ("nicscope.memory.coherence.bus.", "nicscope.memory.coherence.layout.")
    outside = {
        name
        for file, _, name, _ in arrows()
        if file.startswith("memory/paging/")
        and not name.startswith(
            ("nicscope.memory.paging.", "nicscope.kernel.", "nicscope.memory_limit.")
        )
        and not name.startswith(caches)
    }

    assert outside == set()


@pytest.mark.requirement("UM-59a")
def test_no_interface_walks_page_tables():
    """What the NIC does with a translation is written without a host's tables in sight."""
    walking = {
        file
        for file, _, name, _ in arrows()
        if file.startswith("nic/")
        and name.startswith("nicscope.memory.paging")
        and not name.endswith(".GARBAGE_FRAME")  # a frame's number, in no page table
    }

    assert walking == set()
