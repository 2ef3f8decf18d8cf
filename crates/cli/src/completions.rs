//! `metaneff completions`: what a shell completes.

use clap_complete::Shell;
use serde_json::json;

use crate::Outcome;
use crate::console::Console;
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  metaneff completions bash > ~/.local/share/bash-completion/completions/metaneff
  metaneff completions zsh > ~/.zfunc/_metaneff
  metaneff completions fish > ~/.config/fish/completions/metaneff.fish";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(console: &Console, args: &Args) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "metaneff", &mut script);
    let script = String::from_utf8_lossy(&script);
    if console.json() {
        console.document(&json!({ "shell": args.shell.to_string(), "script": script }))?;
    } else {
        console.say(&script)?;
    }
    Ok(Exit::Fine)
}
