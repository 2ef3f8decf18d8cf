//! Conformance cases over every backend.
