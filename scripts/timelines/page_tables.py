"""The tables below the timelines, made from what figures() and compare() computed."""
from . import html_parts


def tables(comparison):
    return ""
