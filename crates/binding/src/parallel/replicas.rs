//! One model on several cores, which share the work of a batch.

use std::fmt;
use std::ops::Range;

use super::together;
use crate::artifact::Artifact;
use crate::backend::{Backend, Core};
use crate::contract::{Contract, LookupError, Slot, SlotKey};
use crate::failure::{Error, Rejected};
use crate::model::{Model, WeightsError};
use crate::runtime::{LoadOptions, Runtime, SharedRuntime};
use crate::session::{BatchError, ExecutedBatch, Rows, Session, Spread};
use crate::tensor::{Tensor, Validated};

/// One model loaded on several cores.
///
/// All replicas have one contract, so a tensor that is validated for it fits
/// each of them.
///
/// # Examples
///
/// ```
/// use metaneff_binding::testing::{Fake, add_model};
/// use metaneff_binding::{Core, HostTensor, Runtime};
///
/// let artifact = add_model().with_dynamic_batching(true)?; // f32[2] + f32[2]
/// let runtime = Runtime::new(Fake::new());
/// let mut replicas = runtime.replicate(&artifact, &[Core::new(0), Core::new(1), Core::new(2)])?;
/// assert_eq!(replicas.instance_count(), 3);
///
/// let rows = [1.0_f32, 2.0, 3.0, 4.0, 5.0];
/// let a = replicas.slot("input0")?.validate(HostTensor::from_slice([5], &rows)?)?;
/// let b = replicas.slot("input1")?.validate(HostTensor::from_slice([5], &rows)?)?;
/// let executed = replicas.execute_batch(vec![a, b])?; // 2, 2 and 1 rows
/// let outputs = executed.tolerate_nan();
/// assert_eq!(outputs.get(0)?.to_vec::<f32>()?, [2.0, 4.0, 6.0, 8.0, 10.0]);
/// # Ok::<(), metaneff_binding::Error>(())
/// ```
pub struct Replicas<'rt, B: Backend> {
    sessions: Vec<Session<'rt, B>>,
}

impl<B: Backend> Runtime<B> {
    /// Loads a model on each of the cores.
    ///
    /// # Errors
    ///
    /// As [`Runtime::load`] and [`Model::session`]; what was loaded is unloaded.
    pub fn replicate(&self, artifact: &Artifact, cores: &[Core]) -> Result<Replicas<'_, B>, Error> {
        Replicas::load(cores, |options| Ok(self.load_with(artifact, options)?))
    }
}

impl<B: Backend> SharedRuntime<B> {
    /// Loads a model on each of the cores.
    ///
    /// # Errors
    ///
    /// As [`Runtime::replicate`].
    pub fn replicate(
        &self,
        artifact: &Artifact,
        cores: &[Core],
    ) -> Result<Replicas<'static, B>, Error> {
        Replicas::load(cores, |options| Ok(self.load_with(artifact, options)?))
    }
}

impl<'rt, B: Backend> Replicas<'rt, B> {
    fn load(
        cores: &[Core],
        load: impl Fn(&LoadOptions) -> Result<Model<'rt, B>, Error>,
    ) -> Result<Self, Error> {
        let sessions = cores.iter().map(|&core| {
            let model = load(&LoadOptions::new().on(core))?;
            Ok(model.session()?)
        });
        Ok(Self {
            sessions: sessions.collect::<Result<_, Error>>()?,
        })
    }

    /// How many replicas there are.
    #[must_use]
    pub fn instance_count(&self) -> usize {
        self.sessions.len()
    }

    /// The replicas, in the order of their cores.
    pub fn models(&self) -> impl ExactSizeIterator<Item = &Model<'rt, B>> {
        self.sessions.iter().map(Session::model)
    }

    /// The contract of all replicas; `None` if there are none.
    #[must_use]
    pub fn contract(&self) -> Option<&Contract> {
        self.sessions.first().map(Session::contract)
    }

    /// Finds an input slot; see [`Contract::slot`].
    ///
    /// # Errors
    ///
    /// As [`Contract::slot`].
    pub fn slot<'k>(&self, key: impl Into<SlotKey<'k>>) -> Result<&Slot, LookupError> {
        match self.contract() {
            Some(contract) => contract.slot(key),
            None => Err(LookupError::OutOfRange {
                side: crate::backend::Side::Input,
                ordinal: 0,
                count: 0,
            }),
        }
    }

    /// Uploads all weights to every replica: to all of them, or to none.
    ///
    /// # Errors
    ///
    /// As [`Model::load_weights`].
    pub fn load_weights<'a>(
        &self,
        tensors: Vec<Tensor<Validated<'a>>>,
    ) -> Result<(), Rejected<Vec<Tensor<Validated<'a>>>, WeightsError>> {
        let staged = self.models().map(|model| model.stage_weights(&tensors));
        match staged.collect::<Result<Vec<_>, _>>() {
            Ok(staged) => {
                for (model, staged) in self.models().zip(staged) {
                    model.commit_weights(staged);
                }
                Ok(())
            }
            Err(reason) => Err(Rejected::new(tensors, reason)),
        }
    }

    /// Executes a batch over all replicas at once: as evenly as it goes, the
    /// first ones taking a row more, and the outputs in the order of the rows.
    ///
    /// # Errors
    ///
    /// As [`Session::execute_batch`], with all inputs.
    pub fn execute_batch<'a>(
        &mut self,
        inputs: Vec<Tensor<Validated<'a>>>,
    ) -> Result<ExecutedBatch, Rejected<Vec<Tensor<Validated<'a>>>, BatchError>> {
        self.try_execute(&inputs)
            .map_err(|reason| Rejected::new(inputs, reason))
    }

    fn try_execute(
        &mut self,
        inputs: &[Tensor<Validated<'_>>],
    ) -> Result<ExecutedBatch, BatchError> {
        let Some(first) = self.sessions.first() else {
            return Err(BatchError::NoReplicas);
        };
        let contract = first.contract().clone();
        let spread = Spread::new(first, inputs)?;
        if self.sessions.len() > 1 {
            spread.check_outputs(&contract)?;
        }
        let parts = split(spread.units, self.sessions.len());
        let jobs = self.sessions.iter_mut().zip(parts).collect();
        let results = together(jobs, |(session, part): (&mut Session<'_, B>, _)| {
            session.run_units(&spread, inputs, part)
        })
        .map_err(|failed| BatchError::Thread {
            detail: failed.error.to_string(),
        })?;
        let rows = results.into_iter().collect::<Result<Vec<Rows>, _>>()?;
        ExecutedBatch::join(&contract, &spread, rows)
    }
}

/// As even parts of `0..count` as there can be, the first ones larger by one.
fn split(count: usize, parts: usize) -> Vec<Range<usize>> {
    let (size, larger) = (count / parts, count % parts);
    let mut start = 0;
    (0..parts)
        .map(|part| {
            let end = start + size + usize::from(part < larger);
            let range = start..end;
            start = end;
            range
        })
        .collect()
}

impl<B: Backend> fmt::Debug for Replicas<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.models()).finish()
    }
}
