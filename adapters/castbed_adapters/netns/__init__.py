"""Emulated networks on one Linux machine: a namespace per node, wires on a bridge, and a medium that plays the air."""
