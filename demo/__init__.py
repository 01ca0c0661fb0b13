"""Sample data: a month of simulated traffic, for screenshots and load tests."""
