"""What U-Net/MM published, again."""

from nicscope.studies.reproduce.experiments.unet_mm.pinning import pinned_memory as pinned_memory
from nicscope.studies.reproduce.experiments.unet_mm.pricing import table1 as table1
from nicscope.studies.reproduce.experiments.unet_mm.running import (
    simulated_table1 as simulated_table1,
)
from nicscope.studies.reproduce.experiments.unet_mm.sockets import (
    figure3_sockets as figure3_sockets,
)
from nicscope.studies.reproduce.experiments.unet_mm.split_c import figure3 as figure3
