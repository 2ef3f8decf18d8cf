//! Finding models and tensors among the values of a module.

use std::collections::HashMap;

use bytes::Bytes;

use super::pickle::{Id, Value};
use super::{Pickle, ScriptError, ScriptKind, ScriptModel, ScriptTensor};
use crate::decode_metaneff;
use crate::neff::{HEADER_SIZE, NeffHeader};

/// How deep a module's values may nest.
const MAX_DEPTH: usize = 256;

/// Bytes that the names of models and tensors may take whatever the file's size.
const FREE_NAMES: usize = 64 << 10;

/// What a pickle holds.
#[derive(Default)]
pub(super) struct Found {
    pub(super) models: Vec<ScriptModel>,
    pub(super) tensors: Vec<ScriptTensor>,
    pub(super) blobs: Blobs,
}

/// Strings that are a NEFF or a metaneff, with their names.
#[derive(Default)]
pub(super) struct Blobs {
    neffs: Vec<(String, Bytes)>,
    metaneffs: Vec<Bytes>,
    numbers: Vec<i64>,
}

impl Blobs {
    pub(super) fn add(&mut self, name: &str, bytes: &Bytes) {
        self.add_as(Blob::of(bytes), name, bytes);
    }

    fn add_as(&mut self, blob: Blob, name: &str, bytes: &Bytes) {
        match blob {
            Blob::Neff => self.neffs.push((name.to_owned(), bytes.clone())),
            Blob::Metaneff => self.metaneffs.push(bytes.clone()),
            Blob::Other => {}
        }
    }

    /// Pairs the NEFFs with the metaneffs, in their order.
    pub(super) fn pair(
        self,
        name: &str,
        kind: ScriptKind,
    ) -> Result<Vec<ScriptModel>, ScriptError> {
        if self.neffs.len() != self.metaneffs.len() {
            return Err(ScriptError::Blobs {
                name: name.to_owned(),
                kind,
                neffs: self.neffs.len(),
                metaneffs: self.metaneffs.len(),
            });
        }
        let pairs = self.neffs.into_iter().zip(self.metaneffs);
        let models = pairs.map(|((name, neff), metaneff)| ScriptModel {
            name,
            kind,
            neff,
            metaneff,
            numbers: self.numbers.clone(),
        });
        Ok(models.collect())
    }
}

/// What a string is.
#[derive(Clone, Copy)]
enum Blob {
    Neff,
    Metaneff,
    Other,
}

impl Blob {
    fn of(bytes: &Bytes) -> Self {
        if is_neff(bytes) {
            Self::Neff
        } else if is_metaneff(bytes) {
            Self::Metaneff
        } else {
            Self::Other
        }
    }
}

/// A header that can be one, with as much data as it announces.
fn is_neff(bytes: &Bytes) -> bool {
    NeffHeader::read(bytes)
        .is_ok_and(|header| header.data_size <= (bytes.len() - HEADER_SIZE) as u64)
}

/// Fields of a metaneff, and at least one tensor among them.
fn is_metaneff(bytes: &Bytes) -> bool {
    decode_metaneff(bytes.clone()).is_ok_and(|message| {
        let tensors = message.input_tensors.iter().chain(&message.output_tensors);
        let mut named = tensors.map(|tensor| !tensor.name.is_empty()).peekable();
        named.peek().is_some() && named.all(|named| named)
    })
}

/// The models and tensors of a module's attributes.
pub(super) fn attributes(member: &str, prefix: &str, bytes: &Bytes) -> Result<Found, ScriptError> {
    let mut walk = Walk::new(member, format!("{prefix}data/"), bytes)?;
    let root = walk.pickle.root();
    walk.visit(root)?;
    Ok(walk.found)
}

