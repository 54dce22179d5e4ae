"""Unions and differences of intervals."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "scripts"))
from timelines.timeline import length, union, without  # noqa: E402


class Intervals(unittest.TestCase):
    def test_union_merges_what_touches_and_drops_what_is_empty(self):
        self.assertEqual(union([(4, 6), (0, 1), (1, 2), (5, 5.5), (9, 9)]), [(0, 2), (4, 6)])

    def test_without_cuts_at_both_ends_and_in_the_middle(self):
        self.assertEqual(without([(0, 10), (12, 14)], [(-1, 1), (3, 4), (9, 13)]), [(1, 3), (4, 9), (13, 14)])
        self.assertEqual(without([(0, 10)], []), [(0, 10)])
        self.assertEqual(length(without([(0, 2), (3, 9)], [(0, 9)])), 0)


if __name__ == "__main__":
    unittest.main()
