//! Messages and containers.

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use metaneff_benches::contract_message;
use metaneff_schema::metaneff::MetaNeff;
use prost::Message as _;

fn schema(c: &mut Criterion) {
    let mut group = c.benchmark_group("schema");
    for megabytes in [1_usize, 64] {
        let mut message = contract_message(100);
        message.serialized_graph_def = vec![0; megabytes << 20].into();
        let wire = Bytes::from(message.encode_to_vec());
        group.throughput(Throughput::Bytes(wire.len() as u64));
        let name = BenchmarkId::new("decode a contract with a graph of MiB", megabytes);
        group.bench_with_input(name, &wire, |b, wire| {
            b.iter(|| MetaNeff::decode(wire.clone()).expect("a message"));
        });
    }
    group.finish();
}

criterion_group!(benches, schema);
criterion_main!(benches);
