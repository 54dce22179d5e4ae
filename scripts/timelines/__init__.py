"""Timelines: readers, figures, attribution, comparison, pages."""
