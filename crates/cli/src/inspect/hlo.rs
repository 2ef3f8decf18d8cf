//! HLO modules: boundary, instructions by opcode, constants, cost.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use bytes::Bytes;
use metaneff_hlo::Module;
use metaneff_schema::decode_hlo;
use metaneff_schema::neff::{Boundary, BoundaryTensor};
use metaneff_schema::xla::HloModuleProto;
use serde_json::{Value, json};

use super::cost::Cost;
use super::{Detail, Report};
use crate::exit::{Failure, chain};
use crate::files;
use crate::text::{count, pairs, plural, shown, size, table};

/// Constants that are named, the largest first.
const CONSTANTS: usize = 5;

pub(super) fn inspect(path: &Path, detail: Detail) -> Result<Report, Failure> {
    let bytes = files::read_hlo(path)?;
    let proto = decode_hlo(bytes.clone()).map_err(|error| Failure::file(path, &error))?;
    let mut text = format!(
        "{}: HLO module, {}\n",
        path.display(),
        size(bytes.len() as u64)
    );
    let mut document = json!({ "size": bytes.len(), "name": proto.name });
    text.push_str(&pairs(&[("name", shown(&proto.name))]));
    match Boundary::of(&proto) {
        Ok(boundary) => boundary_of(&boundary, detail, &mut text, &mut document),
        Err(error) => {
            let _ = writeln!(text, "  no boundary: {}", chain(&error));
        }
    }
    census(&proto, &mut text, &mut document);
    Ok(Report {
        document,
        text,
        failure: None,
    })
}

/// What a metaneff says of its graph: lines and a document.
pub(super) fn census_of(graph: &Bytes) -> (String, Value) {
    let mut text = String::new();
    let mut document = json!({});
    match decode_hlo(graph.clone()) {
        Ok(proto) => census(&proto, &mut text, &mut document),
        Err(error) => {
            let _ = writeln!(text, "graph cannot be read: {}", chain(&error));
            document["error"] = json!(chain(&error));
        }
    }
    (text, document)
}

fn boundary_of(boundary: &Boundary, detail: Detail, text: &mut String, document: &mut Value) {
    let mut rows = table(&["#", "name", "dtype", "shape", "#bytes", "alias"]);
    let total = boundary.inputs.len() + boundary.outputs.len();
    let (printed, rest) = detail.rows(total);
    let alias = |side: &str, index: usize| {
        boundary
            .aliases
            .iter()
            .find_map(|&(output, input)| match side {
                "parameter" if input == index => Some(format!("result {output}")),
                "result" if output == index => Some(format!("parameter {input}")),
                _ => None,
            })
    };
    let mut documents = Vec::new();
    for (side, tensors) in [
        ("parameter", &boundary.inputs),
        ("result", &boundary.outputs),
    ] {
        for tensor in tensors {
            let alias = alias(side, tensor.index);
            if documents.len() < printed {
                rows.add_row([
                    format!("{side} {}", tensor.index),
                    shown(&tensor.name),
                    dtype(tensor),
                    shape(tensor),
                    tensor.size.to_string(),
                    alias.clone().unwrap_or_default(),
                ]);
            }
            documents.push(json!({
                "side": side,
                "index": tensor.index,
                "name": tensor.name,
                "dtype": dtype(tensor),
                "shape": tensor.dims,
                "size": tensor.size,
                "alias": alias,
            }));
        }
    }
    let _ = write!(text, "{rows}\n{rest}");
    document["boundary"] = documents.into();
}

fn dtype(tensor: &BoundaryTensor) -> String {
    tensor.element.as_str_name().to_lowercase()
}

fn shape(tensor: &BoundaryTensor) -> String {
    let dims: Vec<_> = tensor.dims.iter().map(u64::to_string).collect();
    format!("[{}]", dims.join(", "))
}

fn census(proto: &HloModuleProto, text: &mut String, document: &mut Value) {
    let mut opcodes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut instructions = 0;
    for instruction in proto.computations.iter().flat_map(|c| &c.instructions) {
        *opcodes.entry(&instruction.opcode).or_default() += 1;
        instructions += 1;
    }
    let _ = writeln!(
        text,
        "{} in {}",
        plural(instructions, "instruction"),
        plural(proto.computations.len(), "computation")
    );
    let mut sorted: Vec<_> = opcodes.iter().collect();
    sorted.sort_by_key(|(name, number)| (std::cmp::Reverse(**number), **name));
    let longest = sorted.first().map_or(1, |(_, number)| **number);
    let mut rows = table(&["opcode", "#count", ""]);
    for (name, number) in &sorted {
        rows.add_row([shown(name), number.to_string(), bar(**number, longest)]);
    }
    let _ = writeln!(text, "{rows}");
    document["opcodes"] = json!(opcodes);
    document["instructions"] = json!(instructions);
    document["computations"] = json!(proto.computations.len());

    let module = match Module::verify(proto) {
        Ok(module) => module,
        Err(error) => {
            let _ = writeln!(text, "not well formed: {}", chain(&error));
            document["verified"] = json!(false);
            document["problem"] = json!(chain(&error));
            return;
        }
    };
    document["verified"] = json!(true);
    let cost = Cost::of(&module);
    let largest: Vec<_> = cost.constants.iter().take(CONSTANTS).collect();
    let constants = match largest.is_empty() {
        true => "none".to_owned(),
        false => largest
            .iter()
            .map(|(name, shape, _)| format!("{} {shape}", shown(name)))
            .collect::<Vec<_>>()
            .join(", "),
    };
    let loops = if cost.loops > 0 {
        ", bodies of loops counted once"
    } else {
        ""
    };
    text.push_str(&pairs(&[
        ("well formed", "yes".to_owned()),
        (
            "work",
            format!(
                "about {} floating-point operations{loops}",
                count(cost.flops)
            ),
        ),
        ("parameters", size(cost.parameter_bytes)),
        ("results", size(cost.result_bytes)),
        (
            "constants",
            format!("{}; largest: {constants}", size(cost.constant_bytes)),
        ),
        (
            "temporaries",
            format!("about {} at most at a time", size(cost.peak_bytes)),
        ),
    ]));
    document["cost"] = json!({
        "flops": cost.flops,
        "loops": cost.loops,
        "parameter_bytes": cost.parameter_bytes,
        "result_bytes": cost.result_bytes,
        "constant_bytes": cost.constant_bytes,
        "peak_temporary_bytes": cost.peak_bytes,
        "largest_constants": largest.iter().map(|(name, shape, bytes)| {
            json!({ "name": name, "shape": shape, "size": bytes })
        }).collect::<Vec<_>>(),
    });
}

/// A bar of up to 20 cells, never empty.
fn bar(value: u64, longest: u64) -> String {
    let cells = (value.saturating_mul(20) / longest.max(1)).max(1);
    "█".repeat(usize::try_from(cells).unwrap_or(20))
}
