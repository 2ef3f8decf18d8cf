//! Gives the library its soname and version nodes, and puts a `libnrt.so.1`
//! beside it.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=nodes.map");
    let manifest = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let nodes = Path::new(&manifest).join("nodes.map");
    for argument in [
        "-Wl,-soname,libnrt.so.1".to_owned(),
        format!("-Wl,--version-script={}", nodes.display()),
        // Threads of the library may outlive a consumer's dlclose.
        "-Wl,-z,nodelete".to_owned(),
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    if let Some(profile) = profile_directory() {
        for directory in [profile.join("deps"), profile] {
            link(&directory);
        }
    }
}

/// The folder that cargo puts the library into: it is three levels above
/// `OUT_DIR`.
fn profile_directory() -> Option<PathBuf> {
    let out = PathBuf::from(env::var_os("OUT_DIR")?);
    out.ancestors().nth(3).map(Path::to_path_buf)
}

/// Cargo names the library `libnrt.so`; loaders ask for its soname. The link is
/// made before the library is, and a build never has to renew it.
fn link(directory: &Path) {
    let link = directory.join("libnrt.so.1");
    if fs::symlink_metadata(&link).is_ok() {
        return;
    }
    #[cfg(unix)]
    if let Err(error) = std::os::unix::fs::symlink("libnrt.so", &link) {
        println!("cargo:warning=no {}: {error}", link.display());
    }
}
