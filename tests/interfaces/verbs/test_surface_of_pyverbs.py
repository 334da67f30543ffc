"""Names of the real pyverbs, where it is installed, against those here."""

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = "/usr/bin/python3"  # to which packages of the system belong
MODULES = (
    *("addr", "base", "cmid", "cq", "device", "dmabuf", "flow", "fork", "mem_alloc", "mr", "pd"),
    *("qp", "spec", "srq", "wr", "wq", "xrcd", "utils", "pyverbs_error"),
)
LOOK = """
import importlib, inspect, json, sys
found = {}
for name in sys.argv[1].split(','):
    module = importlib.import_module('pyverbs.' + name)
    own = {k: v for k, v in vars(module).items() if k[0] != '_' and callable(v)
           and (getattr(v, '__module__', None) or module.__name__) in (module.__name__, name)}
    found[name] = {k: [a for a in dir(v) if a[0] != '_'] if inspect.isclass(v) else []
                   for k, v in own.items()}
json.dump(found, sys.stdout)
"""
# What docs/verbs.md lists: raw packets with their steering and spreading, tag matching, memory of
# a graphics card, and functions that format flags for printing.
NOT_HERE = {
    *("flow", "spec", "wq"),
    *("cq.flags_to_str", "cq.cqe_flags_to_str", "cq.create_wc_flags_to_str"),
    *("device.translate_gid_type", "device.translate_device_caps", "device.str_from_flags"),
    *("mr.mwtype2str", "wr.send_flags_to_str"),
    *("qp.QPInitAttrEx.flags_to_str", "qp.QPInitAttrEx.mask_to_str", "qp.QPEx.wr_send_tso"),
    *("dmabuf.DmaBuf.drm_fd", "dmabuf.DmaBuf.map_offset"),
    *("srq.OpsWr.recv_wr_id", "srq.OpsWr.unexpected_cnt", "wr.SendWR.sg_list"),
}


def source_of(kind):
    """Text of the modules of a class, as some attributes are set by instances alone."""
    modules = {each.__module__ for each in kind.__mro__ if each.__module__.startswith("nicscope")}
    return "".join(inspect.getsource(sys.modules[each]) for each in modules)


def test_whatever_the_real_pyverbs_names_is_here_or_is_listed():
    if not Path(PYTHON).exists():
        pytest.skip("needs a package: python3-pyverbs")
    asked = [PYTHON, "-I", "-c", LOOK, ",".join(MODULES)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("needs a package: python3-pyverbs")
    missing = set()
    for module, names in json.loads(done.stdout).items():
        ours = importlib.import_module(f"nicscope.verbs.{module}")
        for name, members in names.items():
            found = getattr(ours, name, None)
            if found is None:
                missing.add(f"{module}.{name}")
            elif inspect.isclass(found):
                text = source_of(found)
                missing |= {
                    f"{module}.{name}.{member}"
                    for member in members
                    if not hasattr(found, member) and member not in text
                }

    missing = {each for each in missing if each.partition(".")[0] not in NOT_HERE}
    assert missing <= NOT_HERE
