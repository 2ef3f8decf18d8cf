//! Opcodes by name.

use crate::ir::{BinaryOp, Op, UnaryOp};

use super::algebra::{self, BatchNorm};
use super::problem::Problem;
use super::scope::Scope;
use crate::opcodes::refused;

use super::{collective, control, elementwise, indexing, movement, reduction};

/// Checks an instruction by its opcode.
pub(super) fn check(scope: &Scope<'_>) -> Result<Op, Problem> {
    let opcode = scope.proto.opcode.as_str();
    if let Some(op) = unary(opcode) {
        return elementwise::unary(scope, op);
    }
    if let Some(op) = binary(opcode) {
        return elementwise::binary(scope, op);
    }
    match opcode {
        "compare" => elementwise::compare(scope),
        "select" => elementwise::select(scope),
        "clamp" => elementwise::clamp(scope),
        "convert" => elementwise::convert(scope),
        "bitcast-convert" => elementwise::bitcast_convert(scope),
        "reduce-precision" => elementwise::reduce_precision(scope),
        "map" => elementwise::map(scope),
        "broadcast" => movement::broadcast(scope),
        "reshape" | "bitcast" => movement::reshape(scope),
        "transpose" => movement::transpose(scope),
        "slice" => movement::slice(scope),
        "pad" => movement::pad(scope),
        "concatenate" => movement::concatenate(scope),
        "reverse" => movement::reverse(scope),
        "iota" => movement::iota(scope),
        "dynamic-slice" => movement::dynamic_slice(scope),
        "dynamic-update-slice" => movement::dynamic_update_slice(scope),
        "get-dimension-size" => movement::get_dimension_size(scope),
        "gather" => indexing::gather(scope),
        "scatter" => indexing::scatter(scope),
        "reduce" => reduction::reduce(scope),
        "reduce-window" => reduction::reduce_window(scope),
        "select-and-scatter" => reduction::select_and_scatter(scope),
        "sort" => reduction::sort(scope),
        "topk" => reduction::top_k(scope),
        "dot" => algebra::dot(scope),
        "convolution" => algebra::convolution(scope),
        "fft" => algebra::fft(scope),
        "cholesky" => algebra::cholesky(scope),
        "triangular-solve" => algebra::triangular_solve(scope),
        "batch-norm-training" => algebra::batch_norm(scope, BatchNorm::Training),
        "batch-norm-inference" => algebra::batch_norm(scope, BatchNorm::Inference),
        "batch-norm-grad" => algebra::batch_norm(scope, BatchNorm::Grad),
        _ => plumbing(scope, opcode),
    }
}

fn plumbing(scope: &Scope<'_>, opcode: &str) -> Result<Op, Problem> {
    match opcode {
        "parameter" => control::parameter(scope),
        "constant" => control::constant(scope),
        "copy" => control::identity(scope, Op::Copy),
        "copy-start" => control::copy_start(scope),
        "copy-done" => control::done(scope, &["copy-start"], 0),
        "async-start" => control::async_start(scope),
        "async-update" => control::async_update(scope),
        "async-done" => control::done(scope, &["async-start", "async-update"], 1),
        "domain" => control::identity(scope, Op::Domain),
        "opt-barrier" | "optimization-barrier" => control::identity(scope, Op::OptimizationBarrier),
        "tuple" => control::tuple(scope),
        "get-tuple-element" => control::get_tuple_element(scope),
        "after-all" => control::after_all(scope),
        "add-dependency" => control::add_dependency(scope),
        "call" => control::call(scope, |computation| Op::Call { computation }),
        "fusion" => control::call(scope, |computation| Op::Fusion { computation }),
        "while" => control::while_loop(scope),
        "conditional" => control::conditional(scope),
        "custom-call" => control::custom_call(scope),
        "rng" => control::rng(scope),
        "rng-bit-generator" => control::rng_bit_generator(scope),
        "all-reduce" => collective::all_reduce(scope),
        "all-reduce-start" => collective::all_reduce(scope),
        "all-reduce-done" => collective::all_reduce_done(scope),
        "all-gather" => collective::all_gather(scope),
        "all-gather-start" => collective::start(scope, collective::all_gather),
        "all-gather-done" => control::done(scope, &["all-gather-start"], 1),
        "reduce-scatter" => collective::reduce_scatter(scope),
        "all-to-all" => collective::all_to_all(scope),
        "collective-permute" => collective::permute(scope),
        "collective-permute-start" => collective::start(scope, collective::permute),
        "collective-permute-done" => control::done(scope, &["collective-permute-start"], 1),
        "collective-broadcast" => collective::broadcast(scope),
        "replica-id" => collective::device_id(scope, Op::ReplicaId),
        "partition-id" => collective::device_id(scope, Op::PartitionId),
        _ => Err(
            refused(opcode).map_or(Problem::Opcode, |refused| Problem::RefusedOpcode {
                reason: refused.reason,
            }),
        ),
    }
}

fn unary(opcode: &str) -> Option<UnaryOp> {
    Some(match opcode {
        "abs" => UnaryOp::Abs,
        "acos" => UnaryOp::Acos,
        "acosh" => UnaryOp::Acosh,
        "asin" => UnaryOp::Asin,
        "asinh" => UnaryOp::Asinh,
        "atanh" => UnaryOp::Atanh,
        "cbrt" => UnaryOp::Cbrt,
        "ceil" => UnaryOp::Ceil,
        "cosine" => UnaryOp::Cos,
        "cosh" => UnaryOp::Cosh,
        "count-leading-zeros" => UnaryOp::CountLeadingZeros,
        "erf" => UnaryOp::Erf,
        "exponential" => UnaryOp::Exp,
        "exponential-minus-one" => UnaryOp::ExpMinusOne,
        "floor" => UnaryOp::Floor,
        "imag" => UnaryOp::Imag,
        "is-finite" => UnaryOp::IsFinite,
        "log" => UnaryOp::Log,
        "log-plus-one" => UnaryOp::LogPlusOne,
        "logistic" => UnaryOp::Logistic,
        "negate" => UnaryOp::Negate,
        "not" => UnaryOp::Not,
        "popcnt" => UnaryOp::PopulationCount,
        "real" => UnaryOp::Real,
        "round-nearest-afz" => UnaryOp::RoundNearestAfz,
        "round-nearest-even" => UnaryOp::RoundNearestEven,
        "rsqrt" => UnaryOp::Rsqrt,
        "sign" => UnaryOp::Sign,
        "sine" => UnaryOp::Sin,
        "sinh" => UnaryOp::Sinh,
        "sqrt" => UnaryOp::Sqrt,
        "tan" => UnaryOp::Tan,
        "tanh" => UnaryOp::Tanh,
        _ => return None,
    })
}

fn binary(opcode: &str) -> Option<BinaryOp> {
    Some(match opcode {
        "add" => BinaryOp::Add,
        "and" => BinaryOp::And,
        "atan2" => BinaryOp::Atan2,
        "complex" => BinaryOp::Complex,
        "divide" => BinaryOp::Divide,
        "maximum" => BinaryOp::Maximum,
        "minimum" => BinaryOp::Minimum,
        "multiply" => BinaryOp::Multiply,
        "or" => BinaryOp::Or,
        "power" => BinaryOp::Power,
        "remainder" => BinaryOp::Remainder,
        "shift-left" => BinaryOp::ShiftLeft,
        "shift-right-arithmetic" => BinaryOp::ShiftRightArithmetic,
        "shift-right-logical" => BinaryOp::ShiftRightLogical,
        "subtract" => BinaryOp::Subtract,
        "xor" => BinaryOp::Xor,
        _ => return None,
    })
}
