//! neuronx-cc's command line, as front ends write it.
//!
//! Options take their values after a blank or after `=`; `--pipeline` takes every
//! word up to the next option. What is not known here is tolerated, with a
//! warning: a newer front end's switch seldom matters to a module's meaning.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// How many values an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arity {
    Flag,
    One,
    Many,
}

/// The documented options and those that public front ends pass.
const OPTIONS: &[(&str, Arity)] = &[
    ("--auto-cast", Arity::One),
    ("--auto-cast-type", Arity::One),
    ("--cache_dir", Arity::One),
    ("--distribution-strategy", Arity::One),
    ("--enable-experimental-O1", Arity::Flag),
    ("--enable-experimental-spmd", Arity::Flag),
    ("--enable-fast-context-switch", Arity::Flag),
    ("--enable-fast-loading-neuron-binaries", Arity::Flag),
    ("--enable-mixed-precision-accumulation", Arity::Flag),
    ("--enable-saturate-infinity", Arity::Flag),
    ("--execute-repetition", Arity::One),
    ("--fp32-cast", Arity::One),
    ("--framework", Arity::One),
    ("--hbm-scratchpad-page-size", Arity::One),
    ("--hlo2tensorizer-options", Arity::One),
    ("--internal-hlo2tensorizer-options", Arity::One),
    ("--lnc", Arity::One),
    ("--logfile", Arity::One),
    ("--logfile-verbose", Arity::One),
    ("--logical-nc-config", Arity::One),
    ("--model-type", Arity::One),
    ("--num-neuroncores", Arity::One),
    ("--optlevel", Arity::One),
    ("--output", Arity::One),
    ("--pipeline", Arity::Many),
    ("--retry_failed_compilation", Arity::Flag),
    ("--target", Arity::One),
    ("--tensorizer-options", Arity::One),
    ("--verbose", Arity::One),
    ("--workdir", Arity::One),
    ("-O", Arity::One),
    ("-o", Arity::One),
    ("-v", Arity::One),
];

/// Architectures that `--target` knows.
const TARGETS: &[&str] = &["inf2", "trn1", "trn1n", "trn2", "trn2n", "trn3"];

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Help,
    Version,
    ListOperators,
    Compile(Compile),
}

/// One compilation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Compile {
    pub(super) input: PathBuf,
    pub(super) output: Option<PathBuf>,
    /// Steps of `--pipeline`; empty means `compile`.
    pub(super) pipeline: Vec<String>,
    pub(super) tensorizer_options: String,
    pub(super) logical_core_size: u32,
    /// What was tolerated.
    pub(super) warnings: Vec<String>,
}

impl Compile {
    /// Whether the pipeline has a step; none given means `compile` alone.
    pub(super) fn has_step(&self, name: &str) -> bool {
        if self.pipeline.is_empty() {
            return name == "compile";
        }
        self.pipeline.iter().any(|step| step == name)
    }
}

/// Reads a command line without the program's name. The error is a sentence for
/// the user.
pub(super) fn parse(arguments: &[OsString]) -> Result<Request, String> {
    let mut words = arguments.iter().map(|word| word.to_string_lossy());
    match words.next().as_deref() {
        None => return Err("a verb is missing: compile or list-operators".to_owned()),
        Some("--version" | "-V") => return Ok(Request::Version),
        Some("--help" | "-h") => return Ok(Request::Help),
        Some("list-operators") => return Ok(Request::ListOperators),
        Some("compile") => {}
        Some(other) => {
            return Err(format!(
                "unknown verb `{other}`: expected compile or list-operators"
            ));
        }
    }
    compile(&arguments[1..])
}

fn compile(arguments: &[OsString]) -> Result<Request, String> {
    let mut request = Compile {
        logical_core_size: 1,
        ..Compile::default()
    };
    let mut input: Option<PathBuf> = None;
    let mut rest = arguments;
    while let Some((word, tail)) = rest.split_first() {
        rest = tail;
        let text = word.to_string_lossy();
        if !text.starts_with('-') || text == "-" {
            let path = PathBuf::from(word);
            if let Some(first) = &input {
                return Err(format!(
                    "two input files: `{}` and `{}`",
                    first.display(),
                    path.display()
                ));
            }
            input = Some(path);
            continue;
        }
        if matches!(&*text, "--help" | "-h") {
            return Ok(Request::Help);
        }
        let (name, mut values) = split(&text);
        let arity = OPTIONS.iter().find(|(known, _)| *known == name);
        match arity.map(|(_, arity)| *arity) {
            Some(Arity::Flag) => {}
            Some(Arity::One) => {
                if values.is_empty() {
                    let Some((value, tail)) = rest.split_first() else {
                        return Err(format!("option `{name}` needs a value"));
                    };
                    values.push(value.to_string_lossy().into_owned());
                    rest = tail;
                }
            }
            Some(Arity::Many) => {
                while let Some((value, tail)) = rest.split_first()
                    && !value.to_string_lossy().starts_with('-')
                {
                    values.push(value.to_string_lossy().into_owned());
                    rest = tail;
                }
            }
            None => {
                request
                    .warnings
                    .push(format!("option `{name}` is unknown and ignored"));
                // A word after it is its value, unless it is there as a file.
                if values.is_empty()
                    && let Some((value, tail)) = rest.split_first()
                    && !value.to_string_lossy().starts_with('-')
                    && (input.is_some() || !Path::new(value).exists())
                    && !tail.is_empty()
                {
                    rest = tail;
                }
                continue;
            }
        }
        request.apply(&name, values)?;
    }
    request.input = input.ok_or("the input file is missing: the path of an HLO module")?;
    Ok(Request::Compile(request))
}

