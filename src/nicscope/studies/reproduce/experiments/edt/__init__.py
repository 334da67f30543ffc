"""Eager Data Transfer, from the coherent machine and VIA over it."""

from nicscope.studies.reproduce.experiments.edt.latencies import contention as contention
from nicscope.studies.reproduce.experiments.edt.latencies import dma_rate as dma_rate
from nicscope.studies.reproduce.experiments.edt.latencies import figure8 as figure8
from nicscope.studies.reproduce.experiments.edt.latencies import figure9 as figure9
from nicscope.studies.reproduce.experiments.edt.machine import bus_transactions as bus_transactions
from nicscope.studies.reproduce.experiments.edt.machine import crossover as crossover
from nicscope.studies.reproduce.experiments.edt.machine import ni_memory as ni_memory
