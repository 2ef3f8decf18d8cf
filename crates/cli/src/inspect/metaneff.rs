//! metaneffs: slots, settings, the graph, and what this version does not know.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use bytes::Bytes;
use metaneff_binding::{Contract, ContractOptions, DType, Side};
use metaneff_schema::metaneff::{MetaNeff, MetaTensor, meta_tensor::Type};
use metaneff_schema::{Document, decode_metaneff};
use serde_json::{Value, json};

use super::{Detail, Report, hlo};
use crate::exit::Failure;
use crate::text::{pairs, plural, shown, shown_bytes, size, table};

/// Graphs up to this size are read and counted; a larger one is passed over.
const GRAPH_LIMIT: u64 = 256 << 20;

/// A metaneff without a graph that is too large to be read.
struct Sparse {
    bytes: Bytes,
    size: u64,
    /// Where the graph stands in the file and how large it is, if it was left out.
    left_out: Option<(u64, u64)>,
}

/// Whether a file decodes as a metaneff that names a tensor.
pub(super) fn is_one(path: &Path) -> Result<bool, Failure> {
    let sparse = read(path).map_err(|error| Failure::file(path, &error))?;
    let message = decode_metaneff(sparse.bytes);
    Ok(message.is_ok_and(|message| {
        let mut tensors = message.input_tensors.iter().chain(&message.output_tensors);
        tensors.any(|tensor| !tensor.name.is_empty())
    }))
}

pub(super) fn inspect(path: &Path, detail: Detail) -> Result<Report, Failure> {
    let sparse = read(path).map_err(|error| Failure::file(path, &error))?;
    let document = Document::parse(sparse.bytes.clone());
    let document = document.map_err(|error| Failure::file(path, &error))?;
    let message = document.message();
    let message = message.map_err(|error| Failure::file(path, &error))?;

    let mut text = format!("{}: metaneff, {}\n", path.display(), size(sparse.size));
    text.push_str(&settings(&message, &sparse));
    let lenient = Contract::new(&message, &ContractOptions::new().lenient());
    let strict = Contract::new(&message, &ContractOptions::new());
    let (table, rows) = slots(&message, lenient.as_ref().ok(), detail);
    text.push_str(&table);

    let findings: Vec<String> = match (&strict, &lenient) {
        (Err(error), _) => error.findings.iter().map(ToString::to_string).collect(),
        (Ok(contract), _) => contract
            .warnings()
            .iter()
            .map(ToString::to_string)
            .collect(),
    };
    let verdict = match (&strict, &lenient) {
        (Ok(_), _) => "a strict contract",
        (Err(_), Ok(_)) => "a lenient contract only",
        (Err(_), Err(_)) => "no valid contract",
    };
    let _ = writeln!(text, "{verdict}, {}", plural(findings.len(), "finding"));
    for finding in &findings {
        let _ = writeln!(text, "  {}", shown(finding));
    }

    let shift = |at: usize| {
        let at = at as u64;
        match sparse.left_out {
            Some((start, length)) if at >= start => at + length,
            _ => at,
        }
    };
    let unknown: Vec<Value> = document
        .unknown_fields()
        .iter()
        .map(|field| {
            json!({
                "path": field.path,
                "number": field.number,
                "wire_type": format!("{:?}", field.wire_type),
                "offset": shift(field.range.start),
                "size": field.range.len(),
            })
        })
        .collect();
    if !unknown.is_empty() {
        let _ = writeln!(
            text,
            "{} that this version does not know",
            plural(unknown.len(), "field")
        );
        for field in document.unknown_fields() {
            let place = match field.path.as_str() {
                "" => String::new(),
                path => format!("{path}."),
            };
            let _ = writeln!(
                text,
                "  {place}{}: {:?}, {} at byte {}",
                field.number,
                field.wire_type,
                plural(field.range.len(), "byte"),
                shift(field.range.start)
            );
        }
    }

    let graph = message.serialized_graph_def.clone();
    let census = (!graph.is_empty()).then(|| hlo::census_of(&graph));
    if let Some((lines, _)) = &census {
        text.push_str(lines);
    }
    let config = message.model_config.unwrap_or_default();
    let document = json!({
        "size": sparse.size,
        "name": String::from_utf8_lossy(&message.name),
        "slots": rows,
        "config": {
            "num_infer": config.num_infer,
            "timeout": config.timeout,
            "optimal_ncg_size": config.optimal_ncg_size,
            "async_load": config.async_load,
            "lazy_load": config.lazy_load,
            "return_aliases": config.return_aliases,
        },
        "counts": {
            "user_inputs": message.num_user_inputs,
            "states": message.num_states,
            "weights": message.num_weights,
        },
        "contract": { "strict": strict.is_ok(), "lenient": lenient.is_ok() },
        "findings": findings,
        "unknown_fields": unknown,
        "graph_bytes": graph_size(&message, &sparse),
        "graph": census.map(|(_, document)| document),
    });
    Ok(Report {
        document,
        text,
        failure: None,
    })
}

