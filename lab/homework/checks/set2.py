"""Homework 2."""
