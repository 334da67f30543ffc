"""How the names of trace files end, by format; light, so that a recording is refused early."""

from __future__ import annotations

from nicscope.outputs.file import TABLES

WRITTEN = TABLES | {"oracle-general": (".oracleGeneral", ".oracleGeneral.bin", ".bin")}
