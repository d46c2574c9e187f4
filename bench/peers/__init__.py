"""The reference peers, one file each.

A peer's file has `variants(operation)`: the ways in which it can do an operation, as names with functions that open
it on a folder (`bench.peer` has the names). Whatever lies here takes part in every workload that asks for one of its
operations; goals name the peers they are about. Servers have a class `SERVER` instead (`bench.server`), and ways to count
a batch down on one of them stand in `TALLIES` (`bench.tally`).
"""
