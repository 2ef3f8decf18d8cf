//! Zips: what a `.pt` archive has inside, by its directory.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use serde_json::{Value, json};
use zip::ZipArchive;

use super::{Detail, Kind, Report, by_bytes};
use crate::exit::Failure;
use crate::text::{plural, shown, size, table};

pub(super) fn inspect(path: &Path, detail: Detail) -> Result<Report, Failure> {
    let file = File::open(path).map_err(|error| Failure::file(path, &error))?;
    let bytes = file
        .metadata()
        .map_err(|error| Failure::file(path, &error))?
        .len();
    let mut archive =
        ZipArchive::new(BufReader::new(file)).map_err(|error| Failure::file(path, &error))?;
    let mut rows = table(&["member", "#bytes", "#stored", "what"]);
    let (printed, rest) = detail.rows(archive.len());
    let mut members: Vec<Value> = Vec::new();
    for index in 0..archive.len() {
        let member = archive
            .by_index(index)
            .map_err(|error| Failure::file(path, &error))?;
        let name = match member.name() {
            Ok(name) => name.into_owned(),
            Err(_) => String::from_utf8_lossy(member.name_raw()).into_owned(),
        };
        let (length, stored) = (member.size(), member.compressed_size());
        let mut first = Vec::new();
        // A member that is damaged is listed all the same.
        let _ = member.take(64).read_to_end(&mut first);
        let what = what(&name, &first);
        if members.len() < printed {
            rows.add_row([
                shown(&name),
                length.to_string(),
                stored.to_string(),
                what.to_owned(),
            ]);
        }
        members.push(json!({ "name": name, "size": length, "stored": stored, "what": what }));
    }
    let mut text = format!("{}: zip archive, {}\n", path.display(), size(bytes));
    let _ = writeln!(text, "{}", plural(members.len(), "member"));
    let _ = write!(text, "{rows}\n{rest}");
    let document = json!({ "size": bytes, "members": members });
    Ok(Report {
        document,
        text,
        failure: None,
    })
}

fn what(name: &str, first: &[u8]) -> &'static str {
    match by_bytes(first) {
        Some(Kind::Neff) => return "NEFF",
        Some(Kind::Checkpoint) => return "safetensors",
        Some(Kind::Hlo) => return "gzip",
        Some(Kind::Archive) => return "zip",
        Some(Kind::Metaneff) | None => {}
    }
    let name = name.to_lowercase();
    if first.starts_with(b"\x93NUMPY") {
        "npy array"
    } else if first.starts_with(b"\x80\x02") || name.ends_with(".pkl") {
        "pickle"
    } else if name.contains("metaneff") {
        "metaneff"
    } else if name.contains("/code/") {
        "TorchScript code"
    } else if name.contains("/data/") || name.contains("/constants/") {
        "tensor"
    } else {
        ""
    }
}
