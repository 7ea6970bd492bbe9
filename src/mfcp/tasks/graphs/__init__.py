"""Operator graphs: their arrays, operator classes, coarsening, and distinct operators."""
