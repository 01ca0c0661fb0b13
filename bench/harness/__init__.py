"""What every measurement stands on: server processes, users and sizes, CPU and memory
readings, the table of results.
"""
