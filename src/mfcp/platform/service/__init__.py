"""The decision service: predictions, plans and explanations over HTTP."""
