"""The asyncio host: machines in processes of their own, on the links of an adapter, in real time."""
