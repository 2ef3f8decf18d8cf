//! From files on the command line to the tensors of a launch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use metaneff_binding::{
    Artifact, Contract, ContractOptions, DType, HostTensor, Role, Slot, Tensor, Validated,
};
use metaneff_schema::MetaNeffBuilder;
use metaneff_schema::neff::{Neff, ParseOptions};

use crate::arrays::{Entry, Source};
use crate::exit::Failure;
use crate::files;

/// Options of every verb that fills a model's inputs.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BindArgs {
    /// The compiled program.
    pub(crate) neff: PathBuf,
    /// Its contract. Without it, the contract is derived from the module that
    /// the NEFF carries.
    pub(crate) metaneff: Option<PathBuf>,
    /// `SLOT=FILE`, or a file or folder with arrays named after slots: `.npy`,
    /// `.npz`, `.safetensors`, raw bytes, a folder of `.npy`, or one that the
    /// runtime dumped (`input_dump_*`). A slot is an argument's name, a checkpoint
    /// key, a device name or a number.
    #[arg(
        short,
        long = "input",
        value_name = "[SLOT=]FILE",
        help_heading = "Inputs"
    )]
    inputs: Vec<String>,
    /// Weights and states: a safetensors file, a folder of shards, `.npz`, a
    /// folder of `.npy`. What no slot is called is left out.
    #[arg(short, long, value_name = "PATH", help_heading = "Inputs")]
    weights: Option<PathBuf>,
    /// Which shard of a folder of `tp{rank}_sharded_checkpoint.safetensors`.
    #[arg(long, default_value_t = 0, help_heading = "Inputs")]
    rank: u32,
    /// Fill what is not given with numbers from a seed: floats in [-1, 1), integers
    /// from 0 to 9.
    #[arg(
        long,
        value_name = "SEED",
        conflicts_with = "zeros",
        help_heading = "Inputs"
    )]
    random: Option<u64>,
    /// Fill what is not given with zeros.
    #[arg(long, help_heading = "Inputs")]
    zeros: bool,
    /// Take a contract whose findings name no other buffer and no other size.
    #[arg(long, help_heading = "Inputs")]
    lenient: bool,
}

/// Tensors by who holds them.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    pub(crate) inputs: Vec<Tensor<Validated<'static>>>,
    pub(crate) states: Vec<Tensor<Validated<'static>>>,
    pub(crate) weights: Vec<Tensor<Validated<'static>>>,
    /// Arrays of `--weights` that are called like no slot.
    unused: Vec<String>,
}

impl Bindings {
    /// What a person may want to know of arrays that were left out.
    pub(crate) fn remark(&self) -> Option<String> {
        let shown: Vec<_> = self
            .unused
            .iter()
            .take(3)
            .map(|name| crate::text::shown(name))
            .collect();
        let more = if self.unused.len() > shown.len() {
            ", …"
        } else {
            ""
        };
        (!shown.is_empty()).then(|| {
            let number = crate::text::plural(self.unused.len(), "array");
            format!(
                "note: {number} of --weights called like no slot: {}{more}",
                shown.join(", ")
            )
        })
    }
}

impl BindArgs {
    /// Reads the model's files.
    pub(crate) fn artifact(&self) -> Result<Artifact, Failure> {
        let neff = files::read(&self.neff)?;
        let Some(path) = &self.metaneff else {
            return self.derived(neff);
        };
        let mut options = ContractOptions::new();
        if self.lenient {
            options = options.lenient();
        }
        let metaneff = files::read(path)?;
        Artifact::from_bytes_with(neff, metaneff, &options).map_err(|error| {
            use metaneff_binding::ArtifactError as E;
            let (path, advice) = match &error {
                E::Neff(_) => (&self.neff, ""),
                E::Contract(_) | E::Join(_) => {
                    (path, "; `metaneff check` says what each of it means")
                }
                _ => (path, ""),
            };
            Failure::File {
                path: path.clone(),
                reason: format!("{}{advice}", crate::exit::chain(&error)),
            }
        })
    }

    /// The contract of a NEFF that carries its module: every input is the
    /// caller's.
    fn derived(&self, bytes: Bytes) -> Result<Artifact, Failure> {
        let failed = |error: &dyn std::error::Error| Failure::file(&self.neff, error);
        let neff =
            Neff::parse(bytes.clone(), &ParseOptions::default()).map_err(|error| failed(&error))?;
        let Some(graph) = neff.graph() else {
            return Err(Failure::Usage(format!(
                "`{}` carries no module, so its metaneff must be given",
                self.neff.display()
            )));
        };
        let message = MetaNeffBuilder::from_hlo(graph.clone()).map_err(|error| failed(&error))?;
        let message = message.without_roles().build();
        // Front ends choose names of their own.
        let options = ContractOptions::new().lenient();
        let contract = Contract::new(&message, &options).map_err(|error| failed(&error))?;
        let contract = contract.join(&neff).map_err(|error| failed(&error))?;
        Ok(Artifact::from_contract(bytes, contract))
    }

