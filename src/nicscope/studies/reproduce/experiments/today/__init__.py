"""Measurements of today's RDMA: registering and its caches, tables, connections, descriptors."""

from nicscope.studies.reproduce.experiments.today.caches import t10 as t10
from nicscope.studies.reproduce.experiments.today.connections import t4 as t4
from nicscope.studies.reproduce.experiments.today.connections import t5 as t5
from nicscope.studies.reproduce.experiments.today.connections import t18 as t18
from nicscope.studies.reproduce.experiments.today.descriptors import t13 as t13
from nicscope.studies.reproduce.experiments.today.descriptors import t14 as t14
from nicscope.studies.reproduce.experiments.today.descriptors import t15 as t15
from nicscope.studies.reproduce.experiments.today.descriptors import t17 as t17
from nicscope.studies.reproduce.experiments.today.posting import t16 as t16
from nicscope.studies.reproduce.experiments.today.posting import t21 as t21
from nicscope.studies.reproduce.experiments.today.regions import t6 as t6
from nicscope.studies.reproduce.experiments.today.regions import t19 as t19
from nicscope.studies.reproduce.experiments.today.registering import t11 as t11
from nicscope.studies.reproduce.experiments.today.registering import t12 as t12
