//! Contracts from messages of many slots.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use metaneff_benches::contract_message;
use metaneff_binding::{Contract, ContractOptions};

fn contract(c: &mut Criterion) {
    let mut group = c.benchmark_group("contract");
    for slots in [100_usize, 1_000, 10_000] {
        let message = contract_message(slots);
        group.throughput(Throughput::Elements(slots as u64));
        group.bench_with_input(BenchmarkId::new("build", slots), &message, |b, message| {
            b.iter(|| Contract::new(message, &ContractOptions::new()));
        });
        let built = Contract::new(&message, &ContractOptions::new());
        let built = built.expect("a sound contract");
        let name = format!("input{}", slots - 1);
        group.bench_function(BenchmarkId::new("look up a name", slots), |b| {
            b.iter(|| built.slot(name.as_str()).expect("a slot").ordinal());
        });
    }
    group.finish();
}

criterion_group!(benches, contract);
criterion_main!(benches);
