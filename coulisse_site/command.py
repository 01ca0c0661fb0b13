"""The console script `coulisse`, which the wheel installs as the package `coulisse`.

The apps have common names such as `config`, so the wheel installs them inside that
package instead of beside other packages, and this script puts them first on the path.
An editable installation has no apps there: its `.pth` file names the clone.
"""

import sys
from pathlib import Path


def main() -> None:
    """Run `manage.py`."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    # Only found on this path.
    import manage

    manage.main()