/// The name of an option and the value that stands in the same word.
fn split(word: &str) -> (String, Vec<String>) {
    if let Some((name, value)) = word.split_once('=') {
        return (name.to_owned(), vec![value.to_owned()]);
    }
    // -O1, -v35
    if !word.starts_with("--") && word.len() > 2 && word.is_char_boundary(2) {
        return (word[..2].to_owned(), vec![word[2..].to_owned()]);
    }
    (word.to_owned(), Vec::new())
}

impl Compile {
    fn apply(&mut self, name: &str, mut values: Vec<String>) -> Result<(), String> {
        let value = values.first().cloned().unwrap_or_default();
        match name {
            "--framework" if !value.eq_ignore_ascii_case("xla") => {
                return Err(format!(
                    "framework `{value}` is not supported: expected XLA"
                ));
            }
            "--target" if !TARGETS.contains(&value.as_str()) => {
                return Err(format!(
                    "target `{value}` is unknown: expected one of {}",
                    TARGETS.join(", ")
                ));
            }
            "--lnc" | "--logical-nc-config" => {
                self.logical_core_size = match value.as_str() {
                    "1" => 1,
                    "2" => 2,
                    _ => return Err(format!("`{name} {value}`: expected 1 or 2")),
                };
            }
            "--output" | "-o" => {
                if value.is_empty() {
                    return Err(format!("option `{name}` needs a file name"));
                }
                self.output = Some(value.into());
            }
            "--pipeline" => self.pipeline.append(&mut values),
            "--tensorizer-options" => {
                self.tensorizer_options.push(' ');
                self.tensorizer_options.push_str(&value);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        super::parse(&words)
    }

    fn compiled(line: &str) -> Compile {
        match parse(line) {
            Ok(Request::Compile(compile)) => compile,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_front_ends_line_is_understood() {
        let request = compiled(
            "compile --framework XLA w/hlo_module.pb --pipeline compile SaveTemps --target trn2 \
             --output=file.neff --lnc 1 --internal-tensorizer-opt-level=2",
        );
        assert_eq!(request.input, Path::new("w/hlo_module.pb"));
        assert_eq!(request.output.as_deref(), Some(Path::new("file.neff")));
        assert_eq!(request.pipeline, ["compile", "SaveTemps"]);
        assert_eq!(request.logical_core_size, 1);
        let unknown = "option `--internal-tensorizer-opt-level` is unknown and ignored";
        assert_eq!(request.warnings, [unknown]);
    }

    #[test]
    fn both_spellings_and_short_options_are_understood() {
        let request = compiled(
            "compile --target=trn1 --framework=XLA m.pb --output m.neff -O1 --verbose=35 \
             --model-type transformer --enable-fast-loading-neuron-binaries --lnc=2",
        );
        assert_eq!(request.input, Path::new("m.pb"));
        assert_eq!(request.output.as_deref(), Some(Path::new("m.neff")));
        assert_eq!(request.logical_core_size, 2);
        assert!(request.warnings.is_empty() && request.has_step("compile"));
    }

    #[test]
    fn an_unknown_options_value_is_no_input() {
        let request = compiled("compile --new-switch value m.pb -o m.neff");
        assert_eq!(request.input, Path::new("m.pb"));
        let request = compiled("compile --new-flag m.pb");
        assert_eq!(request.input, Path::new("m.pb"));
    }

    #[test]
    fn lines_that_mean_nothing_are_refused() {
        for (line, part) in [
            ("", "verb is missing"),
            ("link m.pb", "unknown verb `link`"),
            ("compile", "input file is missing"),
            ("compile a.pb b.pb", "two input files: `a.pb` and `b.pb`"),
            ("compile a.pb --output", "`--output` needs a value"),
            ("compile a.pb --output=", "needs a file name"),
            ("compile a.pb --framework TENSORFLOW", "expected XLA"),
            ("compile a.pb --target gpu", "trn1, trn1n, trn2"),
            ("compile a.pb --lnc 3", "expected 1 or 2"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
