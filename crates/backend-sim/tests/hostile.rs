//! Files that are damaged, and runtimes that go away.

use std::fs;
use std::path::PathBuf;
use std::thread;

use bytes::Bytes;
use metaneff_backend_sim::Sim;
use metaneff_binding::{Backend, Core, LoadRequest, Placement};
use metaneff_schema::neff::{NeffBuilder, PackageKind};
use metaneff_schema::nrt::Status;
use proptest::prelude::*;

fn packed(kind: PackageKind) -> Vec<u8> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let graph = fs::read(data.join("control__while_count/module.pb")).expect("a module");
    let builder = NeffBuilder::from_hlo(graph).expect("a module that can be packed");
    builder.package(kind).build().into()
}

proptest! {
    #[test]
    fn a_damaged_file_is_loaded_or_refused(
        plain in any::<bool>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        // In a plain archive the damage reaches manifests and graph.
        let kind = if plain { PackageKind::Tar } else { PackageKind::GzipTar };
        let mut file = packed(kind);
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        let sim = Sim::builder().build().unwrap();
        match sim.load(&LoadRequest::new(Bytes::from(file))) {
            Ok(model) => sim.unload(model).unwrap(),
            Err(error) => prop_assert!(
                [
                    Status::INVALID,
                    Status::UNSUPPORTED_NEFF_VERSION,
                    Status::LOAD_NOT_ENOUGH_NC,
                    Status::RESOURCE,
                ]
                .contains(&error.status()),
                "{error}"
            ),
        }
        prop_assert_eq!(sim.live_objects().total(), 0);
        prop_assert_eq!(sim.memory_stats(Core::new(0)).unwrap().used, 0);
    }
}

#[test]
fn closing_under_load_ends_every_thread() {
    let neff = Bytes::from(packed(PackageKind::GzipTar));
    for _ in 0..20 {
        let sim = Sim::builder().build().unwrap();
        let core = Core::new(0);
        let step = || -> Result<(), metaneff_binding::BackendError> {
            let model = sim.load(&LoadRequest::new(neff.clone()).on(core))?;
            let count = sim.allocate(Placement::Device, core, 4, c"count")?;
            let power = sim.allocate(Placement::Device, core, 4, c"power")?;
            sim.write(&count, 0, &100_i32.to_le_bytes())?;
            let (mut inputs, mut outputs) = (sim.tensor_set()?, sim.tensor_set()?);
            sim.bind(&mut inputs, c"input0", &count)?;
            sim.bind(&mut outputs, c"output0", &power)?;
            let _completion = sim.execute(&model, &inputs, &mut outputs)?;
            let mut bytes = [0; 4];
            sim.read(&power, 0, &mut bytes)?;
            assert_eq!(f32::from_le_bytes(bytes), 100_f32.exp2());
            sim.destroy_set(inputs);
            sim.destroy_set(outputs);
            sim.free(count);
            sim.free(power);
            sim.unload(model)
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            if let Err(error) = step() {
                                return error.status();
                            }
                        }
                    })
                })
                .collect();
            while sim.transfers().is_some_and(|moved| moved.executions < 8) {
                thread::yield_now();
            }
            sim.close();
            for worker in workers {
                assert_eq!(worker.join().unwrap(), Status::CLOSED);
            }
        });
        assert_eq!(sim.live_objects().total(), 0);
    }
}
