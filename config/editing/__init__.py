"""Edit the YAML file through the studio: masked for display, validated as a whole,
written atomically.
"""
