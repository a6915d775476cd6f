"""Certificates: a verification rule proved for all laws, and the loop for all horizons."""

from lab.certify_loop import loop
from lab.certify_rule import rule

__all__ = ["loop", "rule"]
