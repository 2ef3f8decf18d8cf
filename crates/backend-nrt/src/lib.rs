//! The Backend trait over libnrt.so.
