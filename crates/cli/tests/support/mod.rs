//! The command in a temporary folder, and a small model for it.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::assert::Assert;
use tempfile::TempDir;

pub(crate) fn module(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    root.join(name).join("module.pb")
}

pub(crate) fn metaneff(folder: &TempDir, arguments: &[&str]) -> Assert {
    assert_cmd::Command::new(env!("CARGO_BIN_EXE_metaneff"))
        .current_dir(folder.path())
        .args(arguments)
        .assert()
}

pub(crate) fn stderr(assert: &Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
}

pub(crate) fn stdout(assert: &Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
}

pub(crate) fn json(assert: &Assert) -> serde_json::Value {
    serde_json::from_slice(&assert.get_output().stdout).unwrap()
}

/// What a folder has, sorted.
pub(crate) fn left(folder: &TempDir) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A folder with a small model whose one output is `x + y`.
pub(crate) fn packed() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let graph = module("binary__add__f32");
    metaneff(
        &folder,
        &[
            "pack",
            graph.to_str().unwrap(),
            "--input",
            "0=x",
            "--input",
            "1=y",
        ],
    )
    .success();
    folder
}
