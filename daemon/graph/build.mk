# SPDX-License-Identifier: MIT
GRAPH_SRCS := $(wildcard daemon/graph/*.c)
