"""Pages that show and change the configuration: entries of agents, judges, experiments
and smoke tests, and the YAML file by section.
"""
