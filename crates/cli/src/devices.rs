//! `metaneff devices`: what the chosen library or the simulator sees.

use std::path::Path;

use metaneff_backend_nrt::{Devices, NrtLibrary, NrtOptions};
use metaneff_binding::{AnyBackend, Core, MemoryStats, Runtime};
use serde_json::{Value, json};

use crate::Outcome;
use crate::backend::{BackendArgs, Choice};
use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::text::{pairs, plural, size, table};

const EXAMPLES: &str = "\
Examples:
  metaneff devices
  metaneff devices --instance trn2.48xlarge
  metaneff devices --backend nrt --lib /opt/aws/neuron/lib/libnrt.so.1";

/// Cores whose memory is listed.
const LISTED: u32 = 256;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    backend: BackendArgs,
}

pub(crate) fn run(console: &Console, args: &Args) -> Outcome {
    let nodes = Devices::scan("/");
    let library = match args.backend.backend {
        Choice::Sim => None,
        Choice::Nrt => Some(library(args)?),
    };
    let runtime = Runtime::new(args.backend.open()?);
    let info = runtime.info();
    let cores: Vec<_> = (0..info.visible_cores.min(LISTED))
        .map(|index| (index, memory(&runtime, index)))
        .collect();
    if console.json() {
        console.document(&json!({
            "backend": info.name,
            "device": info.device,
            "instance": info.instance,
            "version": info.version,
            "location": info.location,
            "visible_cores": info.visible_cores,
            "total_cores": info.total_cores,
            "cores": cores.iter().map(|(index, memory)| json!({
                "core": index,
                "memory_used": memory.as_ref().map(|memory| memory.used),
                "memory_limit": memory.as_ref().map(|memory| memory.limit),
            })).collect::<Vec<_>>(),
            "device_nodes": nodes.nodes().len(),
            "library": library.map(|library| library.document),
        }))?;
        return Ok(Exit::Fine);
    }
    let mut rows = vec![
        ("backend", info.name.to_owned()),
        ("instance", info.instance.clone()),
        ("version", info.version.clone()),
        ("at", info.location.clone()),
        (
            "cores",
            format!("{} of {} visible", info.visible_cores, info.total_cores),
        ),
        ("/dev/neuron*", plural(nodes.nodes().len(), "node")),
    ];
    if let Some(library) = library {
        rows.extend(library.lines);
    }
    let mut text = pairs(&rows);
    let mut cells = table(&["#core", "#memory used", "#of"]);
    for (index, memory) in &cores {
        let (used, limit) = match memory {
            Some(memory) => (size(memory.used), size(memory.limit)),
            None => ("not told".to_owned(), String::new()),
        };
        cells.add_row([index.to_string(), used, limit]);
    }
    text.push_str(&format!("{cells}\n"));
    console.say(&text)?;
    Ok(Exit::Fine)
}

fn memory(runtime: &Runtime<AnyBackend>, core: u32) -> Option<MemoryStats> {
    runtime.memory_stats(Core::new(core)).ok()
}

/// What the library says of itself.
struct Library {
    document: Value,
    lines: Vec<(&'static str, String)>,
}

fn library(args: &Args) -> Result<Library, Failure> {
    let mut options = NrtOptions::new();
    if let Some(path) = args.backend.library() {
        options = options.library(path);
    }
    let library = NrtLibrary::open(&options).map_err(|error| Failure::backend(&error))?;
    let missing = library.missing_functions();
    let version = library.version().map(|version| {
        json!({
            "number": version.to_string(),
            "detail": version.detail,
            "git_hash": version.git_hash,
        })
    });
    let lines = vec![
        ("library", display(Path::new(library.path()))),
        (
            "functions",
            match missing.as_slice() {
                [] => "all found".to_owned(),
                missing => format!("missing {}", missing.join(", ")),
            },
        ),
        ("async", plural(library.async_functions().len(), "function")),
    ];
    let document = json!({
        "path": library.path(),
        "version": version,
        "missing_functions": missing,
        "async_functions": library.async_functions(),
    });
    Ok(Library { document, lines })
}

fn display(path: &Path) -> String {
    path.display().to_string()
}
