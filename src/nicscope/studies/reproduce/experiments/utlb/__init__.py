"""What UTLB published, again."""

from nicscope.studies.reproduce.experiments.utlb.invariants import invariants as invariants
from nicscope.studies.reproduce.experiments.utlb.pricing import fast_path as fast_path
from nicscope.studies.reproduce.experiments.utlb.pricing import table1 as table1
from nicscope.studies.reproduce.experiments.utlb.pricing import table2 as table2
from nicscope.studies.reproduce.experiments.utlb.pricing import table6 as table6
from nicscope.studies.reproduce.experiments.utlb.running import (
    simulated_fast_path as simulated_fast_path,
)
from nicscope.studies.reproduce.experiments.utlb.running import simulated_table1 as simulated_table1
from nicscope.studies.reproduce.experiments.utlb.running import simulated_table2 as simulated_table2
