//! NEFFs: header, members, variables.

use std::fmt::Write as _;
use std::path::Path;

use metaneff_schema::neff::{Neff, NeffHeader, PackageKind, ParseOptions, Variable};
use metaneff_schema::nrt::NrtDtype;
use serde_json::{Value, json};

use super::{Detail, Report, large};
use crate::exit::{Failure, chain};
use crate::files;
use crate::text::{pairs, plural, shown, size, table};

/// Files up to this size are read whole.
const WHOLE: u64 = 256 << 20;

/// The member in which a packer of this project keeps the module.
const GRAPH: &str = "metaneff/hlo_module.pb";

pub(super) fn inspect(path: &Path, detail: Detail) -> Result<Report, Failure> {
    let failed = |error: &dyn std::error::Error| Failure::file(path, error);
    let file_size = std::fs::metadata(path)
        .map_err(|error| failed(&error))?
        .len();
    let large = file_size > WHOLE;
    let (header, bytes, sizes) = if large {
        let outline = large::outline(path).map_err(|error| failed(&error))?;
        (outline.header, outline.bytes.into(), Some(outline.sizes))
    } else {
        let bytes = files::read(path)?;
        (
            NeffHeader::read(&bytes).map_err(|error| failed(&error))?,
            bytes,
            None,
        )
    };
    let mut text = heading(path, file_size, &header);
    let mut document = json!({ "size": file_size, "header": header_json(&header) });
    let neff = match Neff::parse(bytes.clone(), &ParseOptions::default()) {
        Ok(neff) => neff,
        Err(error) => {
            let status = error.status();
            let reason = chain(&error);
            let _ = writeln!(
                text,
                "  refused: {reason}\n  nrt_load would answer {status}"
            );
            document["refused"] = json!({ "reason": error.to_string(), "status": status.0 });
            let failure = Some(Failure::file(path, &error));
            return Ok(Report {
                document,
                text,
                failure,
            });
        }
    };
    let members: Vec<(&str, u64)> = neff
        .members()
        .iter()
        .enumerate()
        .map(|(index, member)| {
            let real = sizes.as_ref().and_then(|sizes| sizes.get(index).copied());
            (member.name.as_str(), real.unwrap_or(member.size))
        })
        .collect();
    let mut with_hash = ParseOptions::default();
    with_hash.validate_hash = true;
    let hash = (!large).then(|| Neff::parse(bytes, &with_hash).map(|_| ()));
    let verdict = match &hash {
        Some(Ok(())) => "matches the data".to_owned(),
        Some(Err(error)) => error.to_string(),
        None => "not compared: the file is large".to_owned(),
    };
    let graph_size = members
        .iter()
        .find_map(|(name, size)| (*name == GRAPH).then_some(*size));
    let graph = match graph_size {
        Some(bytes) => format!("{} of HLO, for the simulator", size(bytes)),
        None => "none: the simulator needs a metaneff or a module beside it".to_owned(),
    };
    text.push_str(&pairs(&[("hash", verdict), ("graph", graph)]));
    document["hash_matches"] = json!(hash.map(|hash| hash.is_ok()));
    document["graph_bytes"] = json!(graph_size);

    let _ = writeln!(text, "{}", plural(members.len(), "member"));
    let mut rows = table(&["member", "#bytes"]);
    let (printed, rest) = detail.rows(members.len());
    for (name, bytes) in members.iter().take(printed) {
        rows.add_row([shown(name), bytes.to_string()]);
    }
    let _ = write!(text, "{rows}\n{rest}");
    document["members"] = members
        .iter()
        .map(|(name, size)| json!({ "name": name, "size": size }))
        .collect();

    let variables = neff.variables();
    let counts = (neff.inputs().count(), neff.outputs().count());
    let _ = writeln!(
        text,
        "{}: {}, {}",
        plural(variables.len(), "variable"),
        plural(counts.0, "input"),
        plural(counts.1, "output")
    );
    let mut rows = table(&["#id", "name", "kind", "dtype", "shape", "#bytes", "more"]);
    let (printed, rest) = detail.rows(variables.len());
    for variable in variables.iter().take(printed) {
        rows.add_row([
            variable.var_id.to_string(),
            shown(&variable.name),
            shown(variable.kind.name()),
            dtype(variable.dtype),
            shape(variable),
            variable.size.to_string(),
            more(variable),
        ]);
    }
    let _ = write!(text, "{rows}\n{rest}");
    document["variables"] = variables.iter().map(variable_json).collect();
    Ok(Report {
        document,
        text,
        failure: None,
    })
}

