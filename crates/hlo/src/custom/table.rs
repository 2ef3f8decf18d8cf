//! Targets of custom calls as data: what executes, what is refused and why.

/// A target that executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TargetInfo {
    /// Its name.
    pub target: &'static str,
    /// Operands; what `backend_config` holds, if anything.
    pub takes: &'static str,
    /// What it gives.
    pub gives: &'static str,
    /// Where its meaning can be read: repository and path.
    pub source: &'static str,
}

/// A target that Neuron's compiler knows and this crate does not execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedTarget {
    /// Its name.
    pub target: &'static str,
    /// Why.
    pub reason: &'static str,
    /// Where it is named: repository and path.
    pub source: &'static str,
}

/// `torch_neuronx/xla_impl/ops.py` of the wheel torch-neuronx, which AWS
/// publishes at its own package index.
const OPS: &str = "torch-neuronx (wheel): torch_neuronx/xla_impl/ops.py";
const RING: &str = "transformers-neuronx: src/transformers_neuronx/hlo.py";
const MARKERS: &str = "neuronx-distributed-inference: src/neuronx_distributed_inference/models/layer_boundary_marker.py";
const LIST: &str = "aws-neuron-sdk: compiler/error-codes/EVRF015.rst (the name only)";
const XLA: &str = "openxla/xla: xla/service/sharding_propagation.cc";
const RESIZE: &str = "pytorch/xla: torch_xla/csrc/resize_ops.cpp";

macro_rules! targets {
    ($($target:literal, $takes:literal, $gives:literal, $source:expr;)*) => {
        /// The targets that [`CustomCalls::default`](crate::CustomCalls) has, and
        /// `AwsNeuronCollectiveMatmul`, which needs the world of the execution.
        pub const TARGETS: &[TargetInfo] = &[$(TargetInfo {
            target: $target,
            takes: $takes,
            gives: $gives,
            source: $source,
        }),*];
    };
}

targets! {
    "AwsNeuronArgMax", "array; dimension", "index of the first largest, NaN before all; any integer type", "transformers-neuronx: src/transformers_neuronx/hlo.py; torch-neuronx (wheel): torch_neuronx/xla_impl/ops.py";
    "AwsNeuronArgMin", "array; dimension", "index of the first least, NaN before all; any integer type", OPS;
    "AwsNeuronCollectiveMatmul", "part of the left matrix, right matrix; `rhs_contracting_dim`, `tp_degree`, `num_groups` = 1", "product of the rows of all devices with the right matrix", "neuronx-distributed-inference: src/neuronx_distributed_inference/modules/eagle/utils.py";
    "AwsNeuronErf", "array", "error function", LIST;
    "AwsNeuronGelu", "array", "x Φ(x), by the error function", OPS;
    "AwsNeuronGeluApprxTanh", "array", "GELU by tanh", "transformers-neuronx: src/transformers_neuronx/activations.py";
    "AwsNeuronGeluBackward", "array; or gradient, array", "derivative of GELU by the error function; times the gradient", OPS;
    "AwsNeuronLNCShardingConstraint", "arrays", "its operands", LIST;
    "AwsNeuronModuleMarkerEnd-Backward", "arrays", "its operands", LIST;
    "AwsNeuronModuleMarkerEnd-Forward", "arrays", "its operands", MARKERS;
    "AwsNeuronModuleMarkerStart-Backward", "arrays", "its operands", LIST;
    "AwsNeuronModuleMarkerStart-Forward", "arrays", "its operands", MARKERS;
    "AwsNeuronRmsNorm", "array, weight, epsilon; dimension", "array over its root mean square along the dimension, times the weight, in the type of the result", "transformers-neuronx: src/transformers_neuronx/hlo.py; torch-neuronx (wheel): torch_neuronx/xla_impl/ops.py";
    "AwsNeuronSilu", "array", "x times its logistic function", LIST;
    "AwsNeuronSiluBackward", "array; or gradient, array", "derivative of SiLU; times the gradient", LIST;
    "AwsNeuronSoftmax", "array; dimension", "softmax along the dimension", "transformers-neuronx: src/transformers_neuronx/activations.py; torch-neuronx (wheel): torch_neuronx/xla_impl/ops.py";
    "AwsNeuronSoftmaxBackward", "gradient, softmax; dimension", "gradient of the input", OPS;
    "AwsNeuronTopK", "array; k", "the k largest of the last dimension, falling, ties by the lower index, and their indices", "nkipy: nkipy/src/nkipy/core/backend/hlo.py; transformers-neuronx: src/transformers_neuronx/hlo.py";
    "AwsNeuronTransferWithStaticRing", "arrays", "its operands", RING;
    "NeuronBoundaryMarker-End", "arrays", "its operands", LIST;
    "NeuronBoundaryMarker-Start", "arrays", "its operands", LIST;
    "ResizeBilinear", "images (NHWC); `\"AH\"`: align corners, half-pixel centres", "images of the result's size, interpolated", RESIZE;
    "ResizeBilinearGrad", "gradient (NHWC); as ResizeBilinear", "gradient of the images", RESIZE;
    "ResizeNearest", "images (NHWC); `\"AH\"`: align corners, half-pixel centres", "images of the result's size, of the nearest pixels", RESIZE;
    "ResizeNearestGrad", "gradient (NHWC); as ResizeNearest", "gradient of the images", RESIZE;
    "Sharding", "arrays", "its operands", XLA;
    "TorchNeuronStartBackward", "arrays", "its operands", "torch-neuronx (wheel): torch_neuronx/xla_impl/custom_call_targets.py";
}