/// The blobs and tensors of a module's constants.
pub(super) fn constants(member: &str, prefix: &str, bytes: &Bytes) -> Result<Found, ScriptError> {
    let mut walk = Walk::new(member, format!("{prefix}constants/"), bytes)?;
    let root = walk.pickle.root();
    let items = walk.pickle.tuple(root).unwrap_or_default().to_vec();
    for (position, id) in items.into_iter().enumerate() {
        let name = format!("CONSTANTS.c{position}");
        if let Some((_, range)) = walk.pickle.text(id) {
            walk.found.blobs.add(&name, &bytes.slice(range));
        } else if let Some(mut tensor) = ScriptTensor::of(&walk.pickle, id, &walk.folder) {
            walk.pay(name.len() + tensor.member.len())?;
            tensor.name = name;
            walk.found.tensors.push(tensor);
        }
    }
    Ok(walk.found)
}

/// One step from a value to a value inside of it.
#[derive(Clone, Copy)]
enum Step {
    Root,
    /// An attribute of an object.
    Attribute(Id),
    Key(Id),
    Index(usize),
    /// A tuple or a call around the value, which has no name.
    Inside,
}

struct Walk<'w> {
    member: &'w str,
    /// Where the storages of tensors are.
    folder: String,
    bytes: &'w Bytes,
    pickle: Pickle<'w>,
    seen: Vec<bool>,
    /// What the strings are that were looked into.
    blobs: HashMap<Id, Blob>,
    /// The steps to the value that is looked at.
    path: Vec<Step>,
    /// Bytes that names may still take.
    names: usize,
    found: Found,
}

impl<'w> Walk<'w> {
    fn new(member: &'w str, folder: String, bytes: &'w Bytes) -> Result<Self, ScriptError> {
        let pickle = Pickle::read(bytes).map_err(|cause| ScriptError::Pickle {
            member: member.to_owned(),
            cause,
        })?;
        Ok(Self {
            member,
            folder,
            bytes,
            seen: vec![false; pickle.count()],
            pickle,
            blobs: HashMap::new(),
            path: Vec::new(),
            names: FREE_NAMES.saturating_add(bytes.len()),
            found: Found::default(),
        })
    }

    /// Looks at a value and all that it holds, each once.
    fn visit(&mut self, root: Id) -> Result<(), ScriptError> {
        // What is still to be looked at: how deep it is, the step to it, itself.
        let mut open = vec![(0, Step::Root, root)];
        while let Some((depth, step, id)) = open.pop() {
            self.path.truncate(depth);
            self.path.push(step);
            if depth >= MAX_DEPTH {
                return Err(ScriptError::Depth {
                    member: self.member.to_owned(),
                    limit: MAX_DEPTH,
                });
            }
            let seen = &mut self.seen[id as usize];
            if std::mem::replace(seen, true) {
                continue;
            }
            if let Some(kind) = self.kind(id) {
                self.model(id, kind)?;
                continue;
            }
            if let Some(mut tensor) = ScriptTensor::of(&self.pickle, id, &self.folder) {
                self.pay(tensor.member.len())?;
                tensor.name = self.name()?;
                self.found.tensors.push(tensor);
                continue;
            }
            let start = open.len();
            match self.pickle.get(id) {
                Value::Object { state, .. } => match self.pickle.get(*state) {
                    Value::Dict(items) => {
                        for pair in items.chunks_exact(2) {
                            open.push((depth + 1, Step::Attribute(pair[0]), pair[1]));
                        }
                    }
                    _ => open.push((depth + 1, Step::Inside, *state)),
                },
                Value::Dict(items) => {
                    for pair in items.chunks_exact(2) {
                        open.push((depth + 1, Step::Key(pair[0]), pair[1]));
                    }
                }
                Value::List(items) | Value::Tuple(items) => {
                    let items = items.iter().enumerate();
                    open.extend(items.map(|(i, id)| (depth + 1, Step::Index(i), *id)));
                }
                // `restore_type_tag(value, type)` and the like: their first argument.
                Value::Call { arguments, .. } => {
                    let arguments = self.pickle.tuple(*arguments).unwrap_or_default();
                    open.extend(arguments.first().map(|id| (depth + 1, Step::Inside, *id)));
                }
                _ => {}
            }
            // The first one is looked at first.
            open[start..].reverse();
        }
        Ok(())
    }

