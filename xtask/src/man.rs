//! `cargo xtask man`: the manual pages of the `metaneff` command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::Outcome;
use crate::libtorch::target_directory;
use crate::shell;

/// Options of `man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the pages go [default: `man` in the target directory].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => target_directory()?.join("man"),
    };
    pages(&folder)?;
    shell::say(&format!("the manual pages are in {}", folder.display()));
    Ok(ExitCode::SUCCESS)
}

/// One page for the command and one for every verb.
fn pages(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(metaneff_cli::command(), folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_a_page_with_its_options() {
        let folder = tempfile::tempdir().unwrap();
        pages(folder.path()).unwrap();
        let page = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(page("metaneff.1").contains("Exit codes"));
        assert!(page("metaneff-run.1").contains("expect"));
        for verb in metaneff_cli::command().get_subcommands() {
            assert!(!page(&format!("metaneff-{}.1", verb.get_name())).is_empty());
        }
    }
}
