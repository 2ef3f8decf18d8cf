//! Batches of any size over a model that is compiled for one.
//!
//! A slot whose leading dimension is free takes part in a batch; scalars and
//! slots without the flag do not, and get the same tensor at every launch.
//! Source: the reference page, sections 4.1 and 5 (`get_slices`, `CreateSlice`).

use std::fmt;
use std::ops::Range;

use super::{
    BindError, ExecuteError, Failed, NumericalError, OutputError, Outputs, Session, launch,
};
use crate::backend::{Backend, Completion};
use crate::contract::{Contract, Ordinal, Slot, SlotKey};
use crate::device::ReadError;
use crate::failure::Rejected;
use crate::shape::Shape;
use crate::tensor::{HostTensor, Tensor, TensorError, Validated};

impl<B: Backend> Session<'_, B> {
    /// Executes a batch of any size: cuts it into launches of the compiled size,
    /// fills the last one up, and joins the outputs in the order of the rows.
    ///
    /// The last launch is filled up with copies of its last row, so that no NaN
    /// comes from a row that the caller did not give. No filled-up row is seen in
    /// an output. An empty batch makes no launch.
    ///
    /// Slots may be compiled for different leading dimensions, such as one row of
    /// a table for two rows of a batch; the given ones are then in the same
    /// proportion.
    ///
    /// # Errors
    ///
    /// [`BatchError`], with all inputs. [`BatchError::Inconsistent`] names the two
    /// slots that disagree.
    ///
    /// # Examples
    ///
    /// ```
    /// use metaneff_binding::testing::{Fake, add_model};
    /// use metaneff_binding::{Core, HostTensor, Runtime};
    ///
    /// let artifact = add_model().with_dynamic_batching(true)?; // f32[2] + f32[2]
    /// let runtime = Runtime::new(Fake::new());
    /// let model = runtime.load(&artifact, Core::new(0))?;
    /// let mut session = model.session()?;
    ///
    /// let (a, b) = ([1.0_f32, 2.0, 3.0], [10.0_f32, 20.0, 30.0]);
    /// let a = session.slot("input0")?.validate(HostTensor::from_slice([3], &a)?)?;
    /// let b = session.slot("input1")?.validate(HostTensor::from_slice([3], &b)?)?;
    /// let executed = session.execute_batch(vec![a, b])?;
    /// assert_eq!(executed.launches(), 2);
    /// let outputs = executed.tolerate_nan();
    /// assert_eq!(outputs.get(0)?.to_vec::<f32>()?, [11.0, 22.0, 33.0]);
    /// # Ok::<(), metaneff_binding::Error>(())
    /// ```
    pub fn execute_batch<'a>(
        &mut self,
        inputs: Vec<Tensor<Validated<'a>>>,
    ) -> Result<ExecutedBatch, Rejected<Vec<Tensor<Validated<'a>>>, BatchError>> {
        let run = Spread::new(self, &inputs).and_then(|spread| {
            let rows = self.run_units(&spread, &inputs, 0..spread.units)?;
            ExecutedBatch::join(self.contract(), &spread, vec![rows])
        });
        run.map_err(|reason| Rejected::new(inputs, reason))
    }

    /// Executes units `range` of a batch.
    pub(crate) fn run_units(
        &mut self,
        spread: &Spread,
        inputs: &[Tensor<Validated<'_>>],
        range: Range<usize>,
    ) -> Result<Rows, BatchError> {
        let mut rows = Rows::new(self.contract(), spread, range.len())?;
        let mut start = range.start;
        // A batch without rows to split is one launch.
        while start < range.end {
            let end = range.end.min(start.saturating_add(spread.capacity));
            let part = self.part(spread, inputs, start..end);
            let executed = self
                .bind(part)
                .map_err(Rejected::into_reason)?
                .execute(())
                .map_err(Failed::into_reason)?;
            if executed.completion() == Completion::NumericalError {
                rows.completion = Completion::NumericalError;
            }
            rows.launches += 1;
            let outputs = executed.tolerate_nan().into_outputs();
            rows.read(spread, &outputs, start - range.start..end - range.start)?;
            start = end;
        }
        Ok(rows)
    }

    /// The inputs of one launch.
    fn part<'t>(
        &self,
        spread: &Spread,
        inputs: &'t [Tensor<Validated<'_>>],
        units: Range<usize>,
    ) -> Vec<Tensor<Validated<'t>>> {
        let slots = self.contract().inputs();
        inputs
            .iter()
            .map(|tensor| {
                let slot = &slots[tensor.ordinal().index()];
                let (shape, bytes) = match spread.unit_bytes(slot) {
                    Some(unit) => {
                        let given = &tensor.bytes()[units.start * unit..units.end * unit];
                        (slot.shape().clone(), (given, slot.byte_size()))
                    }
                    None => {
                        let given = tensor.bytes();
                        (tensor.shape().clone(), (given, given.len()))
                    }
                };
                let host = match bytes {
                    (given, size) if given.len() == size => {
                        HostTensor::from_byte_slice(tensor.dtype(), shape, given)
                    }
                    (given, size) => {
                        let row = size / slot.shape().dims()[0];
                        let last = &given[given.len() - row..];
                        let mut filled = Vec::with_capacity(size);
                        filled.extend_from_slice(given);
                        while filled.len() < size {
                            filled.extend_from_slice(last);
                        }
                        HostTensor::from_bytes(tensor.dtype(), shape, filled)
                    }
                };
                match host {
                    Ok(host) => slot.admit(host),
                    // The sizes are those of the slot.
                    Err(error) => unreachable!("{error}"),
                }
            })
            .collect()
    }
}

