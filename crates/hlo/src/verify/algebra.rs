//! Shape inference of linear algebra, convolution, transforms, normalisation.

use metaneff_schema::xla;

use crate::attributes::{ConvDims, DotDims, FftDims, FftKind, MatrixTranspose, TriangularSolve};
use crate::element::{ElementClass, ElementType};
use crate::ir::Op;
use crate::shape::ArrayShape;

use super::problem::{Problem, mismatch, require};
use super::reduction::{window, window_output};
use super::scope::{Scope, same_dims, same_element};

/// Checks `dot`.
pub(super) fn dot(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(2)?;
    let (lhs, rhs, result) = (scope.array(0)?, scope.array(1)?, scope.result()?);
    let given = scope.proto.dot_dimension_numbers.as_ref();
    let given = given.ok_or_else(|| mismatch("dot dimension numbers", "some", "none"))?;
    let dims = |what, values: &[i64], shape: &ArrayShape| Scope::dims(what, values, shape.rank());
    let numbers = DotDims {
        lhs_contracting: dims(
            "lhs contracting dimensions",
            &given.lhs_contracting_dimensions,
            lhs,
        )?,
        rhs_contracting: dims(
            "rhs contracting dimensions",
            &given.rhs_contracting_dimensions,
            rhs,
        )?,
        lhs_batch: dims("lhs batch dimensions", &given.lhs_batch_dimensions, lhs)?,
        rhs_batch: dims("rhs batch dimensions", &given.rhs_batch_dimensions, rhs)?,
    };
    paired(
        "contracting dimensions",
        lhs,
        &numbers.lhs_contracting,
        rhs,
        &numbers.rhs_contracting,
    )?;
    paired(
        "batch dimensions",
        lhs,
        &numbers.lhs_batch,
        rhs,
        &numbers.rhs_batch,
    )?;
    let free = |shape: &ArrayShape, contracting: &[usize], batch: &[usize]| {
        let overlap = contracting.iter().find(|dim| batch.contains(dim));
        match overlap {
            Some(dim) => Err(mismatch(
                "contracting dimensions",
                "none that is a batch dimension",
                dim,
            )),
            None => Ok((0..shape.rank())
                .filter(|dim| !contracting.contains(dim) && !batch.contains(dim))
                .map(|dim| shape.dims()[dim])
                .collect::<Vec<_>>()),
        }
    };
    let mut inferred: Vec<usize> = numbers
        .lhs_batch
        .iter()
        .map(|&dim| lhs.dims()[dim])
        .collect();
    inferred.extend(free(lhs, &numbers.lhs_contracting, &numbers.lhs_batch)?);
    inferred.extend(free(rhs, &numbers.rhs_contracting, &numbers.rhs_batch)?);
    product_type(lhs, rhs, result)?;
    scope.infers_array(result.element(), inferred)?;
    Ok(Op::Dot(Box::new(numbers)))
}

fn paired(
    what: &'static str,
    lhs: &ArrayShape,
    lhs_dims: &[usize],
    rhs: &ArrayShape,
    rhs_dims: &[usize],
) -> Result<(), Problem> {
    require(
        lhs_dims.len() == rhs_dims.len(),
        what,
        lhs_dims.len(),
        rhs_dims.len(),
    )?;
    for (&l, &r) in lhs_dims.iter().zip(rhs_dims) {
        require(
            lhs.dims()[l] == rhs.dims()[r],
            what,
            lhs.dims()[l],
            rhs.dims()[r],
        )?;
    }
    Ok(())
}

/// Checks that products of two types may be declared as `result`: operands of
/// one class (their widths may differ), and a result of it or, for integers,
/// of a floating-point type.
fn product_type(lhs: &ArrayShape, rhs: &ArrayShape, result: &ArrayShape) -> Result<(), Problem> {
    let group = |element: ElementType| match element.class() {
        ElementClass::Signed | ElementClass::Unsigned => ElementClass::Signed,
        other => other,
    };
    let (l, r, o) = (
        group(lhs.element()),
        group(rhs.element()),
        group(result.element()),
    );
    require(
        l == r,
        "element type of an operand",
        lhs.element(),
        rhs.element(),
    )?;
    require(
        o == l || (l == ElementClass::Signed && o == ElementClass::Float),
        "element type of the result",
        format_args!("one for products of {}", lhs.element()),
        result.element(),
    )
}

/// Checks `convolution`.
pub(super) fn convolution(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(2)?;
    let (input, kernel, result) = (scope.array(0)?, scope.array(1)?, scope.result()?);
    let given = scope.proto.convolution_dimension_numbers.as_ref();
    let given = given.ok_or_else(|| mismatch("convolution dimension numbers", "some", "none"))?;
    let spatial = given.input_spatial_dimensions.len();
    let rank = spatial + 2;
    for shape in [input, kernel] {
        require(
            shape.rank() == rank,
            "rank of an operand",
            rank,
            shape.rank(),
        )?;
    }
    let dims = ConvDims {
        window: window(scope, spatial)?,
        feature_groups: Scope::groups("feature group count", scope.proto.feature_group_count)?,
        batch_groups: Scope::groups("batch group count", scope.proto.batch_group_count)?,
        ..conv_dims(given, rank)?
    };
    let inferred = conv_output(&dims, input, kernel)?;
    product_type(input, kernel, result)?;
    scope.infers_array(result.element(), inferred)?;
    Ok(Op::Convolution(Box::new(dims)))
}

