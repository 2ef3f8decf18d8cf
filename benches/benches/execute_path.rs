//! One launch: through a session, over a backend chosen at run time, and by raw
//! calls.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use metaneff_backend_nrt::{Nrt, NrtOptions};
use metaneff_benches::{Raw, Sdk, Slots, Stub, options, wide};
use metaneff_binding::{AnyBackend, Backend, Runtime};

fn through_a_session<B: Backend, const N: usize>(c: &mut Criterion, route: &str, backend: B) {
    let runtime = Runtime::new(backend);
    let artifact = wide(N).expect("a sound model");
    let model = runtime
        .load_with(&artifact, &options())
        .expect("the stub loads all");
    let mut sdk = Sdk::<B, N>::new(&model).expect("the stub has memory");
    for mode in [Slots::Unchanged, Slots::Rewritten] {
        let mut group = c.benchmark_group(format!("execute_path/{}", mode.name()));
        group.bench_function(BenchmarkId::new(route, N), |b| match mode {
            Slots::Unchanged => b.iter(|| sdk.unchanged().expect("a launch")),
            Slots::Rewritten => b.iter(|| sdk.rewritten().expect("a launch")),
        });
    }
}

fn width<const N: usize>(c: &mut Criterion) {
    let stub = Stub::compile().expect("a C compiler");
    // SAFETY: the stub is a libnrt without initialisers.
    let raw = unsafe { Raw::new(&stub.path(), &[], N) };
    let mut raw = raw.expect("the stub loads all");
    for mode in [Slots::Unchanged, Slots::Rewritten] {
        let mut group = c.benchmark_group(format!("execute_path/{}", mode.name()));
        group.bench_function(BenchmarkId::new("raw", N), |b| match mode {
            Slots::Unchanged => b.iter(|| raw.unchanged().expect("a launch")),
            Slots::Rewritten => b.iter(|| raw.rewritten().expect("a launch")),
        });
    }
    let nrt = Nrt::open(&NrtOptions::new().library(stub.path())).expect("the stub opens");
    through_a_session::<_, N>(c, "sdk", nrt.clone());
    through_a_session::<_, N>(c, "dyn", AnyBackend::new(nrt));
}

fn execute_path(c: &mut Criterion) {
    width::<1>(c);
    width::<8>(c);
    width::<128>(c);
}

criterion_group!(benches, execute_path);
criterion_main!(benches);
