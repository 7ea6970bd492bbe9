"""Tasks as operator graphs, and the features that predictors read."""
