//! Verification of real modules.

use std::path::Path;

use metaneff_hlo::Module;

/// Verifies the modules of the cases in a folder, if it is there, and counts
/// them.
fn verify_all(folder: &Path, refused: &mut Vec<String>) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let mut count = 0;
    for entry in entries.flatten() {
        let path = entry.path().join("module.pb");
        let Ok(bytes) = std::fs::read(&path) else {
            continue;
        };
        count += 1;
        if let Err(error) = Module::parse(bytes) {
            refused.push(format!("{}: {error}", path.display()));
        }
    }
    count
}

#[test]
fn corpus_modules_are_accepted() {
    let mut refused = Vec::new();
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(2);
    let project = folders.next().unwrap();
    let own = verify_all(&project.join("corpus"), &mut refused);
    // A larger collection may lie beside the project.
    for folder in folders {
        verify_all(&folder.join("shared/corpus"), &mut refused);
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(own >= 300, "only {own}");
}
