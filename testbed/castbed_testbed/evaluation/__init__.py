"""Evaluations: the tables and figures of a paper, measured again in the simulator and shown beside what is printed."""