fn graph_size(message: &MetaNeff, sparse: &Sparse) -> u64 {
    match sparse.left_out {
        Some((_, length)) => length,
        None => message.serialized_graph_def.len() as u64,
    }
}

fn settings(message: &MetaNeff, sparse: &Sparse) -> String {
    let config = message.model_config.unwrap_or_default();
    let flags: Vec<_> = [
        ("async_load", config.async_load),
        ("lazy_load", config.lazy_load),
        ("return_aliases", config.return_aliases),
    ]
    .iter()
    .filter_map(|(name, set)| set.then_some(*name))
    .collect();
    let flags = if flags.is_empty() {
        "none set".to_owned()
    } else {
        flags.join(", ")
    };
    let counts = match (
        message.num_user_inputs,
        message.num_states,
        message.num_weights,
    ) {
        (0, 0, 0) => "not stated".to_owned(),
        (inputs, states, weights) => {
            format!("{inputs} user inputs, {states} states, {weights} weights")
        }
    };
    let graph = match (graph_size(message, sparse), sparse.left_out) {
        (0, _) => "none".to_owned(),
        (bytes, None) => size(bytes),
        (bytes, Some((at, _))) => {
            format!("{} at byte {at}, too large to be looked into", size(bytes))
        }
    };
    let mut rows = vec![
        ("name", shown_bytes(&message.name)),
        ("settings", flags),
        ("declared", counts),
        ("graph", graph),
    ];
    if config.num_infer != 0 || config.timeout != 0 || config.optimal_ncg_size != 0 {
        let text = format!(
            "num_infer {}, timeout {}, optimal_ncg_size {}",
            config.num_infer, config.timeout, config.optimal_ncg_size
        );
        rows.push(("legacy", text));
    }
    pairs(&rows)
}

/// The slots of a metaneff, as a table and as JSON: from the message, and from
/// the contract what only that knows.
fn slots(message: &MetaNeff, contract: Option<&Contract>, detail: Detail) -> (String, Vec<Value>) {
    let mut rows = table(&[
        "slot", "name", "key", "role", "dtype", "shape", "#bytes", "alias", "batch",
    ]);
    let mut documents = Vec::new();
    let total = message.input_tensors.len() + message.output_tensors.len();
    let (printed, rest) = detail.rows(total);
    let sides = [
        (Side::Input, &message.input_tensors),
        (Side::Output, &message.output_tensors),
    ];
    for (side, tensors) in sides {
        for (ordinal, tensor) in tensors.iter().enumerate() {
            let slot = Row::new(message, contract, side, ordinal, tensor);
            if documents.len() < printed {
                rows.add_row(slot.cells());
            }
            documents.push(slot.json());
        }
    }
    (format!("{rows}\n{rest}"), documents)
}

struct Row<'a> {
    side: Side,
    ordinal: usize,
    tensor: &'a MetaTensor,
    dtype: String,
    bytes: Option<u64>,
    alias: Option<usize>,
}

impl<'a> Row<'a> {
    fn new(
        message: &MetaNeff,
        contract: Option<&Contract>,
        side: Side,
        ordinal: usize,
        tensor: &'a MetaTensor,
    ) -> Self {
        let stored = DType::from_data_type(tensor.data_type).ok();
        let slot = contract.and_then(|contract| contract.side(side).get(ordinal));
        let dtype = match (stored, slot.and_then(|slot| slot.dtype())) {
            (Some(stored), Some(meant)) if stored != meant => format!("{meant} (as {stored})"),
            (Some(stored), _) => stored.to_string(),
            (None, _) => format!("number {}", tensor.data_type),
        };
        let elements = tensor.shape.iter().try_fold(1_u64, |product, dim| {
            product.checked_mul(u64::try_from(*dim).ok()?)
        });
        let bytes = elements.zip(stored);
        let bytes = bytes.and_then(|(elements, stored)| elements.checked_mul(stored.size() as u64));
        let alias = message
            .output_aliases_to
            .iter()
            .find_map(|(output, input)| {
                let (output, input) = (
                    usize::try_from(*output).ok()?,
                    usize::try_from(*input).ok()?,
                );
                match side {
                    Side::Input if input == ordinal => Some(output),
                    Side::Output if output == ordinal => Some(input),
                    _ => None,
                }
            });
        Self {
            side,
            ordinal,
            tensor,
            dtype,
            bytes,
            alias,
        }
    }

