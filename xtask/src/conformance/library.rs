//! Building the simulated libnrt.so.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::shell::cargo;

/// Names a library that is built already.
const BUILT: &str = "METANEFF_LIBNRT_SIM";

const PACKAGE: &str = "metaneff-libnrt-sim";

/// Builds the library, in the profile of this program, and says where it is.
///
/// This program is built along with it: cargo then resolves the features that
/// both need, which are those that everything was built with, and builds nothing
/// twice.
pub(crate) fn build() -> Result<PathBuf, Box<dyn std::error::Error>> {
    if let Some(path) = std::env::var_os(BUILT) {
        return Ok(path.into());
    }
    let mut build = cargo([
        "build",
        "--quiet",
        "--package",
        PACKAGE,
        "--package",
        "xtask",
    ]);
    build.arg("--message-format=json-render-diagnostics");
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    let output = build.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{PACKAGE} does not build").into());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let found = messages.lines().find_map(library);
    found.ok_or_else(|| format!("cargo names no library of {PACKAGE}").into())
}

/// The library's file, if a message of cargo names it.
fn library(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["target"]["name"] != "nrt" {
        return None;
    }
    let mut files = message["filenames"]
        .as_array()?
        .iter()
        .filter_map(Value::as_str);
    let dynamic = |file: &&str| PathBuf::from(file).extension() == Some(OsStr::new("so"));
    files.find(dynamic).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dynamic_library_is_the_one() {
        let message = r#"{"reason":"compiler-artifact","target":{"name":"nrt"},
            "filenames":["/t/debug/libnrt.rlib","/t/debug/libnrt.so"]}"#;
        assert_eq!(library(message), Some(PathBuf::from("/t/debug/libnrt.so")));
        assert_eq!(library(&message.replace("\"nrt\"", "\"other\"")), None);
        assert_eq!(library("Compiling metaneff"), None);
    }
}
