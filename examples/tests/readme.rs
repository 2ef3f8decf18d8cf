//! The README shows the main job as it is compiled.

use std::path::Path;

/// The example without its head, which a README does not need.
fn main_job() -> &'static str {
    let source = include_str!("../examples/minimal.rs");
    source.find("use ").map_or("", |start| &source[start..])
}

#[test]
fn the_readme_shows_the_main_job() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    assert!(readme.contains(&format!("```rust\n{}```", main_job())));
}

#[test]
fn the_main_job_is_short() {
    let lines = main_job().lines().filter(|line| !line.trim().is_empty());
    assert!(lines.count() <= 25);
}
