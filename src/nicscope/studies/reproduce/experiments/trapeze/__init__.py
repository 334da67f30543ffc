"""The Trapeze paper: delivery of payloads, simulated in virtual time on four platforms."""

from nicscope.studies.reproduce.experiments.trapeze.measures import figure6 as figure6
from nicscope.studies.reproduce.experiments.trapeze.measures import headline as headline
from nicscope.studies.reproduce.experiments.trapeze.measures import table1 as table1
from nicscope.studies.reproduce.experiments.trapeze.sharing import figure7 as figure7
from nicscope.studies.reproduce.experiments.trapeze.sharing import trunk as trunk
from nicscope.studies.reproduce.experiments.trapeze.transfers import figure1 as figure1
from nicscope.studies.reproduce.experiments.trapeze.transfers import figure3 as figure3
from nicscope.studies.reproduce.experiments.trapeze.transfers import figure4 as figure4
from nicscope.studies.reproduce.experiments.trapeze.transfers import figure5 as figure5
