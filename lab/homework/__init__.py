"""Homework: build speculative decoding, and be told at each step whether it is right.

`reference` holds the solved files, `tasks` cuts the starters out of them, `checks` says what must
hold of each task, in the words of `checking`.
"""
