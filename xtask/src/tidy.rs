//! `cargo xtask tidy`: what no compiler looks at.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::Outcome;
use crate::shell;

/// Lines that a source file may have, its tests included.
const MAX_LINES: usize = 800;

/// Bytes that all tracked files may have together.
const MAX_REPOSITORY: u64 = 30 << 20;

/// Text that marks unfinished work; it has no place in the main branch.
const UNFINISHED: &[&str] = &["todo!(", "unimplemented!(", "dbg!(", "FIXME", "XXX:"];

pub(crate) fn run() -> Outcome {
    let root = shell::root();
    let findings = check(&root, &tracked(&root)?);
    for finding in &findings {
        shell::complain(finding);
    }
    if findings.is_empty() {
        shell::say("the sources are tidy");
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

fn tracked(root: &Path) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let names = String::from_utf8(output.stdout)?;
    Ok(names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect())
}

fn check(root: &Path, files: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut total = 0;
    for file in files {
        let Ok(bytes) = std::fs::read(root.join(file)) else {
            continue;
        };
        total += bytes.len() as u64;
        if bytes.starts_with(b"\x7fELF") {
            findings.push(format!("{file}: a built executable"));
        }
        if let Ok(text) = String::from_utf8(bytes) {
            check_text(file, &text, &mut findings);
        }
    }
    if total > MAX_REPOSITORY {
        findings.push(format!(
            "the repository has {total} bytes, expected at most {MAX_REPOSITORY}"
        ));
    }
    findings
}

fn check_text(file: &str, text: &str, findings: &mut Vec<String>) {
    let extension = Path::new(file)
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default();
    if !matches!(extension, "rs" | "toml" | "md" | "py" | "c" | "h" | "proto") {
        return;
    }
    for (index, line) in text.lines().enumerate() {
        // Two spaces at a line's end are a line break in Markdown.
        if extension != "md" && line.ends_with([' ', '\t']) {
            findings.push(format!("{file}:{}: trailing white space", index + 1));
        }
    }
    if extension != "rs" {
        return;
    }
    // Files of compile-fail tests are judged by their diagnostics' line numbers.
    if !text.starts_with("//!") && !file.contains("/ui/") {
        findings.push(format!("{file}: does not open with a module comment"));
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        findings.push(format!(
            "{file}: {lines} lines, expected at most {MAX_LINES}"
        ));
    }
    if !file.ends_with("xtask/src/tidy.rs") {
        for (index, line) in text.lines().enumerate() {
            if let Some(word) = UNFINISHED.iter().find(|word| line.contains(**word)) {
                findings.push(format!("{file}:{}: `{word}`", index + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(file: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        check_text(file, text, &mut found);
        found
    }

    #[test]
    fn the_repository_is_tidy() {
        let root = shell::root();
        // An unpacked source archive has no list of tracked files.
        let Ok(files) = tracked(&root) else {
            shell::complain("SKIPPED: git lists no files here, so that none is checked");
            return;
        };
        assert_eq!(check(&root, &files), Vec::<String>::new());
    }

    #[test]
    fn each_rule_can_fail() {
        assert_eq!(findings("a.rs", "//! A.\n"), Vec::<String>::new());
        assert_eq!(
            findings("a.rs", "fn a() {}\n"),
            ["a.rs: does not open with a module comment"]
        );
        assert_eq!(
            findings("a.rs", "//! A. \n"),
            ["a.rs:1: trailing white space"]
        );
        assert_eq!(findings("a.rs", "//! A.\ndbg!(1);\n"), ["a.rs:2: `dbg!(`"]);
        let long = "//!\n".repeat(MAX_LINES + 1);
        assert_eq!(
            findings("a.rs", &long),
            ["a.rs: 801 lines, expected at most 800"]
        );
        assert_eq!(findings("a.bin", "x \n"), Vec::<String>::new());
    }
}
