"""Child processes: started, watched, restarted and ended, and the files that record
them.
"""
