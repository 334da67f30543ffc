"""Programs at sizes for simulated machines, and runs of them."""

from __future__ import annotations

from nicscope.apps.splash.barnes import barnes
from nicscope.apps.splash.fft import fft
from nicscope.apps.splash.lu import lu
from nicscope.apps.splash.ocean import ocean
from nicscope.apps.splash.radix import radix
from nicscope.apps.splash.raytrace import raytrace
from nicscope.apps.splash.volrend import volrend
from nicscope.apps.splash.water_nsquared import water_nsquared
from nicscope.apps.splash.water_spatial import water_spatial
from nicscope.apps.svm.machines.running import run_on_machines
from nicscope.interfaces import Faults

INTERFACES = ["vmmc", "mini", "unet"]
PROGRAMS = {
    "fft": lambda processes: fft((8 * processes) ** 2, processes, seed=2),
    "lu": lambda processes: lu(64, processes, seed=2),
    "radix": lambda processes: radix(1501, processes, seed=2, digits=64),
    "ocean": lambda processes: ocean(6, processes, seed=2, steps=1, tolerance=1e-4),
    "barnes": lambda processes: barnes(32, processes, seed=2),
    "water-nsquared": lambda processes: water_nsquared(27, processes, seed=2),
    "water-spatial": lambda processes: water_spatial(64, processes, seed=2),
    "raytrace": lambda processes: raytrace(16, processes, seed=2),
    "volrend": lambda processes: volrend(16, processes, seed=2),
}


def lossy(seed):
    """Packets are lost, doubled, overtaken and damaged."""
    return Faults(seed=seed, loss=0.05, duplication=0.05, reordering=0.05, corruption=0.05)


def run_of(program, placement, on, **options):
    """A run of ``program`` on machines."""
    return run_on_machines(program.body, program.layout, placement, program.set_up, on, **options)
