"""The paper's tables and figures as a study that can be interrupted, resumed and spread over workers."""
