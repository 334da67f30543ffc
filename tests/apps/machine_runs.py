"""Programs at sizes for simulated machines, and runs of them."""

import math

from nicscope.apps.splash.barnes import barnes
from nicscope.apps.splash.kernels import fft, lu, radix
from nicscope.apps.splash.ocean import ocean
from nicscope.apps.splash.raytrace import raytrace
from nicscope.apps.splash.volrend import volrend
from nicscope.apps.splash.water import water_nsquared, water_spatial
from nicscope.apps.svm.machines.node import run_on_machines
from nicscope.apps.svm.process import run_on_shared_memory
from nicscope.interfaces import Faults

INTERFACES = ["vmmc", "mini", "unet", "via", "trapeze"]
PROGRAMS = {
    "fft": lambda processes: fft((8 * processes) ** 2, processes, seed=2),
    "lu": lambda processes: lu(64, processes, seed=2),
    "radix": lambda processes: radix(1501, processes, seed=2, digits=64),
    "ocean": lambda processes: ocean(6, processes, seed=2, steps=1, tolerance=1e-4),
    "barnes": lambda processes: barnes(48, processes, seed=2),
    "water-nsquared": lambda processes: water_nsquared(27, processes, seed=2, steps=1),
    "water-spatial": lambda processes: water_spatial(64, processes, seed=2, steps=1),
    "raytrace": lambda processes: raytrace(16, processes, seed=2),
    "volrend": lambda processes: volrend(16, processes, seed=2),
}


# Of so many processes, each of an odd size where it takes one.
OF_ODD_SIZES = {
    "fft": lambda many, seed=1: fft((math.lcm(many, 3) if many < 8 else many) ** 2, many, seed),
    "lu": lambda many, seed=1: lu(37, many, seed, block=4),
    "radix": lambda many, seed=1: radix(1001, many, seed, digits=64),
    "ocean": lambda many, seed=1: ocean(17, many, seed, steps=1, tolerance=1e-3),
    "barnes": lambda many, seed=1: barnes(37, many, seed),
    "water-nsquared": lambda many, seed=1: water_nsquared(27, many, seed, steps=1),
    "water-spatial": lambda many, seed=1: water_spatial(125, many, seed, steps=1, cutoff=4.0),
    "raytrace": lambda many, seed=1: raytrace(37, many, seed, primitives=21),
    "volrend": lambda many, seed=1: volrend(8, many, seed, rotations=1),
}


def shared(program, placement):
    """A run of ``program`` on shared memory in logical time, without machines."""
    return run_on_shared_memory(program.body, program.layout, placement, program.set_up)


def name_of(placement):
    """Such as 2x2, and a p if copies are private."""
    return f"{placement.nodes}x{placement.processes}{'p' * placement.are_copies_private}"


def lossy(seed, on):
    """Packets are lost and damaged, doubled and overtaken; the latter not where they hold paths."""
    faults = {"loss": 0.05, "corruption": 0.05}
    if on != "trapeze":
        faults |= {"duplication": 0.05, "reordering": 0.05}
    return Faults(seed=seed, **faults)


def run_of(program, placement, on, **options):
    """A run of ``program`` on machines."""
    return run_on_machines(program.body, program.layout, placement, program.set_up, on, **options)
