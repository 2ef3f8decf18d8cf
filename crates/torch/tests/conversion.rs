//! Tensors there and back: every kind, every stride, and what does not cross.

use metaneff_binding::{DType, HostTensor};
use metaneff_torch::{
    Copying, ToHost as _, ToTorch as _, TorchError, dtype_of, kind_of, torch_view,
};
use proptest::prelude::*;
use tch::{Device, Kind, Tensor};

const CPU: Device = Device::Cpu;

/// Element types that ATen has.
fn dtypes() -> impl Iterator<Item = DType> {
    let all = DType::ALL.iter().copied();
    all.filter(|dtype| dtype.aten_scalar_type().is_some())
}

#[test]
fn every_element_type_comes_back_bit_for_bit() {
    for dtype in dtypes() {
        // Bytes 0 and 1 are the only ones that every type takes, bool included.
        let bytes: Vec<u8> = (0..6 * dtype.size())
            .map(|i| u8::from(i % 3 == 0))
            .collect();
        let host = HostTensor::from_byte_slice(dtype, [2, 3], &bytes).expect("a sound tensor");
        let tensor = host.to_torch().expect("a type of ATen");
        assert_eq!(dtype_of(&tensor).expect("a type with a slot"), dtype);
        assert_eq!(tensor.size(), [2, 3]);
        let back = tensor.to_host().expect("a dense tensor");
        assert_eq!((back.dtype(), back.bytes()), (dtype, &bytes[..]), "{dtype}");
    }
    assert_eq!(dtypes().count(), 15);
}

#[test]
fn types_that_aten_lacks_are_refused() {
    let lacking: Vec<DType> = DType::ALL
        .iter()
        .copied()
        .filter(|dtype| dtype.aten_scalar_type().is_none())
        .collect();
    assert!(lacking.contains(&DType::F8E4M3) && lacking.contains(&DType::F8E3M4));
    for dtype in lacking {
        let host = HostTensor::from_byte_slice(dtype, [1], &[0]).expect("a sound tensor");
        let error = host.to_torch().expect_err("ATen lacks it");
        assert!(matches!(error, TorchError::NoKind { dtype: found } if found == dtype));
        assert_eq!(kind_of(dtype), None);
    }
}

#[test]
fn bf16_and_f8_travel_as_bits() {
    let one = Tensor::from_slice(&[1.0_f32]).to_kind(Kind::BFloat16);
    assert_eq!(one.to_host().expect("a dense tensor").bytes(), [0x80, 0x3f]);
    // 448 is the largest number of E4M3FN, 0x7e.
    let largest = Tensor::from_slice(&[448.0_f32]).to_kind(Kind::Float8e4m3fn);
    assert_eq!(largest.to_host().expect("a dense tensor").bytes(), [0x7e]);
    let infinite = Tensor::from_slice(&[f32::INFINITY]).to_kind(Kind::Float8e5m2);
    assert_eq!(infinite.to_host().expect("a dense tensor").bytes(), [0x7c]);
}

#[test]
fn uint16_has_the_value_that_its_bits_say() {
    let host = HostTensor::from_slice([2], &[1_u16, 65_535]).expect("a sound tensor");
    let tensor = host.to_torch().expect("a type of ATen");
    let wide = tensor.to_kind(Kind::Int64);
    assert_eq!(Vec::<i64>::try_from(wide).expect("integers"), [1, 65_535]);
}

#[test]
fn scalars_and_empty_tensors_cross() {
    let scalar = Tensor::from(7_i64).to_host().expect("a dense tensor");
    assert_eq!(scalar.shape().rank(), 0);
    assert_eq!(scalar.to_vec::<i64>().expect("integers"), [7]);
    assert!(scalar.to_torch().expect("a type of ATen").size().is_empty());

    let empty = Tensor::zeros([0, 4], (Kind::Float, CPU));
    let host = empty.to_host().expect("a dense tensor");
    assert_eq!((host.shape().dims(), host.bytes().len()), (&[0, 4][..], 0));
    assert_eq!(host.to_torch().expect("a type of ATen").size(), [0, 4]);
    // SAFETY: the tensor has no alias.
    let in_place = unsafe { empty.host_view(Copying::Forbidden) };
    assert!(in_place.is_ok());
    // SAFETY: no alias is made, and nothing is written.
    let view = unsafe { torch_view(&host) }.expect("a type of ATen");
    assert_eq!(view.size(), [0, 4]);
}

