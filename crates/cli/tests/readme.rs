//! The README shows what `metaneff inspect` and `metaneff check` print.

use std::path::Path;
use std::process::Command;

/// Commands of the README's console blocks, each with the lines below it.
fn shown(readme: &str) -> Vec<(Vec<&str>, String)> {
    let mut found: Vec<(Vec<&str>, String)> = Vec::new();
    let mut inside = false;
    let mut taken = false;
    for line in readme.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
            taken = false;
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            let words: Vec<_> = command.split_whitespace().collect();
            taken = matches!(words[..], ["metaneff", "inspect" | "check", ..]);
            if taken {
                found.push((words, String::new()));
            }
        } else if let Some((_, text)) = found.last_mut().filter(|_| taken) {
            text.push_str(line);
            text.push('\n');
        }
    }
    found
}

/// Whether a text is what is shown, where `…` stands for anything.
fn is_shown(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('…') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<_> = rest.split('…').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match text.split_once(part) {
            Some((_, after)) => text = after,
            None => return false,
        }
    }
    text.ends_with(last)
}

#[test]
fn the_readme_shows_what_the_command_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let shown = shown(&readme);
    for verb in ["inspect", "check"] {
        assert!(shown.iter().any(|(words, _)| words[1] == verb), "{verb}");
    }
    for (words, expected) in shown {
        let output = Command::new(env!("CARGO_BIN_EXE_metaneff"))
            .current_dir(&root)
            .args(&words[1..])
            .output()
            .unwrap();
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8(printed).unwrap();
        assert!(
            is_shown(&expected, &printed),
            "{words:?} prints\n{printed}\nand the README shows\n{expected}"
        );
    }
}

#[test]
fn what_is_elided_may_be_anything_and_the_rest_not() {
    for (pattern, text, same) in [
        ("a\n", "a\n", true),
        ("a\n", "a\nb\n", false),
        ("a\n…\nc\n", "a\nb\nb\nc\n", true),
        ("a\n…\nc\n", "a\nb\nb\nd\n", false),
        ("a\n…\nc\n…\nd\n", "a\nb\nc\nb\nd\n", true),
        ("a\n…\nc\n…\nd\n", "a\nb\nb\nd\n", false),
        ("a\n…\n", "a\nb\nc\n", true),
        ("…\nc\n", "a\nb\nc\n", true),
    ] {
        assert_eq!(is_shown(pattern, text), same, "{pattern:?} {text:?}");
    }
}
