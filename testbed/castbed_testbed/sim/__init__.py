"""The simulator: the transport `sim`, in virtual time, a pure function of experiment and seed."""
