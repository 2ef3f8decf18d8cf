//! Verification of real modules.

use std::path::Path;

use metaneff_hlo::Module;

#[test]
fn corpus_modules_are_accepted() {
    let mut refused = Vec::new();
    for folder in Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(2) {
        let Ok(entries) = std::fs::read_dir(folder.join("shared/corpus")) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path().join("module.pb");
            let Ok(bytes) = std::fs::read(&path) else {
                continue;
            };
            if let Err(error) = Module::parse(bytes) {
                refused.push(format!("{}: {error}", path.display()));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
