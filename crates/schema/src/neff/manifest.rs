//! The chain of manifests: `neff.json`, the kelf, `def.json`.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::variable::{Variable, VariableKind, dtype_from_name};
use super::{NeffError, ParseOptions};
use crate::nrt::NrtDtype;

/// Name of the first manifest.
pub(super) const ROOT: &str = "neff.json";

/// Member of a package that holds the graph as an `HloModuleProto`. Only
/// packages of [`NeffBuilder`](super::NeffBuilder) have it.
pub(super) const GRAPH: &str = "metaneff/hlo_module.pb";

/// Members that are worth keeping when a package is walked.
pub(super) fn is_manifest(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file == ROOT || file == "def.json" || (file.starts_with("kelf") && file.ends_with(".json"))
}

#[derive(Deserialize)]
struct Root {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    // An entry of a list costs memory; a name that must be there pays for it.
    #[serde(rename = "name")]
    _name: IgnoredAny,
    #[serde(default)]
    attrs: NodeAttributes,
}

#[derive(Default, Deserialize)]
struct NodeAttributes {
    #[serde(default)]
    func_name: Option<String>,
    #[serde(default)]
    kelf: Option<String>,
}

#[derive(Deserialize)]
struct Kelf {
    #[serde(default)]
    target: Option<String>,
    graphs: Vec<KelfGraph>,
}

#[derive(Deserialize)]
struct KelfGraph {
    #[serde(rename = "name")]
    _name: IgnoredAny,
    definition: String,
}

#[derive(Deserialize)]
struct Definition {
    var: Entries,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    var_id: i64,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    alignment: Option<u64>,
    #[serde(default)]
    dtype: Option<String>,
    #[serde(default)]
    shape: Option<Vec<u64>>,
    #[serde(default)]
    element_size: Option<u64>,
    #[serde(default)]
    file_name: Option<String>,
    #[serde(default)]
    referenced_var_id: Option<i64>,
}

/// The entries of `var`, in the file's order, duplicates included.
struct Entries(Vec<(String, Entry)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of variables")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Visit)
    }
}

fn parse<'a, T: Deserialize<'a>>(member: &str, bytes: &'a [u8]) -> Result<T, NeffError> {
    serde_json::from_slice(bytes).map_err(|error| NeffError::Manifest {
        member: member.to_owned(),
        detail: error.to_string(),
    })
}

fn take<'a>(
    members: &'a BTreeMap<String, Bytes>,
    name: &str,
    named_by: &'static str,
) -> Result<&'a Bytes, NeffError> {
    let name = name.strip_prefix("./").unwrap_or(name);
    members.get(name).ok_or_else(|| NeffError::MissingMember {
        member: name.to_owned(),
        named_by,
    })
}

/// Follows the chain to the variable table, sorted by id.
pub(super) fn variables(
    members: &BTreeMap<String, Bytes>,
    options: &ParseOptions,
) -> Result<Vec<Variable>, NeffError> {
    let root: Root = parse(ROOT, take(members, ROOT, "the format")?)?;
    let kelf_name = root
        .nodes
        .into_iter()
        .find(|node| node.attrs.func_name.as_deref() == Some("__kelf"))
        .and_then(|node| node.attrs.kelf)
        .ok_or_else(|| NeffError::Manifest {
            member: ROOT.to_owned(),
            detail: "no node has `func_name` `__kelf` and names a `kelf`".to_owned(),
        })?;
    let kelf: Kelf = parse(&kelf_name, take(members, &kelf_name, "`neff.json`")?)?;
    check_target(kelf.target.as_deref(), options)?;
    let graph = kelf.graphs.first().ok_or_else(|| NeffError::Manifest {
        member: kelf_name.clone(),
        detail: "`graphs` is empty".to_owned(),
    })?;
    let definition = &graph.definition;
    let table: Definition = parse(definition, take(members, definition, "the kelf")?)?;
    let mut variables = table
        .var
        .0
        .into_iter()
        .map(|(name, entry)| variable(name, entry))
        .collect::<Result<Vec<_>, _>>()?;
    check_ids(&mut variables)?;
    // Results without elements have no variable, and a module may have no others.
    let packed_here = members.contains_key(GRAPH);
    if !packed_here
        && !variables
            .iter()
            .any(|variable| variable.kind == VariableKind::Output)
    {
        return Err(NeffError::NoOutput);
    }
    Ok(variables)
}

fn check_target(target: Option<&str>, options: &ParseOptions) -> Result<(), NeffError> {
    let (Some(target), Some(expected)) = (target, &options.target) else {
        return Ok(());
    };
    if target == "*" || target == expected || options.allow_legacy {
        return Ok(());
    }
    Err(NeffError::Target {
        target: target.to_owned(),
        expected: expected.clone(),
    })
}

fn variable(name: String, entry: Entry) -> Result<Variable, NeffError> {
    let fault = |detail: String| NeffError::Variable {
        name: name.clone(),
        detail,
    };
    let id = |what: &str, id: i64| {
        u32::try_from(id).map_err(|_| fault(format!("{what} is {id}, expected 0 to {}", u32::MAX)))
    };
    let var_id = id("`var_id`", entry.var_id)?;
    let referenced_var_id = entry
        .referenced_var_id
        .map(|found| id("`referenced_var_id`", found))
        .transpose()?;
    if let Some(alignment) = entry
        .alignment
        .filter(|alignment| !alignment.is_power_of_two())
    {
        return Err(fault(format!(
            "alignment is {alignment}, expected a power of two"
        )));
    }
    let stated = match (&entry.shape, entry.element_size) {
        (Some(shape), Some(element)) => {
            let size = shape
                .iter()
                .try_fold(element, |size, dim| size.checked_mul(*dim));
            Some(size.ok_or_else(|| fault(format!("size of shape {shape:?} exceeds 64 bits")))?)
        }
        _ => None,
    };
    let size = match (entry.size, stated) {
        (Some(size), Some(stated)) if size != stated => {
            return Err(fault(format!(
                "size is {size} bytes, its shape has {stated}"
            )));
        }
        (size, stated) => size.or(stated).unwrap_or(0),
    };
    Ok(Variable {
        var_id,
        kind: VariableKind::from_name(&entry.kind),
        size,
        alignment: entry.alignment,
        dtype: entry
            .dtype
            .as_deref()
            .map_or(NrtDtype::UNKNOWN, dtype_from_name),
        shape: entry.shape,
        file_name: entry.file_name,
        referenced_var_id,
        name,
    })
}

fn check_ids(variables: &mut [Variable]) -> Result<(), NeffError> {
    variables.sort_by_key(|variable| variable.var_id);
    let count = variables.len();
    let largest = variables
        .last()
        .map_or(-1, |variable| i64::from(variable.var_id));
    for (expected, variable) in variables.iter().enumerate() {
        if variable.var_id as usize != expected {
            let detail = if (variable.var_id as usize) < expected {
                format!("id {} of `{}` is taken", variable.var_id, variable.name)
            } else {
                format!("id {expected} is missing")
            };
            return Err(NeffError::VariableIds {
                count,
                largest,
                detail,
            });
        }
    }
    Ok(())
}
