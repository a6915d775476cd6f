"""Homework 5."""