/// How a batch is spread over launches, in units: the least number of rows that
/// every slot can give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    /// Units of the whole batch.
    pub(crate) units: usize,
    /// Units of one launch.
    pub(crate) capacity: usize,
}

impl Spread {
    pub(crate) fn new<B: Backend>(
        session: &Session<'_, B>,
        inputs: &[Tensor<Validated<'_>>],
    ) -> Result<Self, BatchError> {
        let contract = session.contract();
        let states = session.model().inner().plan().states.len();
        if states > 0 {
            return Err(BatchError::Stateful { states });
        }
        let visible = |slot: &&Slot| contract.is_visible(slot);
        let outputs = || contract.outputs().iter().filter(visible);
        let batched = |slot: &&Slot| slot.has_dynamic_batch();
        let mut capacity = 0;
        for slot in contract.user_inputs().chain(outputs()).filter(batched) {
            let compiled = compiled(slot);
            if compiled == 0 {
                return Err(BatchError::NoRows {
                    slot: slot.to_string(),
                });
            }
            capacity = gcd(capacity, compiled);
        }
        let mut first: Option<(&Slot, usize)> = None;
        for tensor in inputs {
            let slot = launch::own_slot(contract, tensor.contract(), tensor.ordinal())?;
            if !slot.has_dynamic_batch() {
                continue;
            }
            let rows = tensor.shape().dims().first().copied().unwrap_or_default();
            let per_unit = compiled(slot) / capacity;
            if rows % per_unit != 0 {
                return Err(BatchError::Multiple {
                    ordinal: slot.ordinal(),
                    name: slot.name().to_owned(),
                    rows,
                    multiple: per_unit,
                });
            }
            match first {
                None => first = Some((slot, rows)),
                Some((other, expected)) => {
                    if rows / per_unit != expected / (compiled(other) / capacity) {
                        return Err(BatchError::Inconsistent {
                            first: other.ordinal(),
                            first_name: other.name().to_owned(),
                            first_rows: expected,
                            first_compiled: compiled(other),
                            second: slot.ordinal(),
                            second_name: slot.name().to_owned(),
                            second_rows: rows,
                            second_compiled: compiled(slot),
                        });
                    }
                }
            }
        }
        let Some((slot, rows)) = first else {
            // Nothing varies: one launch of the compiled size.
            let capacity = capacity.max(1);
            return Ok(Self {
                units: capacity,
                capacity,
            });
        };
        let spread = Self {
            units: rows / (compiled(slot) / capacity),
            capacity,
        };
        if spread.units != spread.capacity {
            spread.check_outputs(contract)?;
        }
        Ok(spread)
    }

    /// Whether every output can be joined from parts.
    pub(crate) fn check_outputs(&self, contract: &Contract) -> Result<(), BatchError> {
        let fixed = contract
            .outputs()
            .iter()
            .find(|slot| contract.is_visible(slot) && !slot.has_dynamic_batch());
        match fixed {
            None => Ok(()),
            Some(slot) => Err(BatchError::FixedOutput {
                ordinal: slot.ordinal(),
                name: slot.name().to_owned(),
                shape: slot.shape().clone(),
            }),
        }
    }

    /// Bytes of a slot that belong to one unit; `None` for a slot that takes no
    /// part.
    fn unit_bytes(&self, slot: &Slot) -> Option<usize> {
        slot.has_dynamic_batch()
            .then(|| slot.byte_size() / self.capacity)
    }

    /// The shape of a slot for so many units.
    fn shape(&self, slot: &Slot, units: usize) -> Option<Shape> {
        if !slot.has_dynamic_batch() {
            return Some(slot.shape().clone());
        }
        let rows = (compiled(slot) / self.capacity).checked_mul(units)?;
        let rest = slot.shape().dims().iter().skip(1);
        Some(std::iter::once(rows).chain(rest.copied()).collect())
    }
}

fn compiled(slot: &Slot) -> usize {
    slot.shape().dims().first().copied().unwrap_or_default()
}

fn gcd(a: usize, b: usize) -> usize {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Outputs of a part of a batch, by output ordinal; `None` for hidden ones.
#[derive(Debug)]
pub(crate) struct Rows {
    outputs: Vec<Option<Vec<u8>>>,
    units: usize,
    completion: Completion,
    launches: usize,
}

impl Rows {
    fn new(contract: &Contract, spread: &Spread, units: usize) -> Result<Self, BatchError> {
        let outputs = contract.outputs().iter().map(|slot| {
            if !contract.is_visible(slot) {
                return Ok(None);
            }
            let size = spread
                .unit_bytes(slot)
                .map_or_else(|| Some(slot.byte_size()), |unit| unit.checked_mul(units));
            let mut bytes = Vec::new();
            let size = size.filter(|&size| bytes.try_reserve_exact(size).is_ok());
            let Some(size) = size else {
                return Err(BatchError::HostMemory {
                    ordinal: slot.ordinal(),
                    name: slot.name().to_owned(),
                });
            };
            bytes.resize(size, 0);
            Ok(Some(bytes))
        });
        Ok(Self {
            outputs: outputs.collect::<Result<_, BatchError>>()?,
            units,
            completion: Completion::Clean,
            launches: 0,
        })
    }

    /// Reads the outputs of a launch that was given units `range`; filled-up
    /// rows stay on the device.
    fn read<B: Backend>(
        &mut self,
        spread: &Spread,
        outputs: &Outputs<'_, '_, B>,
        range: Range<usize>,
    ) -> Result<(), BatchError> {
        for view in outputs.iter() {
            let Some(bytes) = &mut self.outputs[view.slot().ordinal().index()] else {
                continue;
            };
            let target = match spread.unit_bytes(view.slot()) {
                Some(unit) => &mut bytes[range.start * unit..range.end * unit],
                None => bytes,
            };
            if let Some(device) = view.device().filter(|_| !target.is_empty()) {
                device.read(0, target).map_err(ReadError::from)?;
            }
        }
        Ok(())
    }
}

/// A batch that has ended, before the caller has said what a NaN means to it.
#[derive(Debug)]
#[must_use = "an execution may have completed with a numerical error"]
pub struct ExecutedBatch {
    outputs: BatchOutputs,
    completion: Completion,
    launches: usize,
}

impl ExecutedBatch {
    /// Joins parts, in the order of their rows.
    pub(crate) fn join(
        contract: &Contract,
        spread: &Spread,
        parts: Vec<Rows>,
    ) -> Result<Self, BatchError> {
        let units = parts.iter().map(|part| part.units).sum();
        let launches = parts.iter().map(|part| part.launches).sum();
        let nan = parts
            .iter()
            .any(|part| part.completion == Completion::NumericalError);
        let mut joined: Vec<Option<Vec<u8>>> = Vec::new();
        for part in parts {
            if joined.is_empty() {
                joined = part.outputs;
                continue;
            }
            for (whole, part) in joined.iter_mut().zip(part.outputs) {
                if let (Some(whole), Some(part)) = (whole, part) {
                    whole.extend_from_slice(&part);
                }
            }
        }
        let outputs = contract.outputs().iter().zip(joined).map(|(slot, bytes)| {
            let (Some(bytes), Some(shape)) = (bytes, spread.shape(slot, units)) else {
                return Ok(None);
            };
            let dtype = slot.dtype().ok_or_else(|| ReadError::UnknownDataType {
                side: slot.side(),
                ordinal: slot.ordinal(),
                name: slot.name().to_owned(),
                number: slot.data_type(),
            })?;
            Ok(Some(HostTensor::from_bytes(dtype, shape, bytes)?))
        });
        Ok(Self {
            outputs: BatchOutputs {
                tensors: outputs.collect::<Result<_, BatchError>>()?,
                contract: contract.clone(),
            },
            completion: if nan {
                Completion::NumericalError
            } else {
                Completion::Clean
            },
            launches,
        })
    }

    /// How it ended: with a numerical error if one of its launches did.
    pub fn completion(&self) -> Completion {
        self.completion
    }

    /// How many launches it took.
    #[must_use]
    pub fn launches(&self) -> usize {
        self.launches
    }

    /// Takes the outputs whether or not one of them holds a NaN.
    #[must_use]
    pub fn tolerate_nan(self) -> BatchOutputs {
        self.outputs
    }

    /// Takes the outputs only if none of them holds a NaN.
    ///
    /// # Errors
    ///
    /// [`NumericalError`], with the outputs.
    pub fn reject_nan(self) -> Result<BatchOutputs, Rejected<BatchOutputs, NumericalError>> {
        match self.completion {
            Completion::Clean => Ok(self.outputs),
            Completion::NumericalError => Err(Rejected::new(self.outputs, NumericalError {})),
        }
    }
}

/// The outputs of a batch, on the host.
pub struct BatchOutputs {
    tensors: Vec<Option<HostTensor<'static>>>,
    contract: Contract,
}

impl BatchOutputs {
    /// One output, by ordinal or device name.
    ///
    /// # Errors
    ///
    /// [`OutputError::Lookup`] and [`OutputError::Hidden`].
    pub fn get<'k>(
        &self,
        key: impl Into<SlotKey<'k>>,
    ) -> Result<&HostTensor<'static>, OutputError> {
        let slot = self.contract.output(key)?;
        let tensor = self.tensors.get(slot.ordinal().index());
        tensor
            .and_then(Option::as_ref)
            .ok_or_else(|| OutputError::Hidden {
                ordinal: slot.ordinal(),
                name: slot.name().to_owned(),
                input: slot.alias().unwrap_or(slot.ordinal()),
            })
    }

