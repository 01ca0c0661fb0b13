"""Tasks that run an agent, one turn for each attempt: what may be asked for, and how it
is run.
"""