    /// Finds, reads and validates a tensor for every slot.
    pub(crate) fn bindings(&self, contract: &Contract) -> Result<Bindings, Failure> {
        let mut given: BTreeMap<usize, Entry> = BTreeMap::new();
        let mut bindings = Bindings::default();
        if let Some(path) = &self.weights {
            bindings.unused = self.add_weights(path, contract, &mut given)?;
        }
        for text in &self.inputs {
            add_input(text, contract, &mut given)?;
        }
        let mut missing = Vec::new();
        for slot in contract.inputs() {
            let tensor = match given.get(&slot.ordinal().index()) {
                Some(entry) => read(slot, entry)?,
                None => match self.fill(slot)? {
                    Some(tensor) => tensor,
                    // A model's states start at zero, its constants are there.
                    None if slot.role() == Role::State || !slot.content().is_empty() => continue,
                    None => {
                        missing.push(slot);
                        continue;
                    }
                },
            };
            let tensor = slot.validate(tensor).map_err(|rejected| {
                let reason = rejected.into_reason().to_string();
                match given.get(&slot.ordinal().index()) {
                    Some(entry) => Failure::File {
                        path: entry.path.clone(),
                        reason,
                    },
                    None => Failure::Usage(reason),
                }
            })?;
            match slot.role() {
                Role::State => bindings.states.push(tensor),
                // An aliased weight changes with every launch, so it is a state.
                Role::Weight if slot.alias().is_some() => bindings.states.push(tensor),
                Role::Weight => bindings.weights.push(tensor),
                _ => bindings.inputs.push(tensor),
            }
        }
        if missing.is_empty() {
            return Ok(bindings);
        }
        Err(Failure::Usage(not_given(&missing)))
    }

    fn add_weights(
        &self,
        path: &Path,
        contract: &Contract,
        given: &mut BTreeMap<usize, Entry>,
    ) -> Result<Vec<String>, Failure> {
        let shard = path.join(format!("tp{}_sharded_checkpoint.safetensors", self.rank));
        let source = Source::open(if shard.exists() { &shard } else { path })?;
        match source {
            Source::One(_) => Err(Failure::Usage(format!(
                "--weights `{}` has one array without a name; --input SLOT=FILE says whose it is",
                path.display()
            ))),
            Source::Many(entries) => {
                let mut unused = Vec::new();
                for (name, entry) in entries {
                    match contract.slot(name.as_str()) {
                        Ok(slot) => {
                            given.insert(slot.ordinal().index(), entry);
                        }
                        Err(_) => unused.push(name),
                    }
                }
                Ok(unused)
            }
        }
    }

    fn fill(&self, slot: &Slot) -> Result<Option<HostTensor<'static>>, Failure> {
        let (Some(dtype), true) = (slot.dtype(), self.zeros || self.random.is_some()) else {
            return Ok(None);
        };
        let zeros = HostTensor::zeros(dtype, slot.shape().clone())
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let Some(seed) = self.random else {
            return Ok(Some(zeros));
        };
        let bytes = random(
            dtype,
            zeros.bytes().len(),
            seed,
            slot.ordinal().index() as u64,
        );
        HostTensor::from_bytes(dtype, slot.shape().clone(), bytes)
            .map(Some)
            .map_err(|error| Failure::Usage(error.to_string()))
    }
}

fn not_given(missing: &[&Slot]) -> String {
    let lines: Vec<_> = missing
        .iter()
        .map(|slot| format!("\n  {slot}, {}{}", slot.role(), key_of(slot)))
        .collect();
    format!(
        "{} without a tensor:{}\n  --input [SLOT=]FILE, --weights PATH, --random SEED or --zeros give one",
        crate::text::plural(missing.len(), "input"),
        lines.concat()
    )
}

fn key_of(slot: &Slot) -> String {
    let key = slot.user_input_key().or_else(|| slot.checkpoint_key());
    key.map_or_else(String::new, |key| {
        format!(" `{}`", crate::text::shown_bytes(key))
    })
}

fn read(slot: &Slot, entry: &Entry) -> Result<HostTensor<'static>, Failure> {
    let array = entry.read()?;
    array.into_tensor(slot).map_err(|error| Failure::File {
        path: entry.path.clone(),
        reason: format!("for {slot}: {error}"),
    })
}