    /// The outputs that the caller sees, by ordinal.
    pub fn iter(&self) -> impl Iterator<Item = (&Slot, &HostTensor<'static>)> {
        let tensors = self.contract.outputs().iter().zip(&self.tensors);
        tensors.filter_map(|(slot, tensor)| Some((slot, tensor.as_ref()?)))
    }

    /// The outputs that the caller sees, by ordinal, to keep.
    #[must_use]
    pub fn into_tensors(self) -> Vec<HostTensor<'static>> {
        self.tensors.into_iter().flatten().collect()
    }
}

impl fmt::Debug for BatchOutputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(_, t)| t)).finish()
    }
}

/// Why a batch was not executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// Two inputs have different numbers of rows.
    #[error(
        "inputs {first} `{first_name}` and {second} `{second_name}` disagree on the batch: \
         {first_rows} rows (compiled for {first_compiled}) and {second_rows} (compiled for \
         {second_compiled})"
    )]
    Inconsistent {
        /// The first of the two slots.
        first: Ordinal,
        /// Its name.
        first_name: String,
        /// Rows of its tensor.
        first_rows: usize,
        /// Rows that it is compiled for.
        first_compiled: usize,
        /// The second of the two slots.
        second: Ordinal,
        /// Its name.
        second_name: String,
        /// Rows of its tensor.
        second_rows: usize,
        /// Rows that it is compiled for.
        second_compiled: usize,
    },
    /// A slot takes several rows for one of another slot, and got a part of them.
    #[error("input {ordinal} `{name}` has {rows} rows, which is no multiple of {multiple}")]
    Multiple {
        /// The slot.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// Rows given.
        rows: usize,
        /// Rows that belong together.
        multiple: usize,
    },
    /// An output does not follow the batch, so it cannot be joined from parts.
    #[error(
        "output {ordinal} `{name}` is {shape} at every launch; only the compiled batch can be run"
    )]
    FixedOutput {
        /// The output.
        ordinal: Ordinal,
        /// Its name.
        name: String,
        /// Its shape.
        shape: Shape,
    },
    /// A slot with a free leading dimension is compiled for no rows.
    #[error("{slot} is compiled for no rows")]
    NoRows {
        /// The slot.
        slot: String,
    },
    /// The model keeps states, which follow one another from launch to launch.
    #[error("the model keeps {states} states, so a batch cannot be split over launches")]
    Stateful {
        /// States of the contract.
        states: usize,
    },
    /// The host has not enough memory for an output.
    #[error("the host has no memory for output {ordinal} `{name}` of the whole batch")]
    HostMemory {
        /// The output.
        ordinal: Ordinal,
        /// Its name.
        name: String,
    },
    /// There is no replica to execute on.
    #[error("there are no replicas")]
    NoReplicas,
    /// A thread for a replica cannot be started.
    #[error("no thread could execute a part of the batch: {detail}")]
    Thread {
        /// The reason.
        detail: String,
    },
    /// The inputs of a launch were refused.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A launch failed.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// An output was not read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An output cannot be made on the host.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}
