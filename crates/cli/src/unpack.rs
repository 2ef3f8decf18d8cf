//! `metaneff unpack`: a NEFF becomes a folder.

use std::fs;
use std::path::{Component, Path, PathBuf};

use metaneff_schema::neff::{HEADER_SIZE, Neff, NeffError, ParseOptions};
use serde_json::json;

use crate::Outcome;
use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::files;
use crate::text::{plural, shown, size};

const EXAMPLES: &str = "\
Examples:
  metaneff unpack model.neff
  metaneff unpack model.neff folder

The folder has every member under its own name, and the header as `header.bin`. It
appears when it is complete; one that is there already and not empty is refused.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The compiled program.
    neff: PathBuf,
    /// The folder [default: the file's name without its extension].
    folder: Option<PathBuf>,
}

pub(crate) fn run(console: &Console, args: &Args) -> Outcome {
    let bytes = files::read(&args.neff)?;
    let neff = Neff::parse(bytes.clone(), &ParseOptions::default())
        .map_err(|error| Failure::file(&args.neff, &error))?;
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => args.neff.with_extension(""),
    };
    if folder == args.neff {
        return Err(Failure::Usage(format!(
            "`{}` has no extension to leave out, so the folder must be named",
            args.neff.display()
        )));
    }
    let names: Vec<&str> = neff
        .members()
        .iter()
        .map(|member| member.name.as_str())
        .collect();
    for name in &names {
        if !is_plain(name) {
            return Err(Failure::File {
                path: args.neff.clone(),
                reason: format!(
                    "member `{}` would be written outside of the folder",
                    shown(name)
                ),
            });
        }
    }
    let total = write(
        &neff,
        &bytes[..HEADER_SIZE.min(bytes.len())],
        &names,
        &folder,
        args,
    )?;
    if console.json() {
        console.document(&json!({
            "folder": folder.display().to_string(),
            "members": names,
            "size": total,
        }))?;
        return Ok(Exit::Fine);
    }
    console.say(&format!(
        "{}: {}, {}",
        folder.display(),
        plural(names.len(), "member"),
        size(total)
    ))?;
    Ok(Exit::Fine)
}

/// Fills a new folder beside the target and gives it its name at the end.
fn write(
    neff: &Neff,
    header: &[u8],
    names: &[&str],
    folder: &Path,
    args: &Args,
) -> Result<u64, Failure> {
    let failed = |error: &dyn std::error::Error| Failure::Write {
        path: folder.to_owned(),
        reason: crate::exit::chain(error),
    };
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::Write {
            path: folder.to_owned(),
            reason: "the folder is there and not empty".to_owned(),
        });
    }
    let parent = match folder.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let temporary = tempfile::Builder::new()
        .prefix(".metaneff-")
        .tempdir_in(parent)
        .map_err(|error| failed(&error))?;
    let mut total = 0;
    let put = |name: &str, contents: &[u8]| -> std::io::Result<()> {
        let path = temporary.path().join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, contents)
    };
    put("header.bin", header).map_err(|error| failed(&error))?;
    for name in names {
        let contents = neff
            .read_member(name)
            .map_err(|error: NeffError| Failure::file(&args.neff, &error))?;
        put(name, &contents).map_err(|error| failed(&error))?;
        total += contents.len() as u64;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(temporary.path(), open).map_err(|error| failed(&error))?;
    }
    // An empty folder of that name gives way.
    let _ = fs::remove_dir(folder);
    fs::rename(temporary.path(), folder).map_err(|error| failed(&error))?;
    Ok(total)
}

/// Whether a name stays below the folder that it is joined to.
fn is_plain(name: &str) -> bool {
    let mut components = Path::new(name).components().peekable();
    components.peek().is_some()
        && components.all(|component| matches!(component, Component::Normal(_)))
        && name != "header.bin"
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn names_that_leave_the_folder_are_known() {
        for name in ["neff.json", "sg00/def.json", "a..b/c"] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["", "/etc/passwd", "../x", "a/../../x", "header.bin"] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
