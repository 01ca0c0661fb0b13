"""The version of Coulisse, which the wheel has, too."""

VERSION = "0.1.0"
