"""A scripted provider over real HTTP, for tests of agents and for benchmarks."""
