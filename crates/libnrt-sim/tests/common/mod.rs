//! What the tests share: the library, models, a C compiler, and programs.

use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use metaneff_schema::neff::{HEADER_SIZE, NeffBuilder, NeffHeader, PackageKind};
use metaneff_schema::xla::{
    HloComputationProto, HloInstructionProto, HloModuleProto, LayoutProto, PrimitiveType,
    ProgramShapeProto, ShapeProto,
};
use prost::Message as _;

/// Names a library that is built already.
const BUILT: &str = "METANEFF_LIBNRT_SIM";

/// Names a folder with the public headers, to compile the programs against too.
const HEADERS: &str = "METANEFF_NRT_HEADERS";

/// The library: cargo builds it along with the tests, into the folder that they
/// are in.
pub(crate) fn library() -> PathBuf {
    if let Some(path) = std::env::var_os(BUILT) {
        return path.into();
    }
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap();
    let candidates = [folder.join("libnrt.so"), folder.join("../libnrt.so")];
    let found = candidates.iter().find(|path| path.is_file());
    found
        .unwrap_or_else(|| panic!("none of {candidates:?} is there, and {BUILT} is not set"))
        .clone()
}

/// A folder with the library under the name that loaders ask for.
pub(crate) fn library_folder() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let library = fs::canonicalize(library()).unwrap();
        for name in ["libnrt.so", "libnrt.so.1"] {
            std::os::unix::fs::symlink(&library, folder.path().join(name)).unwrap();
        }
        folder
    });
    folder.path()
}

