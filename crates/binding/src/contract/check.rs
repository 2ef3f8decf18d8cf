//! From an untrusted metaneff to a contract.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;

use bytes::Bytes;
use metaneff_schema::metaneff::meta_tensor::{DataType, Type};
use metaneff_schema::metaneff::{MetaNeff, MetaTensor};
use metaneff_schema::xla::PrimitiveType;

use super::finding::KEPT;
use super::graph::{self, Leaf};
use super::slot::SlotData;
use super::{
    ContractError, ContractId, ContractOptions, Finding, Inner, KeyKind, Ordinal, Role, Slot,
    Strictness, VarId,
};
use crate::backend::Side;
use crate::dtype::DType;
use crate::shape::Shape;

/// The C interface holds names in 256 bytes, the closing NUL included.
const NAME_LIMIT: usize = 256;

pub(super) fn contract(
    message: &MetaNeff,
    options: &ContractOptions,
) -> Result<Inner, ContractError> {
    let mut report = Report::new(options.strictness);
    let id = ContractId::next();
    let mut inputs = tensors(&mut report, id, Side::Input, &message.input_tensors);
    let mut outputs = tensors(&mut report, id, Side::Output, &message.output_tensors);
    number(&mut inputs, &mut outputs);
    names(&mut report, Side::Input, &inputs);
    names(&mut report, Side::Output, &outputs);
    keys(&mut report, KeyKind::UserInput, &inputs);
    keys(&mut report, KeyKind::Checkpoint, &inputs);
    counts(&mut report, message, &inputs);
    aliases(&mut report, message, &mut inputs, &mut outputs);
    let graph = Some(&message.serialized_graph_def).filter(|graph| !graph.is_empty());
    if let Some(graph) = graph.filter(|_| options.compare_graph) {
        compare_graph(&mut report, graph, &mut inputs, &mut outputs);
    }

    let warnings = report.finish()?;
    let config = message.model_config.unwrap_or_default();
    Ok(Inner {
        id,
        strictness: options.strictness,
        name: message.name.clone(),
        user_inputs: inputs
            .iter()
            .filter(|slot| slot.role == Role::UserInput)
            .map(|slot| slot.ordinal)
            .collect(),
        inputs: inputs.into_iter().map(Slot::new).collect(),
        outputs: outputs.into_iter().map(Slot::new).collect(),
        return_aliases: config.return_aliases,
        async_load: config.async_load,
        lazy_load: config.lazy_load,
        graph: graph.cloned(),
        warnings,
        joined: false,
    })
}

/// Findings so far, sorted by what they mean for the contract.
struct Report {
    strictness: Strictness,
    errors: Vec<Finding>,
    omitted: usize,
    warnings: Vec<Finding>,
}

impl Report {
    const fn new(strictness: Strictness) -> Self {
        Self {
            strictness,
            errors: Vec::new(),
            omitted: 0,
            warnings: Vec::new(),
        }
    }

    fn add(&mut self, finding: Finding) {
        let tolerated = self.strictness == Strictness::Lenient && finding.is_tolerable();
        if tolerated || finding.is_harmless() {
            if self.warnings.len() < KEPT {
                self.warnings.push(finding);
            }
        } else if self.errors.len() < KEPT {
            self.errors.push(finding);
        } else {
            self.omitted += 1;
        }
    }

    fn finish(self) -> Result<Vec<Finding>, ContractError> {
        if self.errors.is_empty() {
            Ok(self.warnings)
        } else {
            Err(ContractError {
                findings: self.errors,
                omitted: self.omitted,
            })
        }
    }
}

fn tensors(
    report: &mut Report,
    contract: ContractId,
    side: Side,
    tensors: &[MetaTensor],
) -> Vec<SlotData> {
    tensors
        .iter()
        .enumerate()
        .map(|(ordinal, tensor)| slot(report, contract, side, ordinal, tensor))
        .collect()
}