    fn role(&self) -> String {
        if self.side == Side::Output {
            return "output".to_owned();
        }
        match Type::try_from(self.tensor.r#type) {
            Ok(Type::UndefinedType) => "user input (not stated)".to_owned(),
            Ok(Type::UserInput) => "user input".to_owned(),
            Ok(Type::InputState) => "state".to_owned(),
            Ok(Type::InputWeight) => "weight".to_owned(),
            Err(_) => format!("number {}", self.tensor.r#type),
        }
    }

    fn shape(&self) -> String {
        let dims: Vec<_> = self.tensor.shape.iter().map(i64::to_string).collect();
        format!("[{}]", dims.join(", "))
    }

    fn key(&self) -> Option<String> {
        let tensor = self.tensor;
        let key = tensor
            .user_input_key
            .as_ref()
            .or(tensor.checkpoint_key.as_ref());
        key.map(|key| shown_bytes(key))
    }

    fn cells(&self) -> [String; 9] {
        let other = match self.side {
            Side::Input => Side::Output,
            Side::Output => Side::Input,
        };
        [
            format!("{} {}", self.side, self.ordinal),
            shown_bytes(&self.tensor.name),
            self.key().unwrap_or_default(),
            self.role(),
            self.dtype.clone(),
            self.shape(),
            self.bytes
                .map_or_else(|| "?".to_owned(), |bytes| bytes.to_string()),
            self.alias
                .map_or_else(String::new, |ordinal| format!("{other} {ordinal}")),
            if self.tensor.allow_dynamic_batch_size {
                "dynamic"
            } else {
                ""
            }
            .to_owned(),
        ]
    }

    fn json(&self) -> Value {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        json!({
            "side": self.side.to_string(),
            "ordinal": self.ordinal,
            "name": text(&self.tensor.name),
            "user_input_key": self.tensor.user_input_key.as_ref().map(text),
            "checkpoint_key": self.tensor.checkpoint_key.as_ref().map(text),
            "role": self.role(),
            "data_type": self.tensor.data_type,
            "dtype": self.dtype,
            "shape": self.tensor.shape,
            "size": self.bytes,
            "alias": self.alias,
            "dynamic_batch": self.tensor.allow_dynamic_batch_size,
            "constant_bytes": self.tensor.content.len(),
        })
    }
}

/// Reads a metaneff, passing over a graph above the limit.
fn read(path: &Path) -> io::Result<Sparse> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    if size <= GRAPH_LIMIT {
        let mut bytes = Vec::new();
        BufReader::new(file).read_to_end(&mut bytes)?;
        // A pipe has no size before it is read.
        let size = bytes.len() as u64;
        return Ok(Sparse {
            bytes: bytes.into(),
            size,
            left_out: None,
        });
    }
    let mut reader = BufReader::new(file);
    without_large_graph(&mut reader, size, GRAPH_LIMIT)
}

/// The bytes of a metaneff but for a graph of more than `limit` bytes.
fn without_large_graph(
    reader: &mut (impl Read + Seek),
    size: u64,
    limit: u64,
) -> io::Result<Sparse> {
    let mut kept = Vec::new();
    let mut left_out = None;
    let mut at = 0;
    while at < size {
        let start = at;
        let mut head = Vec::new();
        let tag = varint(reader, &mut head)?;
        let payload = match tag & 7 {
            0 => {
                varint(reader, &mut head)?;
                0
            }
            1 => 8,
            2 => varint(reader, &mut head)?,
            5 => 4,
            kind => return Err(invalid(&format!("wire type {kind} at byte {start}"))),
        };
        at += head.len() as u64;
        let available = size.saturating_sub(at);
        if payload > available {
            let text = format!("field at byte {start} needs {payload} bytes, found {available}");
            return Err(invalid(&text));
        }
        if tag >> 3 == 4 && payload > limit {
            left_out = Some((start, head.len() as u64 + payload));
            let distance = i64::try_from(payload).map_err(|_| invalid("a graph of 2^63 bytes"))?;
            reader.seek(SeekFrom::Current(distance))?;
        } else {
            kept.extend_from_slice(&head);
            reader.take(payload).read_to_end(&mut kept)?;
        }
        at += payload;
    }
    Ok(Sparse {
        bytes: kept.into(),
        size,
        left_out,
    })
}

fn varint(reader: &mut impl Read, head: &mut Vec<u8>) -> io::Result<u64> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let mut byte = [0];
        reader.read_exact(&mut byte)?;
        head.push(byte[0]);
        if shift < 64 {
            value |= u64::from(byte[0] & 0x7f) << shift;
        }
        if byte[0] < 0x80 {
            return Ok(value);
        }
    }
    Err(invalid("a number of more than 10 bytes"))
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn a_large_graph_is_passed_over_and_its_place_known() {
        let mut wire = b"\x0a\x08\x0a\x06input0".to_vec();
        wire.extend_from_slice(b"\x22\x80\x02");
        wire.extend_from_slice(&[7; 256]);
        wire.extend_from_slice(b"\x2a\x01m");
        let read = |limit: u64, bytes: &[u8]| {
            without_large_graph(&mut Cursor::new(bytes), bytes.len() as u64, limit)
        };
        let sparse = read(255, &wire).unwrap();
        assert_eq!(&*sparse.bytes, b"\x0a\x08\x0a\x06input0\x2a\x01m");
        assert_eq!(sparse.left_out, Some((10, 259)));
        let whole = read(256, &wire).unwrap();
        assert_eq!((&*whole.bytes, whole.left_out), (&*wire, None));
        for cut in 1..wire.len() {
            let whole = [0, 10, 269].contains(&cut);
            assert_eq!(read(255, &wire[..cut]).is_ok(), whole, "cut at {cut}");
        }
    }
}
