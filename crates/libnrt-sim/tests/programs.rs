//! C programs over the library: one for each group of functions, compiled with
//! the machine's compiler, run as they are and under checkers of memory.

#![expect(
    clippy::unwrap_used,
    reason = "a failure is the test's answer, in helpers too"
)]

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Checker, Program, expect, skip};

/// Where the models are that the programs load.
fn models(folder: &Path) {
    for (name, opcode) in [("add", "add"), ("divide", "divide")] {
        let neff = common::neff(common::hlo(opcode, 2, 4));
        fs::write(folder.join(format!("{name}.neff")), neff).unwrap();
    }
}

/// Runs a program, which reports its failures itself, with these variables.
fn run(name: &str, checker: Checker, variables: &[(&str, &str)]) {
    if let Some(reason) = checker.missing() {
        skip(&format!("{name} ({checker:?})"), &reason);
        return;
    }
    let program = Program::compile(name, checker, None);
    models(program.folder());
    let mut command = program.command();
    expect(name, command.envs(variables.iter().copied()));
    if let (Checker::Plain, Some(headers)) = (checker, common::headers()) {
        let program = Program::compile(name, checker, Some(&headers));
        models(program.folder());
        let mut command = program.command();
        expect(name, command.envs(variables.iter().copied()));
    }
}

macro_rules! programs {
    ($($name:ident $(($($variable:literal = $value:literal),+))?;)+) => {
        mod plain {
            $(#[test] fn $name() {
                super::run(stringify!($name), super::Checker::Plain, &[$($(($variable, $value)),+)?]);
            })+
        }

        mod sanitizer {
            $(#[test] fn $name() {
                super::run(
                    stringify!($name), super::Checker::Sanitizer, &[$($(($variable, $value)),+)?],
                );
            })+
        }

        mod valgrind {
            $(#[test] fn $name() {
                super::run(
                    stringify!($name), super::Checker::Valgrind, &[$($(($variable, $value)),+)?],
                );
            })+
        }
    };
}

programs! {
    lifecycle;
    tensors;
    models;
    asynchronous;
    implicit("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS" = "4");
    collectives("METANEFF_SIM_TIMEOUT" = "3s");
    sendrecv;
    traces;
    debug_stream;
    threads;
    cycles;
    frees;
    consumer;
    faults;
}

/// Without headers there is nothing to compile against; the test says so.
#[test]
fn the_public_headers_agree_with_our_declarations() {
    if common::headers().is_none() {
        skip(
            "the public headers",
            "METANEFF_NRT_HEADERS names no folder with them",
        );
    }
}