fn slot(
    report: &mut Report,
    contract: ContractId,
    side: Side,
    ordinal: usize,
    tensor: &MetaTensor,
) -> SlotData {
    let (name, key) = name(report, side, ordinal, &tensor.name);
    let shape = shape(report, side, ordinal, &name, &tensor.shape);
    let stored = DType::from_data_type(tensor.data_type).ok();
    if tensor.data_type == i32::from(DataType::Undefined) || tensor.data_type == 11 {
        report.add(Finding::NoDataType {
            side,
            ordinal,
            name: name.clone(),
            number: tensor.data_type,
        });
    }
    let size = stored.map_or(0, |dtype| {
        shape.byte_size(dtype).unwrap_or_else(|source| {
            report.add(Finding::SizeOverflow {
                side,
                ordinal,
                name: name.clone(),
                source,
            });
            0
        })
    });
    let role = match side {
        Side::Input => role(report, ordinal, &name, tensor.r#type),
        Side::Output => Role::Output,
    };
    let scalar_batch = side == Side::Input && tensor.allow_dynamic_batch_size && shape.rank() == 0;
    if scalar_batch {
        report.add(Finding::DynamicScalar {
            ordinal,
            name: name.clone(),
        });
    }
    if !tensor.content.is_empty() && tensor.content.len() != size {
        report.add(Finding::ContentLength {
            side,
            ordinal,
            name: name.clone(),
            expected: size,
            found: tensor.content.len(),
        });
    }
    let keys = [
        (KeyKind::Checkpoint, &tensor.checkpoint_key),
        (KeyKind::UserInput, &tensor.user_input_key),
    ];
    for (kind, key) in keys {
        if let Some(key) = key
            && std::str::from_utf8(key).is_err()
        {
            report.add(Finding::KeyNotUtf8 {
                side,
                ordinal,
                kind,
                bytes: key.to_vec(),
            });
        }
    }
    SlotData {
        contract,
        side,
        ordinal: Ordinal::new(ordinal),
        name,
        key,
        role,
        data_type: tensor.data_type,
        stored,
        graph: None,
        dynamic_batch: tensor.allow_dynamic_batch_size && shape.rank() > 0,
        scalar_batch: scalar_batch && report.strictness == Strictness::Strict,
        shape,
        size,
        checkpoint_key: tensor.checkpoint_key.clone(),
        user_input_key: tensor.user_input_key.clone(),
        content: tensor.content.clone(),
        alias: None,
        var_id: VarId::Assumed(0),
    }
}

fn name(report: &mut Report, side: Side, ordinal: usize, bytes: &Bytes) -> (String, CString) {
    match std::str::from_utf8(bytes) {
        Ok(name) => match CString::new(name) {
            Ok(key) if !name.is_empty() && name.len() < NAME_LIMIT => (name.to_owned(), key),
            _ => {
                report.add(Finding::NameNotUsable {
                    side,
                    ordinal,
                    name: name.to_owned(),
                });
                (name.to_owned(), CString::default())
            }
        },
        Err(_) => {
            report.add(Finding::NameNotUtf8 {
                side,
                ordinal,
                bytes: bytes.to_vec(),
            });
            (
                String::from_utf8_lossy(bytes).into_owned(),
                CString::default(),
            )
        }
    }
}

fn shape(report: &mut Report, side: Side, ordinal: usize, name: &str, dims: &[i64]) -> Shape {
    dims.iter()
        .enumerate()
        .map(|(position, &value)| {
            usize::try_from(value).unwrap_or_else(|_| {
                report.add(Finding::BadDimension {
                    side,
                    ordinal,
                    name: name.to_owned(),
                    position,
                    value,
                });
                0
            })
        })
        .collect()
}

fn role(report: &mut Report, ordinal: usize, name: &str, number: i32) -> Role {
    match Type::try_from(number) {
        Ok(Type::UndefinedType | Type::UserInput) => Role::UserInput,
        Ok(Type::InputState) => Role::State,
        Ok(Type::InputWeight) => Role::Weight,
        Err(_) => {
            report.add(Finding::UnknownRole {
                ordinal,
                name: name.to_owned(),
                number,
            });
            Role::UserInput
        }
    }
}

/// Variable ids by the dense rule: inputs first, then outputs.
fn number(inputs: &mut [SlotData], outputs: &mut [SlotData]) {
    for (id, slot) in (0..).zip(inputs.iter_mut().chain(outputs)) {
        slot.var_id = VarId::Assumed(id);
    }
}

/// The number in a name of the form `input{i}`, without leading zeros.
fn numbered(side: Side, name: &str) -> Option<usize> {
    let digits = match side {
        Side::Input => name.strip_prefix("input")?,
        Side::Output => name.strip_prefix("output")?,
    };
    let canonical = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits.len() == 1 || !digits.starts_with('0'));
    canonical.then(|| digits.parse().ok()).flatten()
}

