"""`coulisse doctor`: the checks of this machine and of the server's processes.

Other apps have their checks in a module `doctor`; `settings.COULISSE_DOCTOR` lists all.
A check takes the configuration, None if it is invalid, and yields Django's check
messages: `Info` is fine, and the `hint` of a `Warning` or an `Error` is its remedy.
"""
