SLOW=()
def is_slow(n): return False