#[test]
fn the_guide_s_program_writes_its_output_to_a_file() {
    let headers = common::headers();
    for headers in [None, headers.as_deref()] {
        let program = Program::compile("guide", Checker::Plain, headers);
        models(program.folder());
        let bytes = |values: [f32; 4]| values.map(f32::to_ne_bytes).concat();
        fs::write(program.folder().join("a.bin"), bytes([1.0, 2.0, 3.0, 4.0])).unwrap();
        fs::write(program.folder().join("b.bin"), bytes([0.5, -2.0, 0.0, 1e9])).unwrap();
        let mut command = program.command();
        let arguments = ["add.neff", "input0", "a.bin", "input1", "b.bin"];
        expect("guide", command.args(arguments));
        let output = fs::read(program.folder().join("output0.out")).unwrap();
        assert_eq!(output, bytes([1.5, 0.0, 3.0, 1e9 + 4.0]));
        let output = program.command().args(&arguments[..3]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn a_core_has_one_owner_among_processes() {
    let program = Program::compile("owner", Checker::Plain, None);
    let locks = program.folder().join("locks");
    let start = |variables: &[(&str, &str)]| {
        let mut command = program.command();
        command
            .env("METANEFF_SIM_LOCK_DIR", &locks)
            .envs(variables.iter().copied());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        (child, said.trim().to_owned())
    };
    // Closes the standard input, which ends it, and gives what it logged.
    let end = |mut child: std::process::Child| {
        drop(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let (first, said) = start(&[("NEURON_RT_NUM_CORES", "1")]);
    assert_eq!(said, "0 1");
    let pid = first.id();
    // All cores are asked for, and the first is taken.
    let (second, said) = start(&[]);
    assert_eq!(said.split(' ').next(), Some("1005"));
    let log = end(second);
    assert!(
        log.contains(&format!("core 0 of the instance is owned by process {pid}")),
        "{log}"
    );
    // A number of cores finds free ones.
    let (third, said) = start(&[("NEURON_RT_NUM_CORES", "1")]);
    assert_eq!(said, "0 1");
    let (fourth, said) = start(&[("NEURON_RT_VISIBLE_CORES", "1")]);
    assert_eq!(said.split(' ').next(), Some("1005"));
    let log = end(fourth);
    assert!(
        log.contains(&format!("owned by process {}", third.id())),
        "{log}"
    );
    assert_eq!(fs::read_dir(&locks).unwrap().count(), 2);
    end(first);
    // A process that is killed owns nothing.
    let mut third = third;
    third.kill().unwrap();
    third.wait().unwrap();
    let (last, said) = start(&[]);
    assert_eq!(said, "0 2");
    end(last);
}

#[test]
fn a_stack_that_is_touched_must_be_there() {
    let program = Program::compile("stack", Checker::Plain, None);
    models(program.folder());
    let touched = |kib: &str, bytes: &str| {
        let mut command = program.command();
        let output = command
            .arg(kib)
            .env("METANEFF_SIM_TOUCH_STACK", bytes)
            .output()
            .unwrap();
        output.status.success()
    };
    // What the runtime is known to put on its caller's stack.
    assert!(touched("8192", "4194016"));
    assert!(!touched("2048", "4194016"));
    assert!(touched("64", "0"));
}

#[test]
fn a_graph_is_found_in_a_compile_cache() {
    let program = Program::compile("models", Checker::Plain, None);
    let hlo = common::hlo("add", 2, 4);
    let bare = common::bare_neff(hlo.clone());
    fs::write(program.folder().join("add.neff"), &bare).unwrap();
    let divide = common::neff(common::hlo("divide", 2, 4));
    fs::write(program.folder().join("divide.neff"), divide).unwrap();
    let cache = program
        .folder()
        .join("cache/neuronxcc-2.21/MODULE_123+d41d8cd9");
    fs::create_dir_all(&cache).unwrap();
    let search = |command: &mut Command| {
        let root = program.folder().join("cache");
        command
            .env("METANEFF_SIM_GRAPH_PATH", root)
            .output()
            .unwrap()
    };
    let output = program.command().output().unwrap();
    assert!(!output.status.success());
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("METANEFF_SIM_GRAPH_PATH is not set"), "{log}");
    fs::write(cache.join("model.neff"), &bare).unwrap();
    fs::write(cache.join("model.done"), "").unwrap();
    let output = search(&mut program.command());
    let log = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = log
        .lines()
        .filter(|line| line.contains("looked for"))
        .collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(
        lines[0].contains("MODULE_123+d41d8cd9/model.neff is the same"),
        "{log}"
    );
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&hlo).unwrap();
    fs::write(
        cache.join("model.hlo_module.pb.gz"),
        packed.finish().unwrap(),
    )
    .unwrap();
    let output = search(&mut program.command());
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{log}");
}

#[test]
fn a_python_client_runs() {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    if Command::new(&python).arg("--version").output().is_err() {
        skip("the Python client", "there is no Python");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    models(folder.path());
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/client.py");
    let mut command = Command::new(python);
    common::clean(&mut command);
    command.arg("-B").arg(client).current_dir(folder.path());
    expect("client.py", &mut command);
}
