//! Runs sqllogictest suites against a real node over HTTP