macro_rules! refused {
    ($($target:literal, $reason:literal, $source:expr;)*) => {
        /// The targets that are refused.
        pub const REFUSED_TARGETS: &[RefusedTarget] = &[$(RefusedTarget {
            target: $target,
            reason: $reason,
            source: $source,
        }),*];
    };
}

refused! {
    "AwsNeuronCustomNativeKernel", "it runs an NKI kernel, machine code for the device; register a target that computes the same", "nkipy: nkipy/src/nkipy/core/nki_op.py";
    "AwsNeuronCustomOp", "it runs a library of C++ for the device; register a target that computes the same", OPS;
    "AwsNeuronDevicePrint", "its operands and what it gives are not public", LIST;
    "AwsNeuronDropoutMaskV1", "its random numbers are not public", LIST;
    "AwsNeuronIntMatmult", "its configuration is not public", LIST;
    "AwsNeuronRmsNormBackward", "it takes the normalised output, from which the gradient cannot be computed alone; what else it relies on is not public", OPS;
    "SPMDFullToShardShape", "partition the module first", XLA;
    "SPMDShardToFullShape", "partition the module first", XLA;
    "TorchNeuronUnloadPriorModels", "it instructs the runtime and has no value", OPS;
}

/// The refusal of a target that is known by name.
pub(crate) fn refused(target: &str) -> Option<&'static RefusedTarget> {
    REFUSED_TARGETS
        .iter()
        .find(|refused| target.strip_prefix(refused.target).is_some_and(is_suffix))
}

/// `TorchNeuronUnloadPriorModels` has a number behind it.
fn is_suffix(rest: &str) -> bool {
    rest.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::custom::CustomCalls;

    #[test]
    fn the_table_lists_the_registered_targets() {
        let listed: Vec<&str> = TARGETS.iter().map(|info| info.target).collect();
        assert!(listed.is_sorted());
        let targets = CustomCalls::default();
        let mut registered: Vec<&str> = targets.names().collect();
        registered.push(super::super::COLLECTIVE_MATMUL);
        registered.sort_unstable();
        assert_eq!(listed, registered);
    }

    #[test]
    fn refused_targets_are_found_by_name() {
        assert!(REFUSED_TARGETS.is_sorted_by_key(|refused| refused.target));
        for name in ["AwsNeuronCustomOp", "TorchNeuronUnloadPriorModels1"] {
            assert!(refused(name).is_some(), "{name}");
        }
        for name in ["AwsNeuronCustomOpX", "AwsNeuronTopK", "Foo"] {
            assert!(refused(name).is_none(), "{name}");
        }
    }
}
