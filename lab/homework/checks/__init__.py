"""The checks of the homework, a module for each set; importing this registers them all."""

from lab.homework.checks import set1, set2, set3, set4, set5

__all__ = ["set1", "set2", "set3", "set4", "set5"]
