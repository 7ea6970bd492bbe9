"""Integer matching, proven optimal: enumeration of all plans, and a mixed-integer linear program."""
