//! Zips: what a `.pt` archive has inside, by its directory.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use metaneff_schema::script::{ScriptArchive, ScriptError};
use serde_json::{Value, json};
use zip::ZipArchive;

use super::{Detail, Kind, Report, by_bytes};
use crate::exit::{Failure, chain};
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
    let models = models(path, &mut text);
    let document = json!({ "size": bytes, "members": members, "models": models });
    Ok(Report {
        document,
        text,
        failure: None,
    })
}

/// The compiled models of a TorchScript archive; none of any other zip.
fn models(path: &Path, text: &mut String) -> Vec<Value> {
    let script = match ScriptArchive::open(path) {
        Ok(script) => script,
        Err(ScriptError::NotScript { .. }) => return Vec::new(),
        Err(error) => {
            let _ = writeln!(text, "compiled models cannot be read: {}", chain(&error));
            return Vec::new();
        }
    };
    let models = script.models();
    let _ = writeln!(text, "{}", plural(models.len(), "compiled model"));
    if models.is_empty() {
        return Vec::new();
    }
    let mut rows = table(&["model", "held by", "#NEFF", "#metaneff"]);
    let mut documents = Vec::new();
    for model in models {
        let kind = model.kind.to_string();
        let sizes = (model.neff.len() as u64, model.metaneff.len() as u64);
        rows.add_row([
            shown(&model.name),
            kind.clone(),
            size(sizes.0),
            size(sizes.1),
        ]);
        documents.push(json!({
            "name": model.name,
            "kind": kind,
            "neff_bytes": sizes.0,
            "metaneff_bytes": sizes.1,
        }));
    }
    let _ = writeln!(text, "{rows}\n`metaneff extract` writes them to files");
    documents
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
