//! `metaneff neuronx-cc`: a stand-in for the compiler.
//!
//! Front ends call `neuronx-cc compile` and load the NEFF that appears. The
//! stand-in takes the same command line, verifies the module as a compiler would
//! and packs it into a NEFF that the simulator executes and no device can. With it
//! on the `PATH`, a front end's own tests run without AWS's compiler.
//!
//! The command line is that of the public compiler reference and of the public
//! front ends; what AWS's compiler itself prints is not imitated beyond the last
//! line, `Compiler status PASS` or `Compiler status ERROR`.

mod listing;
mod options;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use metaneff_hlo::error::Site;
use metaneff_hlo::{Module, OPCODES, VerifyError};
use metaneff_schema::decode_hlo;
use metaneff_schema::neff::NeffBuilder;
use metaneff_schema::xla::HloModuleProto;
use serde_json::json;

use crate::Outcome;
use crate::console::Console;
use crate::exit::{Exit, Failure, chain};
use crate::files;

use options::{Compile, Request};

const HELP: &str = "\
A stand-in for neuronx-cc: packs an HLO module into a NEFF for metaneff's simulator.
A NEFF made so cannot run on a device.

Usage: neuronx-cc compile [OPTIONS] <HLO>
       neuronx-cc list-operators
       neuronx-cc --version

<HLO> is an HloModuleProto (or HloProto), plain or compressed with gzip.

Options that mean something here:
  --output, -o <FILE>       the NEFF to write [default: file.neff]
  --framework XLA           the only one
  --target <ARCH>           inf2, trn1, trn1n, trn2, trn2n, trn3; checked, the NEFF fits all
  --lnc, --logical-nc-config <1|2>
                            physical cores that make a core [default: 1]
  --pipeline <STEP>...      compile: write the NEFF [default]; tensorize: no NEFF;
                            SaveTemps and others change nothing
  --tensorizer-options=--print-nki
                            with --pipeline tensorize: list the module in nki.py

Every other documented option is taken and changes nothing. An unknown one is
taken with a warning.

Exit codes: 0 compiled, 1 the module does not compile, 2 usage, 3 a file that cannot be
read or written.
";

/// Runs neuronx-cc's command line, without the program's name.
pub(crate) fn run(console: &Console, arguments: &[OsString]) -> Outcome {
    let request = options::parse(arguments).map_err(Failure::Usage)?;
    match request {
        Request::Help => console.say(HELP)?,
        Request::Version => console.say(&format!(
            "NeuronX Compiler version {version}+metaneff\n\
             stand-in of metaneff {version}: packs HLO modules for the simulator, compiles nothing",
            version = env!("CARGO_PKG_VERSION")
        ))?,
        Request::ListOperators => {
            let names: Vec<_> = OPCODES.iter().map(|opcode| opcode.name).collect();
            if console.json() {
                console.document(&json!({ "operators": names }))?;
            } else {
                console.say(&names.join("\n"))?;
            }
        }
        Request::Compile(request) => return compile(console, &request),
    }
    Ok(Exit::Fine)
}

fn compile(console: &Console, request: &Compile) -> Outcome {
    for warning in &request.warnings {
        console.note(&format!("warning: {warning}"));
    }
    let graph = files::read_hlo(&request.input)?;
    let error = |text: &str| {
        console.note(text);
        if console.json() {
            console.document(&json!({ "status": "ERROR", "message": text }))?;
        } else {
            console.say("Compiler status ERROR")?;
        }
        Ok(Exit::Finding)
    };
    let mut written = None;
    let mut contents = Vec::new();
    let proto = match decode_hlo(graph.clone()) {
        Ok(proto) => proto,
        Err(cause) => return Err(Failure::file(&request.input, &cause)),
    };
    let module = match Module::verify(&proto) {
        Ok(module) => module,
        Err(cause) => return error(&diagnostic(&request.input, &proto, &cause)),
    };
    if request.has_step("tensorize") && request.tensorizer_options.contains("--print-nki") {
        let text = listing::listing(&module);
        contents.push((PathBuf::from("nki.py"), Bytes::from(text)));
    }
    if request.has_step("compile") {
        let builder = match NeffBuilder::from_hlo(graph) {
            Ok(builder) => builder,
            Err(cause) => {
                let file = request.input.display();
                return error(&format!("{file}: error: {}", chain(&cause)));
            }
        };
        let neff = builder.cores(1, request.logical_core_size).build();
        let output = request.output.clone();
        let output = output.unwrap_or_else(|| PathBuf::from("file.neff"));
        written = Some(output.display().to_string());
        contents.push((output, neff));
    }
    files::write_all(&contents)?;
    if console.json() {
        console.document(&json!({ "status": "PASS", "neff": written }))?;
    } else {
        console.say("Compiler status PASS")?;
    }
    Ok(Exit::Fine)
}

/// A compiler's message: the line of the program that the instruction comes
/// from, where the module says so, else the module's file.
fn diagnostic(input: &Path, proto: &HloModuleProto, error: &VerifyError) -> String {
    let file = input.display();
    let VerifyError::Instruction { site, .. } = error else {
        return format!("{file}: error: {}", chain(error));
    };
    let Some((source, line)) = source_of(proto, site) else {
        return format!("{file}: error: {}", chain(error));
    };
    let mut text = format!("{}:{line}: error: {}", source.escape_debug(), chain(error));
    let _ = write!(text, "\n{file}: note: in this module");
    text
}

/// The line of the front end's program that an instruction stands for.
fn source_of<'a>(proto: &'a HloModuleProto, site: &Site) -> Option<(&'a str, i32)> {
    let computation = proto
        .computations
        .iter()
        .find(|computation| computation.name == site.computation)?;
    let instruction = computation
        .instructions
        .iter()
        .find(|instruction| instruction.name == site.instruction)?;
    let metadata = instruction.metadata.as_ref()?;
    (!metadata.source_file.is_empty()).then_some((&*metadata.source_file, metadata.source_line))
}
