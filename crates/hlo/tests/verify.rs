//! Verification of real modules.

use std::collections::BTreeSet;
use std::path::Path;

use metaneff_hlo::Module;

#[test]
fn corpus_modules_are_accepted() {
    let folders: BTreeSet<_> = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .skip(2)
        .flat_map(|folder| [folder.join("corpus"), folder.join("shared/corpus")])
        .filter_map(|folder| folder.canonicalize().ok())
        .collect();
    let mut refused = Vec::new();
    for folder in folders {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path().join("module.pb");
            let Ok(bytes) = std::fs::read(&path) else {
                continue;
            };
            if let Err(error) = Module::parse(&bytes) {
                refused.push(format!("{}: {error}", path.display()));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
