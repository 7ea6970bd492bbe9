"""Judging methods: metrics of plans under the truth, paired comparisons, tables and figures."""
