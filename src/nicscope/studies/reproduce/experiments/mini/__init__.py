"""What miNI published, again."""

from nicscope.studies.reproduce.experiments.mini.memory import extrapolation as extrapolation
from nicscope.studies.reproduce.experiments.mini.memory import figure3 as figure3
from nicscope.studies.reproduce.experiments.mini.memory import node_memory as node_memory
from nicscope.studies.reproduce.experiments.mini.misses import figure4 as figure4
from nicscope.studies.reproduce.experiments.mini.misses import miss_penalty as miss_penalty
