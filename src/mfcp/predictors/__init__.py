"""Predictors of execution time and reliability, one file per architecture."""
