"""Names of Mellanox's numbers: without one of its devices none of them means anything."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

mlx5dv_qp_init_attr_mask: Any = IntEnum("mlx5dv_qp_init_attr_mask", ())  # type: ignore[misc]  # it is empty
mlx5dv_dc_type: Any = IntEnum("mlx5dv_dc_type", ())  # type: ignore[misc]  # it is empty
mlx5dv_context_attr_flags: Any = IntEnum("mlx5dv_context_attr_flags", ())  # type: ignore[misc]  # it is empty
mlx5dv_obj_type: Any = IntEnum("mlx5dv_obj_type", ())  # type: ignore[misc]  # it is empty
mlx5dv_context_attr_comp_mask: Any = IntEnum("mlx5dv_context_attr_comp_mask", ())  # type: ignore[misc]  # it is empty
_NAMES = (
    *("MLX5_SEND_WQE_BB", "MLX5_SEND_WQE_SHIFT", "MLX5_WQE_CTRL_CQ_UPDATE"),
    *("MLX5_OPCODE_SEND_IMM", "MLX5_SND_DBR", "MLX5_RCV_DBR"),
    *("MLX5_CQE_INVALID", "MLX5_CQE_RESP_ERR", "MLX5_CQE_REQ_ERR"),
    *("MLX5_CQE_REQ", "MLX5_CQE_RESP_SEND_IMM", "_MLX5DV_UAR_ALLOC_TYPE_NC"),
)
globals().update(dict.fromkeys(_NAMES, 0))
