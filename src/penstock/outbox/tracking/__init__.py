"""Events declared on models: what a program writes through its ORM is published with no further call."""
