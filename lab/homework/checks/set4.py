"""Homework 4."""
