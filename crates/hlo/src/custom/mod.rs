//! Targets of custom calls.

mod neuron;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::array::{ArrayView, ArrayViewMut, ViewError};
use crate::error::KernelError;

/// Why a custom call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CustomCallError {
    /// No target of the name is registered.
    #[error("target `{target}` is not supported")]
    UnknownTarget {
        /// The name.
        target: String,
    },
    /// The call does not suit its target.
    #[error("target `{target}`: {what}: expected {expected}, found {found}")]
    Mismatch {
        /// The name.
        target: String,
        /// What does not suit.
        what: &'static str,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A view has another type or size than the target took for granted.
    #[error(transparent)]
    View(#[from] ViewError),
}

impl From<KernelError> for CustomCallError {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::View(error) => Self::View(error),
            other => Self::UnknownTarget {
                target: other.to_string(),
            },
        }
    }
}

/// A custom call as its target sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Call<'a> {
    /// Name of the target.
    pub target: &'a str,
    /// The call's configuration, opaque bytes.
    pub config: &'a [u8],
    /// Arrays of the operands, tuples flattened depth first.
    pub operands: &'a [ArrayView<'a>],
}

impl Call<'_> {
    /// The error for a call that does not suit its target.
    #[must_use]
    pub fn mismatch(
        &self,
        what: &'static str,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> CustomCallError {
        CustomCallError::Mismatch {
            target: self.target.to_owned(),
            what,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }
}

type Target =
    dyn Fn(Call<'_>, &mut [ArrayViewMut<'_>]) -> Result<(), CustomCallError> + Send + Sync;

/// Targets of custom calls, by name.
///
/// The default has those that Neuron's front ends emit and whose meaning is
/// public; [`names`](Self::names) lists them.
///
/// | target | operands; configuration | result | emitted by |
/// |---|---|---|---|
/// | `AwsNeuronTopK` | array; `k` | the `k` largest of the last dimension in falling order, ties by the lower index, and their indices | torch-neuronx (`torch.topk`), nkipy |
/// | `AwsNeuronArgMax`, `AwsNeuronArgMin` | array; dimension | index of the first extremum, NaN first | torch-neuronx, transformers-neuronx |
/// | `AwsNeuronSoftmax` | array; dimension | softmax | torch-neuronx, transformers-neuronx |
/// | `AwsNeuronSoftmaxBackward` | gradient, softmax; dimension | gradient of the input | torch-neuronx |
/// | `AwsNeuronRmsNorm` | array, weight, epsilon; dimension | normalised array times the weight | transformers-neuronx, neuronx-distributed (`CustomRMSNorm`) |
/// | `AwsNeuronGelu`, `AwsNeuronGeluApprxTanh` | array | GELU by erf, by tanh | torch-neuronx, transformers-neuronx |
/// | `AwsNeuronGeluBackward` | gradient, array | gradient of the input, by erf | torch-neuronx |
/// | `AwsNeuronSilu`, `AwsNeuronSiluBackward` | array; gradient, array | SiLU, gradient of its input | neuronx-cc's list of targets |
/// | `AwsNeuronErf` | array | error function | neuronx-cc's list of targets |
/// | `AwsNeuronTransferWithStaticRing`, `AwsNeuronLNCShardingConstraint`, `AwsNeuronModuleMarkerStart-Forward` and its kin, `NeuronBoundaryMarker-Start`, `-End` | arrays | the operands | torch-neuronx, neuronx-distributed, transformers-neuronx |
///
/// # Examples
///
/// ```
/// use metaneff_hlo::CustomCalls;
///
/// let mut targets = CustomCalls::default();
/// targets.register("Twice", |call, results| {
///     let input = call.operands[0].values::<f32>()?;
///     for (out, x) in results[0].values_mut::<f32>()?.iter_mut().zip(input) {
///         *out = 2.0 * x;
///     }
///     Ok(())
/// });
/// assert!(targets.names().any(|name| name == "Twice"));
/// ```
#[derive(Clone)]
pub struct CustomCalls {
    targets: BTreeMap<String, Arc<Target>>,
}

impl CustomCalls {
    /// No targets at all.
    #[must_use]
    pub fn none() -> Self {
        Self {
            targets: BTreeMap::new(),
        }
    }

    /// Adds a target, in place of any of the same name. It reads the arrays of
    /// the call and writes those of the result, tuples flattened depth first,
    /// whose contents it finds unspecified.
    pub fn register(
        &mut self,
        name: impl Into<String>,
        target: impl Fn(Call<'_>, &mut [ArrayViewMut<'_>]) -> Result<(), CustomCallError>
        + Send
        + Sync
        + 'static,
    ) {
        self.targets.insert(name.into(), Arc::new(target));
    }

    /// Names of the targets.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.targets.keys().map(String::as_str)
    }

    pub(crate) fn call(
        &self,
        call: Call<'_>,
        results: &mut [ArrayViewMut<'_>],
    ) -> Result<(), CustomCallError> {
        let target = self.targets.get(call.target);
        let target = target.ok_or_else(|| CustomCallError::UnknownTarget {
            target: call.target.to_owned(),
        })?;
        target(call, results)
    }
}

impl Default for CustomCalls {
    fn default() -> Self {
        let mut targets = Self::none();
        neuron::register(&mut targets);
        targets
    }
}

impl fmt::Debug for CustomCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
