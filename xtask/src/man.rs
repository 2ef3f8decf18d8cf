//! `cargo xtask man`: the manual pages of the `metaneff` command.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap_mangen::Man;

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
    fs::create_dir_all(&folder)?;
    let pages = pages()?;
    for (name, page) in &pages {
        fs::write(folder.join(name), page)?;
    }
    shell::say(&format!("{} pages in {}", pages.len(), folder.display()));
    Ok(ExitCode::SUCCESS)
}

/// One page for the command and one for every verb, with their names.
fn pages() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let command = metaneff_cli::command();
    let mut pages = vec![("metaneff.1".to_owned(), command.clone())];
    for verb in command
        .get_subcommands()
        .filter(|verb| verb.get_name() != "help")
    {
        let name = format!("metaneff-{}", verb.get_name());
        pages.push((format!("{name}.1"), verb.clone().name(name)));
    }
    let pages = pages.into_iter().map(|(name, command)| {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        Ok((name, page))
    });
    pages.collect()
}

#[cfg(test)]
mod tests {
    use super::pages;

    #[test]
    fn every_verb_has_a_page_with_its_options() {
        let pages = pages().unwrap();
        let page = |name: &str| {
            let (_, page) = pages.iter().find(|(found, _)| found == name).unwrap();
            String::from_utf8(page.clone()).unwrap()
        };
        assert!(page("metaneff.1").contains("Exit codes"));
        assert!(page("metaneff-run.1").contains("expect"));
        assert!(page("metaneff-neuronx-cc.1").contains("NEFF"));
        assert_eq!(
            pages.len(),
            metaneff_cli::command().get_subcommands().count() + 1
        );
    }
}