fn add_input(
    text: &str,
    contract: &Contract,
    given: &mut BTreeMap<usize, Entry>,
) -> Result<(), Failure> {
    // A file whose name has an equals sign is a file all the same.
    let named = text.split_once('=').filter(|_| !Path::new(text).exists());
    if let Some((name, path)) = named {
        let slot = find(contract, name).ok_or_else(|| unknown(contract, name))?;
        let entry = match Source::open(Path::new(path))? {
            Source::One(entry) => entry,
            Source::Many(entries) if entries.len() == 1 => entries
                .into_values()
                .next()
                .ok_or_else(|| unknown(contract, name))?,
            Source::Many(entries) => entries.get(name).cloned().ok_or_else(|| {
                let names: Vec<_> = entries.keys().map(String::as_str).collect();
                Failure::Usage(format!(
                    "`{path}` has no array `{name}`, but {}",
                    names.join(", ")
                ))
            })?,
        };
        given.insert(slot.ordinal().index(), entry);
        return Ok(());
    }
    match Source::open(Path::new(text))? {
        Source::One(entry) => {
            let mut open = contract
                .user_inputs()
                .filter(|slot| !given.contains_key(&slot.ordinal().index()));
            match (open.next(), open.next()) {
                (Some(slot), None) => {
                    given.insert(slot.ordinal().index(), entry);
                    Ok(())
                }
                _ => Err(Failure::Usage(format!(
                    "`{text}` has one array without a name, and the model not one input that is \
                     open; --input SLOT=FILE says whose it is"
                ))),
            }
        }
        Source::Many(entries) => {
            for (name, entry) in entries {
                let slot = find(contract, &name).ok_or_else(|| unknown(contract, &name))?;
                given.insert(slot.ordinal().index(), entry);
            }
            Ok(())
        }
    }
}

/// An input by any of its names, or by number.
fn find<'c>(contract: &'c Contract, name: &str) -> Option<&'c Slot> {
    let by_text = contract.slot(name).ok();
    by_text.or_else(|| contract.slot(name.parse::<usize>().ok()?).ok())
}

fn unknown(contract: &Contract, name: &str) -> Failure {
    let names: Vec<_> = contract
        .inputs()
        .iter()
        .map(|slot| format!("{}{}", slot.name(), key_of(slot)))
        .collect();
    Failure::Usage(format!(
        "no input is called `{}`; there are {}",
        crate::text::shown(name),
        names.join(", ")
    ))
}

/// Numbers that depend on seed and slot alone, by SplitMix64.
fn random(dtype: DType, length: usize, seed: u64, slot: u64) -> Vec<u8> {
    let mut state = seed ^ slot.wrapping_mul(0xA076_1D64_78BD_642F);
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let size = dtype.size();
    let mut out = Vec::with_capacity(length);
    for _ in 0..length / size {
        let bits = next();
        // 24 bits, so that every float type's rounding sees the same number.
        #[expect(clippy::cast_precision_loss, reason = "24 bits fit an f32")]
        let unit = (bits >> 40) as f32 / (1_u32 << 23) as f32 - 1.0;
        let element: [u8; 8] = match dtype {
            DType::F64 => f64::from(unit).to_le_bytes(),
            DType::F32 => wide(unit.to_le_bytes()),
            DType::F16 => wide(half::f16::from_f32(unit * 0.999).to_le_bytes()),
            DType::BF16 => wide(half::bf16::from_f32(unit * 0.99).to_le_bytes()),
            // Without its second bit an 8-bit float is below 2 and no NaN.
            _ if dtype.is_float() => (bits & 0xbf & !0x40).to_le_bytes(),
            DType::Bool => (bits & 1).to_le_bytes(),
            _ => (bits % 10).to_le_bytes(),
        };
        out.extend_from_slice(element.get(..size).unwrap_or_default());
    }
    out
}

fn wide<const N: usize>(bytes: [u8; N]) -> [u8; 8] {
    let mut out = [0; 8];
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = from;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::number::value;

    #[test]
    fn random_numbers_are_in_range_and_depend_on_seed_and_slot() {
        for &dtype in DType::ALL {
            let bytes = random(dtype, 1000 * dtype.size(), 3, 0);
            assert_eq!(bytes.len(), 1000 * dtype.size());
            let values: Vec<_> = bytes
                .chunks(dtype.size())
                .map(|x| value(dtype, x))
                .collect();
            let range = match dtype {
                DType::Bool => 0.0..=1.0,
                _ if dtype.is_float() && dtype.size() > 1 => -1.0..=1.0,
                _ if dtype.is_float() => -2.0..=2.0,
                _ => 0.0..=9.0,
            };
            assert!(
                values.iter().all(|x| range.contains(x)),
                "{dtype}: {values:?}"
            );
            assert!(values.iter().any(|x| *x != values[0]), "{dtype}");
            assert_eq!(random(dtype, 1000 * dtype.size(), 3, 0), bytes);
            assert_ne!(random(dtype, 1000 * dtype.size(), 4, 0), bytes);
            assert_ne!(random(dtype, 1000 * dtype.size(), 3, 1), bytes);
        }
    }
}
