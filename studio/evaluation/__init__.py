"""Pages about quality: the work of judges, results of experiments, runs of smoke tests,
and the chart of scores.
"""
