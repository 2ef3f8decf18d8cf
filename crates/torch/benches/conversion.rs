//! Tensors of libtorch as host tensors: in place against by copy.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use metaneff_torch::{Copying, ToHost as _, ToTorch as _, torch_view};
use tch::{Device, Kind, Tensor};

fn conversion(c: &mut Criterion) {
    let mut group = c.benchmark_group("torch_conversion");
    for bytes in [4 << 10, 1 << 20, 64 << 20] {
        let tensor = Tensor::zeros([bytes / 4], (Kind::Float, Device::Cpu));
        group.throughput(Throughput::Bytes(bytes.unsigned_abs()));
        group.bench_with_input(
            BenchmarkId::new("to host, copy", bytes),
            &tensor,
            |b, tensor| {
                b.iter(|| black_box(tensor.to_host().expect("a dense tensor")));
            },
        );
        group.bench_with_input(
            BenchmarkId::new("to host, view", bytes),
            &tensor,
            |b, tensor| {
                b.iter(|| {
                    // SAFETY: the tensor has no alias.
                    let view = unsafe { tensor.host_view(Copying::Forbidden) };
                    black_box(view.expect("a dense tensor").bytes().len())
                });
            },
        );
        let host = tensor.to_host().expect("a dense tensor");
        group.bench_with_input(
            BenchmarkId::new("to torch, copy", bytes),
            &host,
            |b, host| {
                b.iter(|| black_box(host.to_torch().expect("a kind of libtorch")));
            },
        );
        group.bench_with_input(
            BenchmarkId::new("to torch, view", bytes),
            &host,
            |b, host| {
                b.iter(|| {
                    // SAFETY: no alias is made, and nothing is written.
                    let view = unsafe { torch_view(host) };
                    black_box(view.expect("a kind of libtorch").dim())
                });
            },
        );
    }
    group.finish();
}

criterion_group!(benches, conversion);
criterion_main!(benches);
