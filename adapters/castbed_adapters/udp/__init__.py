"""The transport `udp`: IP multicast for the air, TCP for wires, on loopback or on an interface; needs no root."""
