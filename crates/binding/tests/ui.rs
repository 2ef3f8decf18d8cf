//! Misuses that do not compile, each with the compiler's answer.
//!
//! The answers are those of one compiler version; on others only the accepted
//! programs are compiled. `TRYBUILD=overwrite` writes new answers.

use std::process::Command;

/// The compiler whose answers are kept, as `rustc --version` says.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn misuses_do_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/accept/*.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .unwrap()
        .stdout;
    if version.starts_with(COMPILER.as_bytes()) {
        cases.compile_fail("tests/ui/reject/*.rs");
        if cfg!(feature = "tokio") {
            cases.compile_fail("tests/ui/reject_tokio/*.rs");
        }
    }
}
