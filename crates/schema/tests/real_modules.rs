//! Real modules decode, pack and join their own metaneff.

use std::path::PathBuf;

use metaneff_schema::neff::{Boundary, Neff, NeffBuilder, ParseOptions};
use metaneff_schema::{MetaNeffBuilder, decode_hlo};

/// The modules beside this test, and those of a larger corpus where there is one.
fn modules() -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let own = std::fs::read_dir(root.join("tests/data"))
        .expect("the folder is in the repository")
        .flatten()
        .map(|e| e.path());
    let mut files: Vec<_> = own
        .filter(|p| p.extension().is_some_and(|e| e == "pb"))
        .collect();
    if let Ok(cases) = std::fs::read_dir(root.join("../../../shared/corpus")) {
        files.extend(
            cases
                .flatten()
                .map(|e| e.path().join("module.pb"))
                .filter(|p| p.exists()),
        );
    }
    files
}

#[test]
fn every_module_packs_and_its_names_agree() {
    let files = modules();
    assert!(files.len() >= 6);
    for file in files {
        let hlo = std::fs::read(&file).unwrap();
        let module = decode_hlo(hlo.clone()).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let boundary = Boundary::of(&module).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        if boundary.outputs.iter().all(|output| output.size == 0) {
            continue;
        }
        let packed = NeffBuilder::from_hlo(hlo.clone()).unwrap().build();
        let mut options = ParseOptions::default();
        options.validate_hash = true;
        let neff =
            Neff::parse(packed, &options).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        assert_eq!(neff.graph().unwrap(), &hlo);
        // A metaneff has no type for complex numbers and some small floats.
        let Ok(builder) = MetaNeffBuilder::from_hlo(hlo) else {
            continue;
        };
        let metaneff = builder.build();
        for (tensor, row) in metaneff.input_tensors.iter().zip(&boundary.inputs) {
            assert_eq!(tensor.name, row.name.as_bytes());
            let variable = neff.inputs().find(|variable| variable.name == row.name);
            assert_eq!(variable.map_or(0, |variable| variable.size), row.size);
        }
    }
}
