"""Child processes: started, watched, restarted and stopped, and the files that record
them.
"""