fn shape(count: i64) -> ShapeProto {
    ShapeProto {
        element_type: PrimitiveType::F32.into(),
        dimensions: vec![count],
        is_dynamic_dimension: vec![false],
        layout: Some(LayoutProto {
            minor_to_major: vec![0],
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// `input0 OP input1 OP …` over `f32[count]`, in `output0`.
pub(crate) fn hlo(opcode: &str, inputs: i64, count: i64) -> Vec<u8> {
    let first = 1_i64 << 33;
    let mut instructions: Vec<_> = (0..inputs)
        .map(|number| HloInstructionProto {
            name: format!("p{number}"),
            opcode: "parameter".to_owned(),
            shape: Some(shape(count)),
            parameter_number: number,
            id: first + number,
            ..Default::default()
        })
        .collect();
    let operands: Vec<_> = (0..2).map(|n| first + n.min(inputs - 1)).collect();
    instructions.push(HloInstructionProto {
        name: "root".to_owned(),
        opcode: opcode.to_owned(),
        shape: Some(shape(count)),
        operand_ids: operands,
        id: first + inputs,
        ..Default::default()
    });
    let root = first + inputs;
    let program = ProgramShapeProto {
        parameters: (0..inputs).map(|_| shape(count)).collect(),
        parameter_names: (0..inputs).map(|n| format!("p{n}")).collect(),
        result: Some(shape(count)),
    };
    let computation = HloComputationProto {
        name: "main".to_owned(),
        id: 1,
        instructions,
        program_shape: Some(program.clone()),
        root_id: root,
        ..Default::default()
    };
    let module = HloModuleProto {
        name: opcode.to_owned(),
        entry_computation_name: "main".to_owned(),
        entry_computation_id: 1,
        computations: vec![computation],
        host_program_shape: Some(program),
        id: 1,
        ..Default::default()
    };
    module.encode_to_vec()
}

/// A NEFF with the graph in it.
pub(crate) fn neff(hlo: Vec<u8>) -> Vec<u8> {
    NeffBuilder::from_hlo(hlo).unwrap().build().to_vec()
}

/// A NEFF as a compiler makes it: without the graph.
pub(crate) fn bare_neff(hlo: Vec<u8>) -> Vec<u8> {
    let builder = NeffBuilder::from_hlo(hlo).unwrap();
    let whole = builder.package(PackageKind::Tar).build();
    let mut header = NeffHeader::read(&whole).unwrap();
    let mut members = tar::Builder::new(Vec::new());
    for member in tar::Archive::new(&whole[HEADER_SIZE..]).entries().unwrap() {
        let mut member = member.unwrap();
        let path = member.path().unwrap().into_owned();
        if path.extension().is_some_and(|extension| extension == "pb") {
            continue;
        }
        let mut entry = member.header().clone();
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).unwrap();
        members
            .append_data(&mut entry, path, bytes.as_slice())
            .unwrap();
    }
    let data = members.into_inner().unwrap();
    header.data_size = u64::try_from(data.len()).unwrap();
    [header.to_bytes().as_slice(), &data].concat()
}

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checker {
    /// As it is.
    Plain,
    /// Compiled with the address and leak sanitizers.
    Sanitizer,
    /// Under valgrind.
    Valgrind,
}

/// The C compiler of the machine.
fn compiler() -> OsString {
    std::env::var_os("CC").unwrap_or_else(|| "cc".into())
}

fn works(command: &mut Command) -> bool {
    let quiet = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .stdin(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

impl Checker {
    /// Why it cannot be used on this machine, if it cannot.
    pub(crate) fn missing(self) -> Option<String> {
        match self {
            Self::Plain => None,
            Self::Sanitizer => {
                static WORKS: OnceLock<bool> = OnceLock::new();
                let works = *WORKS.get_or_init(|| {
                    let folder = tempfile::tempdir().unwrap();
                    let source = folder.path().join("empty.c");
                    fs::write(&source, "int main(void) { return 0; }").unwrap();
                    let program = folder.path().join("empty");
                    let mut compile = Command::new(compiler());
                    compile
                        .arg("-fsanitize=address")
                        .arg(&source)
                        .arg("-o")
                        .arg(&program);
                    works(&mut compile) && works(&mut Command::new(&program))
                });
                (!works).then(|| "the compiler has no address sanitizer".to_owned())
            }
            Self::Valgrind => {
                let works = works(Command::new("valgrind").arg("--version"));
                (!works).then(|| "there is no valgrind".to_owned())
            }
        }
    }
}

/// A program of `tests/c`.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    checker: Checker,
    folder: tempfile::TempDir,
}

impl Program {
    /// Compiles `tests/c/NAME.c`, against the declarations beside it or against
    /// the public headers in `headers`.
    pub(crate) fn compile(name: &str, checker: Checker, headers: Option<&Path>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
        let mut compile = Command::new(compiler());
        compile.args(["-std=gnu11", "-g", "-Wall", "-Werror", "-O1", "-pthread"]);
        if checker == Checker::Sanitizer {
            compile.args(["-fsanitize=address", "-fno-omit-frame-pointer"]);
        }
        if let Some(headers) = headers {
            compile.arg("-DPUBLIC_HEADERS").arg("-isystem").arg(headers);
        }
        compile.arg(sources.join(format!("{name}.c")));
        compile.arg("-o").arg(&path);
        compile
            .arg("-L")
            .arg(library_folder())
            .arg("-lnrt")
            .arg("-ldl")
            .arg("-lm");
        let output = compile.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} does not compile:\n{text}");
        Self {
            path,
            checker,
            folder,
        }
    }

    /// A folder for what the program reads and writes: it is run there.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The command that runs the program.
    pub(crate) fn command(&self) -> Command {
        let mut command = match self.checker {
            Checker::Plain | Checker::Sanitizer => Command::new(&self.path),
            Checker::Valgrind => {
                let mut command = Command::new("valgrind");
                command.args(["--quiet", "--error-exitcode=99", "--leak-check=full"]);
                command.args(["--errors-for-leak-kinds=definite", "--fair-sched=yes"]);
                command.arg(&self.path);
                command
            }
        };
        clean(&mut command);
        command.current_dir(self.folder());
        command.env("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0");
        if self.checker != Checker::Plain {
            command.env("SLOW", "1");
        }
        command
    }
}

/// Takes the variables of this process away that change what the library does,
/// and leads the loader to the library.
pub(crate) fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("NEURON_") || text.starts_with("METANEFF_SIM_") {
            command.env_remove(&name);
        }
    }
    command.env("LD_LIBRARY_PATH", library_folder());
}

/// Runs the program and fails unless it exits with 0.
pub(crate) fn expect(name: &str, command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{name}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// The folder of the public headers, if there is one.
pub(crate) fn headers() -> Option<PathBuf> {
    std::env::var_os(HEADERS).map(PathBuf::from)
}

/// Says why something is not tested.
pub(crate) fn skip(what: &str, reason: &str) {
    eprintln!("skipped {what}: {reason}");
}
