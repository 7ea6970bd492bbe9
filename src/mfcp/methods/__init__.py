"""Learning methods, one file each: how predictors are trained, and with which rule they decide."""