fn conv_dims(given: &xla::ConvolutionDimensionNumbers, rank: usize) -> Result<ConvDims, Problem> {
    let all = |what, first: i64, second: i64, spatial: &[i64]| {
        require(spatial.len() + 2 == rank, what, rank - 2, spatial.len())?;
        let mut values = vec![first, second];
        values.extend(spatial);
        let mut dims = Scope::dims(what, &values, rank)?;
        let spatial = dims.split_off(2);
        Ok::<_, Problem>((dims[0], dims[1], spatial))
    };
    let (input_batch, input_feature, input_spatial) = all(
        "input dimensions",
        given.input_batch_dimension,
        given.input_feature_dimension,
        &given.input_spatial_dimensions,
    )?;
    let (kernel_input_feature, kernel_output_feature, kernel_spatial) = all(
        "kernel dimensions",
        given.kernel_input_feature_dimension,
        given.kernel_output_feature_dimension,
        &given.kernel_spatial_dimensions,
    )?;
    let (output_batch, output_feature, output_spatial) = all(
        "output dimensions",
        given.output_batch_dimension,
        given.output_feature_dimension,
        &given.output_spatial_dimensions,
    )?;
    Ok(ConvDims {
        input_batch,
        input_feature,
        input_spatial,
        kernel_input_feature,
        kernel_output_feature,
        kernel_spatial,
        output_batch,
        output_feature,
        output_spatial,
        window: crate::attributes::Window::default(),
        feature_groups: 1,
        batch_groups: 1,
    })
}

fn conv_output(
    dims: &ConvDims,
    input: &ArrayShape,
    kernel: &ArrayShape,
) -> Result<Vec<usize>, Problem> {
    let (features, batches) = (dims.feature_groups, dims.batch_groups);
    require(
        features == 1 || batches == 1,
        "batch group count with feature groups",
        1,
        batches,
    )?;
    let input_features = input.dims()[dims.input_feature];
    let output_features = kernel.dims()[dims.kernel_output_feature];
    let batch = input.dims()[dims.input_batch];
    let divides = |what, value: usize, by: usize| {
        require(
            value.is_multiple_of(by),
            what,
            format_args!("a multiple of {by}"),
            value,
        )
    };
    divides("input features", input_features, features)?;
    divides("output features", output_features, features)?;
    divides("input batch", batch, batches)?;
    divides("output features", output_features, batches)?;
    require(
        kernel.dims()[dims.kernel_input_feature] == input_features / features,
        "input features of the kernel",
        input_features / features,
        kernel.dims()[dims.kernel_input_feature],
    )?;
    let mut base = Vec::new();
    for (index, window) in dims.window.dims.iter().enumerate() {
        let size = kernel.dims()[dims.kernel_spatial[index]];
        require(window.size == size, "window size", size, window.size)?;
        base.push(input.dims()[dims.input_spatial[index]]);
    }
    let spatial = window_output(&dims.window, &base)?;
    let mut inferred = vec![0; input.rank()];
    inferred[dims.output_batch] = batch / batches;
    inferred[dims.output_feature] = output_features;
    for (&dim, size) in dims.output_spatial.iter().zip(spatial) {
        inferred[dim] = size;
    }
    Ok(inferred)
}

/// Checks `fft`.
pub(super) fn fft(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    let operand = scope.array(0)?;
    let lengths = scope
        .proto
        .fft_length
        .iter()
        .map(|&length| Scope::size("fft length", length));
    let lengths: Vec<usize> = lengths.collect::<Result<_, _>>()?;
    require(
        (1..=3).contains(&lengths.len()),
        "number of fft lengths",
        "1 to 3",
        lengths.len(),
    )?;
    require(
        operand.rank() >= lengths.len(),
        "rank",
        lengths.len(),
        operand.rank(),
    )?;
    let kind = match xla::FftType::try_from(scope.proto.fft_type) {
        Ok(xla::FftType::Fft) => FftKind::Fft,
        Ok(xla::FftType::Ifft) => FftKind::Ifft,
        Ok(xla::FftType::Rfft) => FftKind::Rfft,
        Ok(xla::FftType::Irfft) => FftKind::Irfft,
        Err(_) => return Err(mismatch("fft type", "0 to 3", scope.proto.fft_type)),
    };
    let real = kind == FftKind::Rfft;
    require(
        if real {
            matches!(operand.element(), ElementType::F32 | ElementType::F64)
        } else {
            operand.element().is_complex()
        },
        "element type of an operand",
        if real { "f32 or f64" } else { "a complex type" },
        operand.element(),
    )?;
    let mut dims = operand.dims().to_vec();
    let first = dims.len() - lengths.len();
    let last = dims.len() - 1;
    for (index, &length) in lengths.iter().enumerate() {
        let expected = match kind {
            FftKind::Irfft if first + index == last => length / 2 + 1,
            _ => length,
        };
        require(
            dims[first + index] == expected,
            "transformed dimension",
            expected,
            operand,
        )?;
    }
    let element = match (kind, operand.element()) {
        (FftKind::Rfft, ElementType::F64) => ElementType::C128,
        (FftKind::Rfft, _) => ElementType::C64,
        (FftKind::Irfft, element) => element.part(),
        (_, element) => element,
    };
    match kind {
        FftKind::Rfft => dims[last] = lengths[lengths.len() - 1] / 2 + 1,
        FftKind::Irfft => dims[last] = lengths[lengths.len() - 1],
        FftKind::Fft | FftKind::Ifft => {}
    }
    scope.infers_array(element, dims)?;
    Ok(Op::Fft(FftDims { kind, lengths }))
}