fn names(report: &mut Report, side: Side, slots: &[SlotData]) {
    let mut first: HashMap<&str, usize> = HashMap::with_capacity(slots.len());
    let mut unique = true;
    for (ordinal, slot) in slots.iter().enumerate() {
        match first.get(slot.name.as_str()) {
            Some(&first) => {
                unique = false;
                report.add(Finding::DuplicateName {
                    side,
                    name: slot.name.clone(),
                    first,
                    second: ordinal,
                });
            }
            None => {
                first.insert(&slot.name, ordinal);
            }
        }
    }
    let all_numbered = slots
        .iter()
        .all(|slot| numbered(side, &slot.name).is_some());
    let mut complete = true;
    if all_numbered && unique {
        for index in 0..slots.len() {
            if !first.contains_key(format!("{side}{index}").as_str()) {
                complete = false;
                report.add(Finding::MissingSlot { side, index });
            }
        }
    }
    for (ordinal, slot) in slots.iter().enumerate() {
        let number = numbered(side, &slot.name);
        if number == Some(ordinal) || number.is_some() && !(unique && complete) {
            continue;
        }
        report.add(Finding::UnexpectedName {
            side,
            ordinal,
            expected: format!("{side}{ordinal}"),
            found: slot.name.clone(),
        });
    }
}

fn keys(report: &mut Report, kind: KeyKind, inputs: &[SlotData]) {
    let mut first: HashMap<&Bytes, usize> = HashMap::new();
    for (ordinal, slot) in inputs.iter().enumerate() {
        let key = match kind {
            KeyKind::UserInput => &slot.user_input_key,
            KeyKind::Checkpoint => &slot.checkpoint_key,
        };
        let Some(key) = key.as_ref().filter(|key| !key.is_empty()) else {
            continue;
        };
        match first.get(key) {
            Some(&first) => report.add(Finding::DuplicateKey {
                kind,
                key: String::from_utf8_lossy(key).into_owned(),
                first,
                second: ordinal,
            }),
            None => {
                first.insert(key, ordinal);
            }
        }
    }
}

/// The counts of the header, which most producers leave 0: not stated.
fn counts(report: &mut Report, message: &MetaNeff, inputs: &[SlotData]) {
    let declared = [
        (Role::UserInput, message.num_user_inputs),
        (Role::State, message.num_states),
        (Role::Weight, message.num_weights),
    ];
    for (role, declared) in declared {
        let found = inputs.iter().filter(|slot| slot.role == role).count();
        if declared != 0 && usize::try_from(declared) != Ok(found) {
            report.add(Finding::RoleCount {
                role,
                declared,
                found,
            });
        }
    }
}

