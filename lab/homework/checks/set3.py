"""Homework 3."""