#[test]
fn a_transposed_tensor_is_copied_or_refused() {
    let transposed = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0])
        .reshape([2, 2])
        .tr();
    // SAFETY: the tensor's aliases are not written.
    let refused = unsafe { transposed.host_view(Copying::Forbidden) };
    let error = refused.expect_err("not contiguous");
    assert!(
        matches!(&error, TorchError::NotContiguous { shape, strides }
            if shape == &[2, 2] && strides == &[1, 2]),
        "{error:?}"
    );
    // SAFETY: as above.
    let copied = unsafe { transposed.host_view(Copying::Allowed) }.expect("copies are allowed");
    assert_eq!(
        copied.to_vec::<f32>().expect("floats"),
        [1.0, 3.0, 2.0, 4.0]
    );
}

#[test]
fn a_slice_of_rows_is_seen_in_place() {
    let rows = Tensor::arange(12, (Kind::Int, CPU))
        .reshape([4, 3])
        .narrow(0, 1, 2);
    // SAFETY: the tensor's aliases are not written.
    let view = unsafe { rows.host_view(Copying::Forbidden) }.expect("rows are contiguous");
    assert_eq!(view.bytes().as_ptr().cast(), rows.data_ptr().cast_const());
    assert_eq!(view.to_vec::<i32>().expect("integers"), [3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_lazily_negated_tensor_is_resolved() {
    let complex = Tensor::complex(
        &Tensor::from_slice(&[1.0_f32, 2.0]),
        &Tensor::from_slice(&[3.0_f32, 4.0]),
    );
    // The imaginary part of a conjugate is a view whose sign is only noted.
    let imaginary = complex.conj().imag();
    assert!(imaginary.is_neg());
    let host = imaginary.to_host().expect("a dense tensor");
    assert_eq!(host.to_vec::<f32>().expect("floats"), [-3.0, -4.0]);
}

#[test]
fn tensors_without_dense_memory_are_refused() {
    let eye = Tensor::eye(2, (Kind::Float, CPU));
    for sparse in [eye.to_sparse_sparse_dim(2), eye.to_sparse_csr(None)] {
        let error = sparse.to_host().expect_err("sparse");
        assert!(matches!(error, TorchError::NotDense { .. }), "{error:?}");
        // The failure leaves no error behind for the next call to find.
        assert!(eye.to_host().is_ok());
    }
}

#[test]
fn quantized_tensors_are_refused() {
    let floats = Tensor::from_slice(&[0.5_f32, 1.0]);
    for kind in [Kind::QInt8, Kind::QUInt8, Kind::QInt32] {
        let quantized = floats.quantize_per_tensor(0.5, 0, kind);
        let error = quantized.to_host().expect_err("no slot has scales");
        assert!(matches!(error, TorchError::Kind { .. }), "{error:?}");
    }
}

/// Sizes of up to four dimensions, and an order of them.
fn permuted() -> impl Strategy<Value = (Vec<i64>, Vec<i64>)> {
    proptest::collection::vec(1_i64..5, 1..5).prop_flat_map(|sizes| {
        let order: Vec<i64> = (0..).take(sizes.len()).collect();
        (Just(sizes), Just(order).prop_shuffle())
    })
}

proptest! {
    #[test]
    fn any_permutation_of_any_window_reads_as_libtorch_reads_it(
        (sizes, order) in permuted(),
        half in any::<bool>(),
    ) {
        let count: i64 = sizes.iter().product();
        let base = Tensor::arange(count, (Kind::Int64, CPU)).reshape(&sizes);
        let whole = base.permute(&order);
        let rows = whole.size()[0];
        let tensor = if half { whole.narrow(0, rows / 2, rows - rows / 2) } else { whole };
        let expected = Vec::<i64>::try_from(tensor.contiguous().flatten(0, -1)).expect("integers");
        let host = tensor.to_host().expect("a dense tensor");
        prop_assert_eq!(host.to_vec::<i64>().expect("integers"), expected);
    }
}
