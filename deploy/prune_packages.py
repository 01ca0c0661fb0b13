"""Delete what the image's packages bring and a server never reads.

    python deploy/prune_packages.py DIRECTORY

The directory is the `site-packages` of `requirements.txt`.
"""

import shutil
import sys
from pathlib import Path

UNUSED = (
    # Packages of packages: the Hub's client (we load tokenizers from files), and the
    # server of `runserver`, which is for developers.
    "autobahn",
    "daphne",
    "hf_xet",
    "huggingface_hub",
    "twisted",
    # What a package's makers need: tests, declarations and sources of C code.
    "**/*.c",
    "**/*.h",
    "**/*.pxd",
    "**/*.pyi",
    "**/*.pyx",
    "**/tests",
    "numpy/f2py",
    "onnxruntime/quantization",
    "onnxruntime/tools",
    "onnxruntime/transformers",
    # The same code is linked into the module that Python loads.
    "onnxruntime/capi/libonnxruntime.so.*",
    # Pages that show OpenAPI documents: ours are not served by it.
    "ninja/static",
)
KEPT = {
    # Translations: the studio is in English.
    "**/locale/*/": {"en"},
    # Descriptions of AWS's services: files are in S3.
    "botocore/data/*/": {"s3", "sts"},
    # Languages of the studio's editor.
    "django_ace/static/django_ace/ace/mode-*.js": {"mode-yaml.js"},
    "django_ace/static/django_ace/ace/snippets/*": {"yaml.js"},
    "django_ace/static/django_ace/ace/worker-*.js": set[str](),
}
"""Of what a pattern matches, the names that are used."""


def main(packages: Path) -> None:
    """Delete it, and print the size before and after."""
    before = measure(packages)
    for pattern in UNUSED:
        for path in list(packages.glob(pattern)):
            delete(path)
    for pattern, kept in KEPT.items():
        for path in list(packages.glob(pattern)):
            if path.name not in kept:
                delete(path)
    sys.stdout.write(f"{before} MB of packages, {measure(packages)} MB are kept\n")


def delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def measure(folder: Path) -> int:
    files = (path for path in folder.rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files) // 1_000_000


if __name__ == "__main__":
    main(Path(sys.argv[1]))
