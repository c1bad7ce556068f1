# SPDX-License-Identifier: Apache-2.0
"""The machine's side of the RDMA lab; what node and cluster share."""