fn heading(path: &Path, bytes: u64, header: &NeffHeader) -> String {
    let package = match header.package {
        PackageKind::Tar => "tar, SHA-256",
        _ => "gzip tar, MD5",
    };
    let features = header.feature_bits;
    let mut text = format!("{}: NEFF, {}\n", path.display(), size(bytes));
    text.push_str(&pairs(&[
        ("name", shown(&header.name)),
        ("build", shown(&header.build_version)),
        (
            "format",
            format!("{}.{}, {package}", header.version.0, header.version.1),
        ),
        ("features", format!("{features:#x}{}", bits(features))),
        ("cores", cores(header)),
        ("uuid", hex(&header.uuid)),
        ("data", size(header.data_size)),
    ]));
    text
}

fn bits(features: u64) -> String {
    if features == 0 {
        return String::new();
    }
    let set: Vec<_> = (0..64)
        .filter(|bit| features >> bit & 1 == 1)
        .map(|bit| bit.to_string())
        .collect();
    format!(" (bits {})", set.join(", "))
}

fn cores(header: &NeffHeader) -> String {
    let per_node: Vec<_> = header.cores_per_node.iter().map(u8::to_string).collect();
    format!(
        "{} requested, {} a node, logical core of {}",
        header.requested_cores,
        if per_node.is_empty() {
            "0".to_owned()
        } else {
            per_node.join("+")
        },
        header.logical_core_size
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The runtime's name of an element type without its prefix.
fn dtype(dtype: NrtDtype) -> String {
    match dtype.name() {
        Some(name) => name.trim_start_matches("NRT_DTYPE_").to_lowercase(),
        None => format!("{}", dtype.0),
    }
}

fn shape(variable: &Variable) -> String {
    let Some(shape) = &variable.shape else {
        return String::new();
    };
    let dims: Vec<_> = shape.iter().map(u64::to_string).collect();
    format!("[{}]", dims.join(", "))
}

fn more(variable: &Variable) -> String {
    let mut parts = Vec::new();
    if let Some(file) = &variable.file_name {
        parts.push(format!("file {}", shown(file)));
    }
    if let Some(id) = variable.referenced_var_id {
        parts.push(format!("in variable {id}"));
    }
    if let Some(alignment) = variable.alignment {
        parts.push(format!("aligned to {alignment}"));
    }
    parts.join(", ")
}

fn header_json(header: &NeffHeader) -> Value {
    json!({
        "name": header.name,
        "build_version": header.build_version,
        "package_version": header.package.version(),
        "format_version": [header.version.0, header.version.1],
        "feature_bits": header.feature_bits,
        "requested_cores": header.requested_cores,
        "cores_per_node": header.cores_per_node,
        "logical_core_size": header.logical_core_size,
        "uuid": hex(&header.uuid),
        "hash": hex(&header.hash),
        "data_size": header.data_size,
    })
}

fn variable_json(variable: &Variable) -> Value {
    json!({
        "var_id": variable.var_id,
        "name": variable.name,
        "kind": variable.kind.name(),
        "dtype": variable.dtype.name(),
        "shape": variable.shape,
        "size": variable.size,
        "alignment": variable.alignment,
        "file_name": variable.file_name,
        "referenced_var_id": variable.referenced_var_id,
    })
}
