//! Makes launches over the stub library, for instructions to be counted.
//!
//! ```console
//! $ valgrind --tool=callgrind launches --lib PATH --route sdk --slots 8 --mode unchanged --launches 1000
//! ```
//!
//! `cargo xtask perf` takes the difference between two numbers of launches, in
//! which everything outside of a launch cancels.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use metaneff_backend_nrt::{Nrt, NrtOptions};
use metaneff_benches::{Raw, Sdk, Slots, options, wide};
use metaneff_binding::{AnyBackend, Backend, Runtime};

/// Twice what an execution asks for.
const STACK: usize = 32 << 20;

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Route {
    /// The C calls, by hand.
    Raw,
    /// A session over libnrt.
    Sdk,
    /// A session over a backend that is chosen at run time.
    Dyn,
}

#[derive(Debug, Parser)]
#[command(about = "Makes launches over a library, for instructions to be counted")]
struct Args {
    /// A libnrt whose calls do nothing.
    #[arg(long)]
    lib: PathBuf,
    #[arg(long, value_enum)]
    route: Route,
    /// Inputs of the model: 1, 8 or 128.
    #[arg(long)]
    slots: usize,
    #[arg(long, value_enum)]
    mode: Slots,
    #[arg(long)]
    launches: u32,
}

fn main() -> ExitCode {
    let args = Args::parse();
    // Executions run on the caller's stack where it is deep enough, which is what
    // threads that execute often should have.
    let thread = std::thread::Builder::new().stack_size(STACK);
    let outcome = thread.spawn(move || run(&args).map_err(|error| error.to_string()));
    let outcome = outcome
        .map_err(|error| error.to_string())
        .and_then(|thread| thread.join().unwrap_or_else(|_| Err("panicked".to_owned())));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format_args!("launches: {error}\n");
            let _ = std::io::Write::write_fmt(&mut std::io::stderr(), text);
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Outcome {
    let open = || Nrt::open(&NrtOptions::new().library(&args.lib));
    match args.route {
        Route::Raw => {
            // SAFETY: the caller named a libnrt; nothing else initialises it here.
            let mut raw = unsafe { Raw::new(&args.lib, &[], args.slots) }?;
            for _ in 0..args.launches {
                match args.mode {
                    Slots::Unchanged => raw.unchanged()?,
                    Slots::Rewritten => raw.rewritten()?,
                }
            }
            Ok(())
        }
        Route::Sdk => session(open()?, args),
        Route::Dyn => session(AnyBackend::new(open()?), args),
    }
}

fn session<B: Backend>(backend: B, args: &Args) -> Outcome {
    match args.slots {
        1 => launches::<B, 1>(backend, args),
        8 => launches::<B, 8>(backend, args),
        128 => launches::<B, 128>(backend, args),
        other => Err(format!("{other} slots, expected 1, 8 or 128").into()),
    }
}

fn launches<B: Backend, const N: usize>(backend: B, args: &Args) -> Outcome {
    let runtime = Runtime::new(backend);
    let model = runtime.load_with(&wide(N)?, &options())?;
    let mut sdk = Sdk::<B, N>::new(&model)?;
    for _ in 0..args.launches {
        match args.mode {
            Slots::Unchanged => sdk.unchanged()?,
            Slots::Rewritten => sdk.rewritten()?,
        }
    }
    Ok(())
}
