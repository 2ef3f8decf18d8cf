//! Running other programs from the workspace's root, and talking to people.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The workspace's root, from where this crate was built.
pub(crate) fn root() -> PathBuf {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.pop();
    path
}

/// A cargo command in the workspace's root.
///
/// The variables that cargo sets for this process are removed, or a nested cargo
/// would take them for its own and rebuild.
pub(crate) fn cargo<I>(args: I) -> Command
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_")
            || text.starts_with("CARGO_MANIFEST_")
            || text == "CARGO_CRATE_NAME"
        {
            command.env_remove(&name);
        }
    }
    command
}

/// Whether `cargo nextest` is installed.
pub(crate) fn has_nextest() -> bool {
    cargo(["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command as a person would type it.
pub(crate) fn words(command: &Command) -> String {
    let mut text = String::from("cargo");
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// Runs a command with inherited output and tells whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool, Box<dyn std::error::Error>> {
    say(&format!("$ {}", words(command)));
    Ok(command.status()?.success())
}

/// Prints a line to standard output. A closed pipe is not an error.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Prints a line to standard error.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "xtask: {line}");
}
