"""The transport `wifi`: raw frames on an interface, in an ad hoc cell or injected in monitor mode."""
