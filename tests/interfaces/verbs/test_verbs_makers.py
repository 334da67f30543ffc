"""Modules of makers can be imported whole, and whatever would need their devices says so."""

import contextlib
import importlib
import sys
from textwrap import dedent

import pytest
from verbs_ends import refused

import nicscope as ns
from nicscope.interfaces.verbs.cq import CQ, CQEX
from nicscope.interfaces.verbs.device import Context
from nicscope.interfaces.verbs.modules import importable_as

AS_TESTS_DO = """
    import errno
    import unittest

    import pyverbs.device as d
    import pyverbs.dma_util as dma
    import pyverbs.providers.mlx5.mlx5_enums as dve
    from pyverbs.providers import hns
    from pyverbs.providers.efa.efadv import EfaCQ, dev_cap_to_str
    from pyverbs.providers.mlx5.mlx5dv import Mlx5Context, Mlx5QP, context_flags_to_str
    from pyverbs.providers.some_maker_of_2031.dv import Widget
    from pyverbs.pyverbs_error import PyverbsRDMAError

    FLAGS = dve.MLX5DV_QP_CREATE_TUNNEL_OFFLOADS | dve.mlx5dv_dc_type.MLX5DV_DCTYPE_DCT
    SIZES = {dve.MLX5_SEND_WQE_BB: dve.MLX5_SEND_WQE_BB << 2}

    class Pair(Mlx5QP):
        def __init__(self, context, flags=FLAGS):
            super().__init__(context, flags)

    class Its(unittest.TestCase):
        def needs(self, make, *given):
            try:
                make(*given)
            except PyverbsRDMAError as wrong:
                if wrong.error_code == errno.EOPNOTSUPP:
                    self.skipTest(str(wrong))
                raise

        def test_context(self):
            self.needs(Mlx5Context, d.get_device_list()[0].name.decode())

        def test_pair(self):
            self.needs(Pair, None)

        def test_text(self):
            self.needs(context_flags_to_str, FLAGS)

        def test_barrier(self):
            self.needs(dma.udma_to_dev_barrier)

        def test_widget(self):
            self.needs(hns.Widget.of, Widget, EfaCQ)

    if __name__ == "__main__":
        unittest.main()
"""


@pytest.fixture
def imported():
    with importable_as("bindings"):
        yield lambda name: importlib.import_module(f"bindings.{name}")


def test_tests_of_makers_parts_load_and_skip(tmp_path, capsys):
    path = tmp_path / "of_makers.py"
    path.write_text(dedent(AS_TESTS_DO))
    with contextlib.suppress(SystemExit):
        [run] = ns.run_verbs(path).found.runs
    assert [test.outcome for test in run.tests] == ["skipped"] * 5
    told = {test.test.rpartition(".")[2]: test.reason for test in run.tests}
    assert told["test_pair"].startswith("Failed to create Pair: it is of another maker's devices")
    assert "efadv" not in told["test_widget"]
    assert "hns.Widget.of" in told["test_widget"]
    assert "OK (skipped=5)" in capsys.readouterr().err


def test_what_a_number_is_cannot_be_told(imported):
    numbers = imported("providers.mlx5.mlx5_enums")
    both = 1 | numbers.THIS + numbers.THAT
    assert both.__name__ == "1 | mlx5_enums.THIS + mlx5_enums.THAT"
    for use in (bool, int, float, list, len, range, lambda it: it < 3, lambda it: 3 in it):
        with refused("EOPNOTSUPP", "Failed to read 1 | mlx5_enums.THIS"):
            use(both)
    with refused("EOPNOTSUPP"):
        range(numbers.THIS)
    with refused("EOPNOTSUPP"):
        bool(~numbers.THIS & -numbers.THAT)
    assert numbers.THIS is numbers.THIS
    assert numbers.THIS not in (numbers.THAT, 0, 1)


@pytest.mark.usefixtures("device_world")
def test_nothing_here_is_of_a_maker(imported):
    maker = imported("providers.efa.efadv")
    context = Context(name="nicscope0")
    cq = CQ(context, 4)
    assert not isinstance(cq, maker.EfaCQ)
    assert not issubclass(CQEX, maker.EfaCQ)
    assert maker is imported("providers.efa").efadv


def test_what_a_module_is_made_of_is_not_answered(imported):
    for module in (imported("providers"), imported("providers.hbl"), imported("dma_util")):
        with pytest.raises(AttributeError):
            _ = module.__all__
    with pytest.raises(AttributeError):
        _ = imported("providers.hbl").Thing.__wrapped__
    assert "hbl.Thing" in repr(imported("providers.hbl").Thing)
    assert not any(name.startswith("bindings.providers.hns") for name in sys.modules)