/// Checks `cholesky`.
pub(super) fn cholesky(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(1)?;
    let a = scope.array(0)?;
    square(a)?;
    scope.infers_array(a.element(), a.dims())?;
    let lower = scope
        .proto
        .cholesky_options
        .as_ref()
        .is_some_and(|options| options.lower);
    Ok(Op::Cholesky { lower })
}

/// Checks `triangular-solve`.
pub(super) fn triangular_solve(scope: &Scope<'_>) -> Result<Op, Problem> {
    scope.count(2)?;
    let (a, b) = (scope.array(0)?, scope.array(1)?);
    same_element(a, b)?;
    square(a)?;
    require(
        b.rank() == a.rank(),
        "rank of an operand",
        a.rank(),
        b.rank(),
    )?;
    let given = scope.proto.triangular_solve_options.as_ref();
    let given = given.ok_or_else(|| mismatch("triangular solve options", "some", "none"))?;
    let split = a.rank() - 2;
    require(
        a.dims()[..split] == b.dims()[..split],
        "batch dimensions",
        a,
        b,
    )?;
    let order = a.dims()[split];
    let shared = b.dims()[if given.left_side { split } else { split + 1 }];
    require(
        shared == order,
        "shared dimension of the right-hand side",
        order,
        shared,
    )?;
    let transpose = match given.transpose_a {
        1 => MatrixTranspose::None,
        2 => MatrixTranspose::Transpose,
        3 => MatrixTranspose::Adjoint,
        other => return Err(mismatch("transposition of the matrix", "1 to 3", other)),
    };
    scope.infers_array(b.element(), b.dims())?;
    Ok(Op::TriangularSolve(TriangularSolve {
        left_side: given.left_side,
        lower: given.lower,
        unit_diagonal: given.unit_diagonal,
        transpose,
    }))
}

fn square(a: &ArrayShape) -> Result<(), Problem> {
    require(
        a.element().is_float() || a.element().is_complex(),
        "element type of an operand",
        "a floating-point or complex type",
        a.element(),
    )?;
    match a.dims() {
        [.., rows, columns] if rows == columns => Ok(()),
        _ => Err(mismatch(
            "dimensions of the matrix",
            "square in the last two",
            a,
        )),
    }
}

/// Which batch normalisation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchNorm {
    Training,
    Inference,
    Grad,
}

/// Checks the batch normalisations.
pub(super) fn batch_norm(scope: &Scope<'_>, kind: BatchNorm) -> Result<Op, Problem> {
    let count = if kind == BatchNorm::Training { 3 } else { 5 };
    scope.count(count)?;
    let operands = scope.arrays(0..count)?;
    let operand = operands[0];
    require(
        operand.element().is_float(),
        "element type of an operand",
        "a floating-point type",
        operand.element(),
    )?;
    let feature = Scope::dim(
        "feature dimension",
        scope.proto.feature_index,
        operand.rank(),
    )?;
    let per_feature =
        ArrayShape::new(operand.element(), [operand.dims()[feature]]).map_err(|_| {
            Problem::Overflow {
                what: "size of the inferred shape",
            }
        })?;
    for (index, other) in operands.iter().enumerate().skip(1) {
        same_element(operand, other)?;
        let like_operand = kind == BatchNorm::Grad && index == 4;
        same_dims(if like_operand { operand } else { &per_feature }, other)?;
    }
    let epsilon = scope.proto.epsilon;
    if kind == BatchNorm::Inference {
        scope.infers_array(operand.element(), operand.dims())?;
        return Ok(Op::BatchNormInference { epsilon, feature });
    }
    scope.infers_arrays(vec![operand.clone(), per_feature.clone(), per_feature])?;
    Ok(match kind {
        BatchNorm::Training => Op::BatchNormTraining { epsilon, feature },
        _ => Op::BatchNormGrad { epsilon, feature },
    })
}
