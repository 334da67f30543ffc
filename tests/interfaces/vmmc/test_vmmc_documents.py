"""``docs/vmmc.md`` names every call."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "vmmc.md").read_text()


def test_every_call_of_an_endpoint_is_on_the_page():
    from nicscope.interfaces.vmmc import Endpoint

    calls = {name for name in vars(Endpoint) if not name.startswith("_")}
    assert calls <= set(re.findall(r"`([a-z_]+)", PAGE)) | {"cluster"}