fn aliases(
    report: &mut Report,
    message: &MetaNeff,
    inputs: &mut [SlotData],
    outputs: &mut [SlotData],
) {
    for (&output, &input) in &message.output_aliases_to {
        let Some(out) = usize::try_from(output)
            .ok()
            .filter(|&index| index < outputs.len())
        else {
            report.add(Finding::AliasOutputOutOfRange {
                output,
                input,
                outputs: outputs.len(),
            });
            continue;
        };
        let Some(source) = usize::try_from(input)
            .ok()
            .filter(|&index| index < inputs.len())
        else {
            report.add(Finding::AliasInputOutOfRange {
                output,
                input,
                inputs: inputs.len(),
            });
            continue;
        };
        if let Some(taken) = inputs[source].alias {
            report.add(Finding::AliasedTwice {
                input: source,
                first: taken.index(),
                second: out,
            });
            continue;
        }
        let (target, donor) = (&outputs[out], &inputs[source]);
        if target.shape != donor.shape || target.data_type != donor.data_type {
            report.add(Finding::AliasMismatch {
                output: out,
                output_shape: target.shape.clone(),
                output_type: target.data_type,
                input: source,
                input_shape: donor.shape.clone(),
                input_type: donor.data_type,
                same_size: target.size == donor.size,
            });
        }
        inputs[source].alias = Some(Ordinal::new(out));
        outputs[out].alias = Some(Ordinal::new(source));
    }
}

fn compare_graph(
    report: &mut Report,
    graph: &Bytes,
    inputs: &mut [SlotData],
    outputs: &mut [SlotData],
) {
    let signature = match graph::decode(graph) {
        Ok(signature) => signature,
        Err(detail) => {
            report.add(Finding::GraphNotReadable { detail });
            return;
        }
    };
    compare_side(report, Side::Input, &signature.parameters, inputs);
    compare_side(report, Side::Output, &signature.results, outputs);
    compare_aliases(report, &signature.aliases, outputs);
}

fn compare_side(report: &mut Report, side: Side, leaves: &[Leaf], slots: &mut [SlotData]) {
    if leaves.len() != slots.len() {
        report.add(Finding::GraphCount {
            side,
            contract: slots.len(),
            graph: leaves.len(),
        });
        return;
    }
    for (ordinal, (slot, leaf)) in slots.iter_mut().zip(leaves).enumerate() {
        compare_shape(report, side, ordinal, slot, leaf);
        let Some(stored) = slot.stored else { continue };
        let meant = PrimitiveType::try_from(leaf.element_type)
            .ok()
            .and_then(DType::from_xla);
        match meant {
            Some(meant) if meant.may_be_stored_as(stored) => slot.graph = Some(meant),
            _ => report.add(Finding::GraphDType {
                side,
                ordinal,
                name: slot.name.clone(),
                stored,
                graph: PrimitiveType::try_from(leaf.element_type).map_or_else(
                    |_| leaf.element_type.to_string(),
                    |primitive| primitive.as_str_name().to_owned(),
                ),
                same_size: meant.is_some_and(|meant| meant.size() == stored.size()),
            }),
        }
    }
}

fn compare_shape(report: &mut Report, side: Side, ordinal: usize, slot: &SlotData, leaf: &Leaf) {
    let dims: Option<Shape> = leaf
        .dimensions
        .iter()
        .map(|&dim| usize::try_from(dim).ok())
        .collect();
    if dims.as_ref() == Some(&slot.shape) {
        return;
    }
    report.add(Finding::GraphShape {
        side,
        ordinal,
        name: slot.name.clone(),
        contract: slot.shape.clone(),
        graph: leaf.dimensions.clone(),
        same_size: dims.is_some_and(|dims| dims.elements() == slot.shape.elements()),
    });
}

fn compare_aliases(report: &mut Report, graph: &BTreeMap<usize, usize>, outputs: &[SlotData]) {
    for (output, slot) in outputs.iter().enumerate() {
        let contract = slot.alias.map(Ordinal::index);
        let graph = graph.get(&output).copied();
        if contract == graph {
            continue;
        }
        if let Some(input) = graph {
            report.add(Finding::AliasOnlyInGraph { output, input });
        }
        if let Some(input) = contract {
            report.add(Finding::AliasOnlyInContract { output, input });
        }
    }
}
