"""What is decided before a turn runs: options, agent, variant, prompt, language of the
reply.
"""