    fn kind(&self, id: Id) -> Option<ScriptKind> {
        let Value::Object { class, .. } = self.pickle.get(id) else {
            return None;
        };
        match self.pickle.global(*class)? {
            (b"__torch__.torch.classes.neuron", b"Model") => Some(ScriptKind::Model),
            (b"__torch__.torch.classes.neuron", b"SPMDModel") => Some(ScriptKind::SpmdModel),
            _ => None,
        }
    }

    fn model(&mut self, id: Id, kind: ScriptKind) -> Result<(), ScriptError> {
        let name = self.name()?;
        let mut blobs = Blobs::default();
        let mut open = vec![id];
        // The object itself is marked already.
        self.seen[id as usize] = false;
        while let Some(id) = open.pop() {
            if matches!(
                self.pickle.get(id),
                Value::Object { .. }
                    | Value::Dict(_)
                    | Value::List(_)
                    | Value::Tuple(_)
                    | Value::Call { .. }
            ) && std::mem::replace(&mut self.seen[id as usize], true)
            {
                continue;
            }
            match self.pickle.get(id) {
                Value::Text(range) => {
                    let text = self.bytes.slice(range.clone());
                    // Models may share a string, which is looked into once.
                    let blob = *self.blobs.entry(id).or_insert_with(|| Blob::of(&text));
                    blobs.add_as(blob, &name, &text);
                }
                Value::Int(number) => blobs.numbers.push(*number),
                Value::Bool(value) => blobs.numbers.push(i64::from(*value)),
                Value::Object { state, .. } => open.push(*state),
                Value::Call { arguments, .. } => open.push(*arguments),
                Value::Dict(items) | Value::List(items) | Value::Tuple(items) => {
                    open.extend(items.iter().rev());
                }
                Value::None | Value::Float | Value::Global(..) | Value::Outside(_) => {}
            }
        }
        match &mut blobs.pair(&name, kind)?[..] {
            [model] => {
                self.found.models.push(model.clone());
                Ok(())
            }
            models => Err(ScriptError::Blobs {
                name,
                kind,
                neffs: models.len(),
                metaneffs: models.len(),
            }),
        }
    }

    /// The path to the value that is looked at.
    fn name(&mut self) -> Result<String, ScriptError> {
        let mut size = 0_usize;
        for step in &self.path {
            size = size.saturating_add(match step {
                Step::Attribute(key) | Step::Key(key) => self
                    .pickle
                    .text(*key)
                    .map_or(24, |(text, _)| text.len() + 4),
                Step::Root | Step::Index(_) | Step::Inside => 24,
            });
        }
        self.pay(size)?;
        let mut name = String::new();
        for step in &self.path {
            match step {
                Step::Attribute(key) => {
                    if !name.is_empty() {
                        name.push('.');
                    }
                    name.push_str(&self.key(*key));
                }
                Step::Key(key) if self.pickle.text(*key).is_some() => {
                    name.push_str("[\"");
                    name.push_str(&self.key(*key));
                    name.push_str("\"]");
                }
                Step::Key(key) => {
                    name.push('[');
                    name.push_str(&self.key(*key));
                    name.push(']');
                }
                Step::Index(position) => {
                    name.push('[');
                    name.push_str(&position.to_string());
                    name.push(']');
                }
                Step::Root | Step::Inside => {}
            }
        }
        Ok(name)
    }

    fn key(&self, id: Id) -> String {
        match (self.pickle.text(id), self.pickle.int(id)) {
            (Some((text, _)), _) => String::from_utf8_lossy(text).into_owned(),
            (None, Some(number)) => number.to_string(),
            (None, None) => "?".to_owned(),
        }
    }

    /// Takes bytes for names off the budget.
    fn pay(&mut self, size: usize) -> Result<(), ScriptError> {
        match self.names.checked_sub(size) {
            Some(left) => {
                self.names = left;
                Ok(())
            }
            None => Err(ScriptError::Names {
                member: self.member.to_owned(),
                limit: FREE_NAMES.saturating_add(self.bytes.len()),
            }),
        }
    }
}
