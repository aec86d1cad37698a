"""Events declared on models: writes through an ORM are published without a further call."""
